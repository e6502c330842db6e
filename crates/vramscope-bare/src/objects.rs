//! The loaded objects, and their words that have addresses of functions.
//!
//! An object calls a function of another one through a word that the loader sets, by a relocation with the function's name.
#![allow(unsafe_code, reason = "functions of C, and the memory of loaded objects")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::{self, ObjectInfo, ProgramHeader};

/// Kinds of program headers and of their flags.
const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const EH_FRAME: u32 = 0x6474_e550;
const GNU_RELRO: u32 = 0x6474_e552;
const WRITABLE: u32 = 2;

/// Entries of the dynamic section.
const PLT_SIZE: usize = 2;
const TEXTS: usize = 5;
const SYMBOLS: usize = 6;
const RELOCATIONS: usize = 7;
const RELOCATIONS_SIZE: usize = 8;
const PLT_RELOCATIONS: usize = 23;

/// Relocations by name: an address in data, in the global offset table, and of a procedure linkage table.
#[cfg(target_arch = "x86_64")]
const BY_NAME: [u32; 3] = [1, 6, 7];
#[cfg(target_arch = "aarch64")]
const BY_NAME: [u32; 3] = [257, 1025, 1026];

/// `Elf64_Dyn`.
#[repr(C)]
struct DynamicEntry {
    tag: usize,
    value: usize,
}

/// A relocation with an addend.
#[repr(C)]
struct Relocation {
    offset: usize,
    kind: u32,
    symbol: u32,
    addend: usize,
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: u64,
}

/// `STB_WEAK`.
const WEAK: u8 = 2;

/// A loaded object, while the loader cannot unload it.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a> {
    /// Difference between addresses in memory and in its file.
    pub base: usize,
    headers: &'a [ProgramHeader],
    /// Path of its file; empty for the program itself.
    pub name: &'a CStr,
}

/// A word that has the address of a function by its name.
#[derive(Debug)]
pub struct Slot<'a> {
    /// The function's name.
    pub name: &'a CStr,
    /// The word.
    pub word: &'a AtomicUsize,
    /// The function's address if the object itself has it.
    pub own: Option<usize>,
    /// Whether the function may be missing.
    pub is_weak: bool,
    /// Whether it is a variable with the address, and not a word for calls.
    pub is_variable: bool,
}

/// Calls `visit` with each loaded object, until it returns false. Meanwhile, the loader neither adds nor removes objects. `visit` must not
/// call the loader.
pub fn each(mut visit: impl FnMut(Object<'_>) -> bool) {
    visit_all(&mut |_, object| visit(object));
}

/// Number of objects that were loaded so far, and that were unloaded.
pub fn counts() -> (u64, u64) {
    let mut counts = (0, 0);
    visit_all(&mut |info, _| {
        counts = (info.loads, info.unloads);
        false
    });
    counts
}

type Visit<'a> = &'a mut dyn FnMut(&ObjectInfo, Object<'_>) -> bool;

fn visit_all(mut visit: Visit<'_>) {
    extern "C" fn each(info: *const ObjectInfo, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid object, whose headers and name live as long as this call, and the pointer from below.
        let goes_on = unsafe {
            let (info, visit) = (&*info, &mut *data.cast::<Visit<'_>>());
            let name = if info.name.is_null() { c"" } else { CStr::from_ptr(info.name) };
            info.headers.is_null() || {
                let headers = std::slice::from_raw_parts(info.headers, info.header_count.into());
                visit(info, Object { base: info.base, headers, name })
            }
        };
        c_int::from(!goes_on)
    }
    // SAFETY: the callback gets the pointer to `visit`, which outlives the call.
    unsafe { sys::dl_iterate_phdr(each, (&raw mut visit).cast()) };
}

impl<'a> Object<'a> {
    /// Name of its file, without folders.
    pub fn file_name(&self) -> &'a [u8] {
        self.name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default()
    }

    /// Distinguishes the object from all others that are loaded.
    pub fn id(&self) -> usize {
        self.headers.as_ptr() as usize
    }

    fn range(&self, header: &ProgramHeader) -> Range<usize> {
        let start = self.base.wrapping_add(header.address);
        start..start.saturating_add(header.memory_size)
    }

    /// The address of the tables of frames (`.eh_frame_hdr`), and the end of the loaded part that has them.
    pub fn frame_tables(self) -> Option<(usize, usize)> {
        let start = self.parts(EH_FRAME).next()?.1.start;
        let (_, load) = self.parts(LOAD).find(|(_, range)| range.contains(&start))?;
        Some((start, load.end))
    }

    /// The addresses from its first loaded byte to its last.
    pub fn bounds(self) -> Range<usize> {
        let starts = self.parts(LOAD).map(|(_, range)| range.start);
        starts.min().unwrap_or(0)..self.parts(LOAD).map(|(_, range)| range.end).max().unwrap_or(0)
    }

    fn parts(self, kind: u32) -> impl Iterator<Item = (&'a ProgramHeader, Range<usize>)> {
        let of_kind = self.headers.iter().filter(move |header| header.kind == kind);
        of_kind.map(move |header| (header, self.range(header)))
    }

    /// Whether a loaded part of it contains an address.
    pub fn contains(self, address: usize) -> bool {
        self.parts(LOAD).any(|(_, range)| range.contains(&address))
    }

    /// Number of bytes between its start and its end.
    pub fn extent(self) -> usize {
        self.parts(LOAD)
            .map(|(header, _)| header.address.saturating_add(header.memory_size))
            .max()
            .unwrap_or(0)
    }

    /// The part that the loader makes read-only after it has set all words.
    pub fn sealed(self) -> Range<usize> {
        let page = page();
        let part = self.parts(GNU_RELRO).next();
        part.map_or(0..0, |(_, range)| range.start / page * page..range.end / page * page)
    }

    /// Parts that stay writable.
    pub fn variables(self) -> impl Iterator<Item = Range<usize>> {
        let sealed = self.sealed();
        self.parts(LOAD).filter(|(header, _)| header.flags & WRITABLE != 0).flat_map(move |(_, range)| {
            match sealed.is_empty() || !range.contains(&sealed.start) {
                true => [range, 0..0],
                false => [range.start..sealed.start, sealed.end.min(range.end)..range.end],
            }
        })
    }

    /// Calls `visit` with each word that has an address by a name.
    pub fn slots(self, mut visit: impl FnMut(Slot<'_>)) {
        let Some((_, dynamic)) = self.parts(DYNAMIC).next() else { return };
        if !self.contains(dynamic.start) {
            return;
        }
        let mut found = [0; PLT_RELOCATIONS + 1];
        let entries = dynamic.len() / size_of::<DynamicEntry>();
        // SAFETY: the header has the place and the size of the dynamic section, which is loaded with the object.
        let entries = unsafe { std::slice::from_raw_parts(dynamic.start as *const DynamicEntry, entries) };
        for entry in entries.iter().take_while(|entry| entry.tag != 0) {
            if let Some(place) = found.get_mut(entry.tag) {
                *place = entry.value;
            }
        }
        // The loader replaces offsets by addresses, unless the section is read-only.
        let address = |tag: usize| match found[tag] {
            0 => 0,
            offset if offset < self.base => self.base + offset,
            address => address,
        };
        let (symbols, texts) = (address(SYMBOLS), address(TEXTS));
        if !self.contains(symbols) || !self.contains(texts) {
            return;
        }
        for (start, bytes) in
            [(address(RELOCATIONS), found[RELOCATIONS_SIZE]), (address(PLT_RELOCATIONS), found[PLT_SIZE])]
        {
            if start == 0 || !self.contains(start) {
                continue;
            }
            // SAFETY: the dynamic section has the place and the size of the table, which is loaded with the object.
            let table = unsafe {
                std::slice::from_raw_parts(start as *const Relocation, bytes / size_of::<Relocation>())
            };
            for relocation in table {
                let is_by_name = BY_NAME.contains(&relocation.kind) && relocation.symbol != 0;
                let place = self.base.wrapping_add(relocation.offset);
                if !is_by_name || relocation.addend != 0 && relocation.kind == BY_NAME[0] || place % 8 != 0 {
                    continue;
                }
                // SAFETY: a relocation has the number of a symbol in the table, the symbol the place of its name, and the relocation that
                // of a word of the object. All of them are loaded with the object, and the word is only used by atomic operations.
                let (symbol, name, word) = unsafe {
                    let symbol = &*(symbols as *const Symbol).add(relocation.symbol as usize);
                    let name = CStr::from_ptr((texts as *const c_char).add(symbol.name as usize));
                    (symbol, name, &*(place as *const AtomicUsize))
                };
                let own = (symbol.section != 0).then(|| self.base.wrapping_add(symbol.value));
                visit(Slot {
                    name,
                    word,
                    own,
                    is_weak: symbol.info >> 4 == WEAK,
                    is_variable: relocation.kind == BY_NAME[0],
                });
            }
        }
    }
}

/// Size of a page in bytes.
fn page() -> usize {
    // SAFETY: reads a number.
    usize::try_from(unsafe { sys::sysconf(sys::SC_PAGESIZE) }).unwrap_or(4096)
}

/// The word at an address in [`Object::variables`].
///
/// # Safety
/// The address is aligned and mapped.
pub unsafe fn word<'a>(address: usize) -> &'a AtomicUsize {
    // SAFETY: the caller's promise; the word is only used by atomic operations.
    unsafe { &*(address as *const AtomicUsize) }
}

/// Changes a word if it still has the value `old`. `is_sealed` says that its page is read-only.
pub fn change(word: &AtomicUsize, old: usize, new: usize, is_sealed: bool) -> bool {
    let exchange = || word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if !is_sealed {
        return exchange();
    }
    let page = page();
    let start = (std::ptr::from_ref(word) as usize / page * page) as *mut c_void;
    // SAFETY: the page belongs to a loaded object, and is read-only before and after.
    unsafe {
        if sys::mprotect(start, page, sys::PROT_READ | sys::PROT_WRITE) != 0 {
            return false;
        }
        let is_changed = exchange();
        sys::mprotect(start, page, sys::PROT_READ);
        is_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static VARIABLE: AtomicUsize = AtomicUsize::new(7);

    #[test]
    fn one_object_has_a_variable_and_slots_have_names() {
        let address = &raw const VARIABLE as usize;
        let (mut objects, mut names) = (0, 0);
        each(|object| {
            object.slots(|slot| names += usize::from(slot.name == c"dl_iterate_phdr"));
            objects += usize::from(object.variables().any(|range| range.contains(&address)));
            true
        });
        assert!(objects == 1 && names > 0, "{objects} objects, {names} slots");
    }
}
