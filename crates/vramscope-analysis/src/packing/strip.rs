//! The address line at one moment of a sweep: which bytes are held, and how long each of the others stays free.

/// Consecutive bytes in the same state, from `start` to the start of the piece after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    /// The time at which something placed earlier takes these bytes.
    pub(crate) until: u32,
    pub(crate) held: bool,
}

/// Pieces by address without a gap from 0 to `u64::MAX`, in chunks that are cheap to edit and to skip.
pub(crate) struct Strip {
    chunks: Vec<Chunk>,
}

/// Up to [`MOST`] neighbouring pieces and what a search needs to pass them by.
struct Chunk {
    start: u64,
    end: u64,
    /// Free bytes at the start, at the end, and in the longest run between.
    head: u64,
    tail: u64,
    best: u64,
    pieces: Vec<Piece>,
}

const MOST: usize = 64;

impl Chunk {
    fn new(pieces: Vec<Piece>, end: u64) -> Self {
        let start = pieces.first().map_or(0, |piece| piece.start);
        let mut chunk = Self { start, end, head: 0, tail: 0, best: 0, pieces };
        chunk.sum_up();
        chunk
    }

    fn sum_up(&mut self) {
        self.start = self.pieces.first().map_or(self.end, |piece| piece.start);
        let mut run = self.start;
        let mut head = None;
        self.best = 0;
        for piece in &self.pieces {
            if piece.held {
                head.get_or_insert(piece.start - self.start);
                self.best = self.best.max(piece.start.saturating_sub(run));
                run = u64::MAX;
            } else {
                run = run.min(piece.start);
            }
        }
        self.tail = self.end.saturating_sub(run);
        self.best = self.best.max(self.tail);
        self.head = head.unwrap_or(self.end - self.start);
    }
}

impl Strip {
    pub(crate) fn new() -> Self {
        let all = Piece { start: 0, until: u32::MAX, held: false };
        Self { chunks: vec![Chunk::new(vec![all], u64::MAX)] }
    }

    /// The lowest address from which `size` bytes are free until `to` at least.
    pub(crate) fn find(&self, size: u64, to: u32) -> Option<u64> {
        // Start of the run of fitting pieces that reaches the end of the chunk before.
        let mut run = u64::MAX;
        for chunk in &self.chunks {
            let joined = if run == u64::MAX { 0 } else { chunk.start - run + chunk.head };
            if chunk.best >= size || joined >= size {
                for (index, piece) in chunk.pieces.iter().enumerate() {
                    if piece.held || piece.until < to {
                        run = u64::MAX;
                        continue;
                    }
                    run = run.min(piece.start);
                    let end = chunk.pieces.get(index + 1).map_or(chunk.end, |next| next.start);
                    if end - run >= size {
                        return Some(run);
                    }
                }
            } else {
                let mut tail = u64::MAX;
                let mut whole = true;
                for piece in chunk.pieces.iter().rev() {
                    if piece.held || piece.until < to {
                        whole = false;
                        break;
                    }
                    tail = piece.start;
                }
                run = if whole { run.min(tail) } else { tail };
            }
        }
        None
    }

    /// Index of the chunk that has the byte at `at`.
    fn chunk_of(&self, at: u64) -> usize {
        self.chunks.partition_point(|chunk| chunk.start <= at).saturating_sub(1)
    }

    /// Makes a piece start at `at`; gives its chunk and its place there.
    fn split(&mut self, at: u64) -> (usize, usize) {
        let index = self.chunk_of(at);
        let chunk = &mut self.chunks[index];
        let place = chunk.pieces.partition_point(|piece| piece.start < at);
        if at == chunk.end || chunk.pieces.get(place).is_some_and(|piece| piece.start == at) {
            return (index, place);
        }
        let before = chunk.pieces[place - 1];
        chunk.pieces.insert(place, Piece { start: at, ..before });
        (index, place)
    }

    /// Marks the bytes from `start` to `end` as held or free.
    pub(crate) fn mark(&mut self, start: u64, end: u64, held: bool) {
        if start >= end {
            return;
        }
        if held {
            self.split(end);
        }
        let (mut index, mut place) = self.split(start);
        loop {
            let chunk = &mut self.chunks[index];
            let mut stop = place;
            while let Some(piece) = chunk.pieces.get_mut(stop).filter(|piece| piece.start < end) {
                piece.held = held;
                stop += 1;
            }
            let done = stop < chunk.pieces.len() || chunk.end >= end;
            if !held {
                // Neighbours that have become alike are one again.
                let pieces = &mut chunk.pieces;
                let from = place.saturating_sub(1);
                let to = (stop + 1).min(pieces.len());
                let mut kept = from;
                for at in from + 1..to {
                    let piece = pieces[at];
                    let last = pieces[kept];
                    if last.held || piece.held || last.until != piece.until {
                        kept += 1;
                        pieces[kept] = piece;
                    }
                }
                if kept + 1 < to {
                    pieces.drain(kept + 1..to);
                }
            }
            chunk.sum_up();
            if chunk.pieces.len() > MOST {
                self.divide(index);
            }
            if done {
                break;
            }
            // The chunk may have been divided: look the next one up by its start.
            let next = self.chunks[index].end;
            index = self.chunk_of(next);
            if next >= end {
                break;
            }
            let chunk = &self.chunks[index];
            place = chunk.pieces.partition_point(|piece| piece.start < start);
        }
    }

    /// Replaces the bytes from the first of `pieces` to `end`; an empty list of pieces changes nothing.
    pub(crate) fn replace(&mut self, pieces: &[Piece], end: u64) {
        let Some(first) = pieces.first() else { return };
        self.split(end);
        let (index, place) = self.split(first.start);
        let mut last = index;
        while self.chunks[last].end < end {
            last += 1;
        }
        if last > index {
            // What the range has of the chunks after the first goes; chunks that keep nothing go too.
            let border = self.chunks[last].pieces.partition_point(|piece| piece.start < end);
            let moved = self.chunks[last].pieces.split_off(border);
            let border = self.chunks[last].end;
            self.chunks[index].pieces.truncate(place);
            self.chunks[index].pieces.extend_from_slice(pieces);
            self.chunks[index].pieces.extend(moved);
            self.chunks[index].end = border;
            self.chunks.drain(index + 1..=last);
        } else {
            let chunk = &mut self.chunks[index];
            let stop = place + chunk.pieces[place..].partition_point(|piece| piece.start < end);
            chunk.pieces.splice(place..stop, pieces.iter().copied());
        }
        self.chunks[index].sum_up();
        if self.chunks[index].pieces.len() > MOST {
            self.divide(index);
        }
    }

    /// Adds the pieces from `start` to `end`, cut to that range, to `list`.
    pub(crate) fn read(&self, start: u64, end: u64, list: &mut Vec<Piece>) {
        if start >= end {
            return;
        }
        let index = self.chunk_of(start);
        let skip = self.chunks[index].pieces.partition_point(|piece| piece.start <= start).saturating_sub(1);
        let pieces = self.chunks[index..].iter().flat_map(|chunk| &chunk.pieces).skip(skip);
        let first = list.len();
        for piece in pieces.take_while(|piece| piece.start < end) {
            let alike = list.len() > first && list.last().is_some_and(|last| last.until == piece.until);
            if !alike {
                list.push(Piece { start: piece.start.max(start), ..*piece });
            }
        }
    }

    fn divide(&mut self, index: usize) {
        let chunk = &mut self.chunks[index];
        let upper = chunk.pieces.split_off(chunk.pieces.len() / 2);
        let upper = Chunk::new(upper, chunk.end);
        chunk.end = upper.start;
        chunk.sum_up();
        self.chunks.insert(index + 1, upper);
        for half in [index + 1, index] {
            if self.chunks[half].pieces.len() > MOST {
                self.divide(half);
            }
        }
    }
}
