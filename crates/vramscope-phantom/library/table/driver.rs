//! The CUDA driver. Most programs look up its functions by name, without the revision suffix. PyTorch 2.6 uses `dlsym`, which
//! finds only exact names.

use std::ffi::{c_char, c_int, c_void};

use super::entry_points;
use crate::memory::virtual_memory::{self, AllocationProperties};
use crate::memory::{self, async_pool, copies, graph_pool, host};
use crate::out::Out;
use crate::status::Answer;
use crate::{device, graphs, kernels, streams, texts, threads};

calls! {
    Driver;
    answer {
        cuInit(flags: u32) = device::initialize;
        cuDriverGetVersion(version: Out<c_int>) = device::driver_version;
        cuGetProcAddress(name: *const c_char, function: Out<usize>, version: c_int, flags: u64)
            = entry_points::proc_address_v1;
        cuGetProcAddress_v2(name: *const c_char, function: Out<usize>, version: c_int, flags: u64, status: Out<c_int>)
            = entry_points::proc_address;
        cuGetExportTable(table: Out<usize>, id: usize) = entry_points::export_table;
        cuGetErrorName(code: c_int, text: Out<*const c_char>) = texts::driver_error_name;
        cuGetErrorString(code: c_int, text: Out<*const c_char>) = texts::driver_error_string;

        cuDeviceGet(device: Out<c_int>, ordinal: c_int) = device::by_ordinal;
        cuDeviceGetCount(count: Out<c_int>) = device::count;
        cuDeviceGetName(name: Out<u8>, length: c_int, device: c_int) = device::name;
        cuDeviceGetUuid(uuid: Out<u8>, device: c_int) = device::uuid;
        cuDeviceGetUuid_v2(uuid: Out<u8>, device: c_int) = device::uuid;
        cuDeviceTotalMem_v2(bytes: Out<usize>, device: c_int) = device::total_memory;
        cuDeviceGetAttribute(value: Out<c_int>, which: c_int, device: c_int) = device::attribute;
        cuDeviceGetPCIBusId(id: Out<u8>, length: c_int, device: c_int) = device::pci_bus_id;
        cuDeviceGetByPCIBusId(device: Out<c_int>, id: *const c_char) = device::by_pci_bus_id;
        cuDeviceCanAccessPeer(can: Out<c_int>, device: c_int, peer: c_int) = device::can_access_peer;
        cuDevicePrimaryCtxRetain(context: Out<usize>, device: c_int) = threads::retain_primary;
        cuDevicePrimaryCtxRelease_v2(device: c_int) = threads::release_primary;
        cuDevicePrimaryCtxGetState(device: c_int, flags: Out<u32>, active: Out<c_int>) = threads::primary_state;
        cuCtxCreate_v2(context: Out<usize>, flags: u32, device: c_int) = threads::create_context;
        cuCtxGetCurrent(context: Out<usize>) = threads::get_context;
        cuCtxSetCurrent(context: usize) = threads::set_context;
        cuCtxGetDevice(device: Out<c_int>) = threads::context_device;
        cuCtxPushCurrent(context: usize) = threads::push_context;
        cuCtxPushCurrent_v2(context: usize) = threads::push_context;
        cuCtxPopCurrent(context: Out<usize>) = threads::pop_context;
        cuCtxPopCurrent_v2(context: Out<usize>) = threads::pop_context;
        cuStreamGetCtx(stream: usize, context: Out<usize>) = threads::context_of_stream;
        cuCtxGetApiVersion(context: usize, version: Out<u32>) = threads::api_version;
        cuCtxGetStreamPriorityRange(least: Out<c_int>, greatest: Out<c_int>) = device::stream_priorities;
        cuCtxGetLimit(value: Out<usize>, which: c_int) = device::limit;
        cuCtxSynchronize() = streams::synchronize;
        cuCtxSynchronize_v2(context: usize) = synchronize_context;

        cuMemAlloc_v2(address: Out<u64>, size: usize) = memory::driver_malloc;
        cuMemAllocManaged(address: Out<u64>, size: usize, flags: u32) = memory::malloc_managed;
        cuMemFree_v2(address: u64) = memory::free;
        cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) = memory::info;
        cuMemAllocAsync(address: Out<u64>, size: usize, stream: usize) = async_pool::malloc;
        cuMemAllocFromPoolAsync(address: Out<u64>, size: usize, pool: usize, stream: usize) = async_pool::malloc_from;
        cuMemFreeAsync(address: u64, stream: usize) = async_pool::free;
        cuDeviceGetDefaultMemPool(pool: Out<usize>, device: c_int) = async_pool::default_pool;
        cuDeviceGetMemPool(pool: Out<usize>, device: c_int) = async_pool::default_pool;
        cuMemPoolGetAttribute(pool: usize, which: c_int, value: Out<u64>) = async_pool::get_attribute;
        cuMemPoolSetAttribute(pool: usize, which: c_int, value: *const u64) = async_pool::set_attribute;
        cuMemPoolTrimTo(pool: usize, keep: usize) = async_pool::trim;
        cuMemHostAlloc(address: Out<u64>, size: usize, flags: u32) = host::allocate;
        cuMemAllocHost_v2(address: Out<u64>, size: usize) = host::allocate_plain;
        cuMemFreeHost(address: u64) = host::free;
        cuMemHostRegister_v2(address: u64, size: usize, flags: u32) = host::register;
        cuMemHostUnregister(address: u64) = host::unregister;
        cuMemHostGetDevicePointer_v2(device: Out<u64>, host: u64, flags: u32) = host::device_pointer;
        cuMemGetAddressRange(base: Out<u64>, size: Out<usize>, address: u64) = memory::address_range;
        cuMemGetAddressRange_v2(base: Out<u64>, size: Out<usize>, address: u64) = memory::address_range;
        cuPointerGetAttribute(value: Out<u8>, which: c_int, address: u64) = device::pointer_attribute;

        cuMemGetAllocationGranularity(granularity: Out<usize>, properties: *const AllocationProperties, option: c_int)
            = virtual_memory::granularity;
        cuMemAddressReserve(address: Out<u64>, size: usize, alignment: usize, wanted: u64, flags: u64)
            = virtual_memory::reserve;
        cuMemAddressFree(address: u64, size: usize) = virtual_memory::unreserve;
        cuMemCreate(handle: Out<usize>, size: usize, properties: *const AllocationProperties, flags: u64)
            = virtual_memory::create;
        cuMemRelease(handle: usize) = virtual_memory::release;
        cuMemMap(address: u64, size: usize, offset: usize, handle: usize, flags: u64) = virtual_memory::map;
        cuMemUnmap(address: u64, size: usize) = virtual_memory::unmap;
        cuMemSetAccess(address: u64, size: usize, descriptors: usize, count: usize) = virtual_memory::set_access;
        cuMemRetainAllocationHandle(handle: Out<usize>, address: u64) = virtual_memory::retain_handle;
        cuMemGetAllocationPropertiesFromHandle(properties: Out<AllocationProperties>, handle: usize)
            = virtual_memory::properties_of;

        cuMemcpy(to: u64, from: u64, size: usize) = copies::memcpy_plain;
        cuMemcpyHtoD_v2(to: u64, from: u64, size: usize) = copies::memcpy_plain;
        cuMemcpyDtoH_v2(to: u64, from: u64, size: usize) = copies::memcpy_plain;
        cuMemcpyDtoD_v2(to: u64, from: u64, size: usize) = copies::memcpy_plain;
        cuMemcpyAsync(to: u64, from: u64, size: usize, stream: usize) = copies::memcpy_plain_async;
        cuMemcpyHtoDAsync_v2(to: u64, from: u64, size: usize, stream: usize) = copies::memcpy_plain_async;
        cuMemcpyDtoHAsync_v2(to: u64, from: u64, size: usize, stream: usize) = copies::memcpy_plain_async;
        cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: usize, stream: usize) = copies::memcpy_plain_async;
        cuMemsetD8_v2(address: u64, value: u8, count: usize) = copies::memset_d8;
        cuMemsetD8Async(address: u64, value: u8, count: usize, stream: usize) = copies::memset_d8_async;
        cuMemsetD32_v2(address: u64, value: u32, count: usize) = copies::memset_d32;
        cuMemsetD32Async(address: u64, value: u32, count: usize, stream: usize) = copies::memset_d32_async;

        cuStreamCreate(stream: Out<usize>, flags: u32) = streams::create_with_flags;
        cuStreamCreateWithPriority(stream: Out<usize>, flags: u32, priority: c_int) = streams::create_with_priority;
        cuStreamDestroy(stream: usize) = streams::destroy;
        cuStreamDestroy_v2(stream: usize) = streams::destroy;
        cuStreamGetPriority(stream: usize, priority: Out<c_int>) = streams::priority;
        cuStreamGetFlags(stream: usize, flags: Out<u32>) = streams::flags;
        cuStreamSynchronize(stream: usize) = streams::synchronize_stream;
        cuStreamQuery(stream: usize) = streams::query_stream;
        cuStreamWaitEvent(stream: usize, event: usize, flags: u32) = streams::wait_event;
        cuLaunchHostFunc(stream: usize, function: extern "C" fn(*mut c_void), data: *mut c_void)
            = streams::host_function;
        cuStreamAddCallback(stream: usize, function: extern "C" fn(usize, c_int, *mut c_void), data: *mut c_void,
            flags: u32) = streams::callback;
        cuEventCreate(event: Out<usize>, flags: u32) = streams::create_event_with_flags;
        cuEventDestroy(event: usize) = streams::destroy_event;
        cuEventDestroy_v2(event: usize) = streams::destroy_event;
        cuEventRecord(event: usize, stream: usize) = streams::record;
        cuEventRecordWithFlags(event: usize, stream: usize, flags: u32) = streams::record_with_flags;
        cuEventQuery(event: usize) = streams::query_event;
        cuEventSynchronize(event: usize) = streams::synchronize_event;
        cuEventElapsedTime(milliseconds: Out<f32>, start: usize, end: usize) = streams::elapsed;
        cuEventElapsedTime_v2(milliseconds: Out<f32>, start: usize, end: usize) = streams::elapsed;
        cuStreamIsCapturing(stream: usize, status: Out<c_int>) = graphs::is_capturing;
        cuThreadExchangeStreamCaptureMode(mode: Out<c_int>) = graphs::exchange_capture_mode;
        cuStreamBeginCapture_v2(stream: usize, mode: c_int) = graphs::begin_capture;
        cuStreamEndCapture(stream: usize, graph: Out<usize>) = graphs::end_capture;
        cuStreamGetCaptureInfo_v2(stream: usize, status: Out<c_int>, id: Out<u64>, graph: Out<usize>,
            dependencies: Out<usize>, count: Out<usize>) = graphs::capture_info_v2;
        cuStreamGetCaptureInfo_v3(stream: usize, status: Out<c_int>, id: Out<u64>, graph: Out<usize>,
            dependencies: Out<usize>, edges: Out<usize>, count: Out<usize>) = graphs::capture_info_v3;
        cuGraphAddMemAllocNode(node: Out<usize>, graph: usize, dependencies: *const usize, count: usize,
            parameters: *mut graph_pool::AllocationParameters) = graph_pool::add_alloc_node;
        cuGraphAddMemFreeNode(node: Out<usize>, graph: usize, dependencies: *const usize, count: usize, address: u64)
            = graph_pool::add_free_node;
        cuGraphAddNode(node: Out<usize>, graph: usize, dependencies: *const usize, count: usize,
            parameters: *mut graphs::NodeParameters) = graph_pool::add_node_without_edges;
        cuGraphAddNode_v2(node: Out<usize>, graph: usize, dependencies: *const usize, edges: usize, count: usize,
            parameters: *mut graphs::NodeParameters) = graph_pool::add_node;
        cuGraphInstantiate(executable: Out<usize>, graph: usize, flags: u64) = graph_pool::instantiate;
        cuGraphInstantiateWithFlags(executable: Out<usize>, graph: usize, flags: u64) = graph_pool::instantiate;
        cuGraphInstantiateWithParams(executable: Out<usize>, graph: usize, parameters: *const u64)
            = graph_pool::instantiate_with;
        cuGraphLaunch(executable: usize, stream: usize) = kernels::launch_graph;
        cuGraphUpload(executable: usize, stream: usize) = graph_pool::upload;
        cuGraphDestroy(graph: usize) = graph_pool::destroy;
        cuGraphExecDestroy(executable: usize) = graph_pool::destroy;
        cuDeviceGraphMemTrim(device: c_int) = graph_pool::trim;
        cuDeviceGetGraphMemAttribute(device: c_int, which: c_int, value: Out<u64>) = graph_pool::attribute;

        cuLaunchKernel(function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
            block_z: u32, shared: u32, stream: usize, arguments: *const *const u8, extra: *const *const c_void)
            = kernels::launch_by_driver;
        cuLaunchCooperativeKernel(function: usize, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32,
            block_z: u32, shared: u32, stream: usize, arguments: *const *const u8)
            = kernels::launch_cooperative_by_driver;
        cuLaunchKernelEx(configuration: *const kernels::Configuration, function: usize, arguments: *const *const u8,
            extra: *const *const c_void) = kernels::launch_configured_by_driver;

        cuModuleLoad(module: Out<usize>, path: *const c_char) = kernels::load_module_file;
        cuModuleLoadData(module: Out<usize>, image: usize) = kernels::load_module;
        cuModuleLoadDataEx(module: Out<usize>, image: usize) = kernels::load_module;
        cuModuleLoadFatBinary(module: Out<usize>, image: usize) = kernels::load_module;
        cuLibraryLoadData(library: Out<usize>, image: usize) = kernels::load_module;
        cuLibraryLoadFromFile(library: Out<usize>, path: *const c_char) = kernels::load_module_file;
        cuModuleGetFunction(function: Out<usize>, module: usize, name: *const c_char) = kernels::function_of;
        cuLibraryGetKernel(function: Out<usize>, library: usize, name: *const c_char) = kernels::function_of;
        cuKernelGetFunction(function: Out<usize>, kernel: usize) = kernels::kernel;
        cuModuleGetGlobal_v2(address: Out<u64>, bytes: Out<usize>, module: usize, name: usize) = kernels::module_global;
        cuFuncGetAttribute(value: Out<c_int>, which: c_int, function: usize) = kernels::driver_attribute;
        cuKernelGetAttribute(value: Out<c_int>, which: c_int, kernel: usize) = kernels::driver_attribute;
        cuLinkComplete(state: usize, image: Out<usize>, size: Out<usize>) = kernels::linked;
        cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: Out<c_int>, function: usize, block_size: c_int,
            shared: usize) = kernels::occupancy;
        cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks: Out<c_int>, function: usize, block_size: c_int,
            shared: usize, flags: u32) = kernels::occupancy_with_flags;
        cuOccupancyMaxPotentialClusterSize(blocks: Out<c_int>) = kernels::largest_cluster;
        cuOccupancyMaxPotentialBlockSize(grid: Out<c_int>, block: Out<c_int>) = kernels::best_block_size;
    }
    create {
        cuGraphCreate
    }
    zero {
        cuCtxGetFlags[0: u32] cuLinkCreate[4: usize] cuLinkCreate_v2[4: usize] cuLogsRegisterCallback[2: usize] cuOccupancyMaxActiveClusters[0: i32]
    }
    succeed {
        cuCtxDestroy cuCtxDestroy_v2 cuDevicePrimaryCtxSetFlags_v2 cuDevicePrimaryCtxReset_v2
        cuFuncLoad cuFuncSetAttribute cuFuncSetCacheConfig cuKernelSetAttribute cuLibraryUnload cuLinkAddData cuLinkAddData_v2
        cuLinkDestroy
        cuLogsUnregisterCallback cuMemPoolSetAccess cuMemPrefetchAsync cuModuleUnload cuProfilerStart cuProfilerStop
        cuStreamWaitValue32 cuStreamWaitValue32_v2 cuStreamWriteValue32 cuStreamWriteValue32_v2
        cuTensorMapEncodeTiled cuCtxEnablePeerAccess cuCtxSetLimit
    }
    refuse {
        cuIpcCloseMemHandle cuIpcGetEventHandle cuIpcGetMemHandle cuIpcOpenEventHandle cuIpcOpenMemHandle_v2
        cuMemExportToShareableHandle cuMemImportFromShareableHandle cuMulticastAddDevice cuMulticastBindAddr
        cuMulticastBindMem cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind cuGreenCtxCreate
        cuGreenCtxDestroy cuGreenCtxStreamCreate cuCtxFromGreenCtx cuDeviceGetDevResource cuDevSmResourceSplitByCount
        cuDevResourceGenerateDesc
    }
}

/// `cuCtxSynchronize_v2`: the device of every context is done.
fn synchronize_context(_context: usize) -> Answer {
    streams::synchronize()
}
