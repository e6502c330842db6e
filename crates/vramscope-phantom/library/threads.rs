//! Each thread's current device and contexts.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::handles::CONTEXTS;
use crate::machine::machine;
use crate::out::Out;
use crate::state::DEVICES;
use crate::status::{Answer, Refusal};

thread_local! {
    static DEVICE: Cell<c_int> = const { Cell::new(0) };
    /// The devices of contexts that were current before others were pushed; -1 for no context.
    static PUSHED: RefCell<Vec<c_int>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread has a current driver context. Using the runtime makes one current.
    static HAS_CONTEXT: Cell<bool> = const { Cell::new(false) };
}

/// How often the program retained each device's context without releasing it.
static RETAINED: [AtomicU32; DEVICES] = [const { AtomicU32::new(0) }; DEVICES];

/// The devices whose context the runtime retained. It keeps them until the process ends.
static KEPT: [AtomicBool; DEVICES] = [const { AtomicBool::new(false) }; DEVICES];

/// This thread's current device.
pub(crate) fn current_device() -> Result<usize, Refusal> {
    machine().device(DEVICE.get())
}

/// This thread's current device. Creates its context if needed and makes it current, as the runtime does.
pub(crate) fn use_current_device() -> Result<usize, Refusal> {
    let device = current_device()?;
    machine().need_context(device)?;
    // Without a current driver context, the runtime made this call.
    if !HAS_CONTEXT.replace(true) {
        KEPT[device].store(true, Ordering::Relaxed);
    }
    Ok(device)
}

/// `cudaSetDevice`. Since CUDA 12, it also creates the context.
pub(crate) fn set_device(device: c_int) -> Answer {
    KEPT[machine().device(device)?].store(true, Ordering::Relaxed);
    DEVICE.set(device);
    use_current_device().map(drop)
}

pub(crate) fn get_device(device: Out<c_int>) -> Answer {
    device.set(DEVICE.get())
}

pub(crate) fn retain_primary(context: Out<usize>, device: c_int) -> Answer {
    let device = machine().device(device)?;
    machine().need_context(device)?;
    context.set(CONTEXTS.of(device))?;
    RETAINED[device].fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// The last release ends the context and frees its bytes on the device.
pub(crate) fn release_primary(device: c_int) -> Answer {
    let device = machine().device(device)?;
    let before = RETAINED[device]
        .try_update(Ordering::AcqRel, Ordering::Acquire, |count| count.checked_sub(1))
        .unwrap_or(0);
    if before == 1 && !KEPT[device].load(Ordering::Relaxed) {
        machine().end_context(device);
    }
    Ok(())
}

pub(crate) fn primary_state(device: c_int, flags: Out<u32>, active: Out<c_int>) -> Answer {
    let device = machine().device(device)?;
    flags.set_if_wanted(0);
    active.set(machine().has_context(device).into())
}

pub(crate) fn get_context(context: Out<usize>) -> Answer {
    context.set(if HAS_CONTEXT.get() { CONTEXTS.of(current_device()?) } else { 0 })
}

fn ordinal_behind(context: usize) -> Result<c_int, Refusal> {
    machine().ordinal(CONTEXTS.device(context)?).ok_or(Refusal::InvalidValue)
}

pub(crate) fn set_context(context: usize) -> Answer {
    HAS_CONTEXT.set(context != 0);
    if context != 0 {
        DEVICE.set(ordinal_behind(context)?);
    }
    Ok(())
}

/// `cuStreamGetCtx`: streams belong to the current context.
pub(crate) fn context_of_stream(_stream: usize, context: Out<usize>) -> Answer {
    context.set(CONTEXTS.of(use_current_device()?))
}

/// `cuCtxCreate`: returns the device's primary context.
pub(crate) fn create_context(context: Out<usize>, _flags: u32, device: c_int) -> Answer {
    retain_primary(context, device)?;
    set_device(device)
}

pub(crate) fn context_device(device: Out<c_int>) -> Answer {
    if HAS_CONTEXT.get() { device.set(DEVICE.get()) } else { Err(Refusal::NotInitialized) }
}

pub(crate) fn push_context(context: usize) -> Answer {
    let device = ordinal_behind(context)?;
    let before = if HAS_CONTEXT.get() { DEVICE.get() } else { -1 };
    PUSHED.with_borrow_mut(|pushed| pushed.push(before));
    DEVICE.set(device);
    HAS_CONTEXT.set(true);
    Ok(())
}

pub(crate) fn pop_context(context: Out<usize>) -> Answer {
    if !HAS_CONTEXT.get() {
        return Err(Refusal::NotInitialized);
    }
    context.set_if_wanted(CONTEXTS.of(current_device()?));
    let before = PUSHED.with_borrow_mut(Vec::pop).unwrap_or(-1);
    HAS_CONTEXT.set(before >= 0);
    DEVICE.set(before.max(0));
    Ok(())
}

pub(crate) fn api_version(_context: usize, version: Out<u32>) -> Answer {
    version.set(3020)
}
