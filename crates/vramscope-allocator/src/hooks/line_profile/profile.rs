//! Counts at run time: bytes by stack, with addresses in place of symbols.

use hashbrown::HashMap;

use super::Thread;
use crate::stacks::{Site, StackKey, StackStore};

/// Counts of a stack, or of everything called from a frame.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Successful requests, including requests of zero bytes.
    pub(super) requests: u64,
    pub(super) used: u64,
    pub(super) acquired: u64,
    pub(super) live: u64,
    pub(super) peak: u64,
    pub(super) freed: u64,
}

impl Counts {
    #[inline]
    fn allocate(&mut self, bytes: u64) {
        self.requests += 1;
        self.used += bytes;
        self.live += bytes;
        self.peak = self.peak.max(self.live);
    }

    #[inline]
    fn free(&mut self, bytes: u64) {
        self.live -= bytes;
        self.freed += bytes;
    }
}

/// A node of the tree of sites: a call site and its callers. Node 0 is the root; a parent precedes its children.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) site: Site,
}

/// Maximum number of separate pairs of thread and device. Later threads share one lane per device.
const MOST_LANES: usize = 256;

/// The thread number of a lane that stands for all later threads.
pub(super) const OTHER_THREADS: Thread = 0;

/// A pair of thread and device with separate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Lane {
    pub(super) thread: Thread,
    pub(super) device_id: i32,
}

/// Counts of every node and every stack, for one lane or the sum of all lanes.
#[derive(Debug, Default, Clone)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Counts>,
    pub(super) stacks: Vec<Counts>,
}

/// The lane and stack that count an allocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct LanePath {
    lane: u32,
    /// The index of its stack among `paths`.
    path: u32,
}

/// Bytes by stack, thread and device.
///
/// Each event is counted at every frame of its stack at once, so a frame's peak is exact, although peaks of parts do not add up. A program
/// with one thread and device has one lane, which is also the sum.
#[derive(Default, Clone)]
pub(super) struct Profile {
    pub(super) nodes: Vec<Node>,
    children: HashMap<(u32, Site), u32>,
    /// The nodes of each stack, starting at the root, concatenated.
    path_nodes: Vec<u32>,
    path_ends: Vec<usize>,
    paths: HashMap<Option<StackKey>, u32>,
    pub(super) lanes: Vec<(Lane, Tree)>,
    lane_of: HashMap<Lane, usize>,
    /// The sum of all lanes, if there is more than one.
    all: Option<Tree>,
    live: HashMap<u64, (LanePath, u64)>,
}

impl Profile {
    /// Returns the lane and stack that count an allocation with this stack.
    pub(super) fn place(
        &mut self,
        store: &StackStore,
        stack: Option<StackKey>,
        thread: Thread,
        device_id: i32,
    ) -> LanePath {
        let lane = self.lane(thread, device_id);
        let path = match self.paths.get(&stack) {
            Some(&path) => path,
            None => self.add_path(store, stack),
        };
        let (num_nodes, num_paths) = (self.nodes.len(), self.path_ends.len());
        let tree = &mut self.lanes[lane].1;
        for tree in [tree].into_iter().chain(&mut self.all) {
            if tree.stacks.len() < num_paths {
                tree.nodes.resize(num_nodes, Counts::default());
                tree.stacks.resize(num_paths, Counts::default());
            }
        }
        LanePath { lane: lane as u32, path }
    }

    fn lane(&mut self, thread: Thread, device_id: i32) -> usize {
        let others = Lane { thread: OTHER_THREADS, device_id };
        let lane = Lane { thread, device_id };
        if let Some(&known) = self.lane_of.get(&lane) {
            return known;
        }
        let lane = if self.lanes.len() < MOST_LANES { lane } else { others };
        if let Some(&known) = self.lane_of.get(&lane) {
            return known;
        }
        if let [(_, only)] = self.lanes.as_slice() {
            self.all = Some(only.clone());
        }
        self.lane_of.insert(lane, self.lanes.len());
        self.lanes.push((lane, Tree::default()));
        self.lanes.len() - 1
    }

    fn add_path(&mut self, store: &StackStore, stack: Option<StackKey>) -> u32 {
        let sites = stack.map(|stack| store.sites(stack)).unwrap_or_default();
        if self.nodes.is_empty() {
            self.nodes.push(Node { parent: 0, site: Site::ROOT });
        }
        let mut node = 0;
        self.path_nodes.push(node);
        for &site in sites.iter().rev() {
            let nodes = &mut self.nodes;
            node = *self.children.entry((node, site)).or_insert_with(|| {
                nodes.push(Node { parent: node, site });
                nodes.len() as u32 - 1
            });
            self.path_nodes.push(node);
        }
        self.path_ends.push(self.path_nodes.len());
        let path = self.path_ends.len() as u32 - 1;
        self.paths.insert(stack, path);
        path
    }

    /// Returns the nodes of a stack, starting at the root.
    pub(super) fn path(&self, path: usize) -> &[u32] {
        let start = if path == 0 { 0 } else { self.path_ends[path - 1] };
        &self.path_nodes[start..self.path_ends[path]]
    }

    fn each(&mut self, place: LanePath, count: impl Fn(&mut Counts)) {
        let path = place.path as usize;
        let start = if path == 0 { 0 } else { self.path_ends[path - 1] };
        let nodes = &self.path_nodes[start..self.path_ends[path]];
        for tree in [&mut self.lanes[place.lane as usize].1].into_iter().chain(&mut self.all) {
            for &node in nodes {
                count(&mut tree.nodes[node as usize]);
            }
            count(&mut tree.stacks[path]);
        }
    }

    pub(super) fn acquired(&mut self, place: LanePath, bytes: u64) {
        self.each(place, |counts| counts.acquired += bytes);
    }

    /// Counts bytes that another pool served. They are never freed.
    pub(super) fn served(&mut self, place: LanePath, used: u64, acquired: u64) {
        self.each(place, |counts| {
            counts.requests += 1;
            counts.used = counts.used.saturating_add(used);
            counts.acquired = counts.acquired.saturating_add(acquired);
        });
    }

    /// Counts an allocation. An allocation of zero bytes is never freed.
    pub(super) fn allocated(&mut self, place: LanePath, id: u64, bytes: u64) {
        self.each(place, |counts| counts.allocate(bytes));
        if bytes > 0 {
            self.live.insert(id, (place, bytes));
        }
    }

    /// Counts a freed allocation. Does nothing for allocations from before the profile began.
    pub(super) fn freed(&mut self, id: u64) {
        if let Some((place, bytes)) = self.live.remove(&id) {
            self.each(place, |counts| counts.free(bytes));
        }
    }

    /// Returns the sum of the lanes that `wanted` accepts, and whether its peaks are exact. They are exact for a single lane and for all
    /// lanes together, but only upper bounds for any other set of lanes.
    pub(super) fn tree(&self, wanted: impl Fn(Lane) -> bool) -> (Tree, bool) {
        let chosen: Vec<&Tree> =
            self.lanes.iter().filter(|(lane, _)| wanted(*lane)).map(|(_, t)| t).collect();
        if let (true, Some(all)) = (chosen.len() == self.lanes.len(), &self.all) {
            return (all.clone(), true);
        }
        let exact = chosen.len() <= 1;
        let mut sum = Tree::default();
        sum.nodes.resize(self.nodes.len(), Counts::default());
        sum.stacks.resize(self.path_ends.len(), Counts::default());
        for tree in chosen {
            add(&mut sum.nodes, &tree.nodes);
            add(&mut sum.stacks, &tree.stacks);
        }
        (sum, exact)
    }
}

fn add(sum: &mut [Counts], counts: &[Counts]) {
    for (sum, counts) in sum.iter_mut().zip(counts) {
        sum.requests += counts.requests;
        sum.used += counts.used;
        sum.acquired += counts.acquired;
        sum.live += counts.live;
        sum.peak += counts.peak;
        sum.freed += counts.freed;
    }
}
