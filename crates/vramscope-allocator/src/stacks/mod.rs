//! Stacks of allocations.
//!
//! A stack is captured as a list of [`Site`]s: native return addresses, and frames from a [`StackSource`], such as a Python interpreter.
//! Capturing costs nanoseconds per frame; addresses are resolved when a stack is read ([`Symbols`]).

mod objects;
mod recorder;
mod symbols;
mod table_memory;
mod unwind;

use std::hash::BuildHasher as _;
use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

pub use recorder::{CapturedStack, StackRecorder};
pub(crate) use symbols::{Symbols, outside};
pub use table_memory::symbol_table_bytes;

use vramscope_basics::lock;

/// One frame of a stack, with its symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceFrame {
    /// Path of the source file; `??` if unknown.
    pub filename: Arc<str>,
    /// Line number from 1; 0 if unknown.
    pub line: u32,
    /// Function name.
    pub name: Arc<str>,
}

impl SourceFrame {
    /// Creates a frame with these symbols.
    pub fn new(filename: &str, line: u32, name: &str) -> Self {
        Self { filename: filename.into(), line, name: name.into() }
    }
}

/// The note in reports if no frame has a line number: optimized programs have no debug information by default.
pub const NO_LINES: &str =
    "no line numbers: build with `debug = \"line-tables-only\"` under `[profile.release]` in Cargo.toml";

/// Supplies frames that native unwinding cannot see, of an interpreted language.
pub trait StackSource: Send + Sync {
    /// Appends the frames of the calling thread, innermost first. If it panics, the frames appended so far are used.
    fn capture(&self, frames: &mut Vec<SourceFrame>);
}

/// Which frames a recorded stack contains, with PyTorch's names (`stacks` of `_record_memory_history`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Stacks {
    /// Frames of the stack source; native frames if there is no source.
    Python,
    /// Frames of the stack source, then native frames.
    #[default]
    All,
}

/// A point on a stack: a native return address, or (highest bit set) the index of a supplied frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Site(u64);

impl Site {
    /// The root of a tree of sites; not an actual site.
    pub(crate) const ROOT: Self = Self(0);

    /// Whether it is a supplied frame, which is never part of the profiler or of Rust's runtime.
    pub(crate) fn is_supplied(self) -> bool {
        self.0 & SUPPLIED != 0
    }
}

/// The bit that marks the index of a supplied frame. Native addresses in user space never have it.
const SUPPLIED: u64 = 1 << 63;

/// A stack in a [`StackStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct StackKey(NonZeroU32);

impl StackKey {
    /// Returns `None` if the index does not fit into 32 bits.
    fn new(index: usize) -> Option<Self> {
        u32::try_from(index + 1).ok().and_then(NonZeroU32::new).map(Self)
    }

    pub(crate) fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Captures stacks and stores each distinct stack once.
#[derive(Default)]
pub(crate) struct StackStore {
    source: Mutex<Option<Arc<dyn StackSource>>>,
    held: Mutex<StackTable>,
}

#[derive(Default)]
struct StackTable {
    sites: Vec<Site>,
    ends: Vec<usize>,
    index: HashTable<StackKey>,
    hasher: DefaultHashBuilder,
    supplied: Vec<SourceFrame>,
    supplied_index: HashMap<SourceFrame, u32>,
}

impl StackStore {
    /// Sets the source of frames of another language.
    pub(crate) fn set_source(&self, source: Option<Arc<dyn StackSource>>) {
        // Drop the previous source without a lock, because dropping runs its code.
        let before = std::mem::replace(&mut *lock(&self.source), source);
        drop(before);
    }

    /// Captures the calling thread's stack; `None` if it is empty.
    pub(crate) fn capture(&self, stacks: Stacks) -> Option<StackKey> {
        let source = lock(&self.source).clone();
        let mut supplied = Vec::new();
        if let Some(source) = &source {
            // A panic must not pass: the stack may be captured during a free, and the block would be lost.
            catch_unwind(AssertUnwindSafe(|| source.capture(&mut supplied))).ok();
        }
        if source.is_some() && stacks == Stacks::Python {
            return self.supplied(&supplied);
        }
        let mut key = None;
        unwind::walk(|addresses| key = lock(&self.held).intern_supplied(&supplied, addresses));
        key
    }

    /// Stores a stack of supplied frames, innermost first; `None` if it is empty.
    pub(crate) fn supplied(&self, frames: &[SourceFrame]) -> Option<StackKey> {
        lock(&self.held).intern_supplied(frames, &[])
    }

    /// Returns the sites of a stack, innermost first.
    pub(crate) fn sites(&self, stack: StackKey) -> Vec<Site> {
        lock(&self.held).get(stack).to_vec()
    }

    /// Returns the frame of a supplied site, or the address of a native site as `Err`.
    pub(crate) fn meaning(&self, site: Site) -> Result<SourceFrame, u64> {
        if !site.is_supplied() {
            return Err(site.0);
        }
        Ok(lock(&self.held).supplied[(site.0 & !SUPPLIED) as usize].clone())
    }
}

impl StackTable {
    fn get(&self, stack: StackKey) -> &[Site] {
        &self.sites[bounds(&self.ends, stack)]
    }

    fn intern_supplied(&mut self, supplied: &[SourceFrame], addresses: &[u64]) -> Option<StackKey> {
        // Build the sites in the place where a new stack stores them.
        let start = self.sites.len();
        for frame in supplied {
            let number = match self.supplied_index.get(frame) {
                Some(&number) => number,
                None => {
                    let number = u32::try_from(self.supplied.len()).ok()?;
                    self.supplied.push(frame.clone());
                    self.supplied_index.insert(frame.clone(), number);
                    number
                }
            };
            self.sites.push(Site(SUPPLIED | u64::from(number)));
        }
        self.sites.extend(addresses.iter().map(|&a| Site(a & !SUPPLIED)));
        if self.sites.len() == start {
            return None;
        }
        let hash = self.hasher.hash_one(&self.sites[start..]);
        let known = self.index.find(hash, |&known| *self.get(known) == self.sites[start..]).copied();
        let key = known.is_none().then(|| StackKey::new(self.ends.len())).flatten();
        let Some(key) = key else {
            self.sites.truncate(start);
            return known;
        };
        self.ends.push(self.sites.len());
        let Self { sites, ends, index, hasher, .. } = self;
        index.insert_unique(hash, key, |&key| hasher.hash_one(&sites[bounds(ends, key)]));
        Some(key)
    }
}

/// Returns the range of a stack's sites among all sites.
fn bounds(ends: &[usize], stack: StackKey) -> std::ops::Range<usize> {
    let index = stack.index();
    let start = if index == 0 { 0 } else { ends[index - 1] };
    start..ends[index]
}

#[cfg(test)]
mod tests;
