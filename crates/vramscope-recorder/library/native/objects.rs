//! The loaded objects that stacks pass through.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::rules::Rule;
use super::tables::Tables;
use crate::process::{Inside, ring_number};
use crate::record::{MODULE, text_words};
use crate::sys;

/// An object. It stays loaded, because its tables are read later.
#[derive(Debug, Clone, Copy)]
struct Object {
    /// Address of its first byte, and its end.
    start: usize,
    end: usize,
    /// Difference between addresses in memory and in its file.
    base: usize,
    tables: Option<Tables>,
}

/// Maximum number of objects. Stacks end in further ones.
const MOST: usize = 1 << 12;

/// The objects found so far. The words of each are start, end, base, and both addresses of its tables.
static OBJECTS: [[AtomicUsize; 5]; MOST] = [const { [const { AtomicUsize::new(0) }; 5] }; MOST];
/// Number of taken places. An object whose start is 0 is being added.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// For each object, one more than the number of the ring that has its record.
static WRITTEN: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

/// Longest path, in bytes. Longer ones are cut.
const MOST_PATH: usize = 4096;

/// The rule for an address.
#[cold]
#[inline(never)]
pub(super) fn rule(inside: &Inside, address: u64) -> Rule {
    let address = address as usize;
    let Some((number, object)) = known(address).or_else(|| add(address)) else { return Rule::END };
    let ring = ring_number() as usize + 1;
    if WRITTEN[number].swap(ring, Ordering::Relaxed) != ring {
        write(inside, object, address);
    }
    object.tables.map_or(Rule::END, |tables| tables.rule(address))
}

fn known(address: usize) -> Option<(usize, Object)> {
    let count = COUNT.load(Ordering::Acquire).min(MOST);
    OBJECTS[..count].iter().enumerate().find_map(|(number, words)| {
        // The start is written last.
        let start = words[0].load(Ordering::Acquire);
        let [_, end, base, header, tables_end] = words.each_ref().map(|word| word.load(Ordering::Relaxed));
        let tables = (header != 0).then_some(Tables { header, end: tables_end });
        (start != 0 && (start..end).contains(&address))
            .then_some((number, Object { start, end, base, tables }))
    })
}

/// Finds the object of an address among all loaded objects, and keeps it loaded.
fn add(address: usize) -> Option<(usize, Object)> {
    let mut search = Search { address, found: None, name: [0; MOST_PATH] };
    // SAFETY: the callback only reads what it is given, and the search outlives the call.
    unsafe { sys::dl_iterate_phdr(visit, (&raw mut search).cast()) };
    let object = search.found?;
    let name = CStr::from_bytes_until_nul(&search.name).ok()?;
    // The program itself has no name, and the kernel's part has no file: neither can be unloaded.
    if name.to_bytes().contains(&b'/') {
        // SAFETY: the name is zero-terminated. Nothing is loaded; the reference is never released.
        let kept = unsafe { sys::dlopen(name.as_ptr(), sys::RTLD_LAZY | sys::RTLD_NOLOAD) };
        if kept.is_null() {
            return None;
        }
    }
    let number = COUNT.fetch_add(1, Ordering::AcqRel);
    let words = OBJECTS.get(number)?;
    let (header, tables_end) = object.tables.map_or((0, 0), |tables| (tables.header, tables.end));
    let values = [object.end, object.base, header, tables_end];
    words[1..].iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    words[0].store(object.start, Ordering::Release);
    Some((number, object))
}

struct Search {
    address: usize,
    found: Option<Object>,
    name: [u8; MOST_PATH],
}

/// `PT_LOAD` and `PT_GNU_EH_FRAME`.
const LOAD: u32 = 1;
const EH_FRAME: u32 = 0x6474_e550;

extern "C" fn visit(info: *const sys::ObjectInfo, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid object and the pointer that `add` gave it. The headers and the name live with the object, which
    // cannot be unloaded during this call.
    let (info, search, headers) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.headers, info.header_count.into());
        (info, &mut *data.cast::<Search>(), headers)
    };
    let range = |header: &sys::ProgramHeader| {
        let start = info.base.wrapping_add(header.address);
        start..start.saturating_add(header.memory_size)
    };
    let loads = || headers.iter().filter(|header| header.kind == LOAD).map(range);
    if !loads().any(|range| range.contains(&search.address)) {
        return 0;
    }
    let header = headers.iter().find(|header| header.kind == EH_FRAME).map(|header| range(header).start);
    let tables = header.and_then(|header| {
        let load = loads().find(|range| range.contains(&header))?;
        Some(Tables { header, end: load.end })
    });
    let start = loads().map(|range| range.start).min().unwrap_or(0);
    let end = loads().map(|range| range.end).max().unwrap_or(0);
    search.found = Some(Object { start, end, base: info.base, tables });
    if !info.name.is_null() {
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(info.name) }.to_bytes();
        let length = name.len().min(MOST_PATH - 1);
        search.name[..length].copy_from_slice(&name[..length]);
    }
    1
}

/// Writes an object's record.
fn write(inside: &Inside, object: Object, address: usize) {
    let mut body = [0; 4 + MOST_PATH / 8];
    let (bytes, words) = text_words(sys::object_path(address), &mut body[4..]);
    body[..4].copy_from_slice(&[object.start as u64, object.end as u64, object.base as u64, bytes as u64]);
    inside.write(MODULE, &body[..4 + words]);
}

/// The bounds of the calling thread's stack.
pub(super) fn stack() -> Option<(u64, u64)> {
    let mut attributes = sys::ThreadAttributes([0; 64]);
    let (mut start, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are those of the calling thread, and are destroyed after their last use.
    let is_known = unsafe {
        sys::pthread_getattr_np(sys::pthread_self(), &raw mut attributes) == 0 && {
            let known = sys::pthread_attr_getstack(&raw const attributes, &raw mut start, &raw mut size) == 0;
            sys::pthread_attr_destroy(&raw mut attributes);
            known
        }
    };
    is_known.then(|| (start as u64, start as u64 + size as u64))
}
