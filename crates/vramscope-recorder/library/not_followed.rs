//! Functions of the driver that may allocate memory, and that this library does not follow, such as those of newer releases.
//!
//! A program that looks one up gets a function of ours, which records each call and goes on in the real function.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use vramscope_bare::sys;

use crate::process::Inside;
use crate::record::{NOT_FOLLOWED, text_words};

/// Starts of the names of functions that may allocate.
const FAMILIES: [&str; 6] = ["cuMem", "cuArray", "cuMipmapped", "cuIpc", "cuImport", "cuExternalMemory"];

/// Functions with such names that do not allocate (cuda.h of CUDA 13.0, without suffixes).
const HARMLESS: [&str; 51] = [
    "cuArray3DGetDescriptor",
    "cuArrayGetDescriptor",
    "cuArrayGetMemoryRequirements",
    "cuArrayGetPlane",
    "cuArrayGetSparseProperties",
    "cuExternalMemoryGetMappedBuffer",
    "cuExternalMemoryGetMappedMipmappedArray",
    "cuGraphAddMemFreeNode",
    "cuGraphMemAllocNodeGetParams",
    "cuGraphMemFreeNodeGetParams",
    "cuImportExternalSemaphore",
    "cuIpcGetEventHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenEventHandle",
    "cuMemAddressFree",
    "cuMemAddressReserve",
    "cuMemAdvise",
    "cuMemBatchDecompressAsync",
    "cuMemDiscardAndPrefetchBatchAsync",
    "cuMemDiscardBatchAsync",
    "cuMemExportToShareableHandle",
    "cuMemGetAccess",
    "cuMemGetAddressRange",
    "cuMemGetAllocationGranularity",
    "cuMemGetAllocationPropertiesFromHandle",
    "cuMemGetDefaultMemPool",
    "cuMemGetHandleForAddressRange",
    "cuMemGetInfo",
    "cuMemGetMemPool",
    "cuMemHostGetDevicePointer",
    "cuMemHostGetFlags",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolExportPointer",
    "cuMemPoolExportToShareableHandle",
    "cuMemPoolGetAccess",
    "cuMemPoolGetAttribute",
    "cuMemPoolImportFromShareableHandle",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemPrefetchAsync",
    "cuMemPrefetchBatchAsync",
    "cuMemRangeGetAttribute",
    "cuMemRangeGetAttributes",
    "cuMemRetainAllocationHandle",
    "cuMemSetAccess",
    "cuMemSetMemPool",
    "cuMipmappedArrayGetLevel",
    "cuMipmappedArrayGetMemoryRequirements",
    "cuMipmappedArrayGetSparseProperties",
];

/// Whether a function that is not followed may allocate. `name` has no suffix.
fn may_allocate(name: &str) -> bool {
    let is_in_family = FAMILIES.iter().any(|family| name.starts_with(family))
        || name.starts_with("cuGraph") && name.contains("Mem");
    let is_copy = ["Memcpy", "Memset", "MemOp"].iter().any(|copy| name.contains(copy))
        || ["cuMemcpy", "cuMemset"].iter().any(|copy| name.starts_with(copy));
    is_in_family && !is_copy && HARMLESS.binary_search(&name).is_err()
}

/// Number of functions that are counted. The calls of further ones are not.
const MOST: usize = 32;
/// Longest name of a function, in words.
const NAME: usize = 8;

/// A function that was looked up.
struct Entry {
    /// Its address; [`FREE`] or [`TAKEN`].
    real: AtomicUsize,
    name: [AtomicU64; NAME],
    /// Size of the name in bytes.
    bytes: AtomicUsize,
}

const FREE: usize = 0;
/// The name is not written yet.
const TAKEN: usize = 1;

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        real: AtomicUsize::new(FREE),
        name: [const { AtomicU64::new(0) }; NAME],
        bytes: AtomicUsize::new(0),
    }
}; MOST];

impl Entry {
    /// Writes the name of a new entry, and makes it visible.
    fn fill(&self, name: &[u64], bytes: usize, real: usize) {
        for (place, &word) in self.name.iter().zip(name) {
            place.store(word, Ordering::Relaxed);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
        self.real.store(real, Ordering::Release);
    }

    fn has_name(&self, name: &[u64], bytes: usize) -> bool {
        let mut words = self.name.iter().zip(name);
        self.bytes.load(Ordering::Relaxed) == bytes
            && words.all(|(place, &word)| place.load(Ordering::Relaxed) == word)
    }
}

/// The function of ours that counts the calls of `real`; `real` itself if the function does not allocate, or if there are too many. `plain`
/// is the name without suffixes.
pub(crate) fn before(name: &CStr, plain: &str, real: usize) -> usize {
    if !may_allocate(plain) || sys::is_own(real) || real <= TAKEN {
        return real;
    }
    let mut words = [0; NAME];
    let (bytes, used) = text_words(name.to_bytes(), &mut words);
    for (entry, &counts) in ENTRIES.iter().zip(&COUNTING) {
        if entry.real.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            entry.fill(&words[..used], bytes, real);
            return counts as usize;
        }
        if entry.real.load(Ordering::Acquire) == real && entry.has_name(&words[..used], bytes) {
            return counts as usize;
        }
    }
    real
}

/// The functions of ours in use, and the real one of each.
pub(crate) fn taken() -> impl Iterator<Item = (usize, usize)> {
    let real = ENTRIES.iter().map(|entry| entry.real.load(Ordering::Acquire));
    COUNTING.iter().map(|&counts| counts as usize).zip(real).filter(|&(_, real)| real > TAKEN)
}

/// Records a call of the function with this number. Returns its address.
extern "C" fn called(number: usize) -> usize {
    let entry = &ENTRIES[number];
    let real = entry.real.load(Ordering::Acquire);
    if let Some(inside) = Inside::enter() {
        let mut body = [0; 1 + NAME];
        let bytes = entry.bytes.load(Ordering::Relaxed);
        body[0] = bytes as u64;
        for (word, place) in body[1..].iter_mut().zip(&entry.name) {
            *word = place.load(Ordering::Relaxed);
        }
        inside.write(NOT_FOLLOWED, &body[..1 + bytes.div_ceil(8)]);
    }
    real
}

/// Counts a call and goes on in the real function, with all arguments as they were.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn counting<const NUMBER: usize>() {
    std::arch::naked_asm!(
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax", "sub rsp, 128",
        "movups [rsp], xmm0", "movups [rsp + 16], xmm1", "movups [rsp + 32], xmm2", "movups [rsp + 48], xmm3",
        "movups [rsp + 64], xmm4", "movups [rsp + 80], xmm5", "movups [rsp + 96], xmm6", "movups [rsp + 112], xmm7",
        "mov edi, {number}",
        "call {called}",
        "mov r11, rax",
        "movups xmm0, [rsp]", "movups xmm1, [rsp + 16]", "movups xmm2, [rsp + 32]", "movups xmm3, [rsp + 48]",
        "movups xmm4, [rsp + 64]", "movups xmm5, [rsp + 80]", "movups xmm6, [rsp + 96]", "movups xmm7, [rsp + 112]",
        "add rsp, 128", "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "jmp r11",
        number = const NUMBER, called = sym called,
    )
}

/// Counts a call and goes on in the real function, with all arguments as they were.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn counting<const NUMBER: usize>() {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, #-224]!", "stp x0, x1, [sp, #16]", "stp x2, x3, [sp, #32]", "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]", "str x8, [sp, #80]", "stp q0, q1, [sp, #96]", "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]", "stp q6, q7, [sp, #192]",
        "mov x0, #{number}",
        "bl {called}",
        "mov x16, x0",
        "ldp q6, q7, [sp, #192]", "ldp q4, q5, [sp, #160]", "ldp q2, q3, [sp, #128]", "ldp q0, q1, [sp, #96]",
        "ldr x8, [sp, #80]", "ldp x6, x7, [sp, #64]", "ldp x4, x5, [sp, #48]", "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]", "ldp x29, x30, [sp], #224",
        "br x16",
        number = const NUMBER, called = sym called,
    )
}

macro_rules! all_counting {
    ($($number:literal)*) => { [$(counting::<$number>),*] };
}

static COUNTING: [extern "C" fn(); MOST] =
    all_counting!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_may_allocate_are_distinguished_from_harmless_ones() {
        assert!(HARMLESS.is_sorted());
        for name in
            ["cuMemFrobnicate", "cuMemPoolImportPointer", "cuImportExternalMemory", "cuGraphMemTwiddle"]
        {
            assert!(may_allocate(name), "{name}");
        }
        for name in [
            "cuMemcpyAsync",
            "cuMemsetD8",
            "cuGraphAddMemcpyNode",
            "cuMemGetInfo",
            "cuLaunchKernel",
            "cudaMalloc",
        ] {
            assert!(!may_allocate(name), "{name}");
        }
    }

    #[test]
    fn arguments_and_results_pass_through() {
        extern "C" fn real(
            a: usize,
            b: f64,
            c: usize,
            d: usize,
            e: usize,
            f: usize,
            g: usize,
            h: usize,
        ) -> usize {
            a + 2 * b as usize + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h
        }
        // Functions of this binary are own ones, so the entry is made as a lookup makes it.
        ENTRIES[5].fill(&[0], 3, real as *const () as usize);
        let ours = counting::<5> as *const ();
        type Real = extern "C" fn(usize, f64, usize, usize, usize, usize, usize, usize) -> usize;
        // SAFETY: the function goes on in `real`.
        let ours: Real = unsafe { std::mem::transmute(ours) };
        assert_eq!(ours(1, 2.0, 3, 4, 5, 6, 7, 8), real(1, 2.0, 3, 4, 5, 6, 7, 8));
        ENTRIES[5].real.store(FREE, Ordering::Release);
    }
}
