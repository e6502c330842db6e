//! The shared objects of this process, and the functions that they link to.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;

use crate::machine::lock;
use crate::sys::{self, ObjectInfo, PAGE, ProgramHeader};

/// A loaded object.
pub(crate) struct Object {
    base: usize,
    name: String,
    /// Address of its dynamic section.
    dynamic: usize,
    /// Start and length in bytes of its relocated read-only section, which contains function addresses.
    read_only: (usize, usize),
}

/// An entry of a relocation table, with its addend (elf.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct Relocation {
    offset: u64,
    info: u64,
    addend: i64,
}

/// An entry of a symbol table: `Elf64_Sym`.
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

/// Relocation types that hold a function's address: in the global offset table, and for calls (elf.h).
const ADDRESSES: [u32; 2] = if cfg!(target_arch = "aarch64") { [1025, 1026] } else { [6, 7] };

/// `PT_DYNAMIC` and `PT_GNU_RELRO`.
const DYNAMIC: u32 = 2;
const READ_ONLY: u32 = 0x6474_e552;

/// Tags in the dynamic section (elf.h): the tables of strings, symbols, relocations and call relocations, and the sizes of the
/// last two in bytes.
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const RELOCATIONS: u64 = 7;
const RELOCATIONS_SIZE: u64 = 8;
const CALLS: u64 = 23;
const CALLS_SIZE: u64 = 2;

/// Base addresses of the objects that were already visited.
static SEEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The path of the first loaded object whose file name starts with `start`.
pub(crate) fn path_of(start: &str) -> Option<String> {
    all().into_iter().map(|object| object.name).find(|path| file_of(path).starts_with(start))
}

/// The file name of a path.
fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn all() -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: `data` points to the list that the callback expects.
    unsafe { sys::dl_iterate_phdr(collect, (&raw mut objects).cast()) };
    objects
}

/// Calls `look` for each object that was loaded since the last call.
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

/// The number of objects loaded since the program began.
fn how_many_loaded() -> u64 {
    extern "C" fn first(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes its description of an object, and `data` is the number below.
        unsafe { data.cast::<u64>().write((*info).loaded) };
        1
    }
    let mut loaded = 0u64;
    // SAFETY: the callback writes the number behind `data`.
    unsafe { sys::dl_iterate_phdr(first, (&raw mut loaded).cast()) };
    loaded
}

extern "C" fn collect(info: *const ObjectInfo, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader passes its description of an object, and `data` is the list of `all`.
    let (info, objects) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
    // SAFETY: the loader's description holds the address and the number of headers.
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
    /// Whether NVIDIA made the object, judged by its name.
    pub(crate) fn is_nvidias(&self) -> bool {
        ["libcu", "libnv", "libnccl"].iter().any(|start| file_of(&self.name).starts_with(start))
    }

    /// The value of `tag` in the dynamic section; 0 if it is missing.
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

    /// An address from the dynamic section. The loader makes most of them absolute.
    fn address(&self, tag: u64) -> usize {
        match self.entry(tag) {
            0 => 0,
            address if address < self.base => self.base + address,
            address => address,
        }
    }

    /// Replaces each undefined function of the object for which `instead` returns an address.
    pub(crate) fn redirect(&self, instead: impl Fn(&str) -> Option<usize>) {
        let (symbols, strings) = (self.address(SYMBOLS), self.address(STRINGS));
        if symbols == 0 || strings == 0 {
            return;
        }
        let tables = [(RELOCATIONS, RELOCATIONS_SIZE), (CALLS, CALLS_SIZE)];
        for (table, size) in tables.map(|(table, size)| (self.address(table), self.entry(size))) {
            for i in 0..if table == 0 { 0 } else { size / size_of::<Relocation>() } {
                // SAFETY: the object's own tables, which the loader already read.
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

    /// Writes a function's address into the object's table.
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
        // SAFETY: an entry for a function's address, which is writable now.
        unsafe { (at as *mut usize).write(function) };
        if is_read_only {
            protect(sys::PROT_READ);
        }
    }
}
