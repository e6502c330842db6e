//! Memory of CUDA graphs. An allocation becomes a node of a graph, which fixes its address. The driver takes device memory for the nodes when
//! it launches the graph, and graphs share it. So the driver's own count of that memory is recorded after each call that may change it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::next::Next;
use crate::reading::relaxed;
use crate::record::Kind;
use crate::wrap::{Call, read};

/// `CUDA_MEM_ALLOC_NODE_PARAMS` and `cudaMemAllocNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationNode {
    kind: c_int,
    handle_types: c_int,
    /// `CU_MEM_LOCATION_TYPE_DEVICE` is 1.
    location_type: c_int,
    location: c_int,
    /// The rest of the pool's properties.
    others: [usize; 9],
    access: usize,
    access_count: usize,
    size: usize,
    address: u64,
}

/// The start of `CUgraphNodeParams` and `cudaGraphNodeParams`, as it is for allocations.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Node {
    /// `CU_GRAPH_NODE_TYPE_MEM_ALLOC` is 10.
    kind: c_int,
    reserved: [c_int; 3],
    allocation: AllocationNode,
}

/// Devices with nodes that allocate, one bit each.
static DEVICES: AtomicU64 = AtomicU64::new(0);
/// The driver's last count of each device, in bytes.
static LAST: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];

/// Whether a graph allocates memory. Until then, calls of graphs are not recorded.
pub(crate) fn is_used() -> bool {
    DEVICES.load(Ordering::Relaxed) != 0
}

fn record(call: &Call<'_>, graph: u64, address: u64, size: u64, device: Option<u64>) {
    let device = device.or_else(crate::reading::current_device);
    DEVICES.fetch_or(1 << device.unwrap_or(0).min(63), Ordering::Relaxed);
    call.record_with(Kind::GraphNode, address, size, device, graph);
}

/// Records an allocation in the order of a stream: a node if the stream is captured. Returns the status.
pub(crate) fn allocated(
    call: &Call<'_>,
    status: c_int,
    address: *const u64,
    size: usize,
    stream: *mut c_void,
) -> c_int {
    if status == 0
        && call.is_outermost()
        && let Some(address) = read(address)
    {
        match captured_graph(stream as usize) {
            Some(graph) => record(call, graph, address, size as u64, None),
            None => call.record(Kind::MallocAsync, address, size as u64),
        }
    }
    status
}

/// Records a new allocation node. Returns the status.
pub(crate) fn added(call: &Call<'_>, status: c_int, graph: u64, parameters: *const AllocationNode) -> c_int {
    if status == 0
        && let Some(node) = read(parameters)
    {
        let device = (node.location_type == 1).then_some(node.location as u64);
        record(call, graph, node.address, node.size as u64, device);
    }
    status
}

/// Records a new node if it is an allocation. `fifth` and `sixth` are arguments: the parameters, or a number of nodes and the parameters. No
/// address is as small as a number of nodes. Returns the status.
pub(crate) fn added_any(call: &Call<'_>, status: c_int, graph: u64, fifth: usize, sixth: usize) -> c_int {
    const LOWEST_ADDRESS: usize = 1 << 16;
    let parameters = if fifth < LOWEST_ADDRESS { sixth } else { fifth } as *const Node;
    let is_allocation = || {
        // SAFETY: the call succeeded, so the address is that of parameters, which begin with the kind of node.
        unsafe { parameters.cast::<c_int>().as_ref() }.is_some_and(|&kind| kind == 10)
    };
    if status == 0 && is_allocation() {
        // SAFETY: the parameters are those of an allocation.
        return added(call, status, graph, unsafe { &raw const (*parameters).allocation });
    }
    status
}

/// Records an executable graph. Returns the status.
pub(crate) fn instantiated(call: &Call<'_>, status: c_int, executable: *const u64, graph: u64) -> c_int {
    if status == 0
        && is_used()
        && let Some(executable) = read(executable)
    {
        call.record_with(Kind::GraphInstantiate, executable, 0, None, graph);
    }
    status
}

/// Records the end of a graph, or of an executable one, before it happens.
pub(crate) fn destroyed(call: &Call<'_>, kind: Kind, graph: u64) {
    if is_used() {
        call.record(kind, graph, 0);
    }
}

/// Records the memory that the driver keeps for graphs, where it has changed. Returns the status of the call.
pub(crate) fn changed(call: &Call<'_>, status: c_int) -> c_int {
    /// Calls that may have changed the memory since the driver was asked. Counts are recorded by one thread at a time, in their order.
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if status != 0 || !is_used() || !call.is_outermost() || CALLS.fetch_add(1, Ordering::AcqRel) != 0 {
        return status;
    }
    loop {
        let calls = CALLS.load(Ordering::Acquire);
        let devices = DEVICES.load(Ordering::Relaxed);
        for device in (0..64).filter(|device| devices & 1 << device != 0) {
            if let Some(bytes) = reserved(device)
                && bytes != LAST[device as usize].swap(bytes, Ordering::Relaxed)
            {
                call.record_with(Kind::GraphMemory, 0, bytes, Some(device), 0);
            }
        }
        if CALLS.compare_exchange(calls, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return status;
        }
    }
}

/// Bytes of a device that the driver keeps for graphs.
fn reserved(device: u64) -> Option<u64> {
    /// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
    const RESERVED: c_int = 2;
    static ATTRIBUTE: Next = Next::new(c"cuDeviceGetGraphMemAttribute");
    let attribute = ATTRIBUTE.address();
    if attribute == 0 {
        return None;
    }
    // SAFETY: the function of this name has this signature.
    let attribute: extern "C" fn(c_int, c_int, *mut u64) -> c_int = unsafe { std::mem::transmute(attribute) };
    let mut bytes = 0;
    (relaxed(|| attribute(device as c_int, RESERVED, &raw mut bytes)) == 0).then_some(bytes)
}

/// The graph that captures a stream.
fn captured_graph(stream: usize) -> Option<u64> {
    /// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
    const ACTIVE: c_int = 1;
    /// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`.
    const LEGACY: usize = 1;
    const PER_THREAD: usize = 2;
    static INFO: Next = Next::new(c"cuStreamGetCaptureInfo_v2");
    let stream = match stream {
        // The legacy stream is never captured. While the thread's own stream is, no call on the legacy one succeeds.
        LEGACY => return None,
        0 => PER_THREAD,
        stream => stream,
    };
    let info = INFO.address();
    if info == 0 {
        return None;
    }
    type Info = extern "C" fn(usize, *mut c_int, *mut u64, *mut u64, *mut usize, *mut usize) -> c_int;
    // SAFETY: the function of this name has this signature.
    let info: Info = unsafe { std::mem::transmute(info) };
    let (mut status, mut id, mut graph) = (0, 0, 0);
    let (nodes, count) = (std::ptr::null_mut(), std::ptr::null_mut());
    let asked = info(stream, &raw mut status, &raw mut id, &raw mut graph, nodes, count);
    (asked == 0 && status == ACTIVE).then_some(graph)
}
