//! Device memory: addresses, and the bytes that they count for.
//!
//! Every device has its own range of the process's address space. The operating system backs its pages: they read as zeros and
//! cost nothing until they are written. So copies from and to the host work as on a real GPU.

pub(crate) mod accesses;
pub(crate) mod async_pool;
pub(crate) mod copies;
mod file_pages;
pub(crate) mod graph_pool;
pub(crate) mod host;
mod placement;
mod reads;
pub(crate) mod space;
pub(crate) mod virtual_memory;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use crate::asks;
use crate::machine::{lock, machine};
use crate::out::Out;
use crate::state::{DEVICES, Fact, Purpose};
use crate::status::{Answer, Refusal};
use crate::threads::use_current_device;
use crate::timeline;
use placement::Chunks;
use space::Space;

/// Page size of the operating system, in bytes.
const PAGE: u64 = 4096;

/// Allocation granularity of device memory, in bytes.
pub(crate) const PIECE: u64 = 2 << 20;

/// A device's address space, and its allocations by `cudaMalloc` and `cuMemAlloc`: address to bytes.
pub(crate) struct DeviceMemory {
    pub(crate) space: Space,
    chunks: Chunks,
    allocations: BTreeMap<u64, u64>,
}

/// The memory of an existing device.
pub(crate) fn of(device: usize) -> &'static Mutex<DeviceMemory> {
    static ALL: LazyLock<Vec<Mutex<DeviceMemory>>> = LazyLock::new(|| {
        let new = |device| DeviceMemory {
            space: Space::of_device(device),
            chunks: Chunks::default(),
            allocations: BTreeMap::new(),
        };
        (0..DEVICES).map(|device| Mutex::new(new(device))).collect()
    });
    &ALL[device]
}

/// Rounds bytes up to whole pieces; at least one piece.
pub(crate) fn whole_pieces(size: u64) -> Result<u64, Refusal> {
    size.max(1).checked_next_multiple_of(PIECE).ok_or(Refusal::OutOfMemory)
}

/// Allocates device memory.
pub(super) fn allocate(device: usize, size: u64) -> Result<u64, Refusal> {
    let size = whole_pieces(size)?;
    let machine = machine();
    machine.take(device, Purpose::Memory, size)?;
    let memory = &mut *lock(of(device));
    match memory.chunks.take(&mut memory.space, size) {
        Some(address) => {
            memory.allocations.insert(address, size);
            Ok(address)
        }
        None => {
            machine.give_back(device, Purpose::Memory, size);
            Err(Refusal::OutOfMemory)
        }
    }
}

/// Frees device memory. Does nothing for a null pointer.
pub(super) fn release(address: u64) -> Answer {
    if address == 0 {
        return Ok(());
    }
    let device = space::device_of(address).ok_or(Refusal::InvalidValue)?;
    let memory = &mut *lock(of(device));
    let size = memory.allocations.remove(&address).ok_or(Refusal::InvalidValue)?;
    copies::forget(address, size);
    space::give_pages_back(address, size);
    memory.chunks.give_back(&mut memory.space, address, size);
    machine().give_back(device, Purpose::Memory, size);
    Ok(())
}

/// The function to call before the first request for device memory; 0 without one.
static BEFORE_FIRST: AtomicUsize = AtomicUsize::new(0);

/// Called by the recorder, which turns on PyTorch's history: C++ may initialize GPUs without PyTorch's Python part.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn vramscope_phantom_before_memory(call: Option<extern "C" fn()>) {
    BEFORE_FIRST.store(call.map_or(0, |call| call as usize), Ordering::Release);
}

/// Calls the recorder's function, once.
pub(crate) fn before_first() {
    let call = BEFORE_FIRST.swap(0, Ordering::AcqRel);
    if call != 0 {
        // SAFETY: only `vramscope_phantom_before_memory` stores an address, of a function with this signature.
        let call: extern "C" fn() = unsafe { std::mem::transmute(call) };
        call();
    }
}

pub(crate) fn malloc(address: Out<u64>, size: usize) -> Answer {
    if size == 0 {
        return address.set(0);
    }
    before_first();
    address.set(allocate(use_current_device()?, size as u64)?)
}

/// `cuMemAlloc`. Unlike the runtime's function, it refuses 0 bytes.
pub(crate) fn driver_malloc(address: Out<u64>, size: usize) -> Answer {
    if size == 0 { Err(Refusal::InvalidValue) } else { malloc(address, size) }
}

/// `cudaMallocManaged`: counts on the current device.
pub(crate) fn malloc_managed(address: Out<u64>, size: usize, _flags: u32) -> Answer {
    malloc(address, size)
}

pub(crate) fn free(address: u64) -> Answer {
    // `cudaFree` waits for the device.
    timeline::finish_all();
    if async_pool::owns(address) || graph_pool::owns(address) {
        return async_pool::free(address, 0);
    }
    release(address)
}

/// `cuMemGetAddressRange`: the allocation or mapping that contains an address.
pub(crate) fn address_range(base: Out<u64>, size: Out<usize>, address: u64) -> Answer {
    let device = space::device_of(address).ok_or(Refusal::NotFound)?;
    let allocated = lock(of(device)).allocations.range(..=address).next_back().map(|(&at, &size)| (at, size));
    let nearest = [
        allocated,
        async_pool::nearest(address),
        graph_pool::nearest(address),
        virtual_memory::nearest(address),
    ];
    let found = nearest.into_iter().flatten().find(|(at, size)| address - at < *size);
    let (at, length) = found.ok_or(Refusal::NotFound)?;
    base.set_if_wanted(at);
    size.set_if_wanted(length as usize);
    Ok(())
}

pub(crate) fn info(free: Out<usize>, total: Out<usize>) -> Answer {
    let device = use_current_device()?;
    asks::notice();
    let machine = machine();
    machine.bury_the_dead();
    let (all, used) = (machine.fact(device, Fact::TotalBytes), machine.fact(device, Fact::UsedBytes));
    free.set(all.saturating_sub(used) as usize)?;
    total.set(all as usize)
}
