//! The end of a device's contexts, and with them of all memory that was allocated in them.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::next::Next;
use crate::reading::{current_device, is_active};
use crate::record::Kind;
use crate::wrap::Call;

/// The contexts of each device that the program created itself, beside the one of the runtime.
static CREATED: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];

/// A context was created, which is the calling thread's current one now. Returns the status.
pub(crate) fn created(status: c_int) -> c_int {
    let device = current_device().and_then(|device| CREATED.get(device as usize));
    if let (0, Some(count)) = (status, device) {
        count.fetch_add(1, Ordering::Relaxed);
    }
    status
}

/// A context that the program created ends. Returns the status.
pub(crate) fn destroyed(call: &Call<'_>, context: usize, real: impl FnOnce() -> c_int) -> c_int {
    let device = device_of(context);
    let status = real();
    if let (0, Some(device)) = (status, device)
        && let Some(count) = CREATED.get(device as usize)
    {
        // One from before attaching was not counted.
        let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        if before == Ok(1) && !is_active(device) {
            reset(call, device);
        }
    }
    status
}

/// The runtime's context of a device ends; without a device, that of the calling thread's device. Returns the status.
pub(crate) fn ended(call: &Call<'_>, device: Option<c_int>, real: impl FnOnce() -> c_int) -> c_int {
    let device = device.or_else(|| c_int::try_from(current_device()?).ok());
    let status = real();
    if let (0, Some(device)) = (status, device)
        && !is_active(device)
        && CREATED.get(device as usize).is_some_and(|count| count.load(Ordering::Relaxed) == 0)
    {
        reset(call, device);
    }
    status
}

fn reset(call: &Call<'_>, device: c_int) {
    if let Ok(device) = u64::try_from(device) {
        call.record_with(Kind::Reset, 0, 0, Some(device), 0);
    }
}

/// The device of a context.
fn device_of(context: usize) -> Option<c_int> {
    static PUSH: Next = Next::new(c"cuCtxPushCurrent_v2");
    static POP: Next = Next::new(c"cuCtxPopCurrent_v2");
    let (push, pop) = (PUSH.address(), POP.address());
    if push == 0 || pop == 0 {
        return None;
    }
    // SAFETY: the function of this name has this signature.
    let push: extern "C" fn(usize) -> c_int = unsafe { std::mem::transmute(push) };
    // SAFETY: the function of this name has this signature.
    let pop: extern "C" fn(*mut usize) -> c_int = unsafe { std::mem::transmute(pop) };
    if push(context) != 0 {
        return None;
    }
    let device = current_device();
    let mut pushed = 0;
    pop(&raw mut pushed);
    c_int::try_from(device?).ok()
}
