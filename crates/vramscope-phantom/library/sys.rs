//! The few functions of the C library that Rust's standard library does not offer. The phantom library depends on no crate, so
//! that one call of the compiler builds it.

use std::ffi::{c_char, c_int, c_void};

/// Page size of the operating system, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// `O_NOFOLLOW` of Linux: opening fails if the last path component is a link.
pub(crate) const O_NOFOLLOW: c_int = if cfg!(target_arch = "x86_64") { 0o400_000 } else { 0o100_000 };
pub(crate) const PROT_READ: c_int = 1;
pub(crate) const PROT_WRITE: c_int = 2;
pub(crate) const MAP_SHARED: c_int = 0x01;
pub(crate) const MAP_PRIVATE: c_int = 0x02;
pub(crate) const MAP_ANONYMOUS: c_int = 0x20;
pub(crate) const MAP_NORESERVE: c_int = 0x4000;
pub(crate) const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
pub(crate) const MADV_DONTNEED: c_int = 4;
pub(crate) const MADV_DONTDUMP: c_int = 16;
pub(crate) const RTLD_NOW: c_int = 2;
pub(crate) const RTLD_NOLOAD: c_int = 4;

/// `struct dl_phdr_info`.
#[repr(C)]
pub(crate) struct ObjectInfo {
    /// Offset between addresses in the object's file and in memory.
    pub(crate) base: usize,
    pub(crate) name: *const c_char,
    pub(crate) headers: *const ProgramHeader,
    pub(crate) header_count: u16,
    /// Number of objects loaded since the program began.
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

/// `struct sigaction`, of glibc.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct SignalAction {
    pub(crate) handler: usize,
    mask: [u64; 16],
    pub(crate) flags: c_int,
    restorer: usize,
}

/// `Dl_info`, of glibc.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct AddressInfo {
    pub(crate) object_name: *const c_char,
    pub(crate) object_base: *const c_void,
    symbol_name: *const c_char,
    symbol_address: *const c_void,
}

impl Default for AddressInfo {
    fn default() -> Self {
        let (text, address) = (std::ptr::null(), std::ptr::null());
        Self { object_name: text, object_base: address, symbol_name: text, symbol_address: address }
    }
}

unsafe extern "C" {
    pub(crate) fn dladdr(address: *const c_void, info: *mut AddressInfo) -> c_int;
    /// Calls `visit` for each frame of this thread's stack, innermost first, until it returns nonzero. Rust's standard library
    /// links the unwinder.
    pub(crate) fn _Unwind_Backtrace(
        visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn _Unwind_GetIP(context: *mut c_void) -> usize;
    pub(crate) fn sigaction(number: c_int, new: *const SignalAction, old: *mut SignalAction) -> c_int;
    pub(crate) fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(crate) fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    pub(crate) fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    pub(crate) fn dl_iterate_phdr(
        callback: extern "C" fn(*const ObjectInfo, usize, *mut c_void) -> c_int,
        data: *mut c_void,
    ) -> c_int;
    pub(crate) fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
    pub(crate) fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
