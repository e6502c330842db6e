//! The names of native frames, from the files of the objects that a process has loaded.

use std::path::{Path, PathBuf};

use addr2line::{Loader, demangle_auto};
use hashbrown::HashMap;

/// The file name of the library of recorded processes.
pub(crate) const LIBRARY_NAME: &str = "libvramscope_recorder.so";

/// A line of native code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NativeFrame {
    pub(crate) name: String,
    pub(crate) file: String,
    /// From 1; 0 if unknown.
    pub(crate) line: u32,
}

/// A loaded object.
#[derive(Debug, Clone)]
struct Module {
    start: u64,
    end: u64,
    base: u64,
    path: PathBuf,
}

/// The objects of a process.
#[derive(Debug, Default, Clone)]
pub(crate) struct Modules(Vec<Module>);

impl Modules {
    /// Adds an object: its first address, its end, and the difference between its addresses in memory and in its file.
    pub(crate) fn add(&mut self, start: u64, end: u64, base: u64, path: &Path) {
        let is_same = |m: &Module| (m.start, m.end, m.base) == (start, end, base) && m.path == path;
        // A later object may be at the place of an earlier one.
        if !self.module(start).is_some_and(is_same) {
            self.0.push(Module { start, end, base, path: path.to_owned() });
        }
    }

    fn module(&self, address: u64) -> Option<&Module> {
        self.0.iter().rev().find(|module| (module.start..module.end).contains(&address))
    }

    /// Whether a return address lies in the library of the recorder.
    pub(crate) fn is_recorders(&self, address: u64) -> bool {
        self.module(address).is_some_and(|module| module.path.ends_with(LIBRARY_NAME))
    }

    /// The frame of a return address without symbols: the object and the offset in its file.
    pub(crate) fn place(&self, address: u64) -> NativeFrame {
        let (name, file) = match self.module(address) {
            Some(module) => {
                let file = module.path.to_string_lossy().into_owned();
                let object = file.rsplit('/').next().unwrap_or_default();
                (format!("{object}+{:#x}", address.wrapping_sub(module.base)), file)
            }
            None => (format!("{address:#x}"), "??".to_owned()),
        };
        NativeFrame { name, file, line: 0 }
    }
}

/// The names of return addresses.
#[derive(Default)]
pub(crate) struct Names {
    /// The opened files; `None` for those that cannot be read.
    files: HashMap<PathBuf, Option<Loader>>,
    found: HashMap<u64, Vec<NativeFrame>>,
}

impl Names {
    /// The frames of a return address, innermost first; several if calls were inlined. Empty if the object has no symbol for it.
    pub(crate) fn frames(&mut self, modules: &Modules, address: u64) -> &[NativeFrame] {
        if !self.found.contains_key(&address) {
            let frames = self.find(modules, address);
            self.found.insert(address, frames);
        }
        &self.found[&address]
    }

    fn find(&mut self, modules: &Modules, address: u64) -> Vec<NativeFrame> {
        let Some(module) = modules.module(address) else { return Vec::new() };
        let file = self.files.entry(module.path.clone()).or_insert_with(|| Loader::new(&module.path).ok());
        let Some(loader) = file else { return Vec::new() };
        // The call, not the instruction after it.
        let at = address.wrapping_sub(module.base).wrapping_sub(1);
        let object = module.path.to_string_lossy();
        let mut frames = Vec::new();
        if let Ok(mut found) = loader.find_frames(at) {
            while let Ok(Some(frame)) = found.next() {
                let Some(function) = frame.function else { continue };
                let name = function.demangle().map_or_else(|_| "??".to_owned(), |name| name.into_owned());
                let (file, line) = frame.location.map_or((None, None), |place| (place.file, place.line));
                let file = file.unwrap_or(&object).to_owned();
                frames.push(NativeFrame { name, file, line: line.unwrap_or(0) });
            }
        }
        if frames.is_empty()
            && let Some(symbol) = loader.find_symbol(at)
        {
            let name = demangle_auto(symbol.into(), None).into_owned();
            frames.push(NativeFrame { name, file: object.into_owned(), line: 0 });
        }
        frames
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Names").field("found", &self.found).finish_non_exhaustive()
    }
}
