//! The stacks of events: their sites, and the names of these.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use hashbrown::{HashMap, HashSet};
use vramscope_trace::formats::log::{LogFrame, LogSite, LogStack};

use super::ProcessLog;
use crate::record::PYTHON;
use crate::symbols::{Modules, Names, NativeFrame};

/// The stacks of a process.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    /// Positions in Python code.
    pub(super) frames: HashMap<u64, OwnedFrame>,
    /// Positions in the Python package's own code, which stacks leave out.
    pub(super) hooks: HashSet<u64>,
    /// The sites of stacks.
    pub(super) stacks: HashMap<u64, Box<[u64]>>,
    /// The program's file, whose name in memory may be relative.
    pub(super) program: PathBuf,
    pub(super) modules: Modules,
    pub(super) names: Arc<Mutex<Names>>,
}

/// A position in Python code.
#[derive(Debug)]
pub(super) struct OwnedFrame {
    pub(super) name: Box<str>,
    pub(super) path: Box<str>,
    pub(super) line: u32,
}

impl ProcessLog {
    pub(super) fn stack(&mut self, id: u64, sites: &[u64]) {
        let (modules, hooks) = (&self.stacks.modules, &self.stacks.hooks);
        let is_shown = |&&site: &&u64| {
            if site & PYTHON != 0 { !hooks.contains(&site) } else { !modules.is_recorders(site) }
        };
        self.stacks.stacks.entry(id).or_insert_with(|| sites.iter().filter(is_shown).copied().collect());
    }

    /// The number of a stack in the log, which gets the stack if it is new.
    pub(super) fn log_stack(&mut self, id: u64) -> Option<LogStack> {
        if let Some(&stack) = self.written.stacks.get(&id) {
            return Some(stack);
        }
        let sites = self.stacks.stacks.get(&id)?.iter().map(|&site| {
            *self.written.sites.entry(site).or_insert_with(|| {
                if site & PYTHON == 0 {
                    let number = self.log.site(log_frame(&self.stacks.modules.place(site)));
                    self.written.unnamed.push((number, site));
                    return number;
                }
                let frame = self.stacks.frames.get(&site);
                let frame = frame.map(|f| LogFrame { name: &f.name, filename: &f.path, line: f.line });
                self.log.site(frame.unwrap_or(LogFrame { name: "??", filename: "??", line: 0 }))
            })
        });
        let sites: Vec<LogSite> = sites.collect();
        let stack = self.log.stack(&sites);
        self.written.stacks.insert(id, stack);
        Some(stack)
    }
}

pub(super) fn log_frame(frame: &NativeFrame) -> LogFrame<'_> {
    LogFrame { name: &frame.name, filename: &frame.file, line: frame.line }
}
