//! Readings: the memory of the calling thread's device that is in use, as the driver counts it.
//!
//! The driver's count includes memory that no call takes: contexts, loaded kernels, other processes.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::next::Next;
use crate::process::{Inside, ring_number, time_us};
use crate::record::READING;

/// Shortest time between two readings of a device, in microseconds. A reading may cost tens of microseconds.
const INTERVAL_US: u64 = 10_000;
/// A call of this many bytes is followed by a reading in any case. It takes longer than the reading.
const LARGE: u64 = 2 << 20;

/// The time of the last reading of each device; 0 before the first.
static LAST: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Takes a reading after a successful call that changed the memory of the thread's device by `bytes` bytes.
#[cold]
pub(crate) fn after(bytes: u64) {
    let Some(inside) = Inside::enter() else { return };
    let Some(device) = current_device() else { return };
    let Some(last) = LAST.get(device as usize) else { return };
    let (before, now) = (last.load(Ordering::Relaxed), time_us());
    if bytes >= LARGE || now.abs_diff(before) >= INTERVAL_US {
        last.store(now, Ordering::Relaxed);
        write(&inside, device);
    }
}

/// Takes the first reading of a device, whose new context is not the thread's current one yet.
#[cold]
pub(crate) fn first(device: c_int, context: usize) {
    static PUSH: Next = Next::new(c"cuCtxPushCurrent_v2");
    static POP: Next = Next::new(c"cuCtxPopCurrent_v2");
    let is_first =
        |&device: &u64| LAST.get(device as usize).is_some_and(|last| last.load(Ordering::Relaxed) == 0);
    let Some(device) = u64::try_from(device).ok().filter(is_first) else { return };
    let Some(inside) = Inside::enter() else { return };
    let (push, pop) = (PUSH.address(), POP.address());
    if push == 0 || pop == 0 {
        return;
    }
    // SAFETY: the function of this name has this signature.
    let push: extern "C" fn(usize) -> c_int = unsafe { std::mem::transmute(push) };
    // SAFETY: the function of this name has this signature.
    let pop: extern "C" fn(*mut usize) -> c_int = unsafe { std::mem::transmute(pop) };
    if push(context) == 0 {
        LAST[device as usize].store(time_us(), Ordering::Relaxed);
        write(&inside, device);
        let mut pushed = 0;
        pop(&raw mut pushed);
    }
}

/// Writes a reading of the thread's device, whose number is `device`. Returns its free bytes; `None` if the driver does not say.
pub(crate) fn write(inside: &Inside, device: u64) -> Option<u64> {
    // Memory that is allocated during the reading is newer than it.
    let time = time_us();
    let (free, total) = device_bytes()?;
    name_device(inside, device);
    inside.write(READING, &[time, device, free, total]);
    Some(free)
}

/// Writes the name of a device, and the release of CUDA that the driver supports, once.
fn name_device(inside: &Inside, device: u64) {
    static NAMED: AtomicU64 = AtomicU64::new(0);
    static NAME: Next = Next::new(c"cuDeviceGetName");
    static RELEASE: Next = Next::new(c"cuDriverGetVersion");
    let of_device = 1_u64 << (device & 63);
    let named = NAMED.load(Ordering::Relaxed);
    // Each ring has the names: that of a forked process, and that of a later attach.
    let ring = u64::from(ring_number()) << 48;
    let named = if named >> 48 == ring >> 48 { named & NAMES } else { 0 };
    if named & of_device & NAMES != 0 || of_device > NAMES {
        return;
    }
    NAMED.store(ring | named | of_device, Ordering::Relaxed);
    let (name, release) = (NAME.address(), RELEASE.address());
    if name == 0 || release == 0 {
        return;
    }
    // SAFETY: the function of this name has this signature.
    let name: extern "C" fn(*mut u8, c_int, c_int) -> c_int = unsafe { std::mem::transmute(name) };
    // SAFETY: the function of this name has this signature.
    let release: extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(release) };
    let mut text = [0_u8; 128];
    if relaxed(|| name(text.as_mut_ptr(), text.len() as c_int, device as c_int)) == 0 {
        let length = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
        // Numbers of devices have at most two digits here.
        let number = [b'0' + device as u8 / 10, b'0' + device as u8 % 10];
        let number = std::str::from_utf8(&number).unwrap_or_default().trim_start_matches('0');
        let mut key = *b"device_00";
        let digits = if number.is_empty() { "0" } else { number };
        key[7..7 + digits.len()].copy_from_slice(digits.as_bytes());
        inside.state(std::str::from_utf8(&key[..7 + digits.len()]).unwrap_or("device"), &text[..length]);
    }
    let mut number = 0;
    if relaxed(|| release(&raw mut number)) == 0 && named == 0 {
        let digits = |n: c_int| b'0' + (n % 10) as u8;
        let (major, minor) = (number / 1000, number % 1000 / 10);
        let text = [digits(major / 10), digits(major), b'.', digits(minor)];
        inside.state("driver_cuda", text.strip_prefix(b"0").unwrap_or(&text));
    }
}

/// The devices whose names are written: one bit each.
const NAMES: u64 = (1 << 48) - 1;

/// Free and total bytes of the thread's device.
fn device_bytes() -> Option<(u64, u64)> {
    static INFO: Next = Next::new(c"cuMemGetInfo_v2");
    let info = INFO.address();
    if info == 0 {
        return None;
    }
    // SAFETY: the function of this name has this signature.
    let info: extern "C" fn(*mut usize, *mut usize) -> c_int = unsafe { std::mem::transmute(info) };
    let (mut free, mut total) = (0_usize, 0_usize);
    (relaxed(|| info(&raw mut free, &raw mut total)) == 0).then_some((free as u64, total as u64))
}

/// Asks the driver. A thread may capture a stream meanwhile: in the relaxed mode, the driver never ends a capture because of a call that is
/// not of the captured stream.
pub(crate) fn relaxed(ask: impl FnOnce() -> c_int) -> c_int {
    let before = exchange_capture_mode(RELAXED);
    let status = ask();
    if let Some(before) = before {
        exchange_capture_mode(before);
    }
    status
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

/// Sets what the thread may call while a stream is captured. Returns what it was.
fn exchange_capture_mode(mut mode: c_int) -> Option<c_int> {
    static EXCHANGE: Next = Next::new(c"cuThreadExchangeStreamCaptureMode");
    let exchange = EXCHANGE.address();
    if exchange == 0 {
        return None;
    }
    // SAFETY: the function of this name has this signature.
    let exchange: extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(exchange) };
    (exchange(&raw mut mode) == 0).then_some(mode)
}

/// Whether this process has a context of a device: the thread's current one, or the one that the runtime uses.
pub(crate) fn has_context() -> bool {
    current_device().is_some() || (0..LAST.len() as c_int).any(is_active)
}

/// Whether a device has the context that the runtime uses.
pub(crate) fn is_active(device: c_int) -> bool {
    static STATE: Next = Next::new(c"cuDevicePrimaryCtxGetState");
    let state = STATE.address();
    if state == 0 {
        return false;
    }
    // SAFETY: the function of this name has this signature.
    let state: extern "C" fn(c_int, *mut u32, *mut c_int) -> c_int = unsafe { std::mem::transmute(state) };
    let (mut flags, mut active) = (0, 0);
    state(device, &raw mut flags, &raw mut active) == 0 && active != 0
}

/// The number of the calling thread's device; `None` without a context.
pub(crate) fn current_device() -> Option<u64> {
    static CURRENT: Next = Next::new(c"cuCtxGetDevice");
    let current = CURRENT.address();
    if current == 0 {
        return None;
    }
    // SAFETY: the function of this name has this signature.
    let current: extern "C" fn(*mut c_int) -> c_int = unsafe { std::mem::transmute(current) };
    let mut device: c_int = -1;
    (current(&raw mut device) == 0).then(|| u64::try_from(device).ok()).flatten()
}
