//! Lookups of functions by name. A program that looks up a function of the driver gets ours, and ours calls what was found.

use std::ffi::{CStr, c_char, c_void};

use crate::next::{look_up, real_dlsym};
use crate::process::{is_detached, look_now};
use crate::wrap::{Wrapped, caller_as_argument, wrapped};
use crate::{driver, not_followed, runtime};

/// All functions that this library stands before.
pub(crate) fn all() -> impl Iterator<Item = &'static Wrapped> {
    [driver::ROWS, runtime::ROWS, ROWS].into_iter().flatten().copied()
}

/// A function's name without the suffixes of its revision and of per-thread default streams.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix("_ptds").or_else(|| name.strip_suffix("_ptsz")).unwrap_or(name);
    match name.as_bytes() {
        [.., b'_', b'v', b'1'..=b'9'] => &name[..name.len() - 3],
        _ => name,
    }
}

/// The function that this library stands before, by any of its names.
fn row(name: &CStr) -> Option<&'static Wrapped> {
    let name = plain(name.to_str().ok()?);
    all().find(|row| row.name == name)
}

/// Whether this library stands before a function of this name.
pub(crate) fn is_wrapped(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"cu") && row(name).is_some()
}

/// The function of ours that stands before the real one of this name, or counts its calls; the real one if there is none.
pub(crate) fn before(name: &CStr, real: usize) -> usize {
    match row(name) {
        Some(row) => row.before(real),
        None => name.to_str().map_or(real, |text| not_followed::before(name, plain(text), real)),
    }
}

/// The function that a program gets for the real one.
fn ours(name: *const c_char, real: usize) -> usize {
    if name.is_null() || real == 0 || is_detached() {
        return real;
    }
    // SAFETY: the program passes a zero-terminated text to its lookup.
    let name = unsafe { CStr::from_ptr(name) };
    if let Some(row) = row(name) {
        row.keep_linked();
    }
    before(name, real)
}

/// Replaces what a lookup found.
fn replace(name: *const c_char, function: *mut usize) {
    // SAFETY: the lookup succeeded, so the place is valid or null.
    if let Some(function) = unsafe { function.as_mut() } {
        *function = ours(name, *function);
    }
}

wrapped! {
    // The first revision has no `status`. Passing one more argument does no harm.
    cuGetProcAddress_v2 / "cuGetProcAddress" [5]
        (name: *const c_char, function: *mut usize, version: c_int, flags: u64, status: *mut c_int) |real, call| {
        drop(call);
        let result = real();
        if result == 0 {
            replace(name, function);
        }
        result
    }
    cudaGetDriverEntryPoint / "cudaGetDriverEntryPoint" [4]
        (name: *const c_char, function: *mut usize, flags: u64, status: *mut c_int) |real, call| {
        drop(call);
        let result = real();
        if result == 0 {
            replace(name, function);
        }
        result
    }
    cudaGetDriverEntryPointByVersion / "cudaGetDriverEntryPointByVersion" [5]
        (name: *const c_char, function: *mut usize, version: u32, flags: u64, status: *mut c_int) |real, call| {
        drop(call);
        let result = real();
        if result == 0 {
            replace(name, function);
        }
        result
    }
}

/// What `dlsym` returns for a function that this library stands before; 0 to let the real one answer.
extern "C" fn found_by_dlsym(library: *mut c_void, name: *const c_char) -> usize {
    // A program that loads an object usually looks a name up in it next.
    look_now(true);
    // SAFETY: the program passes a zero-terminated text. Two bytes exist in every text but the empty one, which ends at the first.
    let is_cuda =
        !name.is_null() && unsafe { name.read() == b'c' as c_char && name.add(1).read() == b'u' as c_char };
    // `RTLD_NEXT` depends on the caller: only the real function can answer.
    if !is_cuda || library == vramscope_bare::sys::RTLD_NEXT {
        return 0;
    }
    let real = look_up(library, name) as usize;
    let ours = ours(name, real);
    if ours == real { 0 } else { ours }
}

/// `dlsym`. The real one finds its caller by the return address, so it must be reached by a jump.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(export_name = "dlsym")]
extern "C" fn dlsym() {
    std::arch::naked_asm!(
        "push rdi", "push rsi", "sub rsp, 8",
        "call {found}",
        "test rax, rax", "jne 2f",
        "call {real}",
        "add rsp, 8", "pop rsi", "pop rdi",
        "jmp rax",
        "2:", "add rsp, 24", "ret",
        found = sym found_by_dlsym, real = sym real_dlsym_for_jump,
    )
}

/// `dlsym`. The real one finds its caller by the return address, so it must be reached by a jump.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(export_name = "dlsym")]
extern "C" fn dlsym() {
    std::arch::naked_asm!(
        "stp x0, x1, [sp, #-32]!", "str x30, [sp, #16]",
        "bl {found}",
        "cbnz x0, 2f",
        "bl {real}",
        "mov x16, x0", "ldr x30, [sp, #16]", "ldp x0, x1, [sp], #32",
        "br x16",
        "2:", "ldr x30, [sp, #16]", "add sp, sp, #32", "ret",
        found = sym found_by_dlsym, real = sym real_dlsym_for_jump,
    )
}

/// The address of our `dlsym`.
pub(crate) fn our_dlsym() -> usize {
    dlsym as *const () as usize
}

extern "C" fn real_dlsym_for_jump() -> usize {
    real_dlsym()
}
