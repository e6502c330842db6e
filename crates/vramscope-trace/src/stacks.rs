//! Frames and stacks, each distinct one held once.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::error::TableFull;
use crate::ids::{FrameId, StackId, StringId};
use crate::strings::{INDEX_ENTRY, bounds};

/// One line of a stack trace, as PyTorch symbolised it.
///
/// C++ frames without symbols have the file name `??` and the line 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Function name.
    pub name: StringId,
    /// Path of the source file.
    pub filename: StringId,
    /// Line number from 1; 0 where unknown.
    pub line: u32,
    /// The node of an FX graph this line stands for, where the recorder was asked for it.
    pub fx: FxNode,
}

/// What `augment_with_fx_traces=True` adds to a frame of generated code (PyTorch 2.11,
/// `torch/cuda/memory.py`); all `None` elsewhere.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FxNode {
    /// `fx_node_op`, such as `call_function`.
    pub op: Option<StringId>,
    /// `fx_node_name`.
    pub name: Option<StringId>,
    /// `fx_node_target`.
    pub target: Option<StringId>,
    /// `fx_original_trace`: the line of the user's model this node came from.
    pub original_trace: Option<StringId>,
}

/// Every distinct [`Frame`] once.
#[derive(Debug, Default, Clone)]
pub struct FrameTable {
    frames: Vec<Frame>,
    index: HashTable<FrameId>,
    hasher: DefaultHashBuilder,
}

impl FrameTable {
    /// The id of `frame`, added if it is new.
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

    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        self.frames.len() * (size_of::<Frame>() + INDEX_ENTRY)
    }

    /// The id of `frame` if it is in the table.
    pub fn find(&self, frame: Frame) -> Option<FrameId> {
        self.index.find(self.hasher.hash_one(frame), |&id| self.frames[id.index()] == frame).copied()
    }

    /// The frame behind `id`.
    pub fn get(&self, id: FrameId) -> Frame {
        self.frames[id.index()]
    }

    /// Every frame with its id, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (FrameId, Frame)> + '_ {
        self.frames.iter().enumerate().filter_map(|(i, &f)| Some((FrameId::new(i).ok()?, f)))
    }

    /// How many distinct frames there are.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// True where no frame was added yet.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// Every distinct stack once, innermost frame first, end to end in one array.
///
/// A recording repeats a few hundred stacks a million times, so a stack is looked up by the hash of its
/// frame ids and stored on first sight: the same stack from two captures is one [`StackId`].
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
    /// About how many bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        self.frames.len() * size_of::<FrameId>() + self.ends.len() * (size_of::<usize>() + INDEX_ENTRY)
    }

    /// The id of the stack made of `frames`, innermost first; added if it is new.
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

    /// The id of the stack made of `frames` if it is in the table.
    pub fn find(&self, frames: &[FrameId]) -> Option<StackId> {
        let hash = self.hasher.hash_one(frames);
        self.index.find(hash, |&id| self.get(id) == frames).copied()
    }

    /// The frames of stack `id`, innermost first.
    pub fn get(&self, id: StackId) -> &[FrameId] {
        &self.frames[bounds(&self.ends, id.index())]
    }

    /// Every stack with its id, in order of first appearance.
    pub fn iter(&self) -> impl Iterator<Item = (StackId, &[FrameId])> + '_ {
        (0..self.len()).filter_map(|i| StackId::new(i).ok()).map(|id| (id, self.get(id)))
    }

    /// How many distinct stacks there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True where no stack was added yet.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}
