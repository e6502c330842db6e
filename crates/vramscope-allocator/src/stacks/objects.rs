//! The ELF objects loaded into this process, with their unwind tables.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code, reason = "reads memory that the loader has mapped")]

use std::ffi::{c_int, c_void};
use std::ops::Range;

use framehop::{ExplicitModuleSectionInfo, Module};

/// A copy of an object's unwind tables.
pub(super) type Tables = Module<Vec<u8>>;

/// The address ranges of the loaded objects, and the loader's counts of loads and unloads at the time of reading.
pub(super) struct Objects {
    ranges: Vec<Range<u64>>,
    loads: u64,
    unloads: u64,
}

impl Objects {
    /// Whether `address` lies in a loaded object.
    pub(super) fn contains(&self, address: u64) -> bool {
        let after = self.ranges.partition_point(|range| range.start <= address);
        after > 0 && self.ranges[after - 1].contains(&address)
    }

    /// Whether objects were loaded or unloaded after this was read.
    pub(super) fn changed(&self) -> bool {
        let mut now = (0, 0);
        each(&mut |info| {
            now = (info.dlpi_adds, info.dlpi_subs);
            false
        });
        now != (self.loads, self.unloads)
    }
}

/// Reads the list of loaded objects and copies their unwind tables.
pub(super) fn load() -> (Objects, Vec<Tables>) {
    let mut objects = Objects { ranges: Vec::new(), loads: 0, unloads: 0 };
    let mut modules = Vec::new();
    each(&mut |info| {
        (objects.loads, objects.unloads) = (info.dlpi_adds, info.dlpi_subs);
        if let Some((range, module)) = module(info) {
            objects.ranges.push(range);
            modules.extend(module);
        }
        true
    });
    objects.ranges.sort_by_key(|range| range.start);
    (objects, modules)
}

/// Returns the address range of the calling thread's stack; empty if the system does not report it.
pub(super) fn stack() -> Range<u64> {
    // SAFETY: the attributes are initialized before they are read, and destroyed once; the thread is this thread.
    unsafe {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        let mut attributes = attributes.assume_init();
        let (mut start, mut size) = (std::ptr::null_mut::<c_void>(), 0);
        let got = libc::pthread_attr_getstack(&attributes, &mut start, &mut size);
        libc::pthread_attr_destroy(&mut attributes);
        if got == 0 { start as u64..start as u64 + size as u64 } else { 0..0 }
    }
}

/// Visits a loaded object, and returns whether to go on.
type Visit<'v> = &'v mut dyn FnMut(&libc::dl_phdr_info) -> bool;

/// Calls `visit` for each loaded object until it returns false.
fn each(mut visit: Visit<'_>) {
    unsafe extern "C" fn callback(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and `data` is the reference passed below.
        let (info, visit) = unsafe { (&*info, &mut *data.cast::<Visit<'_>>()) };
        c_int::from(!visit(info))
    }

    // SAFETY: the callback and the target of `data` outlive the call. The callback does not unwind, because the visitors only read tables
    // within bounds and push to vectors.
    unsafe {
        libc::dl_iterate_phdr(Some(callback), std::ptr::from_mut(&mut visit).cast());
    }
}

/// Returns the address range of an object, and its unwind tables if it has any.
fn module(info: &libc::dl_phdr_info) -> Option<(Range<u64>, Option<Tables>)> {
    if info.dlpi_phdr.is_null() {
        return None;
    }
    // SAFETY: the loader keeps `dlpi_phnum` program headers at `dlpi_phdr` while the object is loaded, and does not unload it while
    // `dl_iterate_phdr` runs.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let base = info.dlpi_addr;
    let range_of = |h: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(h.p_vaddr);
        start..start.wrapping_add(h.p_memsz)
    };
    let loaded = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD).map(range_of);
    let whole = loaded().map(|r| r.start).min()?..loaded().map(|r| r.end).max()?;

    let tables = headers.iter().find(|h| h.p_type == libc::PT_GNU_EH_FRAME).and_then(|header| {
        let index = range_of(header);
        let readable = loaded().find(|r| r.start <= index.start && index.end <= r.end)?;
        let index_bytes = copy(&readable, index.clone())?;
        // The index starts with its version and three encodings, then the address of the frames. Linkers write that address in four bytes,
        // relative to its own position.
        let [1, 0x1b, _, _, offset @ ..] = index_bytes.get(..8)? else { return None };
        let offset = i32::from_le_bytes(offset.try_into().ok()?);
        let frames = (index.start + 4).checked_add_signed(offset.into())?;
        let readable = loaded().find(|r| r.contains(&frames))?;
        // The frames end where their index begins, or elsewhere in the same segment.
        let end = if index.start > frames { index.start.min(readable.end) } else { readable.end };
        let frames = frames..end;
        let frame_bytes = copy(&readable, frames.clone())?;
        let relative = |r: Range<u64>| r.start.wrapping_sub(base)..r.end.wrapping_sub(base);
        Some(Module::new(
            String::new(),
            whole.clone(),
            base,
            ExplicitModuleSectionInfo {
                base_svma: 0,
                eh_frame_svma: Some(relative(frames)),
                eh_frame: Some(frame_bytes),
                eh_frame_hdr_svma: Some(relative(index)),
                eh_frame_hdr: Some(index_bytes),
                ..ExplicitModuleSectionInfo::default()
            },
        ))
    });
    Some((whole, tables))
}

/// Copies the bytes of `part` of a loaded segment.
fn copy(segment: &Range<u64>, part: Range<u64>) -> Option<Vec<u8>> {
    if part.start < segment.start || part.end > segment.end || part.start > part.end {
        return None;
    }
    let start = std::ptr::with_exposed_provenance::<u8>(part.start as usize);
    // SAFETY: `part` lies within a segment that the loader has mapped readable (language runtimes read unwind tables in the same way) and
    // keeps mapped while `dl_iterate_phdr` runs.
    Some(unsafe { std::slice::from_raw_parts(start, (part.end - part.start) as usize) }.to_vec())
}
