//! Copies between the host and devices, and `memset`. They are done at once: nothing waits for a stream.
//!
//! A copy from a device gives what a copy to the same bytes put there, and zeros otherwise: kernels compute nothing, and what
//! lies where a kernel would have written is left from something else. A single value is given back only while no kernel was
//! launched since. What other ranks say through NCCL, and pages of files that the program mapped, are looked up when they are first read.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::space::{PAGE, device_of, give_pages_back, pointer};
use super::{file_pages, reads};
use crate::calls::launches;
use crate::graphs::add_work;
use crate::machine::{lock, machine};
use crate::state::{KEPT_BYTES, VALUE_BYTES};
use crate::status::{Answer, Refusal};

/// Bytes that another rank says, once it has come to it, or that lie in a file.
pub(crate) type Later = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// What the host put into device memory, here or on another rank.
#[derive(Clone)]
struct Content {
    size: u64,
    /// Launches of this process until then.
    launches: u64,
    /// It came from another rank.
    is_message: bool,
    /// It was not looked up yet.
    later: Option<Later>,
}

impl Content {
    fn new(size: u64) -> Self {
        Self { size, launches: launches(), is_message: false, later: None }
    }
}

/// By address. None overlaps another.
static CONTENTS: Mutex<BTreeMap<u64, Content>> = Mutex::new(BTreeMap::new());

/// All contents that lie in these bytes, in part or in whole, the last one first.
fn within(
    contents: &BTreeMap<u64, Content>,
    address: u64,
    size: u64,
) -> impl Iterator<Item = (u64, &Content)> {
    let before_end = contents.range(..address + size).rev().map(|(&at, content)| (at, content));
    before_end.take_while(move |(at, content)| at + content.size > address)
}

/// Forgets what lies in these bytes, in part or in whole.
pub(crate) fn forget(address: u64, size: u64) {
    let mut contents = lock(&CONTENTS);
    let gone: Vec<u64> = within(&contents, address, size).map(|(at, _)| at).collect();
    gone.iter().for_each(|at| drop(contents.remove(at)));
}

/// From now on `size` bytes at `address` are what another rank says, if it says as many.
pub(crate) fn expect(address: u64, size: u64, later: Later) {
    forget(address, size);
    lock(&CONTENTS).insert(address, Content { is_message: true, later: Some(later), ..Content::new(size) });
}

/// Looks up what other ranks said of these bytes.
fn look_up(address: u64, size: u64) {
    let waiting: Vec<(u64, u64, Later)> = within(&lock(&CONTENTS), address, size)
        .filter_map(|(at, content)| Some((at, content.size, Arc::clone(content.later.as_ref()?))))
        .collect();
    for (at, size, later) in waiting {
        // Nobody holds a lock meanwhile: this may take as long as the other rank does.
        let said = later().filter(|said| said.len() as u64 == size);
        let mut contents = lock(&CONTENTS);
        let is_same = |content: &Content| content.later.as_ref().is_some_and(|l| Arc::ptr_eq(l, &later));
        let Some(content) = contents.get_mut(&at).filter(|content| is_same(content)) else { continue };
        content.later = None;
        match said {
            Some(said) => store(at, said.as_ptr().expose_provenance() as u64, size),
            None => drop(contents.remove(&at)),
        }
    }
}

/// What was put into exactly these bytes, and still is there; or into more bytes, for a single value.
fn content(address: u64, size: u64) -> Option<Content> {
    let contents = lock(&CONTENTS);
    let (&at, content) = contents.range(..=address).next_back()?;
    let is_all_there = if size as usize <= VALUE_BYTES {
        address + size <= at + content.size && content.launches == launches()
    } else {
        at == address && content.size == size
    };
    is_all_there.then(|| content.clone())
}

/// The same, for a copy on the device: it may be looked up later there, too, if it is copied as a whole.
fn content_to_copy(address: u64, size: u64) -> Option<Content> {
    let found = content(address, size)?;
    if found.size == size || found.later.is_none() {
        return Some(found);
    }
    look_up(address, size);
    content(address, size)
}

/// These bytes, where the host or another rank put anything there; zeros stand for the rest.
pub(crate) fn known(address: u64, size: u64) -> Option<Vec<u8>> {
    overlaid(address, size, |_| true)
}

fn overlaid(address: u64, size: u64, wanted: impl Fn(&Content) -> bool) -> Option<Vec<u8>> {
    look_up(address, size);
    let contents = lock(&CONTENTS);
    let mut bytes = None;
    for (at, content) in within(&contents, address, size).filter(|(_, content)| wanted(content)) {
        let (from, to) = (at.max(address), (at + content.size).min(address + size));
        let bytes = bytes.get_or_insert_with(|| vec![0u8; size as usize]);
        let place = bytes[(from - address) as usize..].as_mut_ptr();
        // SAFETY: bytes of a device, which can all be read, into as many that begin there.
        unsafe { std::ptr::copy_nonoverlapping(pointer(from).cast::<u8>(), place, (to - from) as usize) };
    }
    bytes
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
    if from_device && !to_device {
        return copy_to_host(to, from, size);
    }
    if !from_device && to_device {
        return copy_to_device(to, from, size);
    }
    let known = if from_device { content_to_copy(from, size) } else { Some(Content::new(size)) };
    let is_there = known.as_ref().is_some_and(|known| known.later.is_none());
    if to_device {
        forget(to, size);
        if let Some(known) = known {
            lock(&CONTENTS).insert(to, Content { size, ..known });
        }
    }
    match (is_there, to_device) {
        (true, true) => store(to, from, size),
        (true, false) => move_bytes(to, from, size),
        (false, _) => {}
    }
    Ok(())
}

fn copy_to_device(to: u64, from: u64, size: u64) -> Answer {
    forget(to, size);
    if size > KEPT_BYTES && !machine().state.keeps_contents() {
        give_pages_back(to, size);
        return Ok(());
    }
    let later = file_pages::holder(from, size);
    if later.is_some() {
        give_pages_back(to, size);
    } else {
        store(to, from, size);
    }
    lock(&CONTENTS).insert(to, Content { later, ..Content::new(size) });
    Ok(())
}

/// Writes bytes to a device. Whole pages of zeros are left to the operating system, where they take nothing.
fn store(to: u64, from: u64, size: u64) {
    let (first, end) = (to.next_multiple_of(PAGE), (to + size) / PAGE * PAGE);
    if size < KEPT_BYTES || first >= end {
        return move_bytes(to, from, size);
    }
    // What is written may be part of what is read only where both ends are on the device; pages that were given back read as zeros.
    if from < to + size && to < from + size {
        return move_bytes(to, from, size);
    }
    give_pages_back(to, size);
    move_bytes(to, from, first - to);
    for at in (first..end).step_by(PAGE as usize) {
        let source = from + (at - to);
        // SAFETY: the caller of a copy hands in as many bytes, of which this is one page; it need not be aligned.
        let page =
            unsafe { std::slice::from_raw_parts(pointer(source).cast::<[u8; 8]>(), PAGE as usize / 8) };
        if page.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) != 0 {
            move_bytes(at, source, PAGE);
        }
    }
    move_bytes(end, from + (end - to), to + size - end);
}

fn copy_to_host(to: u64, from: u64, size: u64) -> Answer {
    let is_value = size as usize <= VALUE_BYTES;
    look_up(from, size);
    if content(from, size).is_some() {
        move_bytes(to, from, size);
    } else if let Some(bytes) = overlaid(from, size, |content| content.is_message && !is_value) {
        // SAFETY: the caller of a copy hands in as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pointer(to).cast::<u8>(), bytes.len()) };
    } else {
        reads::notice(is_value);
        match machine().state.random_values() {
            Some(seed) => randomize(to, size, seed),
            None => write_zeros(to, size),
        }
    }
    Ok(())
}

fn move_bytes(to: u64, from: u64, size: u64) {
    // SAFETY: the caller of a copy hands in as many bytes at both ends; a device's addresses can all be read and written.
    // The ends may overlap.
    unsafe { std::ptr::copy(pointer(from).cast::<u8>(), pointer(to).cast::<u8>(), size as usize) };
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
