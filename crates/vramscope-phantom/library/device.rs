//! Properties and attributes of a device.

use std::ffi::{c_char, c_int};

use crate::asks;
use crate::identity::{bus_id, bus_number, uuid_bytes};
use crate::machine::machine;
use crate::out::Out;
use crate::state::Fact;
use crate::status::{Answer, Refusal};
use crate::version;

pub(crate) fn initialize(_flags: u32) -> Answer {
    if machine().devices() == 0 { Err(Refusal::NoDevice) } else { Ok(()) }
}

pub(crate) fn count(count: Out<c_int>) -> Answer {
    count.set(machine().devices() as c_int)
}

pub(crate) fn by_ordinal(device: Out<c_int>, ordinal: c_int) -> Answer {
    machine().device(ordinal)?;
    device.set(ordinal)
}

pub(crate) fn name(name: Out<u8>, length: c_int, device: c_int) -> Answer {
    let device = machine().device(device)?;
    name.set_text(&machine().state.name(device), length.max(0) as usize)
}

pub(crate) fn total_memory(bytes: Out<usize>, device: c_int) -> Answer {
    let device = machine().device(device)?;
    asks::notice();
    bytes.set(machine().fact(device, Fact::TotalBytes) as usize)
}

pub(crate) fn uuid(uuid: Out<u8>, device: c_int) -> Answer {
    uuid.set_bytes(&uuid_bytes(machine().device(device)?))
}

pub(crate) fn pci_bus_id(id: Out<u8>, length: c_int, device: c_int) -> Answer {
    id.set_text(&bus_id(machine().device(device)?), length.max(0) as usize)
}

pub(crate) fn by_pci_bus_id(device: Out<c_int>, id: *const c_char) -> Answer {
    let wanted = crate::out::text(id).ok_or(Refusal::InvalidValue)?;
    let found = (0..machine().state.devices()).find(|&d| wanted.eq_ignore_ascii_case(&bus_id(d)));
    device.set(found.and_then(|found| machine().ordinal(found)).ok_or(Refusal::InvalidDevice)?)
}

pub(crate) fn can_access_peer(can: Out<c_int>, device: c_int, peer: c_int) -> Answer {
    let (device, peer) = (machine().device(device)?, machine().device(peer)?);
    can.set((device != peer).into())
}

pub(crate) fn stream_priorities(least: Out<c_int>, greatest: Out<c_int>) -> Answer {
    least.set_if_wanted(0);
    greatest.set_if_wanted(-5);
    Ok(())
}

/// A device limit. The phantom enforces none.
pub(crate) fn limit(value: Out<usize>, _which: c_int) -> Answer {
    value.set(8 << 20)
}

pub(crate) fn driver_version(version: Out<c_int>) -> Answer {
    version.set(version::driver())
}

pub(crate) fn runtime_version(version: Out<c_int>) -> Answer {
    version.set(version::runtime())
}

/// `cudaDeviceGetAttribute` and `cuDeviceGetAttribute`: both use the same numbers.
pub(crate) fn attribute(value: Out<c_int>, which: c_int, device: c_int) -> Answer {
    value.set(attribute_of(machine().device(device)?, which))
}

/// An attribute by its number in cuda.h. Unlisted attributes are 0: most say whether the device supports a feature.
fn attribute_of(device: usize, which: c_int) -> c_int {
    let fact = |fact| machine().fact(device, fact) as c_int;
    let capability = fact(Fact::ComputeCapability);
    match which {
        1 | 2 => 1024,
        3 => 64,
        4 => 1024,
        5 => c_int::MAX,
        6 | 7 => 65535,
        8 => 48 << 10,
        9 => 64 << 10,
        10 => 32,
        11 => c_int::MAX,
        12 | 82 => 65536,
        // Clock rates of the cores and of the memory, in kilohertz.
        13 => 1_500_000,
        36 => 2_600_000,
        14 => 512,
        15 => 1,
        16 => fact(Fact::Multiprocessors),
        18 => fact(Fact::Integrated),
        19 | 31 | 32 | 41 => 1,
        33 => bus_number(device),
        34 | 50 => 0,
        37 => fact(Fact::BusBits),
        38 => fact(Fact::L2Bytes),
        39 => fact(Fact::ThreadsPerMultiprocessor),
        40 => 3,
        75 => capability / 10,
        76 => capability % 10,
        78..=80 | 83 => 1,
        81 => fact(Fact::SharedPerMultiprocessor),
        // Concurrent managed access, compute preemption, host pointers usable as they are, cooperative launches.
        89..=91 | 95 | 96 => 1,
        97 => fact(Fact::SharedPerBlock),
        98 | 99 => 1,
        // Virtual memory management, and handles as file descriptors.
        102 | 103 => 1,
        106 => fact(Fact::BlocksPerMultiprocessor),
        108 => fact(Fact::L2Bytes) * 5 / 8,
        109 => 128 << 20,
        111 => 1 << 10,
        // Memory pools.
        115 => 1,
        119 => 1,
        // Clusters of blocks.
        120 => (capability >= 90).into(),
        121 => 1,
        _ => 0,
    }
}

/// Byte offsets of the fields of `cudaDeviceProp` that differ between CUDA 12 and CUDA 13 (driver_types.h). Fields before
/// `multiProcessorCount` have the same offset in both.
struct Places {
    size: usize,
    multiprocessors: usize,
    integrated: usize,
    can_map_host_memory: usize,
    concurrent_kernels: usize,
    bus: usize,
    copy_engines: usize,
    unified_addressing: usize,
    bus_width: usize,
    l2: usize,
    threads_per_multiprocessor: usize,
    stream_priorities: usize,
    shared_per_multiprocessor: usize,
    registers_per_multiprocessor: usize,
    managed_memory: usize,
    concurrent_managed_access: usize,
    cooperative_launch: usize,
    most_shared_per_block: usize,
    blocks_per_multiprocessor: usize,
    reserved_shared_per_block: usize,
    host_register: usize,
    memory_pools: usize,
    cluster_launch: usize,
}

const CUDA_12: Places = Places {
    size: 1032,
    multiprocessors: 388,
    integrated: 396,
    can_map_host_memory: 400,
    concurrent_kernels: 576,
    bus: 584,
    copy_engines: 600,
    unified_addressing: 604,
    bus_width: 612,
    l2: 616,
    threads_per_multiprocessor: 624,
    stream_priorities: 628,
    shared_per_multiprocessor: 640,
    registers_per_multiprocessor: 648,
    managed_memory: 652,
    concurrent_managed_access: 676,
    cooperative_launch: 688,
    most_shared_per_block: 696,
    blocks_per_multiprocessor: 712,
    reserved_shared_per_block: 720,
    host_register: 728,
    memory_pools: 744,
    cluster_launch: 772,
};

const CUDA_13: Places = Places {
    size: 1008,
    multiprocessors: 384,
    integrated: 388,
    can_map_host_memory: 392,
    concurrent_kernels: 560,
    bus: 568,
    copy_engines: 584,
    unified_addressing: 588,
    bus_width: 592,
    l2: 596,
    threads_per_multiprocessor: 604,
    stream_priorities: 608,
    shared_per_multiprocessor: 624,
    registers_per_multiprocessor: 632,
    managed_memory: 636,
    concurrent_managed_access: 656,
    cooperative_launch: 668,
    most_shared_per_block: 672,
    blocks_per_multiprocessor: 688,
    reserved_shared_per_block: 696,
    host_register: 704,
    memory_pools: 720,
    cluster_launch: 748,
};

/// `cudaGetDeviceProperties`.
pub(crate) fn properties(out: Out<u8>, device: c_int) -> Answer {
    let device = machine().device(device)?;
    asks::notice_properties();
    let places = if version::runtime() >= 13_000 { CUDA_13 } else { CUDA_12 };
    out.set_bytes(&properties_of(device, &places))
}

fn properties_of(device: usize, places: &Places) -> Vec<u8> {
    let mut bytes = vec![0; places.size];
    let fact = |fact| machine().fact(device, fact);
    let capability = fact(Fact::ComputeCapability) as i32;
    let name = machine().state.name(device);
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[256..272].copy_from_slice(&uuid_bytes(device));
    let mut wide = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    wide(288, fact(Fact::TotalBytes));
    wide(296, 48 << 10);
    wide(312, i32::MAX as u64);
    wide(352, 64 << 10);
    wide(368, 512);
    wide(376, 32);
    wide(places.shared_per_multiprocessor, fact(Fact::SharedPerMultiprocessor));
    wide(places.most_shared_per_block, fact(Fact::SharedPerBlock));
    wide(places.reserved_shared_per_block, 1 << 10);
    let mut int = |at: usize, value: i32| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    // Registers; threads of a warp and of a block; the maximum of each dimension.
    for (at, value) in [(304, 65536), (308, 32), (320, 1024), (324, 1024), (328, 1024), (332, 64)] {
        int(at, value);
    }
    for (at, value) in
        [(336, i32::MAX), (340, 65535), (344, 65535), (360, capability / 10), (364, capability % 10)]
    {
        int(at, value);
    }
    int(places.multiprocessors, fact(Fact::Multiprocessors) as i32);
    int(places.integrated, fact(Fact::Integrated) as i32);
    int(places.bus, bus_number(device));
    int(places.copy_engines, 3);
    int(places.bus_width, fact(Fact::BusBits) as i32);
    int(places.l2, fact(Fact::L2Bytes) as i32);
    int(places.threads_per_multiprocessor, fact(Fact::ThreadsPerMultiprocessor) as i32);
    int(places.registers_per_multiprocessor, 65536);
    int(places.blocks_per_multiprocessor, fact(Fact::BlocksPerMultiprocessor) as i32);
    int(places.cluster_launch, (capability >= 90).into());
    for at in [
        places.can_map_host_memory,
        places.concurrent_kernels,
        places.unified_addressing,
        places.stream_priorities,
        places.managed_memory,
        places.concurrent_managed_access,
        places.cooperative_launch,
        places.host_register,
        places.memory_pools,
    ] {
        int(at, 1);
    }
    bytes
}

/// `cudaPointerGetAttributes`: 24 bytes of fields in every release, with spare room since CUDA 13.
pub(crate) fn pointer_attributes(out: Out<u8>, address: u64) -> Answer {
    const UNREGISTERED: i32 = 0;
    const HOST: i32 = 1;
    const DEVICE: i32 = 2;
    let on = crate::memory::space::device_of(address);
    let on_host = on.is_none() && crate::memory::host::is_reachable(address);
    let (kind, device) = match on {
        Some(device) => (DEVICE, machine().ordinal(device).unwrap_or(0)),
        None if on_host => (HOST, 0),
        None => (UNREGISTERED, -2),
    };
    let mut bytes = Vec::with_capacity(24);
    bytes.extend(kind.to_le_bytes());
    bytes.extend(device.to_le_bytes());
    bytes.extend(if kind == UNREGISTERED { 0 } else { address }.to_le_bytes());
    bytes.extend(if kind == DEVICE { 0 } else { address }.to_le_bytes());
    out.set_bytes(&bytes)
}

/// `cuPointerGetAttribute`, for the attributes that PyTorch, NCCL and CuPy query. Numbers are those of cuda.h.
pub(crate) fn pointer_attribute(out: Out<u8>, which: c_int, address: u64) -> Answer {
    let device = crate::memory::space::device_of(address);
    let on_host = crate::memory::host::is_reachable(address);
    if device.is_none() && !on_host {
        return Err(Refusal::InvalidValue);
    }
    match which {
        // The context, then the kind of memory: host (1) or device (2).
        1 => out.set_bytes(&crate::handles::CONTEXTS.of(device.unwrap_or(0)).to_le_bytes()),
        2 => out.set_bytes(&if device.is_some() { 2u32 } else { 1 }.to_le_bytes()),
        // The device address, then the host address.
        3 => out.set_bytes(&address.to_le_bytes()),
        4 if device.is_none() => out.set_bytes(&address.to_le_bytes()),
        // Whether the memory is managed, the device, and a buffer id.
        8 => out.set_bytes(&0u32.to_le_bytes()),
        9 => out.set_bytes(&device.and_then(|d| machine().ordinal(d)).unwrap_or(0).to_le_bytes()),
        7 => out.set_bytes(&address.to_le_bytes()),
        _ => Err(Refusal::NotSupported),
    }
}
