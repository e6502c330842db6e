//! Symbols of addresses, resolved on demand and cached.

use std::ffi::c_void;
use std::sync::Arc;

use hashbrown::HashMap;

use super::table_memory::counted;
use super::{Site, SourceFrame, StackKey, StackStore};

/// The resolved frames of sites.
#[derive(Default)]
pub(crate) struct Symbols {
    frames: HashMap<Site, Arc<[SourceFrame]>>,
}

impl Symbols {
    /// Returns the frames of one site, innermost first; inlined calls give several frames. Never empty.
    pub(crate) fn frames(&mut self, store: &StackStore, site: Site) -> Arc<[SourceFrame]> {
        let frames = self.frames.entry(site).or_insert_with(|| match store.meaning(site) {
            Ok(frame) => [frame].into(),
            Err(address) => resolve(address).into(),
        });
        Arc::clone(frames)
    }

    /// Returns the frames of a stack, innermost first, starting at the caller of the profiler.
    pub(crate) fn stack(&mut self, store: &StackStore, stack: StackKey) -> Vec<SourceFrame> {
        let (mut out, mut inside) = (Vec::new(), true);
        for site in store.sites(stack) {
            out.extend_from_slice(outside(&self.frames(store, site), &mut inside));
        }
        out
    }
}

/// Returns the frames of one site without frames of the profiler. Call it for the sites of a stack, innermost first, with the same
/// `inside`: initially true, and false after the first frame outside the profiler. Standard library frames between the profiler's frames
/// are left out too.
pub(crate) fn outside<'f>(frames: &'f [SourceFrame], inside: &mut bool) -> &'f [SourceFrame] {
    let skipped = frames.iter().take_while(|f| *inside && (f.is_own() || f.is_std())).count();
    *inside = *inside && skipped == frames.len();
    &frames[skipped..]
}

/// Resolves the frames at an address, innermost first. Without symbols, returns one frame named after the address.
fn resolve(address: u64) -> Vec<SourceFrame> {
    let mut frames = Vec::new();
    // The address is a return address; `backtrace` resolves the byte before it.
    let pointer = std::ptr::without_provenance_mut::<c_void>(address as usize);
    counted(|| {
        backtrace::resolve(pointer, |symbol| {
            let name = symbol.name().map_or_else(|| "??".to_owned(), |name| format!("{name:#}"));
            let filename = symbol.filename().map_or_else(|| "??".into(), |path| path.to_string_lossy());
            frames.push(SourceFrame::new(&filename, symbol.lineno().unwrap_or(0), &name));
        });
    });
    if frames.is_empty() {
        frames.push(SourceFrame::new("??", 0, &format!("{address:#x}")));
    }
    frames
}

/// The crates whose frames are between a program's request and the device.
const OWN_CRATES: [&str; 4] =
    ["vramscope_allocator", "vramscope_basics", "vramscope_engine", "vramscope_profiler"];

impl SourceFrame {
    /// Whether this frame belongs to a vramscope library, judged by its function name or file.
    pub(crate) fn is_own(&self) -> bool {
        let in_file = || {
            let before_src = self.filename.rsplit_once("/src/").map_or("", |(before, _)| before);
            let folder = before_src.rsplit('/').next().unwrap_or_default();
            let folder = folder.replace('-', "_");
            OWN_CRATES.iter().any(|own| folder.starts_with(own))
        };
        let name = self.name.trim_start_matches('<');
        let is_named =
            OWN_CRATES.iter().any(|own| name.strip_prefix(own).is_some_and(|rest| rest.starts_with("::")));
        is_named || in_file()
    }

    /// Whether this frame belongs to the standard library, or to the code that starts a program or a thread.
    pub(crate) fn is_runtime(&self) -> bool {
        let starts = ["_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "__clone"];
        self.is_std()
            || starts.iter().any(|start| self.name.starts_with(start))
            || self.name.starts_with("__rust")
            || self.name.starts_with("__rustc")
            || (&*self.filename == "??" && matches!(&*self.name, "main" | "clone"))
            || &*self.name == "clone3"
    }

    fn is_std(&self) -> bool {
        let name = self.name.trim_start_matches('<');
        let named = || ["core::", "std::", "alloc::"].iter().any(|prefix| name.starts_with(prefix));
        self.filename.starts_with("/rustc/") || (&*self.filename == "??" && named())
    }
}
