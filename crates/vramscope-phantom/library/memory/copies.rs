//! Copies between the host and devices, and `memset`. All complete immediately.
//!
//! A copy from a device returns bytes that an earlier copy wrote to exactly this range, and zeros otherwise. Kernels compute
//! nothing, so other bytes would be stale. A single value is returned only if no kernel was launched since. Data from other
//! ranks (NCCL) and from mapped files is loaded when it is first read.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::PAGE;
use super::space::{device_of, give_pages_back, pointer};
use super::{accesses, file_pages, reads};
use crate::graphs::add_work;
use crate::launches::launches;
use crate::machine::{lock, machine};
use crate::state::{KEPT_BYTES, VALUE_BYTES};
use crate::status::{Answer, Refusal};
use crate::timeline;

/// Bytes that become available later: from another rank once it sends them, or from a file.
pub(crate) type Later = Arc<dyn Fn() -> Option<Vec<u8>> + Send + Sync>;

/// Bytes in device memory that came from the host, on this or another rank.
#[derive(Clone)]
struct Content {
    size: u64,
    /// This process's launches at that time.
    launches: u64,
    /// Whether it came from another rank.
    is_message: bool,
    /// Loads the bytes. `None` once they are loaded.
    later: Option<Later>,
}

impl Content {
    fn new(size: u64) -> Self {
        Self { size, launches: launches(), is_message: false, later: None }
    }
}

/// By address. Entries never overlap.
static CONTENTS: Mutex<BTreeMap<u64, Content>> = Mutex::new(BTreeMap::new());

/// All contents that overlap this range, last one first.
fn within(
    contents: &BTreeMap<u64, Content>,
    address: u64,
    size: u64,
) -> impl Iterator<Item = (u64, &Content)> {
    let before_end = contents.range(..address + size).rev().map(|(&at, content)| (at, content));
    before_end.take_while(move |(at, content)| at + content.size > address)
}

/// Removes all contents that overlap this range.
pub(crate) fn forget(address: u64, size: u64) {
    let mut contents = lock(&CONTENTS);
    let gone: Vec<u64> = within(&contents, address, size).map(|(at, _)| at).collect();
    gone.iter().for_each(|at| drop(contents.remove(at)));
}

/// Registers another rank's data as the content of `size` bytes at `address`, provided that its size matches.
pub(crate) fn expect(address: u64, size: u64, later: Later) {
    forget(address, size);
    lock(&CONTENTS).insert(address, Content { is_message: true, later: Some(later), ..Content::new(size) });
}

/// Loads the data of other ranks and of files in this range.
fn look_up(address: u64, size: u64) {
    let waiting: Vec<(u64, u64, Later)> = within(&lock(&CONTENTS), address, size)
        .filter_map(|(at, content)| Some((at, content.size, Arc::clone(content.later.as_ref()?))))
        .collect();
    for (at, size, later) in waiting {
        // Hold no lock here: this may wait for the other rank.
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

/// The content of exactly these bytes, if it is still there. A single value may also be part of larger content.
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

/// Like [`content`], for a copy on the device. Unloaded content stays unloaded if it is copied as a whole.
fn content_to_copy(address: u64, size: u64) -> Option<Content> {
    let found = content(address, size)?;
    if found.size == size || found.later.is_none() {
        return Some(found);
    }
    look_up(address, size);
    content(address, size)
}

/// The known bytes of this range, with zeros for the rest. `None` if nothing in it is known.
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
        // SAFETY: device memory is always readable, and `place` has room for these bytes.
        unsafe { std::ptr::copy_nonoverlapping(pointer(from).cast::<u8>(), place, (to - from) as usize) };
    }
    bytes
}

/// Copies `size` bytes. The addresses tell whether each end is on the host or on a device.
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

/// Called by the follower: writes `size` bytes at `address` to `to`, if the program copied them there. Returns whether it did. The follower
/// knows that no kernel wrote there since.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_copied(address: u64, to: u64, size: u64) -> c_int {
    copy_back(to, address, size).into()
}

/// Called by the follower: `size` bytes of the host are the content of device memory at `address`, so that other ranks can receive them.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_know(address: u64, bytes: u64, size: u64) {
    copy_known(address, bytes, size);
}

/// Copies bytes to the host if they are all part of one copy to the device. Returns whether they are.
fn copy_back(to: u64, from: u64, size: u64) -> bool {
    if size == 0 || to == 0 || device_of(from).is_none() {
        return false;
    }
    look_up(from, size);
    let is_all_there = within(&lock(&CONTENTS), from, size)
        .any(|(at, content)| at <= from && from + size <= at + content.size && content.later.is_none());
    if is_all_there {
        move_bytes(to, from, size);
    }
    is_all_there
}

/// Stores known bytes on a device. Addresses elsewhere are ignored.
fn copy_known(to: u64, from: u64, size: u64) {
    if size > 0 && from != 0 && device_of(to).is_some() {
        // The only refusals are those of null pointers.
        copy_to_device(to, from, size).ok();
    }
}

fn copy_to_device(to: u64, from: u64, size: u64) -> Answer {
    forget(to, size);
    if size > KEPT_BYTES && !machine().state.keeps_contents() {
        give_pages_back(to, size);
        return Ok(());
    }
    let later = file_pages::mapped(from, size).map(|part| -> Later { Arc::new(move || part.read()) });
    if later.is_some() {
        give_pages_back(to, size);
    } else {
        store(to, from, size);
    }
    lock(&CONTENTS).insert(to, Content { later, ..Content::new(size) });
    Ok(())
}

/// Writes bytes to a device. Skips whole pages of zeros, which cost the operating system no memory.
fn store(to: u64, from: u64, size: u64) {
    let (first, end) = (to.next_multiple_of(PAGE), (to + size) / PAGE * PAGE);
    if size < KEPT_BYTES || first >= end {
        return move_bytes(to, from, size);
    }
    // Source and destination can overlap only on a device. Returned pages read as zeros, so move the bytes instead.
    if from < to + size && to < from + size {
        return move_bytes(to, from, size);
    }
    give_pages_back(to, size);
    move_bytes(to, from, first - to);
    for at in (first..end).step_by(PAGE as usize) {
        let source = from + (at - to);
        // SAFETY: the caller of a copy passes `size` bytes, and this page lies within them; it need not be aligned.
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
    if let Some(value) = reads::answer(size) {
        write_zeros(to, size);
        let bytes = value.to_le_bytes();
        move_bytes(to, bytes.as_ptr().expose_provenance() as u64, size.min(bytes.len() as u64));
    } else if content(from, size).is_some() {
        move_bytes(to, from, size);
    } else if let Some(bytes) = overlaid(from, size, |content| content.is_message && !is_value) {
        // SAFETY: the caller of a copy passes a buffer of this size.
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
    // SAFETY: the caller of a copy passes `size` bytes at both ends, and device memory is always readable and writable. The
    // ends may overlap.
    unsafe { std::ptr::copy(pointer(from).cast::<u8>(), pointer(to).cast::<u8>(), size as usize) };
}

fn write_zeros(address: u64, size: u64) {
    // SAFETY: the caller's own bytes.
    unsafe { std::ptr::write_bytes(pointer(address).cast::<u8>(), 0, size as usize) };
}

/// Fills the caller's bytes with random values of the type that the size suggests. 8 bytes: an integer from 1 to 100. 4 bytes:
/// a single-precision number from 0 to 1. 2 bytes: a half-precision number from 0.5 to 1. 1 byte: 0 or 1. Larger copies count
/// as single precision.
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
        // Between 0.5 and 1 in the format with 5 exponent bits; between 2^-15 and 2^-14 in the format with 8.
        2 => write(address, &(0x3800u16 | (draw() & 0x3ff) as u16).to_le_bytes()),
        8 => write(address, &(draw() % 100 + 1).to_le_bytes()),
        _ => {
            for at in (address..address + size / 4 * 4).step_by(4) {
                write(at, &fraction().to_le_bytes());
            }
        }
    }
}

/// Records the accesses of a copy, and copies.
fn recorded_copy(to: u64, from: u64, size: u64, stream: usize) -> Answer {
    if size > 0 {
        record(to, from, size, stream);
    }
    copy(to, from, size)
}

/// Records the accesses of a copy. A copy within the host has none.
fn record(to: u64, from: u64, size: u64, stream: usize) {
    match (device_of(to).is_some(), device_of(from).is_some()) {
        (true, false) if from != 0 => accesses::record_copy_from_host(stream, to, from, size),
        (false, false) => {}
        _ => accesses::record_words(stream, &[to, from]),
    }
}

pub(crate) fn memcpy(to: u64, from: u64, size: usize, _kind: c_int) -> Answer {
    memcpy_plain(to, from, size)
}

pub(crate) fn memcpy_async(to: u64, from: u64, size: usize, _kind: c_int, stream: usize) -> Answer {
    memcpy_plain_async(to, from, size, stream)
}

pub(crate) fn memcpy_plain(to: u64, from: u64, size: usize) -> Answer {
    // The copy waits for the default stream.
    timeline::finish_stream(0);
    recorded_copy(to, from, size as u64, 0)
}

pub(crate) fn memcpy_plain_async(to: u64, from: u64, size: usize, stream: usize) -> Answer {
    add_work(stream);
    recorded_copy(to, from, size as u64, stream)
}

pub(crate) fn memcpy_peer_async(
    to: u64,
    _to_device: c_int,
    from: u64,
    _from_device: c_int,
    size: usize,
    stream: usize,
) -> Answer {
    memcpy_plain_async(to, from, size, stream)
}

#[allow(clippy::too_many_arguments, reason = "cudaMemcpy2DAsync's signature")]
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
    if width > 0 && height > 0 {
        record(to, from, width as u64, stream);
    }
    (0..height as u64)
        .try_for_each(|row| copy(to + row * to_pitch as u64, from + row * from_pitch as u64, width as u64))
}

pub(crate) fn memset(address: u64, value: c_int, size: usize) -> Answer {
    fill(address, &[value as u8], size as u64, 0)
}

pub(crate) fn memset_async(address: u64, value: c_int, size: usize, stream: usize) -> Answer {
    add_work(stream);
    fill(address, &[value as u8], size as u64, stream)
}

pub(crate) fn memset_d8(address: u64, value: u8, count: usize) -> Answer {
    fill(address, &[value], count as u64, 0)
}

pub(crate) fn memset_d8_async(address: u64, value: u8, count: usize, stream: usize) -> Answer {
    add_work(stream);
    fill(address, &[value], count as u64, stream)
}

pub(crate) fn memset_d32(address: u64, value: u32, count: usize) -> Answer {
    fill(address, &value.to_le_bytes(), 4 * count as u64, 0)
}

pub(crate) fn memset_d32_async(address: u64, value: u32, count: usize, stream: usize) -> Answer {
    add_work(stream);
    fill(address, &value.to_le_bytes(), 4 * count as u64, stream)
}

/// Makes device memory read as zeros, whatever the pattern: storing a pattern would cost as much host memory as a GPU has.
fn fill(address: u64, pattern: &[u8], size: u64, stream: usize) -> Answer {
    if size == 0 {
        return Ok(());
    }
    if address == 0 {
        return Err(Refusal::InvalidValue);
    }
    if device_of(address).is_some() {
        accesses::record_words(stream, &[address]);
        forget(address, size);
        give_pages_back(address, size);
        return Ok(());
    }
    for (i, at) in (address..address + size).enumerate() {
        // SAFETY: within the caller's bytes.
        unsafe { pointer(at).cast::<u8>().write(pattern[i % pattern.len()]) };
    }
    Ok(())
}
