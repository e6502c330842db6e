//! A GPU through the CUDA driver. The driver's library is loaded at run time.
#![allow(unsafe_code, reason = "calls the CUDA driver")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use vramscope_basics::lock;
use vramscope_engine::{Device, DeviceError, EventId, MemoryInfo, VirtualMemory};

/// One GPU, through its primary context, which PyTorch, CuPy and the CUDA runtime share.
///
/// The driver's library is loaded when the first device is opened, so the project builds and runs on machines without it. Streams are raw
/// `cudaStream_t` numbers, as in the rest of the crate. A device accepts the built-in streams (0 to 2), the streams that it created
/// ([`create_stream`](Self::create_stream)) and the streams that it adopted ([`adopt_stream`](Self::adopt_stream)).
#[derive(Debug)]
pub struct CudaDevice {
    ordinal: i32,
    device: sys::CUdevice,
    context: Context,
    state: Mutex<DriverObjects>,
}

/// The default stream is 0; 1 and 2 are `cudaStreamLegacy` and `cudaStreamPerThread`.
const LAST_BUILT_IN_STREAM: u64 = 2;

/// A context handle. Any thread may use the driver's contexts.
#[derive(Debug, Clone, Copy)]
struct Context(sys::CUcontext);

// SAFETY: the driver API is thread-safe, and a context handle may be made current on any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

#[derive(Debug, Default)]
struct DriverObjects {
    /// Allocations: address to bytes.
    allocations: BTreeMap<u64, u64>,
    /// Reserved ranges: address to bytes.
    ranges: BTreeMap<u64, u64>,
    /// Mapped pages: address to the driver's handle and the size in bytes.
    pages: BTreeMap<u64, (sys::CUmemGenericAllocationHandle, u64)>,
    /// Usable streams by raw number; true if this device created the stream.
    streams: BTreeMap<u64, bool>,
    /// Recorded events that have not completed yet.
    events: BTreeSet<u64>,
}

impl CudaDevice {
    /// Returns the number of devices that the driver reports.
    ///
    /// # Errors
    /// There is no driver, or it does not start.
    pub fn count() -> Result<usize, DeviceError> {
        start()?;
        let count = result::device::get_count().map_err(failed("cuDeviceGetCount"))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens device number `ordinal`.
    ///
    /// # Errors
    /// There is no driver, it does not start, or it has no such device.
    pub fn open(ordinal: i32) -> Result<Self, DeviceError> {
        start()?;
        let device = result::device::get(ordinal).map_err(failed("cuDeviceGet"))?;
        // SAFETY: the device is from `cuDeviceGet`.
        let context =
            unsafe { result::primary_ctx::retain(device) }.map_err(failed("cuDevicePrimaryCtxRetain"))?;
        Ok(Self { ordinal, device, context: Context(context), state: Mutex::default() })
    }

    /// Returns the device's name, such as `NVIDIA H200`.
    ///
    /// # Errors
    /// The driver cannot read the name.
    pub fn name(&self) -> Result<String, DeviceError> {
        result::device::get_name(self.device).map_err(failed("cuDeviceGetName"))
    }

    /// Whether the GPU shares the host's memory.
    ///
    /// # Errors
    /// The driver cannot read the attribute.
    pub fn is_integrated(&self) -> Result<bool, DeviceError> {
        let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_INTEGRATED;
        // SAFETY: the device is from `cuDeviceGet`.
        let value = unsafe { result::device::get_attribute(self.device, attribute) };
        Ok(value.map_err(failed("cuDeviceGetAttribute"))? != 0)
    }

    /// Creates a stream that lives as long as the device.
    ///
    /// # Errors
    /// The driver cannot create a stream.
    pub fn create_stream(&self) -> Result<u64, DeviceError> {
        let _current = self.make_current()?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking)
            .map_err(failed("cuStreamCreate"))?;
        let stream = stream.expose_provenance() as u64;
        lock(&self.state).streams.insert(stream, true);
        Ok(stream)
    }

    /// Adopts a stream that another library created, by its raw number.
    ///
    /// # Safety
    /// `stream` is a live `cudaStream_t` of this device's primary context, and stays alive as long as the device.
    pub unsafe fn adopt_stream(&self, stream: u64) {
        lock(&self.state).streams.insert(stream, false);
    }

    /// Makes the device's context current on this thread until the guard is dropped.
    fn make_current(&self) -> Result<CurrentContext, DeviceError> {
        // SAFETY: the context was retained when the device was opened and is released when it is dropped.
        unsafe { sys::cuCtxPushCurrent_v2(self.context.0) }.result().map_err(failed("cuCtxPushCurrent"))?;
        let relaxed = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        Ok(CurrentContext { mode: exchange_capture_mode(relaxed) })
    }

    /// Whether a stream is a built-in one or in the table of live streams.
    fn is_known(state: &DriverObjects, stream: u64) -> bool {
        stream <= LAST_BUILT_IN_STREAM || state.streams.contains_key(&stream)
    }

    fn location(&self) -> sys::CUmemLocation {
        sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: self.ordinal }
    }

    /// Creates one page and maps it at `address`.
    fn map_page(&self, state: &mut DriverObjects, address: u64, page: u64) -> Result<(), DeviceError> {
        let size = page as usize;
        let mut handle = 0;
        // SAFETY: all zeros is a valid value of this plain C struct; the fields that matter are set below.
        let mut properties: sys::CUmemAllocationProp = unsafe { std::mem::zeroed() };
        properties.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = self.location();
        // SAFETY: both pointers point to live values of the right type.
        unsafe { sys::cuMemCreate(&mut handle, size, &properties, 0) }
            .result()
            .map_err(out_of_memory_or("cuMemCreate", page))?;
        // SAFETY: the range is reserved and nothing is mapped in it; the handle was created above.
        if let Err(e) = unsafe { sys::cuMemMap(address, size, 0, handle, 0) }.result() {
            // SAFETY: the handle was created above and is not mapped.
            unsafe { sys::cuMemRelease(handle) }.result().ok();
            return Err(failed("cuMemMap")(e));
        }
        state.pages.insert(address, (handle, page));
        let access = sys::CUmemAccessDesc {
            location: self.location(),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the page was mapped above; the description is a live value.
        unsafe { sys::cuMemSetAccess(address, size, &access, 1) }.result().map_err(failed("cuMemSetAccess"))
    }

    fn unmap_page(&self, state: &mut DriverObjects, address: u64) -> Result<(), DeviceError> {
        let Some(&(handle, page)) = state.pages.get(&address) else {
            return Err(DeviceError::UnknownAddress { address, size: 0 });
        };
        // SAFETY: `state.pages` says that this page is mapped here with this handle.
        unsafe { sys::cuMemUnmap(address, page as usize) }.result().map_err(failed("cuMemUnmap"))?;
        state.pages.remove(&address);
        // SAFETY: `cuMemCreate` created the handle, and it is no longer mapped.
        unsafe { sys::cuMemRelease(handle) }.result().map_err(failed("cuMemRelease"))
    }
}

/// Keeps a device's context current on this thread; dropping it restores the previous context.
///
/// Meanwhile, calls on this thread are allowed while a stream is captured: memory of the device is no part of a CUDA graph
/// (`cudaMallocMaybeCapturing` in PyTorch).
struct CurrentContext {
    /// The thread's mode before.
    mode: Option<sys::CUstreamCaptureMode>,
}

/// Sets the mode of this thread for streams that are captured. Returns the previous mode.
fn exchange_capture_mode(mut mode: sys::CUstreamCaptureMode) -> Option<sys::CUstreamCaptureMode> {
    // SAFETY: the pointer points to a live value of the right type.
    unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.result().ok().map(|()| mode)
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            exchange_capture_mode(mode);
        }
        let mut context = std::ptr::null_mut();
        // SAFETY: the pointer points to a live value; the popped context is the one that `make_current` pushed on this thread.
        unsafe { sys::cuCtxPopCurrent_v2(&mut context) }.result().ok();
    }
}

/// Loads and starts the driver.
fn start() -> Result<(), DeviceError> {
    // SAFETY: loading the driver's library runs its initializers, as in any program that uses CUDA.
    if !unsafe { sys::is_culib_present() } {
        return Err(DeviceError::Unsupported(
            "there is no CUDA driver on this machine (libcuda.so was not found); use HostDevice, or install \
             the NVIDIA driver"
                .to_owned(),
        ));
    }
    result::init().map_err(failed("cuInit"))
}

fn foreign_stream(stream: u64) -> DeviceError {
    DeviceError::Unsupported(format!(
        "stream {stream:#x} does not belong to this device; pass it to adopt_stream first"
    ))
}

fn failed(call: &'static str) -> impl Fn(DriverError) -> DeviceError {
    move |e| DeviceError::Driver {
        call,
        why: match e.error_string() {
            Ok(text) => text.to_string_lossy().into_owned(),
            Err(_) => format!("{:?}", e.0),
        },
    }
}

fn out_of_memory_or(call: &'static str, size: u64) -> impl Fn(DriverError) -> DeviceError {
    move |e| match e.0 {
        sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => DeviceError::OutOfMemory { size },
        _ => failed(call)(e),
    }
}

impl Device for CudaDevice {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        let _current = self.make_current()?;
        let bytes = usize::try_from(size).map_err(|_| DeviceError::OutOfMemory { size })?;
        // SAFETY: the memory is raw; this crate never reads it.
        let address = unsafe { result::malloc_sync(bytes) }.map_err(out_of_memory_or("cuMemAlloc", size))?;
        lock(&self.state).allocations.insert(address, size);
        Ok(address)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        let mut state = lock(&self.state);
        if !state.allocations.contains_key(&address) {
            return Err(DeviceError::UnknownAddress { address, size });
        }
        // SAFETY: `cuMemAlloc` returned this address, and `state.allocations` says that it is not freed yet.
        unsafe { result::free_sync(address) }.map_err(failed("cuMemFree"))?;
        state.allocations.remove(&address);
        Ok(())
    }

    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        let _current = self.make_current()?;
        let (free, total) = result::mem_get_info().map_err(failed("cuMemGetInfo"))?;
        Ok(MemoryInfo { free: free as u64, total: total as u64 })
    }

    fn virtual_memory(&self) -> Option<&dyn VirtualMemory> {
        Some(self)
    }

    fn knows_stream(&self, stream: u64) -> bool {
        Self::is_known(&lock(&self.state), stream)
    }

    fn is_capturing(&self, stream: u64) -> bool {
        let Ok(_current) = self.make_current() else { return true };
        if !Self::is_known(&lock(&self.state), stream) {
            return true;
        }
        let none = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut status = none;
        let stream = std::ptr::with_exposed_provenance_mut(stream as usize);
        // SAFETY: the stream is a built-in one or in the table of live streams; the pointer points to a live value.
        let answer = unsafe { sys::cuStreamIsCapturing(stream, &mut status) }.result();
        answer.is_err() || status != none
    }

    fn synchronize_device(&self) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        result::ctx::synchronize().map_err(failed("cuCtxSynchronize"))
    }

    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        let _current = self.make_current()?;
        let mut state = lock(&self.state);
        if !Self::is_known(&state, stream) {
            return Err(foreign_stream(stream));
        }
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)
            .map_err(failed("cuEventCreate"))?;
        let stream = std::ptr::with_exposed_provenance_mut(stream as usize);
        // SAFETY: the event was made above; the stream is a built-in one or in the table of live streams.
        if let Err(e) = unsafe { result::event::record(event, stream) } {
            // SAFETY: the event was created above, and nothing else refers to it.
            unsafe { result::event::destroy(event) }.ok();
            return Err(failed("cuEventRecord")(e));
        }
        let id = event.expose_provenance() as u64;
        state.events.insert(id);
        Ok(EventId(id))
    }

    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        let _current = self.make_current()?;
        let mut state = lock(&self.state);
        if !state.events.contains(&event.0) {
            return Ok(true);
        }
        let raw = std::ptr::with_exposed_provenance_mut(event.0 as usize);
        // SAFETY: `state.events` says that this event is alive.
        match unsafe { result::event::query(raw) } {
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => return Ok(false),
            answer => answer.map_err(failed("cuEventQuery"))?,
        }
        state.events.remove(&event.0);
        // SAFETY: as above; the event is no longer in `state.events`, so it is never used again.
        unsafe { result::event::destroy(raw) }.map_err(failed("cuEventDestroy"))?;
        Ok(true)
    }

    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        if !lock(&self.state).events.remove(&event.0) {
            return Ok(());
        }
        let raw = std::ptr::with_exposed_provenance_mut(event.0 as usize);
        // SAFETY: the event was in `state.events`, so it is alive; it was removed, so it is never used again.
        unsafe {
            let waited = result::event::synchronize(raw).map_err(failed("cuEventSynchronize"));
            waited.and(result::event::destroy(raw).map_err(failed("cuEventDestroy")))
        }
    }

    fn wait_event(&self, stream: u64, event: EventId) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        let state = lock(&self.state);
        if !Self::is_known(&state, stream) {
            return Err(foreign_stream(stream));
        }
        if !state.events.contains(&event.0) {
            return Err(DeviceError::Unsupported("the event does not belong to this device".to_owned()));
        }
        let stream = std::ptr::with_exposed_provenance_mut(stream as usize);
        let raw = std::ptr::with_exposed_provenance_mut(event.0 as usize);
        let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        // SAFETY: the stream is a built-in one or in the table of live streams, and `state.events` says that the event is alive.
        unsafe { result::stream::wait_event(stream, raw, flags) }.map_err(failed("cuStreamWaitEvent"))
    }

    fn discard_event(&self, event: EventId) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        if !lock(&self.state).events.remove(&event.0) {
            return Ok(());
        }
        let raw = std::ptr::with_exposed_provenance_mut(event.0 as usize);
        // SAFETY: the event was in `state.events`, so it is alive; it was removed, so it is never used again. The driver frees an event
        // that is not complete once it is.
        unsafe { result::event::destroy(raw) }.map_err(failed("cuEventDestroy"))
    }
}

impl VirtualMemory for CudaDevice {
    fn reserve(&self, size: u64) -> Result<u64, DeviceError> {
        let _current = self.make_current()?;
        let mut address = 0;
        // SAFETY: the pointer points to a live value; the call requests no particular address.
        unsafe { sys::cuMemAddressReserve(&mut address, size as usize, 0, 0, 0) }
            .result()
            .map_err(failed("cuMemAddressReserve"))?;
        lock(&self.state).ranges.insert(address, size);
        Ok(address)
    }

    fn release(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        let mut state = lock(&self.state);
        let unknown = DeviceError::UnknownAddress { address, size };
        let &reserved = state.ranges.get(&address).ok_or_else(|| unknown.clone())?;
        if state.pages.range(address..address + reserved).next().is_some() {
            return Err(unknown);
        }
        // SAFETY: the driver reserved this range with this size, and nothing is mapped in it.
        unsafe { sys::cuMemAddressFree(address, reserved as usize) }
            .result()
            .map_err(failed("cuMemAddressFree"))?;
        state.ranges.remove(&address);
        Ok(())
    }

    fn map(&self, address: u64, size: u64, page: u64) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        let mut state = lock(&self.state);
        let inside = state.ranges.range(..=address).next_back().is_some_and(|(&start, &reserved)| {
            address - start <= reserved && size <= reserved - (address - start)
        });
        // A page must not begin before the range and reach into it either.
        let before = state.pages.range(..address).next_back();
        let overlaps = before.is_some_and(|(&at, &(_, bytes))| at + bytes > address);
        if !inside
            || overlaps
            || page == 0
            || !size.is_multiple_of(page)
            || state.pages.range(address..address + size).next().is_some()
        {
            return Err(DeviceError::UnknownAddress { address, size });
        }
        for at in (address..address + size).step_by(page as usize) {
            if let Err(e) = self.map_page(&mut state, at, page) {
                for mapped in (address..=at).step_by(page as usize) {
                    self.unmap_page(&mut state, mapped).ok();
                }
                return Err(e);
            }
        }
        Ok(())
    }

    fn unmap(&self, address: u64, size: u64, _page: u64) -> Result<(), DeviceError> {
        let _current = self.make_current()?;
        let mut state = lock(&self.state);
        let pages: Vec<u64> = state.pages.range(address..address + size).map(|(&at, _)| at).collect();
        if pages.first() != Some(&address) {
            return Err(DeviceError::UnknownAddress { address, size });
        }
        // A page may be unmapped only after the work that uses it, and the driver does not wait for that work.
        result::ctx::synchronize().map_err(failed("cuCtxSynchronize"))?;
        pages.into_iter().try_for_each(|at| self.unmap_page(&mut state, at))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        let Ok(_current) = self.make_current() else { return };
        let state = std::mem::take(&mut *lock(&self.state));
        // The tables still hold unreleased handles. Another library may keep the context alive, so release them here. A destructor cannot
        // report a failure.
        // SAFETY: each handle is in the tables once, was created by the driver and is not destroyed yet.
        unsafe {
            // Work may still use the memory that is released below.
            result::ctx::synchronize().ok();
            for &event in &state.events {
                result::event::destroy(std::ptr::with_exposed_provenance_mut(event as usize)).ok();
            }
            for &address in state.allocations.keys() {
                result::free_sync(address).ok();
            }
            for (&address, &(handle, page)) in &state.pages {
                sys::cuMemUnmap(address, page as usize).result().ok();
                sys::cuMemRelease(handle).result().ok();
            }
            for (&address, &size) in &state.ranges {
                sys::cuMemAddressFree(address, size as usize).result().ok();
            }
            for (&stream, _) in state.streams.iter().filter(|(_, made_here)| **made_here) {
                result::stream::destroy(std::ptr::with_exposed_provenance_mut(stream as usize)).ok();
            }
            result::primary_ctx::release(self.device).ok();
        }
    }
}
