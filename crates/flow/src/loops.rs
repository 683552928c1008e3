//! Rules that would feed each other for ever.

use crate::topic::{Filter, Level, can_meet};

/// What a rule takes and what it can make; a rule that publishes nothing has no `to`.
pub(crate) struct RuleEdge<'a> {
    pub(crate) from: &'a Filter,
    pub(crate) to: Option<Vec<Level>>,
}

/// The first circle of rules in which each can make a topic that the next one takes, the last one's
/// for the first; none when there is none.
pub(crate) fn circle(edges: &[RuleEdge<'_>]) -> Option<Vec<usize>> {
    // 0: not seen, 1: on the way that is walked, 2: no circle from here.
    let mut states = vec![0_u8; edges.len()];
    for start in 0..edges.len() {
        if states[start] != 0 {
            continue;
        }
        // The way from the start, each with the next rule to look at.
        let mut way = vec![(start, 0)];
        states[start] = 1;
        while let Some((at, next)) = way.last_mut() {
            let (at, feeds) = (*at, *next);
            *next += 1;
            if feeds == edges.len() {
                states[at] = 2;
                way.pop();
                continue;
            }
            let fed = edges[at].to.as_ref().is_some_and(|to| can_meet(to, edges[feeds].from));
            match states[feeds] {
                0 if fed => {
                    states[feeds] = 1;
                    way.push((feeds, 0));
                }
                1 if fed => {
                    let on_it = way.iter().map(|(rule, _)| *rule);
                    return Some(on_it.skip_while(|rule| *rule != feeds).collect());
                }
                _ => {}
            }
        }
    }
    None
}
