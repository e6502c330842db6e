//! Virtual memory management for expandable segments: programs reserve addresses, create memory, and map the memory to the
//! addresses.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::Mutex;

use super::PIECE;
use super::space::{device_of, give_pages_back};
use crate::handles::new_handle;
use crate::machine::{lock, machine};
use crate::out::Out;
use crate::state::Purpose;
use crate::status::{Answer, Refusal};
use crate::threads::current_device;

/// `CUmemAllocationProp`; cuda.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocationProperties {
    kind: c_int,
    handle_types: c_int,
    location: Location,
    win32: usize,
    flags: [u8; 8],
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Location {
    kind: c_int,
    id: c_int,
}

/// `CU_MEM_LOCATION_TYPE_DEVICE`.
const ON_DEVICE: c_int = 1;

/// Memory behind a handle.
struct Created {
    properties: AllocationProperties,
    device: usize,
    size: u64,
    /// References: the handle, and every mapping.
    holders: u32,
}

struct VirtualMemory {
    /// Reserved address ranges: start to bytes.
    reserved: BTreeMap<u64, u64>,
    created: BTreeMap<usize, Created>,
    /// Mappings: address to bytes and handle.
    mapped: BTreeMap<u64, (u64, usize)>,
}

static VIRTUAL: Mutex<VirtualMemory> = Mutex::new(VirtualMemory {
    reserved: BTreeMap::new(),
    created: BTreeMap::new(),
    mapped: BTreeMap::new(),
});

impl VirtualMemory {
    /// Drops one reference to a handle's memory. Dropping the last one returns the memory to its device.
    fn let_go(&mut self, handle: usize) -> Answer {
        let created = self.created.get_mut(&handle).ok_or(Refusal::InvalidValue)?;
        created.holders -= 1;
        if created.holders == 0 {
            machine().give_back(created.device, Purpose::Memory, created.size);
            self.created.remove(&handle);
        }
        Ok(())
    }
}

fn properties_at(properties: *const AllocationProperties) -> Result<AllocationProperties, Refusal> {
    if properties.is_null() {
        return Err(Refusal::InvalidValue);
    }
    // SAFETY: the caller passes a pointer to this structure.
    Ok(unsafe { properties.read_unaligned() })
}

pub(crate) fn granularity(
    out: Out<usize>,
    _properties: *const AllocationProperties,
    _option: c_int,
) -> Answer {
    out.set(PIECE as usize)
}

pub(crate) fn reserve(address: Out<u64>, size: usize, alignment: usize, _wanted: u64, _flags: u64) -> Answer {
    let size = size as u64;
    if size == 0 || !size.is_multiple_of(PIECE) {
        return Err(Refusal::InvalidValue);
    }
    let device = current_device()?;
    let at = lock(super::of(device))
        .space
        .take(size, (alignment as u64).max(PIECE))
        .ok_or(Refusal::OutOfMemory)?;
    lock(&VIRTUAL).reserved.insert(at, size);
    address.set(at)
}

pub(crate) fn unreserve(address: u64, size: usize) -> Answer {
    let device = device_of(address).ok_or(Refusal::InvalidValue)?;
    let mut all = lock(&VIRTUAL);
    if all.reserved.get(&address) != Some(&(size as u64)) {
        return Err(Refusal::InvalidValue);
    }
    all.reserved.remove(&address);
    lock(super::of(device)).space.give_back(address, size as u64);
    Ok(())
}

pub(crate) fn create(
    handle: Out<usize>,
    size: usize,
    properties: *const AllocationProperties,
    _flags: u64,
) -> Answer {
    super::before_first();
    let properties = properties_at(properties)?;
    let size = size as u64;
    if size == 0 || !size.is_multiple_of(PIECE) || properties.location.kind != ON_DEVICE {
        return Err(Refusal::InvalidValue);
    }
    let device = machine().device(properties.location.id)?;
    machine().need_context(device)?;
    machine().take(device, Purpose::Memory, size)?;
    let new = new_handle();
    lock(&VIRTUAL).created.insert(new, Created { properties, device, size, holders: 1 });
    handle.set(new)
}

pub(crate) fn release(handle: usize) -> Answer {
    lock(&VIRTUAL).let_go(handle)
}

pub(crate) fn map(address: u64, size: usize, _offset: usize, handle: usize, _flags: u64) -> Answer {
    let mut all = lock(&VIRTUAL);
    let size = size as u64;
    let reserved = all.reserved.range(..=address).next_back();
    if reserved.is_none_or(|(&start, &length)| address + size > start + length) {
        return Err(Refusal::InvalidValue);
    }
    let end_of_last = all.mapped.range(..address + size).next_back().map_or(0, |(&at, &(size, _))| at + size);
    if end_of_last > address {
        return Err(Refusal::InvalidValue);
    }
    all.created.get_mut(&handle).ok_or(Refusal::InvalidValue)?.holders += 1;
    all.mapped.insert(address, (size, handle));
    Ok(())
}

pub(crate) fn unmap(address: u64, size: usize) -> Answer {
    let mut all = lock(&VIRTUAL);
    let within: Vec<_> = all.mapped.range(address..address + size as u64).map(|(&at, &m)| (at, m)).collect();
    if within.iter().map(|(_, (size, _))| size).sum::<u64>() != size as u64 {
        return Err(Refusal::InvalidValue);
    }
    for (at, (size, handle)) in within {
        all.mapped.remove(&at);
        super::copies::forget(at, size);
        give_pages_back(at, size);
        all.let_go(handle)?;
    }
    Ok(())
}

/// The mapping with the highest address up to `address`: its address and its bytes.
pub(super) fn nearest(address: u64) -> Option<(u64, u64)> {
    lock(&VIRTUAL).mapped.range(..=address).next_back().map(|(&at, &(size, _))| (at, size))
}

pub(crate) fn set_access(_address: u64, _size: usize, _descriptors: usize, _count: usize) -> Answer {
    Ok(())
}

/// Returns the handle of the mapping at an address, with a reference that the caller must release.
pub(crate) fn retain_handle(handle: Out<usize>, address: u64) -> Answer {
    let mut all = lock(&VIRTUAL);
    let (&start, &(size, found)) = all.mapped.range(..=address).next_back().ok_or(Refusal::InvalidValue)?;
    if address - start >= size {
        return Err(Refusal::InvalidValue);
    }
    all.created.get_mut(&found).ok_or(Refusal::InvalidValue)?.holders += 1;
    handle.set(found)
}

pub(crate) fn properties_of(out: Out<AllocationProperties>, handle: usize) -> Answer {
    out.set(lock(&VIRTUAL).created.get(&handle).ok_or(Refusal::InvalidValue)?.properties)
}
