//! The shared objects of this process, and which functions they are linked to.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;

use crate::machine::lock;
use crate::memory::space::PAGE;
use crate::sys::{self, ObjectInfo, ProgramHeader};

/// A loaded object.
pub(crate) struct Object {
    base: usize,
    name: String,
    /// Where its dynamic section is.
    dynamic: usize,
    /// Where its addresses of functions are read-only, and how many bytes: they were written before.
    read_only: (usize, usize),
}

/// An entry of a table of relocations, with its addend (elf.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// An entry of a table of symbols: `Elf64_Sym`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Kinds of relocations that hold the address of a function: of the table of addresses, and of calls (elf.h).
const ADDRESSES: [u32; 2] = if cfg!(target_arch = "aarch64") { [1025, 1026] } else { [6, 7] };

/// `PT_DYNAMIC` and `PT_GNU_RELRO`.
const DYNAMIC: u32 = 2;
const READ_ONLY: u32 = 0x6474_e552;

/// Entries of the dynamic section (elf.h): the tables of strings, of symbols, of relocations and of those for calls, and the
/// bytes of the last two.
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const RELOCATIONS: u64 = 7;
const RELOCATIONS_SIZE: u64 = 8;
const CALLS: u64 = 23;
const CALLS_SIZE: u64 = 2;

/// Which objects were seen: by where they are.
static SEEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Where the first object is loaded from whose file's name begins like this.
pub(crate) fn path_of(start: &str) -> Option<String> {
    all().into_iter().map(|object| object.name).find(|path| file_of(path).starts_with(start))
}

/// The name of a path's file.
fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn all() -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: the callback takes the list behind `data`.
    unsafe { sys::dl_iterate_phdr(collect, (&raw mut objects).cast()) };
    objects
}

/// Calls `look` with each object that was loaded since the last time.
pub(crate) fn each_new(mut look: impl FnMut(&Object)) {
    static LOADED: Mutex<u64> = Mutex::new(0);
    let mut loaded = lock(&LOADED);
    let now = how_many_loaded();
    if now == *loaded {
        return;
    }
    *loaded = now;
    let mut seen = lock(&SEEN);
    for object in all() {
        if !seen.contains(&object.base) {
            seen.push(object.base);
            look(&object);
        }
    }
}

/// How many objects were loaded since the program began.
fn how_many_loaded() -> u64 {
    extern "C" fn first(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader hands in its description of an object, and `data` is the number below.
        unsafe { data.cast::<u64>().write((*info).loaded) };
        1
    }
    let mut loaded = 0u64;
    // SAFETY: the callback writes the number behind `data`.
    unsafe { sys::dl_iterate_phdr(first, (&raw mut loaded).cast()) };
    loaded
}

extern "C" fn collect(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader hands in its description of an object, and `data` is the list of `all`.
    let (info, objects) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
    // SAFETY: the loader's description says where so many headers are.
    let headers = unsafe { std::slice::from_raw_parts(info.headers, info.header_count.into()) };
    let of = |kind: u32| headers.iter().find(|header: &&ProgramHeader| header.kind == kind);
    // SAFETY: a text that ends with a zero.
    let name = unsafe { CStr::from_ptr(info.name) }.to_string_lossy().into_owned();
    if let Some(dynamic) = of(DYNAMIC)
        && !name.contains("linux-vdso")
    {
        let at = |address: u64| info.base + address as usize;
        objects.push(Object {
            base: info.base,
            name,
            dynamic: at(dynamic.address),
            read_only: of(READ_ONLY)
                .map_or((0, 0), |header| (at(header.address), header.memory_size as usize)),
        });
    }
    0
}

impl Object {
    /// NVIDIA made it, by its name.
    pub(crate) fn is_nvidias(&self) -> bool {
        ["libcu", "libnv", "libnccl"].iter().any(|start| file_of(&self.name).starts_with(start))
    }

    /// The number that the dynamic section has for `tag`; 0 for none.
    fn entry(&self, tag: u64) -> usize {
        let mut at = self.dynamic as *const [u64; 2];
        loop {
            // SAFETY: the dynamic section ends with an entry of tag 0.
            let [found, value] = unsafe { at.read() };
            if found == tag {
                return value as usize;
            }
            if found == 0 {
                return 0;
            }
            at = at.wrapping_add(1);
        }
    }

    /// An address in the dynamic section. The loader makes most of them absolute.
    fn address(&self, tag: u64) -> usize {
        match self.entry(tag) {
            0 => 0,
            address if address < self.base => self.base + address,
            address => address,
        }
    }

    /// Has the object call something else in place of each undefined function that `instead` knows a place for.
    pub(crate) fn redirect(&self, instead: impl Fn(&str) -> Option<usize>) {
        let (symbols, strings) = (self.address(SYMBOLS), self.address(STRINGS));
        if symbols == 0 || strings == 0 {
            return;
        }
        let tables = [(RELOCATIONS, RELOCATIONS_SIZE), (CALLS, CALLS_SIZE)];
        for (table, size) in tables.map(|(table, size)| (self.address(table), self.entry(size))) {
            for i in 0..if table == 0 { 0 } else { size / size_of::<Relocation>() } {
                // SAFETY: the object's own tables, which the loader has read before.
                let relocation = unsafe { (table as *const Relocation).add(i).read_unaligned() };
                if !ADDRESSES.contains(&(relocation.info as u32)) {
                    continue;
                }
                // SAFETY: as above.
                let symbol = unsafe {
                    (symbols as *const Symbol).add((relocation.info >> 32) as usize).read_unaligned()
                };
                if symbol.section != 0 {
                    continue;
                }
                // SAFETY: names end with a zero.
                let name = unsafe { CStr::from_ptr((strings + symbol.name as usize) as *const _) };
                if let Some(function) = name.to_str().ok().and_then(&instead) {
                    self.write(self.base + relocation.offset as usize, function);
                }
            }
        }
    }

    /// Writes an address into the object's table of them.
    fn write(&self, at: usize, function: usize) {
        let (start, length) = self.read_only;
        let is_read_only = (start..start + length).contains(&at);
        let page = at / PAGE as usize * PAGE as usize;
        let protect = |protection| {
            // SAFETY: a page of the object's own table of addresses.
            unsafe { sys::mprotect(page as *mut c_void, PAGE as usize, protection) };
        };
        if is_read_only {
            protect(sys::PROT_READ | sys::PROT_WRITE);
        }
        // SAFETY: a place for the address of a function, which is writable now.
        unsafe { (at as *mut usize).write(function) };
        if is_read_only {
            protect(sys::PROT_READ);
        }
    }
}
