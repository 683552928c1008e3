//! The paths of a condition, found together: each object is gone through once for all its fields.

use crate::Fault;
use crate::json::{Json, Kind};
use crate::path::Segment;

/// Where a path led: the place of an entry, or one of the two faults.
pub(super) type Slot = u32;

const NO_FIELD: Slot = u32::MAX;
const WRONG_TYPE: Slot = u32::MAX - 1;

#[derive(Debug)]
struct Node {
    segment: Segment,
    children: Vec<usize>,
    /// Marks of the names of its children: most keys of an object are none of them.
    marks: u64,
}

/// The segments of all paths as a tree; the payload is node 0, and no node comes before its parent.
#[derive(Debug)]
pub(super) struct Paths {
    nodes: Vec<Node>,
    used: bool,
}

impl Node {
    const fn new(segment: Segment) -> Self {
        Self { segment, children: Vec::new(), marks: 0 }
    }
}

impl Default for Paths {
    fn default() -> Self {
        let root = Node::new(Segment::Item(0));
        Self { nodes: vec![root], used: false }
    }
}

impl Paths {
    /// Adds a path; returns its slot.
    pub(super) fn add(&mut self, segments: &[Segment]) -> usize {
        self.used = true;
        let mut at = 0;
        for segment in segments {
            let known = self.nodes[at]
                .children
                .iter()
                .find(|child| self.nodes[**child].segment == *segment);
            at = match known {
                Some(child) => *child,
                None => {
                    let child = self.nodes.len();
                    self.nodes.push(Node::new(segment.clone()));
                    self.nodes[at].children.push(child);
                    if let Segment::Field(name) = segment {
                        self.nodes[at].marks |= name.mark();
                    }
                    child
                }
            };
        }
        at
    }

    /// How many segments all paths have together.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Finds where all paths lead in a payload.
    pub(super) fn find(&self, json: &Json<'_>, slots: &mut Vec<Slot>) {
        slots.clear();
        if !self.used {
            return;
        }
        slots.resize(self.nodes.len(), NO_FIELD);
        slots[0] = 0;
        for (at, node) in self.nodes.iter().enumerate() {
            if !node.children.is_empty() {
                self.children(node, slots[at], json, slots);
            }
        }
    }

    /// Where a slot led.
    pub(super) fn place(slots: &[Slot], slot: usize) -> Result<usize, Fault> {
        match slots.get(slot).copied().unwrap_or(NO_FIELD) {
            NO_FIELD => Err(Fault::NoField),
            WRONG_TYPE => Err(Fault::WrongType),
            at => Ok(at as usize),
        }
    }

    fn children(&self, node: &Node, at: Slot, json: &Json<'_>, slots: &mut [Slot]) {
        let kind = match at {
            NO_FIELD | WRONG_TYPE => None,
            _ => json.entry(at as usize).map(|entry| entry.kind),
        };
        match kind {
            Some(Kind::Object) => {
                // A key that is there twice: the last one counts.
                let members = json.members(at as usize);
                for (key, value) in members.filter(|(key, _)| key.may_be_of(node.marks)) {
                    for child in &node.children {
                        if let Segment::Field(name) = &self.nodes[*child].segment
                            && json.key_is(key, name)
                        {
                            slots[*child] = value as Slot;
                        }
                    }
                }
            }
            Some(Kind::Array) => {
                for child in &node.children {
                    slots[*child] = match &self.nodes[*child].segment {
                        Segment::Item(index) => {
                            let element = json.elements(at as usize).nth(*index);
                            element.map_or(NO_FIELD, |element| element as Slot)
                        }
                        Segment::Field(_) => WRONG_TYPE,
                    };
                }
            }
            _ => {
                let slot = if at == NO_FIELD { NO_FIELD } else { WRONG_TYPE };
                for child in &node.children {
                    slots[*child] = slot;
                }
            }
        }
    }
}
