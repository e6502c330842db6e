//! Host memory that a device can access: page-locked with a real GPU, ordinary memory here.

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::sync::Mutex;

use super::PAGE;
use super::space::pointer;
use crate::machine::lock;
use crate::out::Out;
use crate::status::{Answer, Refusal};

/// Memory allocated here, and memory registered by the program: address to bytes.
struct HostMemory {
    allocated: BTreeMap<u64, usize>,
    registered: BTreeMap<u64, usize>,
}

static HOST: Mutex<HostMemory> =
    Mutex::new(HostMemory { allocated: BTreeMap::new(), registered: BTreeMap::new() });

fn layout(size: usize) -> Result<Layout, Refusal> {
    Layout::from_size_align(size.max(1), PAGE as usize).map_err(|_| Refusal::OutOfMemory)
}

pub(crate) fn allocate(address: Out<u64>, size: usize, _flags: u32) -> Answer {
    // SAFETY: the layout is of at least one byte.
    let memory = unsafe { std::alloc::alloc_zeroed(layout(size)?) };
    if memory.is_null() {
        return Err(Refusal::OutOfMemory);
    }
    let at = memory.expose_provenance() as u64;
    lock(&HOST).allocated.insert(at, size);
    address.set(at)
}

/// `cudaMallocHost`, `cuMemAllocHost`.
pub(crate) fn allocate_plain(address: Out<u64>, size: usize) -> Answer {
    allocate(address, size, 0)
}

pub(crate) fn free(address: u64) -> Answer {
    if address == 0 {
        return Ok(());
    }
    let size = lock(&HOST).allocated.remove(&address).ok_or(Refusal::InvalidValue)?;
    // SAFETY: allocated above with this layout, and only this thread removed it from the list.
    unsafe { std::alloc::dealloc(pointer(address).cast(), layout(size)?) };
    Ok(())
}

pub(crate) fn register(address: u64, size: usize, _flags: u32) -> Answer {
    if address == 0 || size == 0 {
        return Err(Refusal::InvalidValue);
    }
    lock(&HOST).registered.insert(address, size);
    Ok(())
}

pub(crate) fn unregister(address: u64) -> Answer {
    lock(&HOST).registered.remove(&address).map(drop).ok_or(Refusal::InvalidValue)
}

/// The device address of host memory, which is the host address.
pub(crate) fn device_pointer(device: Out<u64>, host: u64, _flags: u32) -> Answer {
    device.set(host)
}

/// Whether a device can access a host address.
pub(crate) fn is_reachable(address: u64) -> bool {
    let host = lock(&HOST);
    [&host.allocated, &host.registered].into_iter().any(|memory| {
        memory.range(..=address).next_back().is_some_and(|(&start, &size)| address - start < size as u64)
    })
}
