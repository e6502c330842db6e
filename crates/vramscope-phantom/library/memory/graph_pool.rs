//! Memory that CUDA graphs allocate. An allocation node fixes the address, and a launch takes device memory.
//!
//! This is a model. Graphs on the phantom run one after the other, so they share the same device memory: a device reserves as much as its
//! largest graph needs, besides the allocations that no graph has freed yet. The reserved memory returns to the device when it is trimmed.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};

use super::space::give_pages_back;
use super::{PIECE, copies, of, whole_pieces};
use crate::graphs::{self, NodeParameters};
use crate::machine::{lock, machine};
use crate::out::Out;
use crate::state::{DEVICES, Purpose};
use crate::status::{Answer, Refusal};

/// `CUDA_MEM_ALLOC_NODE_PARAMS` and `cudaMemAllocNodeParams`.
#[repr(C)]
pub(crate) struct AllocationParameters {
    kind: c_int,
    handle_types: c_int,
    location_type: c_int,
    location: c_int,
    /// The rest of the pool's properties.
    others: [usize; 9],
    access: usize,
    access_count: usize,
    size: usize,
    address: u64,
}

/// An allocation of a graph, from its node to the end of the graph and of its executable.
#[derive(Debug)]
struct Allocation {
    device: usize,
    /// Bytes of addresses, and of device memory while it is in use.
    bytes: u64,
    graph: usize,
    /// Whether it was allocated by a launch and not freed since.
    is_live: bool,
}

#[derive(Debug, Default, Clone, Copy)]
struct Pool {
    /// Bytes in use, and their peak.
    used: u64,
    used_high: u64,
    /// Bytes reserved from the device, and their peak.
    reserved: u64,
    reserved_high: u64,
}

#[derive(Debug, Default)]
struct Pools {
    pools: [Pool; DEVICES],
    /// By address.
    allocations: BTreeMap<u64, Allocation>,
    /// Addresses that the free nodes of a graph free.
    frees: HashMap<usize, Vec<u64>>,
    /// The graph of each executable, and whether a launch frees the allocations of the launch before.
    executables: HashMap<usize, (usize, bool)>,
}

static POOLS: LazyLock<Mutex<Pools>> = LazyLock::new(Mutex::default);

impl Pools {
    fn use_more(&mut self, device: usize, bytes: u64) {
        let pool = &mut self.pools[device];
        pool.used += bytes;
        pool.used_high = pool.used_high.max(pool.used);
    }

    /// Frees an allocation that a launch made. Its device memory stays reserved.
    fn free(&mut self, address: u64) -> Answer {
        let allocation = self.allocations.get_mut(&address).filter(|a| a.is_live);
        let Allocation { device, bytes, is_live, .. } = allocation.ok_or(Refusal::InvalidValue)?;
        *is_live = false;
        self.pools[*device].used -= *bytes;
        give_pages_back(address, *bytes);
        Ok(())
    }

    /// Whether a graph or its executable still exists.
    fn exists(&self, graph: usize) -> bool {
        graphs::exists(graph) || self.executables.values().any(|&(of, _)| of == graph)
    }

    /// Removes the allocations of graphs that have ended. Those that are live end when they are freed.
    fn forget_ended(&mut self) {
        let ended = |pools: &Self, a: &Allocation| !a.is_live && !pools.exists(a.graph);
        let all = self.allocations.iter().filter(|(_, a)| ended(self, a));
        let all: Vec<u64> = all.map(|(&address, _)| address).collect();
        for address in all {
            if let Some(Allocation { device, bytes, .. }) = self.allocations.remove(&address) {
                copies::forget(address, bytes);
                give_pages_back(address, bytes);
                lock(of(device)).space.give_back(address, bytes);
            }
        }
    }
}

fn add(graph: usize, device: usize, size: u64) -> Result<u64, Refusal> {
    let bytes = whole_pieces(size)?;
    let at = lock(of(device)).space.take(bytes, PIECE).ok_or(Refusal::OutOfMemory)?;
    let allocation = Allocation { device, bytes, graph, is_live: false };
    lock(&POOLS).allocations.insert(at, allocation);
    Ok(at)
}

fn add_free(graph: usize, address: u64) -> Answer {
    let pools = &mut *lock(&POOLS);
    if !pools.allocations.contains_key(&address) {
        return Err(Refusal::InvalidValue);
    }
    let frees = pools.frees.entry(graph).or_default();
    if frees.contains(&address) {
        return Err(Refusal::InvalidValue);
    }
    frees.push(address);
    Ok(())
}

/// Whether an address came from a graph.
pub(crate) fn owns(address: u64) -> bool {
    lock(&POOLS).allocations.contains_key(&address)
}

/// The allocation with the highest address up to `address`: its address and its bytes.
pub(super) fn nearest(address: u64) -> Option<(u64, u64)> {
    lock(&POOLS).allocations.range(..=address).next_back().map(|(&at, a)| (at, a.bytes))
}

/// Frees an allocation outside of graphs.
pub(super) fn free(address: u64) -> Answer {
    let mut pools = lock(&POOLS);
    pools.free(address)?;
    pools.forget_ended();
    Ok(())
}

/// `cudaMallocAsync` on a captured stream becomes a node of the graph. `None` if the stream is not captured.
pub(super) fn captured_malloc(
    address: &Out<u64>,
    device: usize,
    size: usize,
    stream: usize,
) -> Option<Answer> {
    let graph = graphs::add_captured(stream, graphs::ALLOCATION)?;
    Some(add(graph, device, size as u64).and_then(|at| address.set(at)))
}

/// `cudaFreeAsync` on a captured stream. `None` if the stream is not captured.
pub(super) fn captured_free(address: u64, stream: usize) -> Option<Answer> {
    let graph = graphs::add_captured(stream, graphs::FREE)?;
    Some(add_free(graph, address))
}

// ---- nodes ----

/// `cudaGraphAddMemAllocNode`.
pub(crate) fn add_alloc_node(
    node: Out<usize>,
    graph: usize,
    after: *const usize,
    count: usize,
    parameters: *mut AllocationParameters,
) -> Answer {
    /// `cudaMemLocationTypeDevice`.
    const ON_DEVICE: c_int = 1;
    // SAFETY: the caller passes a pointer to parameters, or null.
    let parameters = unsafe { parameters.as_mut() }.ok_or(Refusal::InvalidValue)?;
    if parameters.location_type != ON_DEVICE || parameters.size == 0 {
        return Err(Refusal::InvalidValue);
    }
    let device = machine().device(parameters.location)?;
    machine().need_context(device)?;
    let new = graphs::add_node_of(graph, after, count, graphs::ALLOCATION);
    parameters.address = add(graph, device, parameters.size as u64)?;
    node.set(new)
}

/// `cudaGraphAddMemFreeNode`.
pub(crate) fn add_free_node(
    node: Out<usize>,
    graph: usize,
    after: *const usize,
    count: usize,
    address: u64,
) -> Answer {
    add_free(graph, address)?;
    node.set(graphs::add_node_of(graph, after, count, graphs::FREE))
}

/// `cudaGraphAddNode` of CUDA 13, `cuGraphAddNode_v2`.
pub(crate) fn add_node(
    node: Out<usize>,
    graph: usize,
    after: *const usize,
    edges: usize,
    count: usize,
    parameters: *mut NodeParameters,
) -> Answer {
    // SAFETY: the caller passes a pointer to parameters, or null.
    let (kind, of_kind) =
        unsafe { parameters.as_mut() }.map_or((0, std::ptr::null_mut()), NodeParameters::parts);
    match kind {
        graphs::ALLOCATION => add_alloc_node(node, graph, after, count, of_kind.cast()),
        graphs::FREE => {
            // SAFETY: the parameters of a free node are its address.
            let address = unsafe { of_kind.cast::<u64>().read() };
            add_free_node(node, graph, after, count, address)
        }
        _ => graphs::add_node(node, graph, after, edges, count, parameters),
    }
}

/// `cuGraphAddNode` of CUDA 12, without edges.
pub(crate) fn add_node_without_edges(
    node: Out<usize>,
    graph: usize,
    after: *const usize,
    count: usize,
    parameters: *mut NodeParameters,
) -> Answer {
    add_node(node, graph, after, 0, count, parameters)
}

// ---- executables ----

/// `cudaGraphInstantiate` and `cudaGraphInstantiateWithFlags`.
pub(crate) fn instantiate(executable: Out<usize>, graph: usize, flags: u64) -> Answer {
    /// `cudaGraphInstantiateFlagAutoFreeOnLaunch`.
    const AUTO_FREE: u64 = 1;
    let new = graphs::instantiate(graph);
    lock(&POOLS).executables.insert(new, (graph, flags & AUTO_FREE != 0));
    executable.set(new)
}

/// `cudaGraphInstantiateWithParams`, whose parameters begin with the flags.
pub(crate) fn instantiate_with(executable: Out<usize>, graph: usize, parameters: *const u64) -> Answer {
    // SAFETY: the caller passes a pointer to parameters, or null.
    let flags = unsafe { parameters.as_ref() }.copied().unwrap_or(0);
    instantiate(executable, graph, flags)
}

/// `cudaGraphUpload`: reserves the memory of a launch.
pub(crate) fn upload(executable: usize, _stream: usize) -> Answer {
    reserve(&mut lock(&POOLS), executable)
}

fn reserve(pools: &mut Pools, executable: usize) -> Answer {
    let Some(&(graph, _)) = pools.executables.get(&executable) else { return Ok(()) };
    let mut needed = [0; DEVICES];
    for a in pools.allocations.values().filter(|a| a.graph == graph && !a.is_live) {
        needed[a.device] += a.bytes;
    }
    for (device, needed) in needed.into_iter().enumerate().filter(|&(_, needed)| needed > 0) {
        let pool = &mut pools.pools[device];
        let missing = (pool.used + needed).saturating_sub(pool.reserved);
        if missing > 0 {
            machine().take(device, Purpose::Memory, missing)?;
            pool.reserved += missing;
            pool.reserved_high = pool.reserved_high.max(pool.reserved);
        }
    }
    Ok(())
}

/// The memory of a launch.
pub(crate) fn launch(executable: usize) -> Answer {
    let pools = &mut *lock(&POOLS);
    let Some(&(graph, frees_before)) = pools.executables.get(&executable) else { return Ok(()) };
    let of_graph = pools.allocations.iter().filter(|(_, a)| a.graph == graph);
    let addresses: Vec<u64> = of_graph.map(|(&address, _)| address).collect();
    for address in &addresses {
        if pools.allocations[address].is_live {
            if !frees_before {
                return Err(Refusal::InvalidValue);
            }
            pools.free(*address)?;
        }
    }
    reserve(pools, executable)?;
    for address in addresses {
        if let Some(a) = pools.allocations.get_mut(&address) {
            a.is_live = true;
            let (device, bytes) = (a.device, a.bytes);
            pools.use_more(device, bytes);
        }
    }
    for address in pools.frees.get(&graph).cloned().unwrap_or_default() {
        pools.free(address)?;
    }
    pools.forget_ended();
    Ok(())
}

/// `cudaGraphDestroy`, `cudaGraphExecDestroy`.
pub(crate) fn destroy(graph: usize) -> Answer {
    graphs::destroy(graph)?;
    let mut pools = lock(&POOLS);
    let of = pools.executables.remove(&graph).map_or(graph, |(of, _)| of);
    if !pools.exists(of) {
        pools.frees.remove(&of);
    }
    pools.forget_ended();
    Ok(())
}

// ---- pools ----

/// `cudaDeviceGraphMemTrim`: returns memory that no graph uses to the device.
pub(crate) fn trim(device: c_int) -> Answer {
    let device = machine().device(device)?;
    let pool = &mut lock(&POOLS).pools[device];
    if pool.reserved > pool.used {
        machine().give_back(device, Purpose::Memory, pool.reserved - pool.used);
        pool.reserved = pool.used;
    }
    Ok(())
}

/// `cudaDeviceGetGraphMemAttribute`.
pub(crate) fn attribute(device: c_int, which: c_int, value: Out<u64>) -> Answer {
    let Pool { used, used_high, reserved, reserved_high } = lock(&POOLS).pools[machine().device(device)?];
    let all = [used, used_high, reserved, reserved_high];
    value.set(*usize::try_from(which).ok().and_then(|which| all.get(which)).ok_or(Refusal::InvalidValue)?)
}

/// `cudaDeviceSetGraphMemAttribute`: resets a peak.
pub(crate) fn set_attribute(device: c_int, which: c_int, _value: *const u64) -> Answer {
    let pool = &mut lock(&POOLS).pools[machine().device(device)?];
    match which {
        1 => pool.used_high = pool.used,
        3 => pool.reserved_high = pool.reserved,
        _ => return Err(Refusal::InvalidValue),
    }
    Ok(())
}
