//! PyTorch's caching allocator. It reports each allocation and each free to these functions, whether a profiler runs or not
//! (`c10/core/Allocator.cpp`, since PyTorch 1.6).

use std::ffi::{CStr, c_void};

use crate::next::Next;
use crate::notes;
use crate::process::{Inside, look_for_objects, time_us};
use crate::reading;
use crate::record::{TORCH, TORCH_OOM, memory};
use crate::stack;

/// `c10::Device`, by value: its type and its number, one byte each. The rest of the register is not defined.
type Device = u64;

/// `c10::DeviceType::CUDA`. Other types are the CPU, and devices of other makers.
const CUDA: u64 = 1;

/// The number of a CUDA device; `None` for any other device.
fn cuda(device: Device) -> Option<u64> {
    (device & 0xff == CUDA).then_some(device >> 8 & 0xff)
}

static MEMORY: Next = Next::new(c"_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
/// Since PyTorch 2.7, the first argument is unsigned.
static OOM: Next = Next::new(c"_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE");

/// Whether this library stands before a function of this name.
pub(crate) fn is_wrapped(name: &CStr) -> bool {
    [&MEMORY, &OOM].into_iter().any(|next| next.name() == name)
}

/// The function of ours that stands before PyTorch's of this name, whose address is `real`; 0 if there is none.
pub(crate) fn before(name: &CStr, real: usize) -> usize {
    let functions =
        [(&MEMORY, report_memory as *const () as usize), (&OOM, report_out_of_memory as *const () as usize)];
    functions.into_iter().find(|(next, _)| next.name() == name).map_or(0, |(next, ours)| {
        next.know(real);
        ours
    })
}

/// `c10::reportMemoryUsageToProfiler(void* ptr, int64_t alloc_size, size_t total_allocated, size_t total_reserved, Device)`.
#[unsafe(export_name = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")]
pub(crate) extern "C" fn report_memory(
    address: *mut c_void,
    size: i64,
    allocated: usize,
    reserved: usize,
    device: Device,
) {
    if let Some(device) = cuda(device)
        && let Some(inside) = Inside::enter()
    {
        let mut body = [0; memory::FIELDS];
        body[memory::TIME] = time_us();
        body[memory::DEVICE] = device;
        body[memory::ADDRESS] = address as u64;
        body[memory::SIZE] = size as u64;
        body[memory::STACK] = stack::capture(&inside, size.unsigned_abs());
        body[memory::THREAD] = notes::thread();
        inside.write(TORCH, &body);
        look_for_objects(body[memory::TIME]);
    }
    let next = MEMORY.address();
    if next != 0 {
        // SAFETY: the function of this name has this signature.
        let next: extern "C" fn(*mut c_void, i64, usize, usize, Device) =
            unsafe { std::mem::transmute(next) };
        next(address, size, allocated, reserved, device);
    }
}

/// `c10::reportOutOfMemoryToProfiler(int64_t alloc_size, size_t total_allocated, size_t total_reserved, Device)`.
#[unsafe(export_name = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE")]
pub(crate) extern "C" fn report_out_of_memory(size: i64, allocated: usize, reserved: usize, device: Device) {
    if let Some(device) = cuda(device)
        && let Some(inside) = Inside::enter()
    {
        let stack = stack::capture(&inside, stack::ANY_SIZE);
        // PyTorch asks for memory with the device as the thread's current one.
        let free = reading::write(&inside, device).unwrap_or(0);
        let body = [time_us(), device, stack, size as u64, free];
        inside.write(TORCH_OOM, &body);
    }
    let next = OOM.address();
    if next != 0 {
        // SAFETY: the function of this name has this signature.
        let next: extern "C" fn(i64, usize, usize, Device) = unsafe { std::mem::transmute(next) };
        next(size, allocated, reserved, device);
    }
}
