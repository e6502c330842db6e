//! CUDA's runtime, where a program uses it as a shared library. The runtime asks the driver for the same memory, and `wrap.rs` records the
//! outer call only: its caller is the library that wanted the memory.
//!
//! A program that contains the runtime reaches the driver, and `driver.rs` sees its calls.

use std::ffi::c_void;

use crate::contexts;
use crate::graphs::{self, AllocationNode};
use crate::record::Kind;
use crate::wrap::{IpcHandle, caller_as_argument, read, wrapped};

wrapped! {
    cudaMalloc / "cudaMalloc" [2] (address: *mut u64, size: usize) |real, call| {
        call.allocated(real(), Kind::Malloc, address, size)
    }
    cudaMallocPitch / "cudaMallocPitch" [4]
        (address: *mut u64, pitch: *mut usize, width: usize, height: usize) |real, call| {
        let status = real();
        if status == 0 && let (Some(address), Some(pitch)) = (read(address), read(pitch)) {
            call.record(Kind::Malloc, address, pitch.saturating_mul(height) as u64);
        }
        status
    }
    cudaMallocManaged / "cudaMallocManaged" [3] (address: *mut u64, size: usize, flags: u32) |real, call| {
        call.allocated(real(), Kind::Managed, address, size)
    }
    cudaFree / "cudaFree" [1] (address: u64) |real, call| {
        call.freed(Kind::Free, address, real)
    }
    cudaDeviceReset / "cudaDeviceReset" [0] () |real, call| {
        contexts::ended(&call, None, real)
    }
    cudaMallocAsync / "cudaMallocAsync" [3] (address: *mut u64, size: usize, stream: *mut c_void) |real, call| {
        graphs::allocated(&call, real(), address, size, stream)
    }
    cudaMallocFromPoolAsync / "cudaMallocFromPoolAsync" [4]
        (address: *mut u64, size: usize, pool: *mut c_void, stream: *mut c_void) |real, call| {
        graphs::allocated(&call, real(), address, size, stream)
    }
    cudaFreeAsync / "cudaFreeAsync" [2] (address: u64, stream: *mut c_void) |real, call| {
        call.freed(Kind::FreeAsync, address, real)
    }
    cudaHostAlloc / "cudaHostAlloc" [3] (address: *mut u64, size: usize, flags: u32) |real, call| {
        call.allocated(real(), Kind::Host, address, size)
    }
    cudaMallocHost / "cudaMallocHost" [2] (address: *mut u64, size: usize) |real, call| {
        call.allocated(real(), Kind::Host, address, size)
    }
    cudaFreeHost / "cudaFreeHost" [1] (address: u64) |real, call| {
        call.freed(Kind::HostFree, address, real)
    }
    cudaHostRegister / "cudaHostRegister" [3] (address: u64, size: usize, flags: u32) |real, call| {
        let status = real();
        if status == 0 {
            call.record(Kind::Register, address, size as u64);
        }
        status
    }
    cudaHostUnregister / "cudaHostUnregister" [1] (address: u64) |real, call| {
        call.freed(Kind::Unregister, address, real)
    }
    cudaFreeArray / "cudaFreeArray" [1] (array: u64) |real, call| {
        call.freed(Kind::ArrayFree, array, real)
    }
    cudaIpcOpenMemHandle / "cudaIpcOpenMemHandle" [ipc] (address: *mut u64, handle: IpcHandle, flags: u32) |real, call| {
        call.opened(real(), address)
    }
    cudaIpcCloseMemHandle / "cudaIpcCloseMemHandle" [1] (address: u64) |real, call| {
        call.freed(Kind::IpcClose, address, real)
    }
    cudaGraphAddMemAllocNode / "cudaGraphAddMemAllocNode" [5]
        (node: *mut usize, graph: u64, after: usize, count: usize, parameters: *const AllocationNode) |real, call| {
        graphs::added(&call, real(), graph, parameters)
    }
    // The first revision has five arguments. Passing one more does no harm.
    cudaGraphAddNode / "cudaGraphAddNode" [6]
        (node: *mut usize, graph: u64, after: usize, edges: usize, count: usize, parameters: usize) |real, call| {
        graphs::added_any(&call, real(), graph, count, parameters)
    }
    // Revisions have three or five arguments.
    cudaGraphInstantiate / "cudaGraphInstantiate" [5]
        (executable: *mut u64, graph: u64, flags: usize, log: usize, size: usize) |real, call| {
        graphs::instantiated(&call, real(), executable, graph)
    }
    cudaGraphInstantiateWithFlags / "cudaGraphInstantiateWithFlags" [3]
        (executable: *mut u64, graph: u64, flags: u64) |real, call| {
        graphs::instantiated(&call, real(), executable, graph)
    }
    cudaGraphInstantiateWithParams / "cudaGraphInstantiateWithParams" [3]
        (executable: *mut u64, graph: u64, parameters: usize) |real, call| {
        graphs::instantiated(&call, real(), executable, graph)
    }
    cudaGraphUpload / "cudaGraphUpload" [2] (executable: u64, stream: *mut c_void) |real, call| {
        graphs::changed(&call, real())
    }
    cudaGraphLaunch / "cudaGraphLaunch" [2] (executable: u64, stream: *mut c_void) |real, call| {
        graphs::changed(&call, real())
    }
    cudaGraphDestroy / "cudaGraphDestroy" [1] (graph: u64) |real, call| {
        graphs::destroyed(&call, Kind::GraphDestroy, graph);
        graphs::changed(&call, real())
    }
    cudaGraphExecDestroy / "cudaGraphExecDestroy" [1] (executable: u64) |real, call| {
        graphs::destroyed(&call, Kind::GraphExecDestroy, executable);
        graphs::changed(&call, real())
    }
    cudaDeviceGraphMemTrim / "cudaDeviceGraphMemTrim" [1] (device: i32) |real, call| {
        graphs::changed(&call, real())
    }
}
