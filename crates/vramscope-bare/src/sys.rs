//! Functions and structures of glibc that Rust's standard library does not offer.
#![allow(unsafe_code, reason = "functions of C")]
#![allow(missing_docs, reason = "glibc documents the names")]

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::AtomicU64;

/// `O_NOFOLLOW`: opening fails if the last path component is a link.
pub const O_NOFOLLOW: c_int = if cfg!(target_arch = "x86_64") { 0o400_000 } else { 0o100_000 };

/// `O_NONBLOCK`: opening a pipe does not wait for its writer.
pub const O_NONBLOCK: c_int = 0o4000;
pub const PROT_READ: c_int = 1;
pub const PROT_WRITE: c_int = 2;
pub const MAP_SHARED: c_int = 1;
pub const MAP_PRIVATE: c_int = 2;
pub const MAP_ANONYMOUS: c_int = 0x20;
pub const MAP_NORESERVE: c_int = 0x4000;
pub const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
pub const MADV_DONTNEED: c_int = 4;
pub const MADV_DONTDUMP: c_int = 16;
/// Maps all pages now.
pub const MADV_POPULATE_WRITE: c_int = 23;
pub const RTLD_LAZY: c_int = 1;
pub const RTLD_NOW: c_int = 2;
pub const RTLD_NOLOAD: c_int = 4;
/// `RTLD_NEXT`: the next object after the caller's.
pub const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
/// `RTLD_DEFAULT`: the global scope, then that of the caller's object.
pub const RTLD_DEFAULT: *mut c_void = std::ptr::null_mut();
/// `_SC_PAGESIZE`, of glibc.
pub const SC_PAGESIZE: c_int = 30;
pub const SIG_BLOCK: c_int = 0;
pub const CLOCK_REALTIME: c_int = 0;
/// The number of `gettid`, which glibc before 2.30 does not offer as a function.
pub const SYS_GETTID: c_long = if cfg!(target_arch = "x86_64") { 186 } else { 178 };

/// `struct timespec`.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Time {
    pub seconds: i64,
    pub nanoseconds: i64,
}

/// `Dl_info`.
#[repr(C)]
#[derive(Debug)]
struct AddressInfo {
    object_name: *const c_char,
    object_base: *const c_void,
    symbol_name: *const c_char,
    symbol_address: *const c_void,
}

/// `struct dl_phdr_info`.
#[repr(C)]
#[derive(Debug)]
pub struct ObjectInfo {
    /// Difference between addresses in memory and in the object's file.
    pub base: usize,
    pub name: *const c_char,
    pub headers: *const ProgramHeader,
    pub header_count: u16,
    /// Number of objects that were loaded so far, and that were unloaded.
    pub loads: u64,
    pub unloads: u64,
}

/// `Elf64_Phdr`.
#[repr(C)]
#[derive(Debug)]
pub struct ProgramHeader {
    pub kind: u32,
    pub flags: u32,
    pub offset: u64,
    pub address: usize,
    pub physical_address: u64,
    pub file_size: u64,
    pub memory_size: usize,
    pub alignment: u64,
}

/// `struct sigaction`, of glibc.
#[repr(C)]
#[derive(Debug, Default)]
pub struct SignalAction {
    pub handler: usize,
    mask: [u64; 16],
    pub flags: c_int,
    restorer: usize,
}

/// `sigset_t`, of glibc.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct SignalSet(pub [u8; 128]);

/// `pthread_attr_t`, of glibc.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct ThreadAttributes(pub [u8; 64]);

unsafe extern "C" {
    pub fn dl_iterate_phdr(
        visit: extern "C" fn(*const ObjectInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub fn geteuid() -> u32;
    pub fn pthread_self() -> usize;
    pub fn pthread_getattr_np(thread: usize, attributes: *mut ThreadAttributes) -> c_int;
    pub fn pthread_attr_getstack(
        attributes: *const ThreadAttributes,
        start: *mut *mut c_void,
        size: *mut usize,
    ) -> c_int;
    pub fn pthread_attr_destroy(attributes: *mut ThreadAttributes) -> c_int;
    pub fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    pub fn posix_fallocate(file: c_int, offset: i64, length: i64) -> c_int;
    pub fn munmap(address: *mut c_void, length: usize) -> c_int;
    pub fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    pub fn sysconf(name: c_int) -> isize;
    pub fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    pub fn syscall(number: c_long, ...) -> c_long;
    pub fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    pub fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    pub fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
    pub fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    pub fn dlvsym(library: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    fn dladdr(address: *const c_void, info: *mut AddressInfo) -> c_int;
    pub fn sigaction(number: c_int, new: *const SignalAction, old: *mut SignalAction) -> c_int;
    /// Calls `visit` for each frame of this thread's stack, innermost first, until it returns nonzero. Rust's standard library links the
    /// unwinder.
    pub fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Begins to fetch the cache line of a word that will be written soon.
#[inline]
pub fn fetch_for_writing(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes no value. Processors without this instruction ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) word, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// Whether an address lies in the library or program that this code is linked into.
pub fn is_own(address: usize) -> bool {
    unsafe extern "C" {
        // The linker defines both.
        static __ehdr_start: u8;
        static _end: u8;
    }
    (&raw const __ehdr_start as usize..&raw const _end as usize).contains(&address)
}

/// The path of the loaded object that has an address; empty if there is none. The address is one that runs, so its object stays loaded.
pub fn object_path(address: usize) -> &'static CStr {
    let mut info = AddressInfo {
        object_name: std::ptr::null(),
        object_base: std::ptr::null(),
        symbol_name: std::ptr::null(),
        symbol_address: std::ptr::null(),
    };
    // SAFETY: any address may be looked up, and the result is written in place. The loader keeps the name, which is zero-terminated, as
    // long as the object is loaded.
    unsafe {
        let is_found = dladdr(address as *const c_void, &raw mut info) != 0 && !info.object_name.is_null();
        if is_found { CStr::from_ptr(info.object_name) } else { c"" }
    }
}
