//! Segments that lay on the device before the first request.

use std::sync::Arc;

use thiserror::Error;
use vramscope_trace::{PoolId, SegmentKind};

use crate::arena::{Arena, Locked};
use crate::block::{BlockKey, BlockState};
use crate::engine::{Engine, Whole, tallies};
use crate::observer::Observer;
use crate::policy::Class;

/// A segment as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartSegment {
    /// First byte on the device; of an expandable segment, of its reserved addresses.
    pub address: u64,
    /// Bytes; of an expandable segment, of its reserved addresses.
    pub size: u64,
    /// The pool it belongs to.
    pub pool: PoolId,
    /// The stream it serves.
    pub stream: u64,
    /// Which requests it serves; unknown is taken as large.
    pub kind: SegmentKind,
    /// Of an expandable segment, the mapped ranges, first byte and bytes, in address order.
    pub mapped: Option<Vec<(u64, u64)>>,
    /// Blocks in use, in address order.
    pub blocks: Vec<StartBlock>,
}

/// A block in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartBlock {
    /// First byte on the device.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes its owner asked for.
    pub requested: u64,
    /// Its owner has given it back; other streams still use it.
    pub pending: bool,
}

/// The parts of a segment do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the range at {address:#x} overlaps another or lies outside its segment")]
pub struct BadLayout {
    /// First byte of the part.
    pub address: u64,
}

/// What one stretch of a segment is.
#[derive(Clone, Copy)]
enum Piece {
    Free,
    Unmapped,
    Used { requested: u64, pending: bool },
}

impl StartSegment {
    /// The segment from its first byte to its last, as neighbours without gaps: end of each and what it is.
    fn pieces(&self) -> Result<Vec<(u64, Piece)>, BadLayout> {
        let bad = |address| BadLayout { address };
        let whole = [(self.address, self.size)];
        let mapped = self.mapped.as_deref().unwrap_or(&whole);
        let mut pieces = Vec::new();
        let mut at = self.address;
        let end = self.address.checked_add(self.size).filter(|&e| e > at).ok_or(bad(self.address))?;
        let mut blocks = self.blocks.iter().peekable();
        for &(start, size) in mapped {
            let run_end = start.checked_add(size).filter(|&e| start >= at && e <= end).ok_or(bad(start))?;
            if start > at {
                pieces.push((start, Piece::Unmapped));
            }
            at = start;
            while let Some(block) = blocks.next_if(|b| b.address < run_end) {
                let block_end = block.address.checked_add(block.size).filter(|&e| e <= run_end);
                let block_end = block_end.filter(|&e| e > block.address && block.address >= at);
                let block_end = block_end.ok_or(bad(block.address))?;
                if block.address > at {
                    pieces.push((block.address, Piece::Free));
                }
                let StartBlock { requested, pending, .. } = *block;
                pieces.push((block_end, Piece::Used { requested, pending }));
                at = block_end;
            }
            if at < run_end {
                pieces.push((run_end, Piece::Free));
            }
            at = run_end;
        }
        if let Some(block) = blocks.next() {
            return Err(bad(block.address));
        }
        if at < end {
            pieces.push((end, Piece::Unmapped));
        }
        // Mapped ranges that touch or are empty: no two neighbours are both free, or both unmapped.
        pieces.dedup_by(|(end, piece), (end_before, before)| {
            let is_one =
                matches!((&before, &piece), (Piece::Free, Piece::Free) | (Piece::Unmapped, Piece::Unmapped));
            if is_one {
                *end_before = *end;
            }
            is_one
        });
        Ok(pieces)
    }
}

impl<O: Observer> Engine<O> {
    /// Puts a segment in place. Returns the blocks in use.
    pub(crate) fn install(
        &self,
        arena: &Arc<Arena<O>>,
        segment: &StartSegment,
    ) -> Result<Vec<BlockKey>, BadLayout> {
        let pieces = segment.pieces()?;
        let mut whole = self.whole();
        let Some(asking) = whole.arenas.iter().position(|a| a.is_of(arena)) else {
            unreachable!("an arena stays in the table")
        };
        let class = if segment.kind == SegmentKind::Small { Class::Small } else { Class::Large };
        let expandable = segment.mapped.is_some();
        let mapped = segment.mapped.as_ref().map(|runs| runs.iter().map(|&(_, size)| size).sum());
        let age = self.core().start(class, mapped.unwrap_or(segment.size), expandable);
        let Whole { ledger, arenas, .. } = &mut whole;
        let first = arenas[asking].push_segment(
            segment.address,
            segment.size,
            class,
            expandable,
            None,
            age,
            BlockState::Unmapped,
        );
        let (mut rest, mut at, mut keys) = (first, segment.address, Vec::new());
        for (i, &(end, piece)) in pieces.iter().enumerate() {
            let (key, size) = (rest, end - at);
            if i + 1 < pieces.len() {
                rest = arenas[asking].split(key, size);
            }
            match piece {
                Piece::Free => arenas[asking].insert_free(key),
                Piece::Unmapped => arenas[asking].insert_unmapped(key),
                Piece::Used { requested, pending } => {
                    let allocated = if pending { 0 } else { size };
                    ledger.raise(&mut tallies(arenas), asking, [requested, allocated, size]);
                    arenas[asking].use_installed(key, requested, pending);
                    keys.push(key);
                }
            }
            at = end;
        }
        Ok(keys)
    }
}

impl<O: Observer> Locked<'_, O> {
    fn use_installed(&mut self, key: BlockKey, requested: u64, pending: bool) {
        let block = self.block_mut(key);
        block.state = if pending { BlockState::PendingFree } else { BlockState::Allocated };
        block.requested = requested;
        block.events = u32::from(pending);
        let size = block.size;
        if pending {
            self.tally().start_pending(requested, size);
        } else {
            self.tally().allocate(requested, size);
        }
    }
}
