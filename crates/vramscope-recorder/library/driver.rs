//! The driver's functions that take and return memory. Those at the end take it for contexts and kernels, and do not say how much.

use std::ffi::c_void;

use crate::contexts;
use crate::graphs::{self, AllocationNode};
use crate::record::Kind;
use crate::wrap::{IpcHandle, caller_as_argument, read, wrapped};

/// The start of `CUmemAllocationProp`: what the memory is and where.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationProperties {
    kind: i32,
    handle_types: i32,
    /// `CU_MEM_LOCATION_TYPE_DEVICE` is 1.
    location_type: i32,
    location: i32,
}

/// `CUDA_ARRAY_DESCRIPTOR`, and the start of `CUDA_ARRAY3D_DESCRIPTOR` but for the depth.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArrayDescriptor {
    width: usize,
    height: usize,
    format: i32,
    channels: u32,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Array3dDescriptor {
    width: usize,
    height: usize,
    depth: usize,
    format: i32,
    channels: u32,
    flags: u32,
}

/// Bytes of an array's elements. The driver may pad it.
fn array_bytes(sides: [usize; 3], format: i32, channels: u32) -> u64 {
    // `CUarray_format`: the sizes of the formats without compression.
    let element = match format {
        0x01 | 0x08 => 1,
        0x02 | 0x09 | 0x10 => 2,
        0x03 | 0x0a | 0x20 => 4,
        // The channels are part of the other formats.
        0xc0 | 0xc6 => return elements(sides),
        0xc1 | 0xc3 | 0xc7 | 0xc9 | 0xa2 | 0xa5 => return elements(sides).saturating_mul(2),
        0xc2 | 0xc4 | 0xc8 | 0xca | 0xa3 | 0xa4 | 0xa6..=0xa9 | 0x50 => {
            return elements(sides).saturating_mul(4);
        }
        0xc5 | 0xcb | 0xb1 => return elements(sides).saturating_mul(8),
        0x9f | 0xa1 | 0xb2 | 0xb4 => return elements(sides).saturating_mul(3),
        0xb3 | 0xb5 => return elements(sides).saturating_mul(6),
        0xb0 => return elements(sides).saturating_mul(3) / 2,
        // Blocks of 4 by 4 elements: 8 bytes in formats 1 and 4, 16 bytes in the others.
        0x91 | 0x92 | 0x97 | 0x98 => return blocks(sides).saturating_mul(8),
        0x93..=0x96 | 0x99..=0x9e => return blocks(sides).saturating_mul(16),
        _ => 0,
    };
    elements(sides).saturating_mul(element).saturating_mul(channels.into())
}

fn elements(sides: [usize; 3]) -> u64 {
    sides.iter().map(|&side| side.max(1) as u64).fold(1, u64::saturating_mul)
}

fn blocks([width, height, depth]: [usize; 3]) -> u64 {
    elements([width.div_ceil(4), height.div_ceil(4), depth])
}

wrapped! {
    cuMemAlloc_v2 / "cuMemAlloc" [2] (address: *mut u64, size: usize) |real, call| {
        call.allocated(real(), Kind::Malloc, address, size)
    }
    cuMemAllocPitch_v2 / "cuMemAllocPitch" [5]
        (address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: u32) |real, call| {
        let status = real();
        if status == 0 && let (Some(address), Some(pitch)) = (read(address), read(pitch)) {
            call.record(Kind::Malloc, address, pitch.saturating_mul(height) as u64);
        }
        status
    }
    cuMemAllocManaged / "cuMemAllocManaged" [3] (address: *mut u64, size: usize, flags: u32) |real, call| {
        call.allocated(real(), Kind::Managed, address, size)
    }
    cuMemFree_v2 / "cuMemFree" [1] (address: u64) |real, call| {
        call.freed(Kind::Free, address, real)
    }
    cuMemAllocAsync / "cuMemAllocAsync" [3] (address: *mut u64, size: usize, stream: *mut c_void) |real, call| {
        graphs::allocated(&call, real(), address, size, stream)
    }
    cuMemAllocFromPoolAsync / "cuMemAllocFromPoolAsync" [4]
        (address: *mut u64, size: usize, pool: *mut c_void, stream: *mut c_void) |real, call| {
        graphs::allocated(&call, real(), address, size, stream)
    }
    cuMemFreeAsync / "cuMemFreeAsync" [2] (address: u64, stream: *mut c_void) |real, call| {
        call.freed(Kind::FreeAsync, address, real)
    }
    cuMemCreate / "cuMemCreate" [4]
        (handle: *mut u64, size: usize, properties: *const AllocationProperties, flags: u64) |real, call| {
        let status = real();
        if status == 0 && let (Some(handle), Some(properties)) = (read(handle), read(properties)) {
            let device = (properties.location_type == 1).then_some(properties.location as u64);
            call.record_with(Kind::Create, handle, size as u64, device, 0);
        }
        status
    }
    cuMemRelease / "cuMemRelease" [1] (handle: u64) |real, call| {
        call.record(Kind::Release, handle, 0);
        real()
    }
    cuMemRetainAllocationHandle / "cuMemRetainAllocationHandle" [2] (handle: *mut u64, address: usize) |real, call| {
        let status = real();
        if status == 0 && let Some(handle) = read(handle) {
            call.record(Kind::Retain, handle, 0);
        }
        status
    }
    cuMemMap / "cuMemMap" [5] (address: u64, size: usize, offset: usize, handle: u64, flags: u64) |real, call| {
        let status = real();
        if status == 0 {
            call.record_with(Kind::Map, address, size as u64, None, handle);
        }
        status
    }
    cuMemUnmap / "cuMemUnmap" [2] (address: u64, size: usize) |real, call| {
        call.record(Kind::Unmap, address, size as u64);
        real()
    }
    cuMemHostAlloc / "cuMemHostAlloc" [3] (address: *mut u64, size: usize, flags: u32) |real, call| {
        call.allocated(real(), Kind::Host, address, size)
    }
    cuMemAllocHost_v2 / "cuMemAllocHost" [2] (address: *mut u64, size: usize) |real, call| {
        call.allocated(real(), Kind::Host, address, size)
    }
    cuMemFreeHost / "cuMemFreeHost" [1] (address: u64) |real, call| {
        call.freed(Kind::HostFree, address, real)
    }
    cuMemHostRegister_v2 / "cuMemHostRegister" [3] (address: u64, size: usize, flags: u32) |real, call| {
        let status = real();
        if status == 0 {
            call.record(Kind::Register, address, size as u64);
        }
        status
    }
    cuMemHostUnregister / "cuMemHostUnregister" [1] (address: u64) |real, call| {
        call.freed(Kind::Unregister, address, real)
    }
    cuArrayCreate_v2 / "cuArrayCreate" [2] (array: *mut u64, descriptor: *const ArrayDescriptor) |real, call| {
        let status = real();
        if status == 0 && let (Some(array), Some(d)) = (read(array), read(descriptor)) {
            call.record(Kind::Array, array, array_bytes([d.width, d.height, 1], d.format, d.channels));
        }
        status
    }
    cuArray3DCreate_v2 / "cuArray3DCreate" [2] (array: *mut u64, descriptor: *const Array3dDescriptor) |real, call| {
        let status = real();
        if status == 0 && let (Some(array), Some(d)) = (read(array), read(descriptor)) {
            call.record(Kind::Array, array, array_bytes([d.width, d.height, d.depth], d.format, d.channels));
        }
        status
    }
    cuMipmappedArrayCreate / "cuMipmappedArrayCreate" [3]
        (array: *mut u64, descriptor: *const Array3dDescriptor, levels: u32) |real, call| {
        let status = real();
        if status == 0 && let (Some(array), Some(d)) = (read(array), read(descriptor)) {
            // Each level has half of the elements of the one before on each side.
            let level = |n| array_bytes([d.width >> n, d.height >> n, d.depth >> n], d.format, d.channels);
            call.record(Kind::Array, array, (0..levels.min(32)).map(level).fold(0, u64::saturating_add));
        }
        status
    }
    cuMipmappedArrayDestroy / "cuMipmappedArrayDestroy" [1] (array: u64) |real, call| {
        call.freed(Kind::ArrayFree, array, real)
    }
    cuArrayDestroy / "cuArrayDestroy" [1] (array: u64) |real, call| {
        call.freed(Kind::ArrayFree, array, real)
    }
    cuIpcOpenMemHandle_v2 / "cuIpcOpenMemHandle" [ipc] (address: *mut u64, handle: IpcHandle, flags: u32) |real, call| {
        call.opened(real(), address)
    }
    cuIpcCloseMemHandle / "cuIpcCloseMemHandle" [1] (address: u64) |real, call| {
        call.freed(Kind::IpcClose, address, real)
    }
    cuMemImportFromShareableHandle / "cuMemImportFromShareableHandle" [3]
        (handle: *mut u64, shared: usize, kind: u32) |real, call| {
        call.allocated(real(), Kind::Import, handle, 0)
    }

    cuGraphAddMemAllocNode / "cuGraphAddMemAllocNode" [5]
        (node: *mut usize, graph: u64, after: usize, count: usize, parameters: *const AllocationNode) |real, call| {
        graphs::added(&call, real(), graph, parameters)
    }
    // The first revision has five arguments. Passing one more does no harm.
    cuGraphAddNode_v2 / "cuGraphAddNode" [6]
        (node: *mut usize, graph: u64, after: usize, edges: usize, count: usize, parameters: usize) |real, call| {
        graphs::added_any(&call, real(), graph, count, parameters)
    }
    // Revisions have three or five arguments.
    cuGraphInstantiate / "cuGraphInstantiate" [5]
        (executable: *mut u64, graph: u64, flags: usize, log: usize, size: usize) |real, call| {
        graphs::instantiated(&call, real(), executable, graph)
    }
    cuGraphInstantiateWithFlags / "cuGraphInstantiateWithFlags" [3]
        (executable: *mut u64, graph: u64, flags: u64) |real, call| {
        graphs::instantiated(&call, real(), executable, graph)
    }
    cuGraphInstantiateWithParams / "cuGraphInstantiateWithParams" [3]
        (executable: *mut u64, graph: u64, parameters: usize) |real, call| {
        graphs::instantiated(&call, real(), executable, graph)
    }
    cuGraphUpload / "cuGraphUpload" [2] (executable: u64, stream: *mut c_void) |real, call| {
        graphs::changed(&call, real())
    }
    cuGraphLaunch / "cuGraphLaunch" [2] (executable: u64, stream: *mut c_void) |real, call| {
        graphs::changed(&call, real())
    }
    cuGraphDestroy / "cuGraphDestroy" [1] (graph: u64) |real, call| {
        graphs::destroyed(&call, Kind::GraphDestroy, graph);
        graphs::changed(&call, real())
    }
    cuGraphExecDestroy / "cuGraphExecDestroy" [1] (executable: u64) |real, call| {
        graphs::destroyed(&call, Kind::GraphExecDestroy, executable);
        graphs::changed(&call, real())
    }
    cuDeviceGraphMemTrim / "cuDeviceGraphMemTrim" [1] (device: i32) |real, call| {
        graphs::changed(&call, real())
    }

    cuDevicePrimaryCtxRetain / "cuDevicePrimaryCtxRetain" [2] (context: *mut usize, device: c_int) |real, call| {
        let status = real();
        if status == 0 && let Some(context) = read(context) {
            call.has_context(device, context);
        }
        status
    }
    cuDevicePrimaryCtxRelease_v2 / "cuDevicePrimaryCtxRelease" [1] (device: c_int) |real, call| {
        contexts::ended(&call, Some(device), real)
    }
    cuDevicePrimaryCtxReset_v2 / "cuDevicePrimaryCtxReset" [1] (device: c_int) |real, call| {
        contexts::ended(&call, Some(device), real)
    }
    // Revisions have three to five arguments. Passing more does no harm.
    cuCtxCreate_v2 / "cuCtxCreate" [5] (context: *mut usize, b: usize, c: usize, d: usize, e: usize) |real, call| {
        call.changes(0);
        contexts::created(real())
    }
    cuCtxDestroy_v2 / "cuCtxDestroy" [1] (context: usize) |real, call| {
        contexts::destroyed(&call, context, real)
    }
    cuModuleLoad / "cuModuleLoad" [2] (module: *mut usize, path: usize) |real, call| {
        call.changes(0);
        real()
    }
    cuModuleLoadData / "cuModuleLoadData" [2] (module: *mut usize, image: usize) |real, call| {
        call.changes(0);
        real()
    }
    cuModuleLoadDataEx / "cuModuleLoadDataEx" [5]
        (module: *mut usize, image: usize, count: u32, options: usize, values: usize) |real, call| {
        call.changes(0);
        real()
    }
    cuModuleLoadFatBinary / "cuModuleLoadFatBinary" [2] (module: *mut usize, image: usize) |real, call| {
        call.changes(0);
        real()
    }
    cuLibraryLoadData / "cuLibraryLoadData" [8]
        (library: *mut usize, code: usize, options: usize, values: usize, count: usize, library_options: usize,
            library_values: usize, library_count: usize) |real, call| {
        call.changes(0);
        real()
    }
    cuLibraryLoadFromFile / "cuLibraryLoadFromFile" [8]
        (library: *mut usize, path: usize, options: usize, values: usize, count: usize, library_options: usize,
            library_values: usize, library_count: usize) |real, call| {
        call.changes(0);
        real()
    }
}
