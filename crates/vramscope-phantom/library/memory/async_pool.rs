//! Memory pools of `cudaMallocAsync`: each device has one, its default pool.
//!
//! This is a model. A pool takes whole pieces from the device, and keeps them for its next requests up to its release
//! threshold. It does not model positions within a piece, so it shows no fragmentation inside the driver's pool.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};

use super::space::{device_of, give_pages_back};
use super::{PIECE, graph_pool, of, whole_pieces};
use crate::handles;
use crate::machine::{lock, machine};
use crate::out::Out;
use crate::state::{DEVICES, Purpose};
use crate::status::{Answer, Refusal};
use crate::threads::use_current_device;

/// Requests are rounded up to a multiple of this number of bytes.
const UNIT: u64 = 512;

#[derive(Debug, Default)]
struct Pool {
    /// Bytes that the pool keeps when they are freed. A stream synchronization returns the rest to the device.
    release_threshold: u64,
    /// Bytes in use, and their peak.
    used: u64,
    used_high: u64,
    /// Bytes reserved from the device, and their peak.
    reserved: u64,
    reserved_high: u64,
}

struct Pools {
    pools: Vec<Pool>,
    /// Allocations: address to the size of the address range and the counted size, both in bytes.
    allocations: BTreeMap<u64, (u64, u64)>,
}

static POOLS: LazyLock<Mutex<Pools>> = LazyLock::new(|| {
    Mutex::new(Pools { pools: (0..DEVICES).map(|_| Pool::default()).collect(), allocations: BTreeMap::new() })
});

impl Pool {
    /// Returns unused pieces to the device, down to `keep` bytes.
    fn trim(&mut self, device: usize, keep: u64) {
        let needed = self.used.max(keep).next_multiple_of(PIECE);
        if self.reserved > needed {
            machine().give_back(device, Purpose::Memory, self.reserved - needed);
            self.reserved = needed;
        }
    }
}

/// Whether an address came from a pool.
pub(crate) fn owns(address: u64) -> bool {
    lock(&POOLS).allocations.contains_key(&address)
}

/// The allocation with the highest address up to `address`: its address and its bytes.
pub(super) fn nearest(address: u64) -> Option<(u64, u64)> {
    lock(&POOLS).allocations.range(..=address).next_back().map(|(&at, &(size, _))| (at, size))
}

pub(crate) fn default_pool(pool: Out<usize>, device: c_int) -> Answer {
    pool.set(handles::POOLS.of(machine().device(device)?))
}

pub(crate) fn malloc(address: Out<u64>, size: usize, stream: usize) -> Answer {
    if size == 0 {
        return address.set(0);
    }
    malloc_on(&address, use_current_device()?, size, stream)
}

pub(crate) fn malloc_from(address: Out<u64>, size: usize, pool: usize, stream: usize) -> Answer {
    malloc_on(&address, handles::POOLS.device(pool)?, size, stream)
}

fn malloc_on(address: &Out<u64>, device: usize, size: usize, stream: usize) -> Answer {
    let captured = graph_pool::captured_malloc(address, device, size, stream);
    captured.unwrap_or_else(|| address.set(allocate(device, size as u64)?))
}

fn allocate(device: usize, size: u64) -> Result<u64, Refusal> {
    let counted = size.checked_next_multiple_of(UNIT).ok_or(Refusal::OutOfMemory)?;
    machine().need_context(device)?;
    let mut pools = lock(&POOLS);
    let pool = &mut pools.pools[device];
    let missing = (pool.used + counted).saturating_sub(pool.reserved);
    if missing > 0 {
        let missing = whole_pieces(missing)?;
        machine().take(device, Purpose::Memory, missing)?;
        pool.reserved += missing;
        pool.reserved_high = pool.reserved_high.max(pool.reserved);
    }
    let addresses = whole_pieces(size)?;
    let at = lock(of(device)).space.take(addresses, PIECE).ok_or(Refusal::OutOfMemory)?;
    pool.used += counted;
    pool.used_high = pool.used_high.max(pool.used);
    pools.allocations.insert(at, (addresses, counted));
    Ok(at)
}

pub(crate) fn free(address: u64, stream: usize) -> Answer {
    if address == 0 {
        return Ok(());
    }
    if graph_pool::owns(address) {
        return graph_pool::captured_free(address, stream).unwrap_or_else(|| graph_pool::free(address));
    }
    let device = device_of(address).ok_or(Refusal::InvalidValue)?;
    let mut pools = lock(&POOLS);
    let (addresses, counted) = pools.allocations.remove(&address).ok_or(Refusal::InvalidValue)?;
    super::copies::forget(address, addresses);
    give_pages_back(address, addresses);
    lock(of(device)).space.give_back(address, addresses);
    pools.pools[device].used -= counted;
    Ok(())
}

/// Called after a synchronization: pools return unused bytes beyond their threshold.
pub(crate) fn at_synchronization() {
    let mut pools = lock(&POOLS);
    for (device, pool) in pools.pools.iter_mut().enumerate().filter(|(_, pool)| pool.reserved > 0) {
        let keep = pool.release_threshold.min(pool.reserved);
        pool.trim(device, keep);
    }
}

pub(crate) fn trim(pool: usize, keep: usize) -> Answer {
    let device = handles::POOLS.device(pool)?;
    lock(&POOLS).pools[device].trim(device, keep as u64);
    Ok(())
}

/// `cudaMemPoolAttr`; driver_types.h.
mod attribute {
    pub(super) const REUSE_FIRST: i32 = 1;
    pub(super) const REUSE_LAST: i32 = 3;
    pub(super) const RELEASE_THRESHOLD: i32 = 4;
    pub(super) const RESERVED: i32 = 5;
    pub(super) const RESERVED_HIGH: i32 = 6;
    pub(super) const USED: i32 = 7;
    pub(super) const USED_HIGH: i32 = 8;
}

pub(crate) fn get_attribute(pool: usize, which: c_int, value: Out<u64>) -> Answer {
    let device = handles::POOLS.device(pool)?;
    let pools = lock(&POOLS);
    let pool = &pools.pools[device];
    value.set(match which {
        attribute::RELEASE_THRESHOLD => pool.release_threshold,
        attribute::RESERVED => pool.reserved,
        attribute::RESERVED_HIGH => pool.reserved_high,
        attribute::USED => pool.used,
        attribute::USED_HIGH => pool.used_high,
        _ => return Err(Refusal::InvalidValue),
    })
}

pub(crate) fn set_attribute(pool: usize, which: c_int, value: *const u64) -> Answer {
    let device = handles::POOLS.device(pool)?;
    if value.is_null() {
        return Err(Refusal::InvalidValue);
    }
    let mut pools = lock(&POOLS);
    let pool = &mut pools.pools[device];
    match which {
        attribute::REUSE_FIRST..=attribute::REUSE_LAST => {}
        // SAFETY: these attributes have 64 bits, and the pointer is not null.
        attribute::RELEASE_THRESHOLD => pool.release_threshold = unsafe { value.read_unaligned() },
        // Setting a high watermark resets it.
        attribute::RESERVED_HIGH => pool.reserved_high = pool.reserved,
        attribute::USED_HIGH => pool.used_high = pool.used,
        _ => return Err(Refusal::InvalidValue),
    }
    Ok(())
}
