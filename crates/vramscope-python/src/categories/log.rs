//! The hooks' notes in time order, with bounded memory. A recorder in the process gets them instead.

use std::collections::{BTreeMap, VecDeque};

use super::clock;
use super::modules::ModuleId;
use super::recorder::Recorder;
use super::threads::ThreadId;

/// The role of a tensor. An allocation with several roles gets the first one in this order. The recorder has the same numbers
/// (`vramscope-recorder/src/notes.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Role {
    Parameter,
    Buffer,
    OptimizerState,
    Gradient,
    /// An argument of a model.
    Input,
    /// Saved for backward, but not the result of an operation that autograd recorded.
    SavedLeaf,
    /// Saved for backward.
    Saved,
}

/// An observation: the tensor's memory is allocated at this time, and has this role.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tag {
    pub(crate) time: i64,
    pub(crate) address: u64,
    /// The module of the parameter, gradient or state. Unused for other roles.
    pub(crate) owner: ModuleId,
    pub(crate) role: Role,
}

/// The phase of a thread. The recorder has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// None of the other three.
    Other,
    Forward,
    Backward,
    Optimizer,
}

/// From this time on, a thread is in this module and phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch {
    pub(crate) time: i64,
    pub(crate) thread: ThreadId,
    pub(crate) module: ModuleId,
    pub(crate) phase: Phase,
    /// Whether PyTorch's events name the thread.
    pub(crate) is_marked: bool,
}

/// A thread in a phase.
#[derive(Debug, Clone, Copy)]
struct Busy {
    thread: ThreadId,
    is_marked: bool,
}

/// A role that holds for many steps: repeated observations of the same address are stored once.
#[derive(Debug, Clone, Copy)]
struct Steady {
    role: Role,
    owner: ModuleId,
    first: i64,
    last: i64,
}

/// Whether PyTorch's events name a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marking {
    Marked,
    Unmarked,
    /// The events do not name it yet, and another thread is busy, too.
    Wanted,
}

/// The most recent tags and switches, and all steady roles.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Gets all notes; nothing is kept here then.
    recorder: Option<Recorder>,
    capacity: usize,
    tags: VecDeque<Tag>,
    switches: VecDeque<Switch>,
    steady: BTreeMap<u64, Steady>,
    busy: Vec<Busy>,
    /// The total number of switches.
    pub(crate) places: u64,
    /// Tags or switches before this time may be missing.
    pub(crate) complete_since: i64,
}

impl Log {
    /// A log of at most `capacity` tags and `capacity` switches, which a recorder gets instead.
    pub(crate) fn new(capacity: usize, recorder: Option<Recorder>) -> Self {
        Self { recorder, capacity: capacity.max(1), complete_since: i64::MIN, ..Self::default() }
    }

    /// Passes the paths of modules to the recorder.
    pub(crate) fn name(&self, modules: impl IntoIterator<Item = (ModuleId, String)>) {
        if let Some(recorder) = &self.recorder {
            modules.into_iter().for_each(|(module, path)| recorder.module(module.number(), &path));
        }
    }

    /// Whether a recorder gets the notes.
    pub(crate) fn has_recorder(&self) -> bool {
        self.recorder.is_some()
    }

    pub(crate) fn tag(&mut self, time: i64, address: u64, role: Role, owner: ModuleId) {
        if let Some(recorder) = &self.recorder {
            recorder.role(address, role as u8, owner.number());
            return;
        }
        if self.tags.len() >= self.capacity
            && let Some(dropped) = self.tags.pop_front()
        {
            self.complete_since = self.complete_since.max(dropped.time);
        }
        self.tags.push_back(Tag { time, address, owner, role });
    }

    /// Records a parameter, a buffer or an optimizer state.
    pub(crate) fn tag_steady(&mut self, time: i64, address: u64, role: Role, owner: ModuleId) {
        if self.recorder.is_some() {
            self.tag(time, address, role, owner);
            return;
        }
        // Bounds the memory for addresses that are no longer used.
        if self.steady.len() >= self.capacity && !self.steady.contains_key(&address) {
            self.steady.clear();
        }
        match self.steady.get_mut(&address) {
            Some(known) if known.role == role && known.owner == owner => known.last = time,
            known => {
                let before = known.map(|known| *known);
                if let Some(before) = before {
                    self.tag(before.first, address, before.role, before.owner);
                    self.tag(before.last, address, before.role, before.owner);
                }
                self.steady.insert(address, Steady { role, owner, first: time, last: time });
            }
        }
    }

    /// Records that a thread entered a module and phase. Returns how its events are distinguished from those of other threads.
    pub(crate) fn switch(&mut self, thread: ThreadId, module: ModuleId, phase: Phase) -> Marking {
        if let Some(recorder) = &self.recorder {
            // Its events have their threads.
            recorder.place(thread.number(), module.number(), phase as u8);
            return Marking::Unmarked;
        }
        let known = self.busy.iter().position(|busy| busy.thread == thread);
        let marking = match known.and_then(|index| self.busy.get(index)) {
            Some(busy) if busy.is_marked => Marking::Marked,
            Some(_) => Marking::Unmarked,
            None if phase == Phase::Other || self.busy.is_empty() => Marking::Unmarked,
            None => Marking::Wanted,
        };
        match known {
            Some(index) if phase == Phase::Other => drop(self.busy.swap_remove(index)),
            None if phase != Phase::Other => self.busy.push(Busy { thread, is_marked: false }),
            _ => {}
        }
        if self.switches.len() >= self.capacity
            && let Some(dropped) = self.switches.pop_front()
        {
            self.complete_since = self.complete_since.max(dropped.time);
        }
        self.places += 1;
        let is_marked = marking == Marking::Marked;
        self.switches.push_back(Switch { time: clock::now(), thread, module, phase, is_marked });
        if phase == Phase::Other { Marking::Unmarked } else { marking }
    }

    /// Records that a thread's events name it since its last switch.
    pub(crate) fn mark(&mut self, thread: ThreadId) {
        if let Some(busy) = self.busy.iter_mut().find(|busy| busy.thread == thread) {
            busy.is_marked = true;
        }
        if let Some(switch) = self.switches.iter_mut().rev().find(|switch| switch.thread == thread) {
            switch.is_marked = true;
        }
    }

    /// All tags in time order.
    pub(crate) fn tags(&self) -> Vec<Tag> {
        let mut tags: Vec<Tag> = self.tags.iter().copied().collect();
        for (&address, steady) in &self.steady {
            for time in [steady.first, steady.last] {
                tags.push(Tag { time, address, owner: steady.owner, role: steady.role });
            }
        }
        tags.sort_by_key(|tag| tag.time);
        tags
    }

    /// All switches in time order. Threads read the clock before they take the log's lock, so the stored order may differ.
    pub(crate) fn switches(&self) -> Vec<Switch> {
        let mut switches: Vec<Switch> = self.switches.iter().copied().collect();
        switches.sort_by_key(|switch| switch.time);
        switches
    }
}
