//! Segments that were on the device before the first request.

use std::sync::Arc;

use thiserror::Error;
use vramscope_trace::{PoolId, SegmentKind};

use crate::arena::{Arena, BlockKey};
use crate::engine::{Engine, LockedEngine, tallies};
use crate::observer::Observer;
use crate::policy::Class;

/// A segment that was on the device before the first request, as a snapshot shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartSegment {
    /// Address of the first byte. For an expandable segment: of its reserved addresses.
    pub address: u64,
    /// Size in bytes. For an expandable segment: of its reserved addresses.
    pub size: u64,
    /// The segment's pool.
    pub pool: PoolId,
    /// The segment's stream.
    pub stream: u64,
    /// Small or large pool. An unknown kind counts as large.
    pub kind: SegmentKind,
    /// Mapped ranges of an expandable segment in address order: first byte and size in bytes. `None` if the segment is not expandable.
    pub mapped: Option<Vec<(u64, u64)>>,
    /// Blocks in use, in address order.
    pub blocks: Vec<StartBlock>,
}

/// A block in use of a [`StartSegment`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartBlock {
    /// Address of the first byte on the device.
    pub address: u64,
    /// Size of the block in bytes.
    pub size: u64,
    /// Bytes requested by the owner.
    pub requested: u64,
    /// Whether its owner freed it while other streams still use it.
    pub pending: bool,
}

/// Blocks or mapped ranges of a [`StartSegment`] overlap, or are outside the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the range at {address:#x} overlaps another range or is outside its segment")]
pub struct BadLayout {
    /// First byte of the block or range.
    pub address: u64,
}

/// State of a range of a segment's addresses.
#[derive(Clone, Copy)]
enum Piece {
    Free,
    Unmapped,
    Used { requested: u64, pending: bool },
}

impl StartSegment {
    /// Divides the segment into ranges in address order without gaps: the end and the state of each.
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
        // Mapped ranges may touch or be empty. Merge adjacent free ranges and adjacent unmapped ranges.
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
    /// Adds a segment with its blocks. Returns the keys of the blocks in use, in address order.
    ///
    /// # Errors
    /// If blocks or mapped ranges overlap or are outside the segment. Nothing is added then.
    pub(crate) fn install(
        &self,
        arena: &Arc<Arena<O>>,
        segment: &StartSegment,
    ) -> Result<Vec<BlockKey>, BadLayout> {
        let pieces = segment.pieces()?;
        let (mut locked, asking) = self.lock_all_for(arena);
        let class = if segment.kind == SegmentKind::Small { Class::Small } else { Class::Large };
        let expandable = segment.mapped.is_some();
        let mapped = segment.mapped.as_ref().map(|runs| runs.iter().map(|&(_, size)| size).sum());
        let age = self.core().start(class, mapped.unwrap_or(segment.size), expandable);
        let LockedEngine { ledger, arenas, .. } = &mut locked;
        let (address, size) = (segment.address, segment.size);
        let first = arenas[asking].push_unmapped_segment(address, size, class, expandable, None, age);
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
