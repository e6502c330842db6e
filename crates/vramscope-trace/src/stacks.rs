//! Interned frames and stacks.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::TableFull;
use crate::ids::{FrameId, StackId, StringId};
use crate::strings::{INDEX_ENTRY, bounds};

/// One line of a stack trace, as symbolized by PyTorch.
///
/// C++ frames without symbols have the file name `??` and line 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function name.
    pub name: StringId,
    /// Path of the source file.
    pub filename: StringId,
    /// Line number from 1, or 0 if unknown.
    pub line: u32,
    /// The node of an FX graph behind this line, if the recorder was configured to add it.
    pub fx: FxNode,
}

/// Data that `augment_with_fx_traces=True` adds to a frame of generated code (PyTorch 2.11, `torch/cuda/memory.py`). All `None`
/// elsewhere.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FxNode {
    /// `fx_node_op`, such as `call_function`.
    pub op: Option<StringId>,
    /// `fx_node_name`.
    pub name: Option<StringId>,
    /// `fx_node_target`.
    pub target: Option<StringId>,
    /// `fx_original_trace`: the line of the user's model that this node came from.
    pub original_trace: Option<StringId>,
}

/// All distinct [`Frame`]s.
#[derive(Debug, Default, Clone)]
pub struct FrameTable {
    frames: Vec<Frame>,
    index: HashTable<FrameId>,
    hasher: DefaultHashBuilder,
}

impl FrameTable {
    /// Returns the id of `frame`. Adds it if it is new.
    pub fn intern(&mut self, frame: Frame) -> Result<FrameId, TableFull> {
        if let Some(id) = self.find(frame) {
            return Ok(id);
        }
        let id = FrameId::new(self.frames.len())?;
        self.frames.push(frame);
        let Self { frames, index, hasher } = self;
        index.insert_unique(hasher.hash_one(frame), id, |&id| hasher.hash_one(frames[id.index()]));
        Ok(id)
    }

    /// Approximate memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.frames.len() * (size_of::<Frame>() + INDEX_ENTRY)
    }

    /// Returns the id of `frame`, if it is in the table.
    pub fn find(&self, frame: Frame) -> Option<FrameId> {
        self.index.find(self.hasher.hash_one(frame), |&id| self.frames[id.index()] == frame).copied()
    }

    /// Returns the frame with this id.
    pub fn get(&self, id: FrameId) -> Frame {
        self.frames[id.index()]
    }

    /// Returns all frames with their ids, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (FrameId, Frame)> + '_ {
        self.frames.iter().enumerate().filter_map(|(i, &f)| Some((FrameId::new(i).ok()?, f)))
    }

    /// Returns the number of distinct frames.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// All distinct stacks, innermost frame first, concatenated in one array.
///
/// A recording repeats a few hundred stacks a million times. A stack is looked up by the hash of its frame ids and stored at its first
/// appearance, so equal stacks of two captures have the same [`StackId`].
///
/// ```text
///   frames  [ linear, forward, train, main | alloc, train, main | ... ]
///   ends                                   4                    7
/// ```
#[derive(Debug, Default, Clone)]
pub struct StackTable {
    frames: Vec<FrameId>,
    ends: Vec<usize>,
    index: HashTable<StackId>,
    hasher: DefaultHashBuilder,
}

impl StackTable {
    /// Approximate memory use in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.frames.len() * size_of::<FrameId>() + self.ends.len() * (size_of::<usize>() + INDEX_ENTRY)
    }

    /// Returns the number of frames of all stacks together.
    pub(crate) fn total_frames(&self) -> usize {
        self.frames.len()
    }

    /// Returns the id of the stack `frames`, innermost frame first. Adds it if it is new.
    pub fn intern(&mut self, frames: &[FrameId]) -> Result<StackId, TableFull> {
        let hash = self.hasher.hash_one(frames);
        let stored = |id: StackId| &self.frames[bounds(&self.ends, id.index())];
        if let Some(&id) = self.index.find(hash, |&id| stored(id) == frames) {
            return Ok(id);
        }
        let id = StackId::new(self.ends.len())?;
        self.frames.extend_from_slice(frames);
        self.ends.push(self.frames.len());
        let Self { frames, ends, index, hasher } = self;
        index.insert_unique(hash, id, |&id| hasher.hash_one(&frames[bounds(ends, id.index())]));
        Ok(id)
    }

    /// Returns the id of the stack `frames`, if it is in the table.
    pub fn find(&self, frames: &[FrameId]) -> Option<StackId> {
        let hash = self.hasher.hash_one(frames);
        self.index.find(hash, |&id| self.get(id) == frames).copied()
    }

    /// Returns the frames of stack `id`, innermost first.
    pub fn get(&self, id: StackId) -> &[FrameId] {
        &self.frames[bounds(&self.ends, id.index())]
    }

    /// Returns all stacks with their ids, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (StackId, &[FrameId])> + '_ {
        (0..self.len()).filter_map(|i| StackId::new(i).ok()).map(|id| (id, self.get(id)))
    }

    /// Returns the number of distinct stacks.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
