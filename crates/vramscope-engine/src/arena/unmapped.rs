//! The unmapped blocks of a class, and the room to grow an expandable segment at each.
//!
//! ```text
//!   blocks  | allocated | free | unmapped | free | unmapped | allocated | unmapped |
//!   runs                |<------------- one run ----------->|           |<- another
//! ```
//!
//! A request grows a segment in the first run that can hold it. A linear search would visit every hole for each request. This tree
//! stores the longest run below each node instead.

use crate::arena::block::BlockKey;

/// Half-open address range of an unmapped block and its free neighbors.
type Reach = (u64, u64);

/// Unmapped blocks ordered by address, with a search for the first run of a given length in logarithmic time. The structure is a treap:
/// a search tree by address and a heap by random priority, which keeps it balanced.
pub(super) struct UnmappedBlocks {
    nodes: Vec<Node>,
    vacant: Vec<Link>,
    root: Link,
    /// State of the random number generator for priorities.
    random: u64,
    /// Addresses of unmapped blocks whose neighbors may have changed since their reach was computed.
    stale: Vec<u64>,
}

type Link = Option<u32>;

#[derive(Clone, Copy)]
struct Node {
    address: u64,
    key: BlockKey,
    reach: Reach,
    priority: u32,
    left: Link,
    right: Link,
    /// The runs of this block and of all blocks in its subtrees.
    runs: Runs,
}

/// The runs of consecutive unmapped blocks in a subtree. Blocks that share a free neighbor belong to the same run.
#[derive(Clone, Copy)]
struct Runs {
    first: Reach,
    last: Reach,
    /// Length of the longest run in bytes.
    longest: u64,
}

impl Runs {
    fn of(reach: Reach) -> Self {
        Self { first: reach, last: reach, longest: length(reach) }
    }

    /// Combines the runs of two subtrees; `next` has the higher addresses.
    fn then(self, next: Self) -> Self {
        let longest = self.longest.max(next.longest);
        // Two runs are one only if they overlap in a free block between them. Runs that merely touch belong to different segments.
        if self.last.1 <= next.first.0 {
            return Self { first: self.first, last: next.last, longest };
        }
        let joined = (self.last.0, next.first.1);
        Self {
            first: if self.first == self.last { joined } else { self.first },
            last: if next.first == next.last { joined } else { next.last },
            longest: longest.max(length(joined)),
        }
    }
}

fn length((start, end): Reach) -> u64 {
    end.saturating_sub(start)
}

impl Default for UnmappedBlocks {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            vacant: Vec::new(),
            root: None,
            random: 0x9e37_79b9_7f4a_7c15,
            stale: Vec::new(),
        }
    }
}

impl UnmappedBlocks {
    /// Adds a block without looking at its neighbors. It is stale until [`set_reach`](Self::set_reach).
    pub(super) fn insert(&mut self, address: u64, size: u64, key: BlockKey) {
        self.stale.push(address);
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let priority = (self.random >> 32) as u32;
        let reach = (address, address + size);
        let node = Node { address, key, reach, priority, left: None, right: None, runs: Runs::of(reach) };
        let new = match self.vacant.pop() {
            Some(Some(vacant)) => {
                self.nodes[vacant as usize] = node;
                Some(vacant)
            }
            _ => {
                self.nodes.push(node);
                Some(self.nodes.len() as u32 - 1)
            }
        };
        let (below, above) = self.split(self.root, address);
        let below = self.merge(below, new);
        self.root = self.merge(below, above);
    }

    /// Marks the block at `address` as stale: its reach must be recomputed before the next search.
    pub(super) fn mark_stale(&mut self, address: u64) {
        self.stale.push(address);
    }

    /// Takes the addresses of all stale blocks and clears the list.
    pub(super) fn take_stale(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.stale)
    }

    /// Removes the block that begins at `address`, if any.
    pub(super) fn remove(&mut self, address: u64) {
        let (below, rest) = self.split(self.root, address);
        let (found, above) = match address.checked_add(1) {
            Some(behind) => self.split(rest, behind),
            None => (rest, None),
        };
        if found.is_some() {
            self.vacant.push(found);
        }
        self.root = self.merge(below, above);
    }

    /// Returns the block that begins at `address`.
    pub(super) fn get(&self, address: u64) -> Option<BlockKey> {
        self.from(address).filter(|node| node.address == address).map(|node| node.key)
    }

    /// Sets the reach of the block at `address`.
    pub(super) fn set_reach(&mut self, address: u64, reach: Reach) {
        self.set_below(self.root, address, reach);
    }

    fn set_below(&mut self, at: Link, address: u64, reach: Reach) {
        let Some(index) = at else { return };
        let node = &mut self.nodes[index as usize];
        if node.address == address {
            node.reach = reach;
        } else {
            let child = if address < node.address { node.left } else { node.right };
            self.set_below(child, address, reach);
        }
        self.sum_up(index);
    }

    /// Returns the first block of the lowest run of at least `size` bytes.
    pub(super) fn first_of(&self, size: u64) -> Option<BlockKey> {
        let mut at = self.node(self.root).filter(|root| root.runs.longest >= size)?;
        loop {
            let left = self.node(at.left).map(|left| left.runs);
            if left.is_some_and(|runs| runs.longest >= size) {
                at = self.node(at.left)?;
                continue;
            }
            let own = Runs::of(at.reach);
            let (until, right) = (left.map_or(own, |left| left.then(own)), self.node(at.right));
            let through = right
                .map_or(until, |right| until.then(Runs { last: right.runs.first, longest: 0, ..right.runs }));
            if through.longest >= size {
                return self.from(until.last.0).map(|node| node.key);
            }
            at = right?;
        }
    }

    /// Returns the first block at `address` or above.
    fn from(&self, address: u64) -> Option<&Node> {
        let (mut at, mut found) = (self.node(self.root), None);
        while let Some(node) = at {
            at = if node.address >= address {
                found = Some(node);
                self.node(node.left)
            } else {
                self.node(node.right)
            };
        }
        found
    }

    /// Returns all blocks in address order.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<BlockKey> {
        let mut nodes: Vec<&Node> = Vec::new();
        let mut next = self.from(0);
        while let Some(node) = next {
            nodes.push(node);
            next = self.from(node.address + 1);
        }
        nodes.iter().map(|node| node.key).collect()
    }

    fn node(&self, at: Link) -> Option<&Node> {
        at.map(|index| &self.nodes[index as usize])
    }

    /// Recomputes the runs of a node from its own reach and the runs of its children.
    fn sum_up(&mut self, index: u32) {
        let node = self.nodes[index as usize];
        let own = Runs::of(node.reach);
        let until = self.node(node.left).map_or(own, |left| left.runs.then(own));
        self.nodes[index as usize].runs = self.node(node.right).map_or(until, |right| until.then(right.runs));
    }

    /// Splits a tree into the blocks below `address` and the rest.
    fn split(&mut self, at: Link, address: u64) -> (Link, Link) {
        let Some(index) = at else { return (None, None) };
        let node = self.nodes[index as usize];
        let parts = if node.address < address {
            let (below, rest) = self.split(node.right, address);
            self.nodes[index as usize].right = below;
            (at, rest)
        } else {
            let (below, rest) = self.split(node.left, address);
            self.nodes[index as usize].left = rest;
            (below, at)
        };
        self.sum_up(index);
        parts
    }

    /// Merges two trees; `above` has the higher addresses.
    fn merge(&mut self, below: Link, above: Link) -> Link {
        let (Some(low), Some(high)) = (below, above) else { return below.or(above) };
        let (lower, upper) = (self.nodes[low as usize], self.nodes[high as usize]);
        if lower.priority >= upper.priority {
            self.nodes[low as usize].right = self.merge(lower.right, above);
            self.sum_up(low);
            below
        } else {
            self.nodes[high as usize].left = self.merge(below, upper.left);
            self.sum_up(high);
            above
        }
    }
}

#[cfg(test)]
mod tests;
