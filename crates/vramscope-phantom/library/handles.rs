//! Handles: the numbers by which programs refer to objects of the libraries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard};

use crate::machine::{lock, machine};
use crate::state::Fact;
use crate::status::Refusal;

/// A handle that is unique in this process. It looks like an address, because some callers check that.
pub(crate) fn new_handle() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0x5000_0000_0000);
    NEXT.fetch_add(64, Ordering::Relaxed)
}

/// All objects of one kind in this process, by handle.
pub(crate) struct Objects<T>(LazyLock<Mutex<HashMap<usize, T>>>);

impl<T> Objects<T> {
    pub(crate) const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<usize, T>> {
        lock(&self.0)
    }

    /// Adds an object and returns its handle.
    pub(crate) fn add(&self, object: T) -> usize {
        let handle = new_handle();
        self.put(handle, object);
        handle
    }

    /// Sets the object behind a handle of the caller.
    pub(crate) fn put(&self, handle: usize, object: T) {
        self.lock().insert(handle, object);
    }

    /// Reads or changes the object behind a handle.
    pub(crate) fn with<R>(&self, handle: usize, ask: impl FnOnce(&mut T) -> R) -> Result<R, Refusal> {
        self.lock().get_mut(&handle).map(ask).ok_or(Refusal::InvalidHandle)
    }

    pub(crate) fn remove(&self, handle: usize) -> Result<T, Refusal> {
        self.lock().remove(&handle).ok_or(Refusal::InvalidHandle)
    }
}

/// Handles of objects that exist once per device: an offset plus the device index, so that no handle is null.
pub(crate) struct OnePerDevice {
    mark: usize,
}

/// Memory pools of `cudaMallocAsync`.
pub(crate) const POOLS: OnePerDevice = OnePerDevice { mark: 0x6000_0000_0000 };

/// Primary contexts.
pub(crate) const CONTEXTS: OnePerDevice = OnePerDevice { mark: 0x6100_0000_0000 };

/// Devices of NVML.
pub(crate) const NVML_DEVICES: OnePerDevice = OnePerDevice { mark: 0x6200_0000_0000 };

/// MIG instances of NVML, [`MOST_INSTANCES`] places for each device.
const NVML_INSTANCES: usize = 0x6300_0000_0000;

/// The maximum number of MIG instances of a device.
pub(crate) const MOST_INSTANCES: usize = 7;

/// The handle of a MIG instance of NVML.
pub(crate) fn nvml_instance(device: usize, instance: usize) -> usize {
    NVML_INSTANCES + 64 * (device * MOST_INSTANCES + instance)
}

/// The device of a handle of NVML, and the MIG instance if the handle is of one.
pub(crate) fn nvml_device(handle: usize) -> Result<(usize, Option<usize>), Refusal> {
    let Some(place) = handle.checked_sub(NVML_INSTANCES) else {
        return Ok((NVML_DEVICES.device(handle)?, None));
    };
    let (device, instance) = (place / 64 / MOST_INSTANCES, place / 64 % MOST_INSTANCES);
    let device = machine().any_device(u32::try_from(device).map_err(|_| Refusal::InvalidValue)?)?;
    let is_one = (instance as u64) < machine().fact(device, Fact::MigInstances);
    is_one.then_some((device, Some(instance))).ok_or(Refusal::InvalidValue)
}

impl OnePerDevice {
    pub(crate) fn of(&self, device: usize) -> usize {
        self.mark + 64 * device
    }

    pub(crate) fn device(&self, handle: usize) -> Result<usize, Refusal> {
        let device = handle.checked_sub(self.mark).ok_or(Refusal::InvalidValue)? / 64;
        machine().any_device(u32::try_from(device).map_err(|_| Refusal::InvalidValue)?)
    }
}
