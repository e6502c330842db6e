//! The loaded objects that stacks pass through.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use vramscope_bare::{objects, sys};

use super::rules::Rule;
use super::tables::Tables;
use crate::process::{Inside, ring_number};
use crate::record::{MODULE, text_words};

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
    let mut found = None;
    let mut name = [0; MOST_PATH];
    objects::each(|object| {
        let is_it = object.contains(address);
        if is_it {
            let Range { start, end } = object.bounds();
            let tables = object.frame_tables().map(|(header, end)| Tables { header, end });
            found = Some(Object { start, end, base: object.base, tables });
            let path = object.name.to_bytes();
            let length = path.len().min(MOST_PATH - 1);
            name[..length].copy_from_slice(&path[..length]);
        }
        !is_it
    });
    let object = found?;
    let name = CStr::from_bytes_until_nul(&name).ok()?;
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

/// Writes an object's record.
fn write(inside: &Inside, object: Object, address: usize) {
    let mut body = [0; 4 + MOST_PATH / 8];
    let (bytes, words) = text_words(sys::object_path(address).to_bytes(), &mut body[4..]);
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
