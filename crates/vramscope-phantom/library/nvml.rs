//! NVML: the machine's GPUs, as monitors see them.

use std::ffi::{c_char, c_int};

use crate::asks;
use crate::handles::{MOST_INSTANCES, NVML_DEVICES, nvml_device, nvml_instance};
use crate::identity::{bus_id, bus_number, mig_uuid_of, uuid_of};
use crate::machine::machine;
use crate::out::{Out, text};
use crate::state::Fact;
use crate::status::{Answer, Refusal};

fn find(handle: Out<usize>, wanted: impl Fn(usize) -> bool) -> Answer {
    handle.set(NVML_DEVICES.of((0..machine().state.devices()).find(|&d| wanted(d)).ok_or(Refusal::NotFound)?))
}

pub(crate) fn count(count: Out<u32>) -> Answer {
    count.set(machine().state.devices() as u32)
}

pub(crate) fn by_index(index: u32, handle: Out<usize>) -> Answer {
    handle.set(NVML_DEVICES.of(machine().any_device(index)?))
}

/// NVML writes 8 digits of the PCI domain, CUDA 4. Both are accepted.
pub(crate) fn by_bus_id(id: *const c_char, handle: Out<usize>) -> Answer {
    let id = text(id).ok_or(Refusal::InvalidValue)?;
    find(handle, |device| id.len() >= 12 && id[id.len() - 12..].eq_ignore_ascii_case(&bus_id(device)))
}

pub(crate) fn by_uuid(uuid: *const c_char, handle: Out<usize>) -> Answer {
    let uuid = text(uuid).ok_or(Refusal::InvalidValue)?;
    let instances = (0..machine().state.devices()).flat_map(|d| (0..instances(d)).map(move |i| (d, i)));
    if let Some((device, instance)) = { instances }.find(|&(d, i)| uuid == mig_uuid_of(d, i)) {
        return handle.set(nvml_instance(device, instance));
    }
    find(handle, |device| uuid == uuid_of(device))
}

pub(crate) fn index(handle: usize, index: Out<u32>) -> Answer {
    index.set(NVML_DEVICES.device(handle)? as u32)
}

pub(crate) fn name(handle: usize, name: Out<u8>, length: u32) -> Answer {
    let (device, instance) = nvml_device(handle)?;
    let whole = machine().state.name(device);
    let named = match instance {
        Some(_) => format!("{whole} MIG 1g.{}gb", machine().fact(device, Fact::TotalBytes) >> 30),
        None => whole,
    };
    name.set_text(&named, length as usize)
}

pub(crate) fn uuid(handle: usize, uuid: Out<u8>, length: u32) -> Answer {
    let of = match nvml_device(handle)? {
        (device, Some(instance)) => mig_uuid_of(device, instance),
        (device, None) => uuid_of(device),
    };
    uuid.set_text(&of, length as usize)
}

/// `nvmlPciInfo_t`.
#[repr(C)]
pub(crate) struct PciInfo {
    legacy_id: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    id: [u8; 32],
}

pub(crate) fn pci_info(handle: usize, info: Out<PciInfo>) -> Answer {
    let device = NVML_DEVICES.device(handle)?;
    let (short, long) = (bus_id(device), format!("0000{}", bus_id(device)));
    let (mut legacy_id, mut id) = ([0; 16], [0; 32]);
    legacy_id[..short.len()].copy_from_slice(short.as_bytes());
    id[..long.len()].copy_from_slice(long.as_bytes());
    info.set(PciInfo {
        legacy_id,
        domain: 0,
        bus: bus_number(device) as u32,
        device: 0,
        device_id: 0x10de,
        subsystem_id: 0,
        id,
    })
}

/// The number of MIG instances of a device.
fn instances(device: usize) -> usize {
    (machine().fact(device, Fact::MigInstances) as usize).min(MOST_INSTANCES)
}

/// A GPU that is not divided does not support MIG.
pub(crate) fn mig_mode(handle: usize, current: Out<u32>, pending: Out<u32>) -> Answer {
    if instances(NVML_DEVICES.device(handle)?) == 0 {
        return Err(Refusal::NotSupported);
    }
    current.set(1)?;
    pending.set(1)
}

pub(crate) fn most_instances(handle: usize, count: Out<u32>) -> Answer {
    NVML_DEVICES.device(handle)?;
    count.set(MOST_INSTANCES as u32)
}

pub(crate) fn instance_by_index(handle: usize, index: u32, instance: Out<usize>) -> Answer {
    let device = NVML_DEVICES.device(handle)?;
    let index = usize::try_from(index).map_err(|_| Refusal::InvalidValue)?;
    if index >= instances(device) {
        return Err(Refusal::NotFound);
    }
    instance.set(nvml_instance(device, index))
}

pub(crate) fn device_of_instance(instance: usize, handle: Out<usize>) -> Answer {
    handle.set(NVML_DEVICES.of(nvml_device(instance)?.0))
}

pub(crate) fn is_instance(handle: usize, is: Out<u32>) -> Answer {
    is.set(nvml_device(handle)?.1.is_some().into())
}

/// Bytes of memory: total, free, used.
fn memory_of(handle: usize) -> Result<[u64; 3], Refusal> {
    let (device, instance) = nvml_device(handle)?;
    asks::notice();
    machine().bury_the_dead();
    if machine().fact(device, Fact::Integrated) != 0 {
        return Err(Refusal::NotSupported);
    }
    let is_divided = instance.is_none() && instances(device) > 0;
    let total = machine().fact(device, if is_divided { Fact::WholeBytes } else { Fact::TotalBytes });
    // Programs only use the first instance.
    let used = if instance.unwrap_or(0) == 0 { machine().fact(device, Fact::UsedBytes) } else { 0 };
    Ok([total, total.saturating_sub(used), used])
}

pub(crate) fn memory(handle: usize, out: Out<[u64; 3]>) -> Answer {
    out.set(memory_of(handle)?)
}

/// `nvmlMemory_v2_t`: its version, then total, reserved for the system, free and used bytes.
pub(crate) fn memory_v2(handle: usize, out: Out<[u64; 5]>) -> Answer {
    let [total, free, used] = memory_of(handle)?;
    out.set([0x0200_0028, total, 0, free, used])
}

/// The first fields of `nvmlGpuFabricInfo_v2_t`. The caller sets the version.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FabricInfo {
    version: u32,
    cluster: [u8; 16],
    status: u32,
    clique: u32,
    state: u8,
}

/// Reports a GPU outside any multi-node fabric (`NVML_GPU_FABRIC_STATE_NOT_SUPPORTED`).
pub(crate) fn fabric(handle: usize, info: Out<FabricInfo>) -> Answer {
    NVML_DEVICES.device(handle)?;
    info.set(FabricInfo { cluster: [0; 16], status: 0, clique: 0, state: 0, ..info.get()? })
}

/// Always 0: the phantom computes nothing.
pub(crate) fn utilization(handle: usize, rates: Out<[u32; 2]>) -> Answer {
    NVML_DEVICES.device(handle)?;
    rates.set([0, 0])
}

pub(crate) fn capability(handle: usize, major: Out<c_int>, minor: Out<c_int>) -> Answer {
    let capability = machine().fact(NVML_DEVICES.device(handle)?, Fact::ComputeCapability) as c_int;
    major.set(capability / 10)?;
    minor.set(capability % 10)
}

/// Writes the entries and their number. Fails if the caller's buffer is too small.
fn list<const WORDS: usize>(
    handle: usize,
    count: Out<u32>,
    entries: *mut [u64; WORDS],
    entry: impl Fn(u32, u64) -> [u64; WORDS],
) -> Answer {
    let processes = match nvml_device(handle)? {
        (_, Some(1..)) => Vec::new(),
        (device, _) => machine().processes_on(device),
    };
    let room = count.get()? as usize;
    count.set(processes.len() as u32)?;
    if processes.len() > room {
        return Err(Refusal::InsufficientSize);
    }
    if entries.is_null() && !processes.is_empty() {
        return Err(Refusal::InvalidValue);
    }
    for (i, &(id, bytes)) in processes.iter().enumerate() {
        // SAFETY: the caller has `room` entries there, at least as many as there are processes.
        unsafe { entries.add(i).write_unaligned(entry(id, bytes)) };
    }
    Ok(())
}

/// `nvmlProcessInfo_v1_t`: process id and bytes.
pub(crate) fn processes_v1(handle: usize, count: Out<u32>, entries: *mut [u64; 2]) -> Answer {
    list(handle, count, entries, |id, bytes| [u64::from(id), bytes])
}

/// `nvmlProcessInfo_t`: process id, bytes, and two MIG instance ids, which are unset.
pub(crate) fn processes(handle: usize, count: Out<u32>, entries: *mut [u64; 3]) -> Answer {
    list(handle, count, entries, |id, bytes| [u64::from(id), bytes, u64::MAX])
}

/// Reports no processes.
pub(crate) fn none(handle: usize, count: Out<u32>) -> Answer {
    nvml_device(handle)?;
    count.set(0)
}

pub(crate) fn driver_version(version: Out<u8>, length: u32) -> Answer {
    version.set_text("580.0.phantom", length as usize)
}

pub(crate) fn process_name(id: u32, name: Out<u8>, length: u32) -> Answer {
    let program = std::fs::read_link(format!("/proc/{id}/exe")).map_err(|_| Refusal::NotFound)?;
    name.set_text(&program.to_string_lossy(), length as usize)
}
