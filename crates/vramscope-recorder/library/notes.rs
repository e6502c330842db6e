//! Notes of the program about its memory: modules, phases and roles of tensors, and named regions. The Python package calls these
//! functions; without it, they cost nothing.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use vramscope_bare::sys;

use crate::process::{Inside, ring_number, time_us};
use crate::reading::current_device;
use crate::record::{MODULE_PATH, NOTED_PLACE, NOTED_ROLE, NOTED_TENSOR, REGION, call, text_words};

/// One more than the number of the ring that gets notes; 0 for none. A forked process has the hooks of its parent, but another ring.
static NOTED: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The system's number of this thread; 0 until it is asked for.
    static THREAD: Cell<u32> = const { Cell::new(0) };
}

/// Longest text of a note, in bytes. Longer ones are cut.
const MOST_TEXT: usize = 4096;

fn is_noted() -> bool {
    NOTED.load(Ordering::Relaxed) == ring_number() + 1
}

/// The number of this thread for records; 0 if there are no notes.
#[inline]
pub(crate) fn thread() -> u64 {
    if NOTED.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    let number = THREAD.try_with(|thread| {
        if thread.get() == 0 {
            // SAFETY: a call without arguments, which cannot fail.
            thread.set(unsafe { sys::syscall(sys::SYS_GETTID) } as u32);
        }
        thread.get()
    });
    number.unwrap_or(0).into()
}

fn write(kind: u8, body: &[u64]) {
    if is_noted()
        && let Some(inside) = Inside::enter()
    {
        inside.write(kind, body);
    }
}

/// Writes a note that ends with a text.
fn write_text<const FIELDS: usize>(kind: u8, fields: [u64; FIELDS], text: *const u8, size: usize) {
    if text.is_null() {
        return;
    }
    // SAFETY: the caller passes a text of this size.
    let text = unsafe { std::slice::from_raw_parts(text, size.min(MOST_TEXT)) };
    let mut body = [0_u64; 8 + MOST_TEXT / 8];
    body[..FIELDS].copy_from_slice(&fields);
    let (bytes, words) = text_words(text, &mut body[FIELDS + 1..]);
    body[FIELDS] = bytes as u64;
    write(kind, &body[..FIELDS + 1 + words]);
}

/// Notes of this process are written from now on. Returns 0, or 1 if the process is not recorded.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_begin_notes() -> c_int {
    let Some(inside) = Inside::enter() else { return 1 };
    NOTED.store(ring_number() + 1, Ordering::Relaxed);
    // The reader follows allocations from the first note on.
    inside.write(NOTED_PLACE, &[0; 3]);
    0
}

/// Notes are not written any more.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_end_notes() {
    NOTED.store(0, Ordering::Relaxed);
}

/// The path of the module with this number.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_module(module: u32, path: *const u8, size: usize) {
    write_text(MODULE_PATH, [module.into()], path, size);
}

/// The thread is in this module (0 for none) and phase (see `notes.rs` of the reader) from now on.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_place(thread: u32, module: u32, phase: u8) {
    write(NOTED_PLACE, &[thread.into(), module.into(), phase.into()]);
}

/// The memory at this address has this role (see `notes.rs` of the reader), and belongs to this module (0 for none).
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_role(address: u64, role: u8, module: u32) {
    write(NOTED_ROLE, &[address, role.into(), module.into()]);
}

/// The memory at this address has the tensor of this description (see `TensorNote` of `vramscope-trace`).
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_tensor(address: u64, description: *const u8, size: usize) {
    write_text(NOTED_TENSOR, [address], description, size);
}

/// A region of this name begins, or ends.
#[unsafe(no_mangle)]
extern "C" fn vramscope_recorder_region(is_end: u8, name: *const u8, size: usize) {
    let device = current_device().unwrap_or(call::UNKNOWN_DEVICE);
    write_text(REGION, [time_us(), device, is_end.into()], name, size);
}
