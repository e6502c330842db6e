//! Copies between the host and devices, and `memset`. They are done at once: nothing waits for a stream.
//!
//! A copy from a device gives what a copy to the same bytes put there, and zeros otherwise: kernels compute nothing, and what
//! lies where a kernel would have written is left from something else. A single value is given back only while no kernel was
//! launched since.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::space::{device_of, give_pages_back, pointer};
use crate::calls::launches;
use crate::graphs::add_work;
use crate::machine::{lock, machine};
use crate::state::{Counter, VALUE_BYTES};
use crate::status::{Answer, Refusal};

/// What the host put into device memory.
#[derive(Debug, Clone, Copy)]
struct Content {
    size: u64,
    /// Launches of this process until then.
    launches: u64,
}

/// By address. None overlaps another.
static CONTENTS: Mutex<BTreeMap<u64, Content>> = Mutex::new(BTreeMap::new());

/// Forgets what lies in these bytes, in part or in whole.
pub(super) fn forget(address: u64, size: u64) {
    let mut contents = lock(&CONTENTS);
    let end = address + size;
    while let Some((&at, content)) = contents.range(..end).next_back()
        && at + content.size > address
    {
        contents.remove(&at);
    }
}

/// What was put into exactly these bytes, and still is there.
fn content(address: u64, size: u64) -> Option<Content> {
    let content = lock(&CONTENTS).get(&address).copied().filter(|content| content.size == size);
    content.filter(|content| size as usize > VALUE_BYTES || content.launches == launches())
}

/// Copies `size` bytes. Where either end is says its address.
fn copy(to: u64, from: u64, size: u64) -> Answer {
    if size == 0 {
        return Ok(());
    }
    if to == 0 || from == 0 {
        return Err(Refusal::InvalidValue);
    }
    let (to_device, from_device) = (device_of(to).is_some(), device_of(from).is_some());
    let known = if from_device { content(from, size) } else { Some(Content { size, launches: launches() }) };
    if to_device {
        forget(to, size);
        if let Some(known) = known {
            lock(&CONTENTS).insert(to, known);
        }
    } else if from_device {
        let is_value = size as usize <= VALUE_BYTES;
        machine().count(if is_value { Counter::ValuesRead } else { Counter::ResultsRead });
    }
    if known.is_some() {
        // SAFETY: the caller of a copy hands in as many bytes at both ends; a device's addresses can all be read and
        // written. The ends may overlap.
        unsafe { std::ptr::copy(pointer(from).cast::<u8>(), pointer(to).cast::<u8>(), size as usize) };
    } else if !to_device {
        match machine().state.random_values() {
            Some(seed) => randomize(to, size, seed),
            None => write_zeros(to, size),
        }
    }
    Ok(())
}

fn write_zeros(address: u64, size: u64) {
    // SAFETY: the caller's own bytes.
    unsafe { std::ptr::write_bytes(pointer(address).cast::<u8>(), 0, size as usize) };
}

/// Fills what a program reads with numbers that look like values of the type that such a size suggests: 8 bytes are an
/// integer between 1 and 100, 4 bytes a number between 0 and 1 in single precision, 2 bytes one in half precision, and 1
/// byte is 0 or 1. Larger copies are taken as single precision.
fn randomize(address: u64, size: u64, seed: u64) {
    static DRAWN: AtomicU64 = AtomicU64::new(0);
    let draw = || {
        // SplitMix64.
        let mut z =
            seed.wrapping_add(DRAWN.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let fraction = || (draw() >> 40) as f32 / (1u64 << 24) as f32;
    let write = |at: u64, bytes: &[u8]| {
        // SAFETY: within the bytes of the host that the caller wants filled.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(at).cast::<u8>(), bytes.len()) };
    };
    match size {
        1 => write(address, &[(draw() & 1) as u8]),
        // Between 0.5 and 1, in the format of 5 bits of exponent; in that of 8 bits it is between 2^-15 and 2^-14.
        2 => write(address, &(0x3800u16 | (draw() & 0x3ff) as u16).to_le_bytes()),
        8 => write(address, &(draw() % 100 + 1).to_le_bytes()),
        _ => {
            for at in (address..address + size / 4 * 4).step_by(4) {
                write(at, &fraction().to_le_bytes());
            }
        }
    }
}

pub(crate) fn memcpy(to: u64, from: u64, size: usize, _kind: c_int) -> Answer {
    copy(to, from, size as u64)
}

pub(crate) fn memcpy_async(to: u64, from: u64, size: usize, _kind: c_int, stream: usize) -> Answer {
    add_work(stream);
    copy(to, from, size as u64)
}

pub(crate) fn memcpy_plain(to: u64, from: u64, size: usize) -> Answer {
    copy(to, from, size as u64)
}

pub(crate) fn memcpy_plain_async(to: u64, from: u64, size: usize, stream: usize) -> Answer {
    add_work(stream);
    copy(to, from, size as u64)
}

pub(crate) fn memcpy_peer_async(
    to: u64,
    _to_device: c_int,
    from: u64,
    _from_device: c_int,
    size: usize,
    stream: usize,
) -> Answer {
    add_work(stream);
    copy(to, from, size as u64)
}

#[allow(clippy::too_many_arguments, reason = "cudaMemcpy2DAsync's own")]
pub(crate) fn memcpy_2d_async(
    to: u64,
    to_pitch: usize,
    from: u64,
    from_pitch: usize,
    width: usize,
    height: usize,
    _kind: c_int,
    stream: usize,
) -> Answer {
    add_work(stream);
    (0..height as u64)
        .try_for_each(|row| copy(to + row * to_pitch as u64, from + row * from_pitch as u64, width as u64))
}

pub(crate) fn memset(address: u64, value: c_int, size: usize) -> Answer {
    fill(address, &[value as u8], size as u64)
}

pub(crate) fn memset_async(address: u64, value: c_int, size: usize, stream: usize) -> Answer {
    add_work(stream);
    memset(address, value, size)
}

pub(crate) fn memset_d8(address: u64, value: u8, count: usize) -> Answer {
    fill(address, &[value], count as u64)
}

pub(crate) fn memset_d8_async(address: u64, value: u8, count: usize, stream: usize) -> Answer {
    add_work(stream);
    fill(address, &[value], count as u64)
}

pub(crate) fn memset_d32(address: u64, value: u32, count: usize) -> Answer {
    fill(address, &value.to_le_bytes(), 4 * count as u64)
}

pub(crate) fn memset_d32_async(address: u64, value: u32, count: usize, stream: usize) -> Answer {
    add_work(stream);
    memset_d32(address, value, count)
}

/// Device memory reads as zeros from then on, whatever it is filled with: that would cost as much memory as a GPU has.
fn fill(address: u64, pattern: &[u8], size: u64) -> Answer {
    if size == 0 {
        return Ok(());
    }
    if address == 0 {
        return Err(Refusal::InvalidValue);
    }
    if device_of(address).is_some() {
        forget(address, size);
        give_pages_back(address, size);
        return Ok(());
    }
    for (i, at) in (address..address + size).enumerate() {
        // SAFETY: within the bytes that the caller hands in.
        unsafe { pointer(at).cast::<u8>().write(pattern[i % pattern.len()]) };
    }
    Ok(())
}
