//! The CUDA runtime, as PyTorch links it. Functions with different signatures in CUDA 12 and 13 have different names. The
//! exceptions are `cudaStreamGetCaptureInfo` and the layout of `cudaDeviceProp`.

use std::ffi::{c_char, c_int, c_void};

use super::{entry_points, links};
use crate::kernels::Dim3;
use crate::memory::{self, async_pool, copies, graph_pool, host};
use crate::out::Out;
use crate::{calls, device, graphs, images, kernels, streams, texts, threads};

calls! {
    Runtime;
    answer {
        cudaGetDeviceCount(count: Out<c_int>) = device::count;
        cudaGetDevice(device: Out<c_int>) = threads::get_device;
        cudaSetDevice(device: c_int) = threads::set_device;
        cudaGetDeviceProperties(properties: Out<u8>, device: c_int) = device::properties;
        cudaGetDeviceProperties_v2(properties: Out<u8>, device: c_int) = device::properties;
        cudaDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) = device::attribute;
        cudaDeviceGetPCIBusId(id: Out<u8>, length: c_int, device: c_int) = device::pci_bus_id;
        cudaDeviceGetByPCIBusId(device: Out<c_int>, id: *const c_char) = device::by_pci_bus_id;
        cudaDeviceGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) = device::stream_priorities;
        cudaDeviceGetLimit(value: Out<usize>, which: c_int) = device::limit;
        cudaDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) = device::can_access_peer;
        cudaDeviceSynchronize() = streams::synchronize;
        cudaDriverGetVersion(version: Out<c_int>) = device::driver_version;
        cudaRuntimeGetVersion(version: Out<c_int>) = device::runtime_version;
        cudaGetDriverEntryPoint(name: *const c_char, function: Out<usize>, flags: u64, status: Out<c_int>)
            = entry_points::driver_entry_point_unversioned;
        cudaGetDriverEntryPointByVersion(name: *const c_char, function: Out<usize>, version: u32, flags: u64,
            status: Out<c_int>) = entry_points::driver_entry_point;

        cudaMalloc(address: Out<u64>, size: usize) = memory::malloc;
        cudaMallocManaged(address: Out<u64>, size: usize, flags: u32) = memory::malloc_managed;
        cudaFree(address: u64) = memory::free;
        cudaMemGetInfo(free: Out<usize>, total: Out<usize>) = memory::info;
        cudaPointerGetAttributes(attributes: Out<u8>, address: u64) = device::pointer_attributes;
        cudaHostAlloc(address: Out<u64>, size: usize, flags: u32) = host::allocate;
        cudaMallocHost(address: Out<u64>, size: usize) = host::allocate_plain;
        cudaFreeHost(address: u64) = host::free;
        cudaHostRegister(address: u64, size: usize, flags: u32) = host::register;
        cudaHostUnregister(address: u64) = host::unregister;
        cudaHostGetDevicePointer(device: Out<u64>, host: u64, flags: u32) = host::device_pointer;

        cudaMallocAsync(address: Out<u64>, size: usize, stream: usize) = async_pool::malloc;
        cudaMallocFromPoolAsync(address: Out<u64>, size: usize, pool: usize, stream: usize) = async_pool::malloc_from;
        cudaFreeAsync(address: u64, stream: usize) = async_pool::free;
        cudaDeviceGetDefaultMemPool(pool: Out<usize>, device: c_int) = async_pool::default_pool;
        cudaDeviceGetMemPool(pool: Out<usize>, device: c_int) = async_pool::default_pool;
        cudaMemPoolGetAttribute(pool: usize, which: c_int, value: Out<u64>) = async_pool::get_attribute;
        cudaMemPoolSetAttribute(pool: usize, which: c_int, value: *const u64) = async_pool::set_attribute;
        cudaMemPoolTrimTo(pool: usize, keep: usize) = async_pool::trim;

        cudaMemcpy(to: u64, from: u64, size: usize, kind: c_int) = copies::memcpy;
        cudaMemcpyAsync(to: u64, from: u64, size: usize, kind: c_int, stream: usize) = copies::memcpy_async;
        cudaMemcpy2DAsync(to: u64, to_pitch: usize, from: u64, from_pitch: usize, width: usize, height: usize,
            kind: c_int, stream: usize) = copies::memcpy_2d_async;
        cudaMemcpyPeerAsync(to: u64, to_device: c_int, from: u64, from_device: c_int, size: usize, stream: usize)
            = copies::memcpy_peer_async;
        cudaMemset(address: u64, value: c_int, size: usize) = copies::memset;
        cudaMemsetAsync(address: u64, value: c_int, size: usize, stream: usize) = copies::memset_async;

        cudaStreamCreate(stream: Out<usize>) = streams::create;
        cudaStreamCreateWithFlags(stream: Out<usize>, flags: u32) = streams::create_with_flags;
        cudaStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: c_int) = streams::create_with_priority;
        cudaStreamDestroy(stream: usize) = streams::destroy;
        cudaStreamGetPriority(stream: usize, priority: Out<c_int>) = streams::priority;
        cudaStreamGetFlags(stream: usize, flags: Out<u32>) = streams::flags;
        cudaStreamSynchronize(stream: usize) = streams::synchronize_stream;
        cudaStreamQuery(stream: usize) = streams::query_stream;
        cudaStreamWaitEvent(stream: usize, event: usize, flags: u32) = streams::wait_event;
        cudaLaunchHostFunc(stream: usize, function: extern "C" fn(*mut c_void), data: *mut c_void)
            = streams::host_function;
        cudaStreamAddCallback(stream: usize, function: extern "C" fn(usize, c_int, *mut c_void), data: *mut c_void,
            flags: u32) = streams::callback;
        cudaEventCreate(event: Out<usize>) = streams::create_event;
        cudaEventCreateWithFlags(event: Out<usize>, flags: u32) = streams::create_event_with_flags;
        cudaEventDestroy(event: usize) = streams::destroy_event;
        cudaEventRecord(event: usize, stream: usize) = streams::record;
        cudaEventRecordWithFlags(event: usize, stream: usize, flags: u32) = streams::record_with_flags;
        cudaEventQuery(event: usize) = streams::query_event;
        cudaEventSynchronize(event: usize) = streams::synchronize_event;
        cudaEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) = streams::elapsed;
        cudaEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) = streams::elapsed;

        cudaStreamBeginCapture(stream: usize, mode: c_int) = graphs::begin_capture;
        cudaStreamEndCapture(stream: usize, graph: Out<usize>) = graphs::end_capture;
        cudaStreamIsCapturing(stream: usize, status: Out<c_int>) = graphs::is_capturing;
        cudaStreamGetCaptureInfo(stream: usize, status: Out<c_int>, id: Out<u64>, graph: Out<usize>,
            dependencies: Out<usize>, edges: Out<usize>, count: Out<usize>) = graphs::capture_info;
        cudaStreamGetCaptureInfo_v2(stream: usize, status: Out<c_int>, id: Out<u64>, graph: Out<usize>,
            dependencies: Out<usize>, count: Out<usize>) = graphs::capture_info_v2;
        cudaStreamGetCaptureInfo_v3(stream: usize, status: Out<c_int>, id: Out<u64>, graph: Out<usize>,
            dependencies: Out<usize>, edges: Out<usize>, count: Out<usize>) = graphs::capture_info_v3;
        cudaStreamBeginCaptureToGraph(stream: usize, graph: usize, dependencies: *const usize, edges: usize,
            count: usize) = graphs::begin_capture_to;
        cudaStreamUpdateCaptureDependencies(stream: usize, dependencies: *const usize, edges_or_count: usize,
            count_or_flags: usize, flags: u32) = graphs::update_last;
        cudaThreadExchangeStreamCaptureMode(mode: Out<c_int>) = graphs::exchange_capture_mode;
        cudaGraphInstantiate(executable: Out<usize>, graph: usize, flags: u64) = graph_pool::instantiate;
        cudaGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, flags: u64) = graph_pool::instantiate;
        cudaGraphInstantiateWithParams(executable: Out<usize>, graph: usize, parameters: *const u64)
            = graph_pool::instantiate_with;
        cudaGraphGetNodes(graph: usize, nodes: *mut usize, count: Out<usize>) = graphs::nodes_of;
        cudaGraphNodeGetDependencies(node: usize, dependencies: *mut usize, edges_or_count: *mut usize,
            count: Out<usize>) = graphs::dependencies_of;
        cudaGraphAddEmptyNode(node: Out<usize>, graph: usize, dependencies: *const usize, count: usize)
            = graphs::add_empty_node;
        cudaGraphNodeGetType(node: usize, kind: Out<c_int>) = graphs::kind_of;
        cudaGraphAddNode(node: Out<usize>, graph: usize, dependencies: *const usize, edges: usize, count: usize,
            parameters: *mut graphs::NodeParameters) = graph_pool::add_node;
        cudaGraphAddMemAllocNode(node: Out<usize>, graph: usize, dependencies: *const usize, count: usize,
            parameters: *mut graph_pool::AllocationParameters) = graph_pool::add_alloc_node;
        cudaGraphAddMemFreeNode(node: Out<usize>, graph: usize, dependencies: *const usize, count: usize, address: u64)
            = graph_pool::add_free_node;
        cudaGraphDestroy(graph: usize) = graph_pool::destroy;
        cudaGraphExecDestroy(executable: usize) = graph_pool::destroy;
        cudaGraphUpload(executable: usize, stream: usize) = graph_pool::upload;
        cudaDeviceGraphMemTrim(device: c_int) = graph_pool::trim;
        cudaDeviceGetGraphMemAttribute(device: c_int, which: c_int, value: Out<u64>) = graph_pool::attribute;
        cudaDeviceSetGraphMemAttribute(device: c_int, which: c_int, value: *const u64) = graph_pool::set_attribute;
        cudaGraphLaunch(executable: usize, stream: usize) = kernels::launch_graph;
        cudaUserObjectCreate(object: Out<usize>, data: usize, destroy: extern "C" fn(*mut c_void), references: u32)
            = graphs::create_object;
        cudaUserObjectRetain(object: usize, references: u32) = graphs::retain_object;
        cudaUserObjectRelease(object: usize, references: u32) = graphs::release_object;
        cudaGraphRetainUserObject(graph: usize, object: usize, references: u32, flags: u32)
            = graphs::refer_to_object;
        cudaGraphDebugDotPrint(graph: usize, path: *const c_char, flags: u32) = graphs::draw;

        __cudaLaunchKernel(kernel: usize, grid: Dim3, block: Dim3, arguments: *const *const u8, shared: usize, stream: usize)
            = kernels::launch;
        cudaLaunchKernel(function: usize, grid: Dim3, block: Dim3, arguments: *const *const u8, shared: usize, stream: usize)
            = kernels::launch;
        cudaLaunchCooperativeKernel(function: usize, grid: Dim3, block: Dim3, arguments: *const *const u8, shared: usize,
            stream: usize) = kernels::launch;
        cudaLaunchKernelExC(configuration: *const kernels::Configuration, function: usize, arguments: *const *const u8)
            = kernels::launch_configured;
        cudaMemcpyToSymbol() = kernels::launch_on_default_stream;
        __cudaGetKernel(kernel: Out<usize>, function: usize) = kernels::kernel;
        cudaGetFuncBySymbol(kernel: Out<usize>, function: usize) = kernels::kernel;
        cudaLibraryLoadData(library: Out<usize>, image: usize) = kernels::load_module;
        cudaLibraryLoadFromFile(library: Out<usize>, path: *const c_char) = kernels::load_module_file;
        cudaLibraryGetKernel(kernel: Out<usize>, library: usize, name: *const c_char) = kernels::function_of;
        cudaLibraryGetUnifiedFunction(function: Out<usize>, library: usize, name: *const c_char) = kernels::function_of;
        cudaLibraryGetGlobal(address: Out<u64>, bytes: Out<usize>, library: usize, name: usize)
            = kernels::module_global;
        cudaLibraryGetManaged(address: Out<u64>, bytes: Out<usize>, library: usize, name: usize)
            = kernels::module_global;
        cudaFuncGetAttributes(attributes: Out<u8>, function: usize) = kernels::attributes;
        cudaGetSymbolAddress(address: Out<u64>, symbol: usize) = kernels::symbol_address;
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<c_int>, function: usize, block_size: c_int,
            shared: usize) = kernels::occupancy;
        cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<c_int>, function: usize, block_size: c_int,
            shared: usize, flags: u32) = kernels::occupancy_with_flags;
    }
    value {
        cudaGetErrorName(code: c_int) -> *const c_char = texts::error_name;
        cudaGetErrorString(code: c_int) -> *const c_char = texts::error_string;
        cudaGetLastError() -> c_int = calls::take_last_error;
        cudaPeekAtLastError() -> c_int = calls::last_error;
        __cudaRegisterFatBinary(binary: *const c_void) -> usize = links::register_binary;
        __cudaRegisterFatBinaryEnd() -> () = kernels::ignore;
        __cudaUnregisterFatBinary() -> () = kernels::ignore;
        __cudaRegisterFunction(binary: usize, function: usize, name: usize) -> () = images::register_kernel;
        __cudaRegisterVar() -> () = kernels::ignore;
        __cudaRegisterManagedVar() -> () = kernels::ignore;
        __cudaInitModule() -> u8 = kernels::module_is_ready;
        __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: usize) -> u32
            = kernels::push_configuration;
        __cudaPopCallConfiguration(grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<usize>)
            -> c_int = kernels::pop_configuration;
    }
    create {
        cudaGraphConditionalHandleCreate cudaGraphCreate
    }
    zero {
        cudaLibraryGetKernelCount[0: u32]
    }
    succeed {
        cudaDeviceEnablePeerAccess cudaDeviceDisablePeerAccess cudaDeviceSetLimit cudaDeviceSetCacheConfig
        cudaFuncSetAttribute cudaFuncSetCacheConfig cudaMemAdvise
        cudaMemPoolSetAccess cudaMemPrefetchAsync cudaProfilerStart cudaProfilerStop cudaSetDeviceFlags
        cudaStreamAttachMemAsync cudaDeviceReset cudaCtxResetPersistingL2Cache cudaStreamSetAttribute
        cudaKernelSetAttributeForDevice cudaLibraryUnload
    }
    refuse {
        cudaIpcCloseMemHandle cudaIpcGetEventHandle cudaIpcGetMemHandle cudaIpcOpenEventHandle cudaIpcOpenMemHandle
        cudaMemPoolExportToShareableHandle cudaMemPoolImportFromShareableHandle
    }
}
