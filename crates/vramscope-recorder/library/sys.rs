//! Functions of the C library that Rust's standard library does not offer. The library depends on no crate, so that one call of the
//! compiler builds it, and so that a program that loads it gets no other code.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::AtomicU64;

pub(crate) const PROT_READ: c_int = 1;
pub(crate) const PROT_WRITE: c_int = 2;
pub(crate) const MAP_SHARED: c_int = 1;
/// Maps all pages now.
pub(crate) const MADV_POPULATE_WRITE: c_int = 23;
pub(crate) const RTLD_LAZY: c_int = 1;
pub(crate) const RTLD_NOLOAD: c_int = 4;
/// `RTLD_NEXT`: the next object after the caller's.
pub(crate) const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
/// `RTLD_DEFAULT`: the global scope, then that of the caller's object.
pub(crate) const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
/// `_SC_PAGESIZE`, of glibc.
pub(crate) const SC_PAGESIZE: c_int = 30;
pub(crate) const SIG_BLOCK: c_int = 0;
pub(crate) const CLOCK_REALTIME: c_int = 0;
/// The number of `gettid`, which glibc before 2.30 does not offer as a function.
#[cfg(target_arch = "x86_64")]
pub(crate) const SYS_GETTID: c_long = 186;
/// The number of `gettid`.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const SYS_GETTID: c_long = 178;

/// `struct timespec`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

/// `Dl_info`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct AddressInfo {
    pub(crate) object_name: *const c_char,
    object_base: *const c_void,
    symbol_name: *const c_char,
    symbol_address: *const c_void,
}

impl Default for AddressInfo {
    fn default() -> Self {
        let (text, address) = (std::ptr::null(), std::ptr::null());
        Self { object_name: text, object_base: address, symbol_name: text, symbol_address: address }
    }
}

/// `struct dl_phdr_info`.
#[repr(C)]
pub(crate) struct ObjectInfo {
    /// Difference between addresses in memory and in the object's file.
    pub(crate) base: usize,
    pub(crate) name: *const c_char,
    pub(crate) headers: *const ProgramHeader,
    pub(crate) header_count: u16,
    /// Number of objects that were loaded so far, and that were unloaded.
    pub(crate) loads: u64,
    pub(crate) unloads: u64,
}

/// `Elf64_Phdr`.
#[repr(C)]
pub(crate) struct ProgramHeader {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: usize,
    pub(crate) physical_address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: usize,
    pub(crate) alignment: u64,
}

/// `sigset_t`, of glibc.
#[repr(C, align(8))]
#[derive(Debug)]
pub(crate) struct SignalSet(pub(crate) [u8; 128]);

/// `pthread_attr_t`, of glibc.
#[repr(C, align(8))]
#[derive(Debug)]
pub(crate) struct ThreadAttributes(pub(crate) [u8; 64]);

unsafe extern "C" {
    pub(crate) fn dl_iterate_phdr(
        visit: extern "C" fn(*const ObjectInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn pthread_self() -> usize;
    pub(crate) fn pthread_getattr_np(thread: usize, attributes: *mut ThreadAttributes) -> c_int;
    pub(crate) fn pthread_attr_getstack(
        attributes: *const ThreadAttributes,
        start: *mut *mut c_void,
        size: *mut usize,
    ) -> c_int;
    pub(crate) fn pthread_attr_destroy(attributes: *mut ThreadAttributes) -> c_int;
    pub(crate) fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(crate) fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    pub(crate) fn posix_fallocate(file: c_int, offset: i64, length: i64) -> c_int;
    pub(crate) fn munmap(address: *mut c_void, length: usize) -> c_int;
    pub(crate) fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    pub(crate) fn sysconf(name: c_int) -> isize;
    pub(crate) fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    pub(crate) fn syscall(number: c_long, ...) -> c_long;
    pub(crate) fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    pub(crate) fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    pub(crate) fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
    pub(crate) fn dlvsym(library: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    pub(crate) fn dladdr(address: *const c_void, info: *mut AddressInfo) -> c_int;
}

/// Begins to fetch the cache line of a word that will be written soon.
#[inline]
pub(crate) fn fetch_for_writing(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes no value. Processors without this instruction ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// Whether an address lies in this library.
pub(crate) fn is_own(address: usize) -> bool {
    unsafe extern "C" {
        // The linker defines both.
        static __ehdr_start: u8;
        static _end: u8;
    }
    (&raw const __ehdr_start as usize..&raw const _end as usize).contains(&address)
}

/// The path of the loaded object that has an address; empty if there is none. The address is one that runs, so its object stays loaded.
pub(crate) fn object_path(address: usize) -> &'static [u8] {
    let mut info = AddressInfo::default();
    // SAFETY: any address may be looked up, and the result is written in place. The loader keeps the name, which is zero-terminated, as
    // long as the object is loaded.
    unsafe {
        let is_found = dladdr(address as *const c_void, &raw mut info) != 0 && !info.object_name.is_null();
        if is_found { CStr::from_ptr(info.object_name).to_bytes() } else { b"" }
    }
}
