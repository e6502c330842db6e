//! The address line at one moment of a sweep: which bytes are in use, and how long the other bytes stay free.

/// Consecutive bytes in the same state, from `start` to the start of the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    /// The time at which an earlier placed item takes these bytes.
    pub(crate) until: u32,
    pub(crate) held: bool,
}

impl Piece {
    /// Whether the piece is free at least until `to`.
    fn serves(&self, to: u32) -> bool {
        !self.held && self.until >= to
    }
}

/// Pieces by address, without gaps from 0 to `u64::MAX`. They form a tree whose nodes store what a search needs to skip them.
/// Finding and changing bytes takes time logarithmic in the number of pieces.
pub(crate) struct Strip {
    root: Node,
    /// Number of nodes that searches may still enter in vain; see [`Strip::allow`].
    searches: u64,
    /// Buffers for the old and the new pieces of an edit.
    scratch: (Vec<Piece>, Vec<Piece>),
}

/// A run of neighboring pieces.
struct Node {
    start: u64,
    end: u64,
    /// Free bytes at the start, at the end, and in the longest run in between, regardless of their times.
    head: u64,
    tail: u64,
    best: u64,
    /// The first and the last time at which free bytes are taken.
    first_until: u32,
    last_until: u32,
    parts: Parts,
}

enum Parts {
    Pieces(Vec<Piece>),
    Nodes(Vec<Node>),
}

/// The largest number of pieces or nodes in a node.
const MOST: usize = 64;

/// Number of nodes that a search may enter in vain, on average over a sweep. A few are usual. If the times differ from piece to
/// piece, as in no real recording, each search could enter all nodes.
const SEARCHES_EACH: u64 = 64;

/// Number of nodes that all searches of a sweep may enter in vain, even if there are few items.
const SEARCHES_AT_LEAST: u64 = 1 << 20;

/// A search in progress.
struct Search {
    size: u64,
    to: u32,
    /// Start of the run of fitting pieces that reaches the end of the visited part; `u64::MAX` if there is none.
    run: u64,
    entered: u64,
}

impl Node {
    fn of(parts: Parts, end: u64) -> Self {
        let mut node =
            Self { start: 0, end, head: 0, tail: 0, best: 0, first_until: u32::MAX, last_until: 0, parts };
        node.sum_up();
        node
    }

    fn len(&self) -> usize {
        match &self.parts {
            Parts::Pieces(pieces) => pieces.len(),
            Parts::Nodes(nodes) => nodes.len(),
        }
    }

    fn is_free(&self) -> bool {
        self.head == self.end - self.start
    }

    fn sum_up(&mut self) {
        let Self { start, end, head, tail, best, first_until, last_until, parts } = self;
        (*best, *first_until, *last_until) = (0, u32::MAX, 0);
        // Start of the run of free bytes that reaches the end of the visited part.
        let mut run = u64::MAX;
        let mut first_end = None;
        match parts {
            Parts::Pieces(pieces) => {
                *start = pieces.first().map_or(*end, |piece| piece.start);
                run = run.min(*start);
                for piece in pieces.iter() {
                    if piece.held {
                        first_end.get_or_insert(piece.start);
                        *best = (*best).max(piece.start.saturating_sub(run));
                        run = u64::MAX;
                    } else {
                        run = run.min(piece.start);
                        *first_until = (*first_until).min(piece.until);
                        *last_until = (*last_until).max(piece.until);
                    }
                }
            }
            Parts::Nodes(nodes) => {
                *start = nodes.first().map_or(*end, |node| node.start);
                for node in nodes.iter() {
                    *first_until = (*first_until).min(node.first_until);
                    *last_until = (*last_until).max(node.last_until);
                    run = run.min(node.start);
                    if node.is_free() {
                        continue;
                    }
                    first_end.get_or_insert(node.start + node.head);
                    *best = (*best).max(node.best).max(node.start + node.head - run);
                    run = node.end - node.tail;
                }
            }
        }
        *tail = end.saturating_sub(run);
        *best = (*best).max(*tail);
        *head = first_end.unwrap_or(*end) - *start;
    }

    /// Returns the start of the run that is long enough, if it ends in this node.
    fn find(&self, search: &mut Search) -> Option<u64> {
        let joined = if search.run == u64::MAX { 0 } else { self.start - search.run + self.head };
        if self.last_until < search.to {
            search.run = u64::MAX;
            return None;
        }
        if self.best < search.size && joined < search.size {
            search.run = self.run_to_the_end(search);
            return None;
        }
        search.entered += 1;
        match &self.parts {
            Parts::Nodes(nodes) => nodes.iter().find_map(|node| node.find(search)),
            Parts::Pieces(pieces) => {
                for (index, piece) in pieces.iter().enumerate() {
                    if !piece.serves(search.to) {
                        search.run = u64::MAX;
                        continue;
                    }
                    search.run = search.run.min(piece.start);
                    let end = pieces.get(index + 1).map_or(self.end, |next| next.start);
                    if end - search.run >= search.size {
                        return Some(search.run);
                    }
                }
                None
            }
        }
    }

    /// Returns the start of the run of fitting pieces that reaches the end of this node; the run may start before the node.
    fn run_to_the_end(&self, search: &Search) -> u64 {
        let mut run = self.end;
        if self.is_whole_to_the_end(search.to, &mut run) {
            return search.run.min(run);
        }
        if run == self.end { u64::MAX } else { run }
    }

    /// Moves `run` back to the start of the fitting pieces at the end; returns true if all pieces fit.
    fn is_whole_to_the_end(&self, to: u32, run: &mut u64) -> bool {
        if self.first_until >= to {
            *run = self.end - self.tail;
            return self.is_free();
        }
        match &self.parts {
            Parts::Nodes(nodes) => nodes.iter().rev().all(|node| node.is_whole_to_the_end(to, run)),
            Parts::Pieces(pieces) => pieces.iter().rev().all(|piece| {
                let serves = piece.serves(to);
                if serves {
                    *run = piece.start;
                }
                serves
            }),
        }
    }

    /// Adds the whole pieces that have bytes in `start..end`; returns the end of the last one.
    fn collect(&self, start: u64, end: u64, list: &mut Vec<Piece>) -> u64 {
        match &self.parts {
            Parts::Pieces(pieces) => {
                let from = pieces.partition_point(|piece| piece.start <= start).saturating_sub(1);
                let to = pieces.partition_point(|piece| piece.start < end);
                list.extend_from_slice(&pieces[from..to]);
                pieces.get(to).map_or(self.end, |next| next.start)
            }
            Parts::Nodes(nodes) => {
                let from = nodes.partition_point(|node| node.start <= start).saturating_sub(1);
                let touched = nodes[from..].iter().take_while(|node| node.start < end);
                touched.fold(start, |_, node| node.collect(start, end, list))
            }
        }
    }

    /// Replaces the pieces in `start..end` with `new`; both ends must be borders of pieces. If `new` is empty, some pieces must
    /// remain.
    fn splice(&mut self, start: u64, end: u64, new: &[Piece]) {
        match &mut self.parts {
            Parts::Pieces(pieces) => {
                let from = pieces.partition_point(|piece| piece.start < start);
                let to = pieces.partition_point(|piece| piece.start < end);
                pieces.splice(from..to, new.iter().copied());
            }
            Parts::Nodes(nodes) => {
                let first = nodes.partition_point(|node| node.start <= start).saturating_sub(1);
                let mut behind = nodes.partition_point(|node| node.start < end);
                if let Some(last) =
                    nodes.get_mut(behind - 1).filter(|last| behind - 1 > first && last.end > end)
                {
                    last.splice(last.start, end, &[]);
                    behind -= 1;
                }
                nodes.drain(first + 1..behind.max(first + 1));
                nodes[first].end = nodes.get(first + 1).map_or(self.end, |next| next.start);
                nodes[first].splice(start, end, new);
                if nodes[first].len() == 0 {
                    nodes.remove(first);
                } else if let Some(parts) = nodes[first].divided() {
                    nodes.splice(first..=first, parts);
                }
            }
        }
        self.sum_up();
    }

    /// Divides a node that has become too large into parts.
    fn divided(&mut self) -> Option<Vec<Self>> {
        if self.len() <= MOST {
            return None;
        }
        let parts: Vec<Parts> = match &mut self.parts {
            Parts::Pieces(pieces) => {
                pieces.chunks(MOST / 2).map(|part| Parts::Pieces(part.to_vec())).collect()
            }
            Parts::Nodes(nodes) => {
                let mut rest = std::mem::take(nodes).into_iter().peekable();
                let mut parts = Vec::new();
                while rest.peek().is_some() {
                    parts.push(Parts::Nodes(rest.by_ref().take(MOST / 2).collect()));
                }
                parts
            }
        };
        let mut end = self.end;
        let mut nodes = Vec::with_capacity(parts.len());
        for part in parts.into_iter().rev() {
            let node = Self::of(part, end);
            end = node.start;
            nodes.push(node);
        }
        nodes.reverse();
        Some(nodes)
    }
}

impl Strip {
    pub(crate) fn new() -> Self {
        let all = Piece { start: 0, until: u32::MAX, held: false };
        Self {
            root: Node::of(Parts::Pieces(vec![all]), u64::MAX),
            searches: u64::MAX,
            scratch: Default::default(),
        }
    }

    /// Limits the total cost of all searches for `items` items. Once the limit is used up, items go on top of everything.
    pub(crate) fn allow(&mut self, items: usize) {
        self.searches = SEARCHES_AT_LEAST.max((items as u64).saturating_mul(SEARCHES_EACH));
    }

    /// Returns the lowest address from which `size` bytes are free at least until `to`.
    pub(crate) fn find(&mut self, size: u64, to: u32) -> Option<u64> {
        let mut search = Search { size, to, run: u64::MAX, entered: 0 };
        if self.searches == 0 {
            let top = self.root.run_to_the_end(&search);
            return (self.root.end.saturating_sub(top) >= size).then_some(top);
        }
        let found = self.root.find(&mut search);
        self.searches = self.searches.saturating_sub(search.entered);
        found
    }

    /// Marks the bytes in `start..end` as in use or free.
    pub(crate) fn mark(&mut self, start: u64, end: u64, held: bool) {
        if start < end {
            self.edit(start, end, |old, new| {
                old.iter()
                    .for_each(|piece| push(new, Piece { start: piece.start.max(start), held, ..*piece }));
            });
        }
    }

    /// Replaces the bytes from the start of the first of `pieces` to `end`; an empty list changes nothing.
    pub(crate) fn replace(&mut self, pieces: &[Piece], end: u64) {
        if let Some(first) = pieces.first() {
            self.edit(first.start, end, |_, new| pieces.iter().for_each(|&piece| push(new, piece)));
        }
    }

    /// Replaces the pieces that have bytes in `start..end`. `change` gets these whole pieces and adds the new ones. Neighbors
    /// with the same state are merged.
    fn edit(&mut self, start: u64, end: u64, change: impl FnOnce(&[Piece], &mut Vec<Piece>)) {
        let (mut old, mut new) = std::mem::take(&mut self.scratch);
        let old_end = self.root.collect(start.saturating_sub(1), end.saturating_add(1), &mut old);
        let old_start = old.first().map_or(start, |piece| piece.start);
        let within = old.partition_point(|piece| piece.start <= start).saturating_sub(1);
        let behind = old.partition_point(|piece| piece.start < end);
        let before = if old_start < start { within + usize::from(old[within].start < start) } else { 0 };
        old[..before].iter().for_each(|&piece| push(&mut new, piece));
        change(&old[within..behind], &mut new);
        let last_end = old.get(behind).map_or(old_end, |next| next.start);
        if last_end > end {
            push(&mut new, Piece { start: end, ..old[behind - 1] });
        }
        old[behind..].iter().for_each(|&piece| push(&mut new, piece));
        self.root.splice(old_start, old_end, &new);
        while let Some(nodes) = self.root.divided() {
            self.root = Node::of(Parts::Nodes(nodes), self.root.end);
        }
        old.clear();
        new.clear();
        self.scratch = (old, new);
    }

    /// Adds the pieces in `start..end`, cut to that range, to `list`.
    pub(crate) fn read(&self, start: u64, end: u64, list: &mut Vec<Piece>) {
        if start >= end {
            return;
        }
        let first = list.len();
        self.root.collect(start, end, list);
        list[first].start = start;
        // Only times matter here.
        let mut kept = first;
        for at in first + 1..list.len() {
            if list[at].until != list[kept].until {
                kept += 1;
                list[kept] = list[at];
            }
        }
        list.truncate(kept + 1);
    }
}

/// Appends a piece unless the last piece has the same state.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    if pieces.last().is_none_or(|last| (last.until, last.held) != (piece.until, piece.held)) {
        pieces.push(piece);
    }
}

#[cfg(test)]
mod tests;
