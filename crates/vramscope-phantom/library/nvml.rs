//! NVML: the machine's GPUs, as monitors see them.

use std::ffi::{c_char, c_int};

use crate::asks;
use crate::handles::NVML_DEVICES;
use crate::identity::{bus_id, bus_number, uuid_of};
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
    find(handle, |device| uuid == uuid_of(device))
}

pub(crate) fn index(handle: usize, index: Out<u32>) -> Answer {
    index.set(NVML_DEVICES.device(handle)? as u32)
}

pub(crate) fn name(handle: usize, name: Out<u8>, length: u32) -> Answer {
    name.set_text(&machine().state.name(NVML_DEVICES.device(handle)?), length as usize)
}

pub(crate) fn uuid(handle: usize, uuid: Out<u8>, length: u32) -> Answer {
    uuid.set_text(&uuid_of(NVML_DEVICES.device(handle)?), length as usize)
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

/// Bytes of memory: total, free, used.
fn memory_of(handle: usize) -> Result<[u64; 3], Refusal> {
    let device = NVML_DEVICES.device(handle)?;
    asks::notice();
    machine().bury_the_dead();
    let (total, used) = (machine().fact(device, Fact::TotalBytes), machine().fact(device, Fact::UsedBytes));
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
    let processes = machine().processes_on(NVML_DEVICES.device(handle)?);
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
    NVML_DEVICES.device(handle)?;
    count.set(0)
}

pub(crate) fn driver_version(version: Out<u8>, length: u32) -> Answer {
    version.set_text("580.0.phantom", length as usize)
}

pub(crate) fn process_name(id: u32, name: Out<u8>, length: u32) -> Answer {
    let program = std::fs::read_link(format!("/proc/{id}/exe")).map_err(|_| Refusal::NotFound)?;
    name.set_text(&program.to_string_lossy(), length as usize)
}
