//! To which node of the broker a client connects, where the broker has several: as a client would
//! that has a list of addresses.

/// A client's place in its list. It begins with the node that it was connected to last, and goes
/// on to the others only where that one lets it down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    nodes: u32,
    home: u32,
    /// Failed attempts since it was last connected.
    failed: u32,
    /// Which of the other nodes it tries first: not all clients of a lost node turn to one.
    spread: u32,
}

impl Rotation {
    /// Of client `index` of a group whose first client is at node `offset`; there are `nodes`.
    pub(crate) fn new(index: u32, offset: u32, nodes: u32) -> Self {
        let home = (index % nodes + offset % nodes) % nodes;
        Self { nodes, home, failed: 0, spread: index / nodes }
    }

    /// The node that it is connected to, or tries.
    pub(crate) fn node(self) -> u32 {
        let others = self.nodes - 1;
        match self.failed % self.nodes {
            0 => self.home,
            other => (self.home + 1 + (self.spread % others + other - 1) % others) % self.nodes,
        }
    }

    /// The attempt has failed: the next one is at another node.
    pub(crate) fn fail(&mut self) {
        self.failed = self.failed.wrapping_add(1);
    }

    /// It is connected.
    pub(crate) fn arrive(&mut self) {
        (self.home, self.failed) = (self.node(), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes_of(mut rotation: Rotation, attempts: usize) -> Vec<u32> {
        let mut next = || {
            let node = rotation.node();
            rotation.fail();
            node
        };
        (0..attempts).map(|_| next()).collect()
    }

    #[test]
    fn clients_begin_at_their_own_node_and_turn_to_each_other_one() {
        let homes: Vec<u32> = (0..4).map(|index| Rotation::new(index, 1, 3).node()).collect();
        assert_eq!(homes, [1, 2, 0, 1]);
        assert_eq!(nodes_of(Rotation::new(0, 0, 3), 6), [0, 1, 2, 0, 1, 2]);
        assert_eq!(nodes_of(Rotation::new(3, 0, 3), 6), [0, 2, 1, 0, 2, 1]);
        assert_eq!(nodes_of(Rotation::new(7, 5, 1), 3), [0, 0, 0]);
        assert_eq!(nodes_of(Rotation::new(u32::MAX, u32::MAX, 2), 3), [0, 1, 0]);
    }

    #[test]
    fn one_that_has_moved_begins_where_it_is() {
        let mut rotation = Rotation::new(0, 0, 3);
        rotation.fail();
        rotation.arrive();
        assert_eq!(nodes_of(rotation, 4), [1, 2, 0, 1]);
    }
}
