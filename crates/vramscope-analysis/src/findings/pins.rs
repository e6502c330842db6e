//! Lines that pin free memory: they keep free blocks from being merged or segments from being released to the device.
//!
//! ```text
//!   segment  [ a |  free  | b | free | b |      free     ]
//!                 a, b          b               b
//! ```
//!
//! A line pins a hole, which is a free block, if one of its active blocks is next to it in the same segment. With other blocks
//! there, or none, the hole would be part of a larger one, or the segment could be released. A hole counts once per line, even if
//! several of the line's blocks are next to it. It also counts once for each of two lines around it, so the sum over all lines
//! may exceed the free memory. A segment that is completely free is not pinned. In a segment with blocks of only one line, that
//! line pins every hole: it alone keeps the segment.

use std::cmp::Reverse;
use std::ops::Range;

use hashbrown::HashMap;
use vramscope_trace::StackId;

use crate::groups::{By, HolderKey, stack_key};
use crate::history::{History, Layout, Origin, RecordedAllocation};
use crate::stacks::Frames;

/// A line of the user's code whose active blocks pin free memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The line: [`HolderKey::Line`] or [`HolderKey::NoStack`].
    pub key: HolderKey,
    /// The origin of its blocks: memory that was live before recording began forms separate rows.
    pub origin: Origin,
    /// Bytes of the holes that the line pins, each counted once.
    pub bytes: u64,
    /// Number of these holes.
    pub holes: u64,
    /// Part of `bytes` in segments without blocks of other lines: only this line keeps them from being released to the device.
    pub alone: u64,
    /// The largest hole, in bytes, that would exist without the line's blocks, including the free memory next to them.
    pub joined: u64,
    /// Number of its blocks that are next to a hole.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub block_bytes: u64,
    /// The stack of the largest of these blocks.
    pub stack: Option<StackId>,
}

/// The lines that pin free memory at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// The lines, most pinned bytes first.
    pub lines: Vec<Pin>,
    /// Bytes of all pinned holes, each counted once.
    pub bytes: u64,
    /// Number of these holes.
    pub holes: u64,
}

impl Pins {
    /// Computes the pins of a layout of `history`.
    pub fn at(history: &History, frames: &Frames, layout: &Layout<'_>) -> Self {
        Self::of(history, frames, layout.places())
    }

    /// Computes the pins of contiguous reserved ranges, each within one segment and given with its active blocks by address.
    pub(crate) fn of<'a>(
        history: &History,
        frames: &Frames,
        segments: impl Iterator<Item = (Range<u64>, Vec<&'a RecordedAllocation>)>,
    ) -> Self {
        let mut lines =
            Lines { history, frames, of_stack: HashMap::new(), of_key: HashMap::new(), all: Vec::new() };
        let mut pins = Self::default();
        for (addresses, blocks) in segments {
            pins.add(&mut lines, &addresses, &blocks);
        }
        pins.lines = lines.all.into_iter().map(|line| line.pin).filter(|pin| pin.bytes > 0).collect();
        pins.lines
            .sort_by(|a, b| (Reverse(a.bytes), a.origin, &a.key).cmp(&(Reverse(b.bytes), b.origin, &b.key)));
        pins
    }

    fn add(
        &mut self,
        lines: &mut Lines<'_>,
        &Range { start, end }: &Range<u64>,
        blocks: &[&RecordedAllocation],
    ) {
        let mut at = start;
        let mut free = 0;
        // The line of the previous block, with the start of its uninterrupted run of blocks.
        let mut run: Option<(usize, u64)> = None;
        let mut last: Option<&RecordedAllocation> = None;
        let mut is_one_line = true;
        for &block in blocks {
            let line = lines.number(block);
            let gap = block.address.saturating_sub(at);
            if gap > 0 {
                self.hole(gap);
                free += gap;
                let before = run.map(|(before, _)| before).filter(|&before| before != line);
                before.into_iter().chain([line]).for_each(|line| lines.all[line].hole(gap));
                if let Some((before, last)) = run.map(|(line, _)| line).zip(last) {
                    lines.all[before].beside(last);
                }
                lines.all[line].beside(block);
            }
            match run {
                Some((before, _)) if before == line => {}
                Some((before, from)) => {
                    lines.all[before].join(block.address.saturating_sub(from));
                    is_one_line = false;
                    run = Some((line, at));
                }
                None => run = Some((line, at)),
            }
            last = Some(block);
            at = at.max(block.address.saturating_add(block.size));
        }
        let Some((line, from)) = run else { return };
        let gap = end.saturating_sub(at);
        if gap > 0 {
            self.hole(gap);
            free += gap;
            lines.all[line].hole(gap);
            last.into_iter().for_each(|last| lines.all[line].beside(last));
        }
        lines.all[line].join(end.saturating_sub(from));
        if is_one_line {
            lines.all[line].pin.alone += free;
        }
    }

    fn hole(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.holes += 1;
    }
}

/// Lines, with their indices.
struct Lines<'h> {
    history: &'h History,
    frames: &'h Frames,
    of_stack: HashMap<(Origin, Option<StackId>), usize>,
    of_key: HashMap<(Origin, HolderKey), usize>,
    all: Vec<Line>,
}

/// A line, with the address of its last counted block.
struct Line {
    pin: Pin,
    counted: Option<u64>,
    largest: u64,
}

impl Lines<'_> {
    fn number(&mut self, a: &RecordedAllocation) -> usize {
        let stack = self.history.stack_of(a);
        if let Some(&number) = self.of_stack.get(&(a.origin, stack)) {
            return number;
        }
        let key = stack_key(self.history, self.frames, stack, By::Line);
        let all = &mut self.all;
        let number = *self.of_key.entry((a.origin, key)).or_insert_with_key(|(origin, key)| {
            let (key, origin) = (key.clone(), *origin);
            let pin = Pin {
                key,
                origin,
                bytes: 0,
                holes: 0,
                alone: 0,
                joined: 0,
                blocks: 0,
                block_bytes: 0,
                stack: None,
            };
            all.push(Line { pin, counted: None, largest: 0 });
            all.len() - 1
        });
        self.of_stack.insert((a.origin, stack), number);
        number
    }
}

impl Line {
    fn hole(&mut self, bytes: u64) {
        self.pin.bytes += bytes;
        self.pin.holes += 1;
    }

    /// Counts a block of this line that is next to a hole. A block may be next to two holes.
    fn beside(&mut self, block: &RecordedAllocation) {
        if self.counted.replace(block.address) == Some(block.address) {
            return;
        }
        self.pin.blocks += 1;
        self.pin.block_bytes += block.size;
        if self.pin.stack.is_none() || block.size > self.largest {
            (self.pin.stack, self.largest) = (block.stack, block.size);
        }
    }

    fn join(&mut self, bytes: u64) {
        self.pin.joined = self.pin.joined.max(bytes);
    }
}
