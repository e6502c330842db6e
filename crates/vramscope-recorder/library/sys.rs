//! Functions of the C library that Rust's standard library does not offer. The library depends on no crate, so that one call of the
//! compiler builds it, and so that a program that loads it gets no other code.

use std::ffi::{c_char, c_int, c_long, c_void};

pub(crate) const PROT_READ: c_int = 1;
pub(crate) const PROT_WRITE: c_int = 2;
pub(crate) const MAP_SHARED: c_int = 1;
pub(crate) const RTLD_LAZY: c_int = 1;
pub(crate) const RTLD_NOLOAD: c_int = 4;
/// `RTLD_NEXT`: the next object after the caller's.
pub(crate) const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
pub(crate) const CLOCK_REALTIME: c_int = 0;
#[cfg(target_arch = "x86_64")]
pub(crate) const SYS_GETTID: c_long = 186;
#[cfg(target_arch = "aarch64")]
pub(crate) const SYS_GETTID: c_long = 178;

/// `struct timespec`.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

/// `struct dl_phdr_info`.
#[repr(C)]
pub(crate) struct ObjectInfo {
    /// Difference between addresses in memory and in the object's file.
    pub(crate) base: usize,
    pub(crate) name: *const c_char,
    pub(crate) headers: *const ProgramHeader,
    pub(crate) header_count: u16,
    /// Number of objects that were loaded since the program began.
    pub(crate) loaded: u64,
}

/// `Elf64_Phdr`.
#[repr(C)]
pub(crate) struct ProgramHeader {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) physical_address: u64,
    pub(crate) file_size: u64,
    pub(crate) memory_size: u64,
    pub(crate) alignment: u64,
}

unsafe extern "C" {
    pub(crate) fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(crate) fn clock_gettime(clock: c_int, time: *mut Time) -> c_int;
    pub(crate) fn syscall(number: c_long, ...) -> c_long;
    pub(crate) fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    pub(crate) fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
    pub(crate) fn dlvsym(library: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
    pub(crate) fn dl_iterate_phdr(
        callback: extern "C" fn(*const ObjectInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
}
