//! Stream capture into graphs. The phantom keeps the dependencies between nodes, not the work itself: PyTorch's allocator reads
//! the dependencies to reuse memory during a capture.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};

use crate::handles::new_handle;
use crate::machine::lock;
use crate::out::Out;
use crate::status::{Answer, Refusal};
use crate::{timeline, version};

/// A captured stream.
#[derive(Debug, Clone)]
struct Captured {
    /// Unique id of the capture.
    id: u64,
    /// The graph under construction.
    graph: usize,
    /// Whether the capture began on this stream.
    is_origin: bool,
    /// Nodes that the stream's next work depends on.
    last: Vec<usize>,
}

/// The state of an event that was recorded during a capture. Streams that wait for it depend on its nodes.
#[derive(Debug, Clone)]
pub(crate) struct Point(Captured);

#[derive(Default)]
struct Graph {
    nodes: Vec<usize>,
    /// Graphs inside conditional nodes. The caller keeps the addresses of the lists.
    bodies: Vec<Box<[usize]>>,
    /// Handles of the caller's objects: one entry per reference.
    objects: Vec<usize>,
    /// Addresses of device memory that the work accesses, if accesses are recorded.
    accesses: BTreeSet<u64>,
}

/// An object of the caller that lives while a graph refers to it.
struct UserObject {
    references: usize,
    destroy: extern "C" fn(*mut c_void),
    /// The argument of `destroy`, as an address.
    data: usize,
}

#[derive(Default)]
struct Graphs {
    /// Streams under capture.
    captured: HashMap<usize, Captured>,
    /// Graphs, and instantiated graphs (which have no nodes).
    graphs: HashMap<usize, Graph>,
    /// The dependencies of each node.
    dependencies: HashMap<usize, Vec<usize>>,
    /// `cudaGraphNodeType` of each node that is not a kernel.
    kinds: HashMap<usize, c_int>,
    objects: HashMap<usize, UserObject>,
    last_id: u64,
}

static GRAPHS: LazyLock<Mutex<Graphs>> = LazyLock::new(Mutex::default);

/// The number of streams under capture. Usually 0, so launches can check it without the lock.
static CAPTURED: AtomicUsize = AtomicUsize::new(0);

impl Graphs {
    fn add_node(&mut self, graph: usize, waits_for: Vec<usize>) -> usize {
        let node = new_handle();
        self.dependencies.insert(node, waits_for);
        self.graphs.entry(graph).or_default().nodes.push(node);
        node
    }

    fn begin(&mut self, stream: usize, graph: usize, last: Vec<usize>) -> Answer {
        if stream == 0 || self.captured.contains_key(&stream) {
            return Err(Refusal::IllegalState);
        }
        self.last_id += 1;
        self.captured.insert(stream, Captured { id: self.last_id, graph, is_origin: true, last });
        self.count_captured();
        Ok(())
    }

    fn count_captured(&self) {
        CAPTURED.store(self.captured.len(), Ordering::Release);
    }

    /// Drops references to an object. Returns the object if they were the last.
    fn let_go(&mut self, object: usize, references: usize) -> Option<UserObject> {
        let known = self.objects.get_mut(&object)?;
        known.references = known.references.saturating_sub(references);
        if known.references == 0 { self.objects.remove(&object) } else { None }
    }
}

/// Adds a node for work on a stream, if the stream is captured.
pub(crate) fn add_work(stream: usize) {
    if CAPTURED.load(Ordering::Acquire) == 0 {
        return timeline::submit(stream);
    }
    let mut graphs = lock(&GRAPHS);
    let Some(captured) = graphs.captured.get(&stream).cloned() else { return timeline::submit(stream) };
    let node = graphs.add_node(captured.graph, captured.last);
    graphs.captured.entry(stream).and_modify(|captured| captured.last = vec![node]);
}

/// Adds the addresses that work on a stream accesses, if the stream is captured.
pub(crate) fn access(stream: usize, addresses: &[u64]) {
    if CAPTURED.load(Ordering::Acquire) == 0 {
        return;
    }
    let mut graphs = lock(&GRAPHS);
    let Some(graph) = graphs.captured.get(&stream).map(|captured| captured.graph) else { return };
    graphs.graphs.entry(graph).or_default().accesses.extend(addresses);
}

/// The addresses that a graph accesses.
pub(crate) fn accesses(graph: usize) -> Vec<u64> {
    lock(&GRAPHS).graphs.get(&graph).into_iter().flat_map(|graph| &graph.accesses).copied().collect()
}

/// Adds a node of a kind to the graph that captures a stream, and returns the graph. `None` if the stream is not captured.
pub(crate) fn add_captured(stream: usize, kind: c_int) -> Option<usize> {
    if CAPTURED.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut graphs = lock(&GRAPHS);
    let Captured { graph, last, .. } = graphs.captured.get(&stream).cloned()?;
    let node = graphs.add_node(graph, last);
    graphs.kinds.insert(node, kind);
    graphs.captured.entry(stream).and_modify(|captured| captured.last = vec![node]);
    Some(graph)
}

pub(crate) fn is_captured(stream: usize) -> bool {
    lock(&GRAPHS).captured.contains_key(&stream)
}

pub(crate) fn is_any_captured() -> bool {
    !lock(&GRAPHS).captured.is_empty()
}

/// The current position of a captured stream.
pub(crate) fn point(stream: usize) -> Option<Point> {
    lock(&GRAPHS).captured.get(&stream).cloned().map(Point)
}

/// Makes a stream wait for a point of a capture; the stream joins the capture.
pub(crate) fn wait(stream: usize, point: &Point) {
    let mut graphs = lock(&GRAPHS);
    if !graphs.captured.values().any(|captured| captured.id == point.0.id) {
        return;
    }
    let joins = || Captured { is_origin: false, last: Vec::new(), ..point.0.clone() };
    let captured = graphs.captured.entry(stream).or_insert_with(joins);
    for &node in &point.0.last {
        if !captured.last.contains(&node) {
            captured.last.push(node);
        }
    }
    graphs.count_captured();
}

// ---- captures ----

/// `cudaStreamCaptureStatusActive`.
const ACTIVE: c_int = 1;

pub(crate) fn begin_capture(stream: usize, _mode: c_int) -> Answer {
    lock(&GRAPHS).begin(stream, new_handle(), Vec::new())
}

/// `cudaStreamBeginCaptureToGraph`: captures into an existing graph, after some of its nodes.
pub(crate) fn begin_capture_to(
    stream: usize,
    graph: usize,
    after: *const usize,
    _edges: usize,
    count: usize,
) -> Answer {
    lock(&GRAPHS).begin(stream, graph, list(after, count))
}

pub(crate) fn end_capture(stream: usize, graph: Out<usize>) -> Answer {
    let mut graphs = lock(&GRAPHS);
    let captured = graphs.captured.get(&stream).filter(|captured| captured.is_origin);
    let Captured { id, graph: ended, .. } = captured.cloned().ok_or(Refusal::IllegalState)?;
    graphs.captured.retain(|_, captured| captured.id != id);
    graphs.count_captured();
    graphs.graphs.entry(ended).or_default();
    // Callers that captured into their own graph pass null.
    graph.set_if_wanted(ended);
    Ok(())
}

pub(crate) fn is_capturing(stream: usize, status: Out<c_int>) -> Answer {
    status.set(if is_captured(stream) { ACTIVE } else { 0 })
}

/// `cudaStreamGetCaptureInfo`. CUDA 12 returns a status and an id; CUDA 13 returns the fields of `_v2` and `_v3` as well.
pub(crate) fn capture_info(
    stream: usize,
    status: Out<c_int>,
    id: Out<u64>,
    graph: Out<usize>,
    last: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> Answer {
    if version::runtime() >= 13_000 {
        return capture_info_v3(stream, status, id, graph, last, edges, count);
    }
    let nobody = || Out::nowhere();
    capture_info_v2(stream, status, id, nobody(), nobody(), nobody())
}

/// `cudaStreamGetCaptureInfo_v2` of CUDA 12.
pub(crate) fn capture_info_v2(
    stream: usize,
    status: Out<c_int>,
    id: Out<u64>,
    graph: Out<usize>,
    last: Out<usize>,
    count: Out<usize>,
) -> Answer {
    capture_info_v3(stream, status, id, graph, last, Out::nowhere(), count)
}

pub(crate) fn capture_info_v3(
    stream: usize,
    status: Out<c_int>,
    id: Out<u64>,
    graph: Out<usize>,
    last: Out<usize>,
    edges: Out<usize>,
    count: Out<usize>,
) -> Answer {
    let graphs = lock(&GRAPHS);
    let captured = graphs.captured.get(&stream);
    status.set(if captured.is_some() { ACTIVE } else { 0 })?;
    if let Some(captured) = captured {
        id.set_if_wanted(captured.id);
        graph.set_if_wanted(captured.graph);
        // The list stays valid until the stream gets more work.
        last.set_if_wanted(captured.last.as_ptr() as usize);
        edges.set_if_wanted(0);
        count.set_if_wanted(captured.last.len());
    }
    Ok(())
}

/// `cudaStreamUpdateCaptureDependencies`: sets or extends the dependencies of the stream's next work. CUDA 12 has no argument
/// for edges.
pub(crate) fn update_last(
    stream: usize,
    nodes: *const usize,
    edges_or_count: usize,
    count_or_flags: usize,
    flags: u32,
) -> Answer {
    /// `cudaStreamSetCaptureDependencies`: replace the dependencies.
    const INSTEAD: u32 = 1;
    let (count, flags) = match version::runtime() {
        13_000.. => (count_or_flags, flags),
        _ => (edges_or_count, count_or_flags as u32),
    };
    let mut graphs = lock(&GRAPHS);
    let captured = graphs.captured.get_mut(&stream).ok_or(Refusal::IllegalState)?;
    if flags & INSTEAD != 0 {
        captured.last.clear();
    }
    captured.last.extend(list(nodes, count));
    Ok(())
}

/// Swaps the thread's capture mode. The phantom forbids no calls during a capture, and always returns mode 0.
pub(crate) fn exchange_capture_mode(mode: Out<c_int>) -> Answer {
    mode.set(0)
}

// ---- graphs ----

/// Whether a graph or an instantiated graph exists.
pub(crate) fn exists(graph: usize) -> bool {
    lock(&GRAPHS).graphs.contains_key(&graph)
}

/// Instantiates a graph. The instantiated graph holds references to the caller's objects, too.
pub(crate) fn instantiate(graph: usize) -> usize {
    let mut graphs = lock(&GRAPHS);
    let objects = graphs.graphs.get(&graph).map(|graph| graph.objects.clone()).unwrap_or_default();
    for object in &objects {
        graphs.objects.entry(*object).and_modify(|object| object.references += 1);
    }
    let mut accesses = BTreeSet::new();
    // A conditional node contains graphs.
    let mut parts = vec![graph];
    while let Some(part) = parts.pop().and_then(|part| graphs.graphs.get(&part)) {
        accesses.extend(&part.accesses);
        parts.extend(part.bodies.iter().flatten());
    }
    let new = new_handle();
    graphs.graphs.insert(new, Graph { objects, accesses, ..Graph::default() });
    new
}

/// `cudaGraphDestroy`, `cudaGraphExecDestroy`.
pub(crate) fn destroy(graph: usize) -> Answer {
    let mut graphs = lock(&GRAPHS);
    let Some(destroyed) = graphs.graphs.remove(&graph) else { return Ok(()) };
    for node in destroyed.nodes {
        graphs.dependencies.remove(&node);
        graphs.kinds.remove(&node);
    }
    let gone: Vec<_> = destroyed.objects.iter().filter_map(|&object| graphs.let_go(object, 1)).collect();
    drop(graphs);
    gone.into_iter().for_each(UserObject::end);
    Ok(())
}

/// Writes the nodes of a graph, or only their number.
pub(crate) fn nodes_of(graph: usize, nodes: *mut usize, count: Out<usize>) -> Answer {
    let graphs = lock(&GRAPHS);
    put_list(graphs.graphs.get(&graph).map_or(&[], |graph| &graph.nodes), nodes, count)
}

/// `cudaGraphNodeGetDependencies`: the dependencies of a node. CUDA 12 has no argument for edges.
pub(crate) fn dependencies_of(
    node: usize,
    nodes: *mut usize,
    edges_or_count: *mut usize,
    count: Out<usize>,
) -> Answer {
    let count = if version::runtime() >= 13_000 { count } else { Out::to(edges_or_count) };
    let graphs = lock(&GRAPHS);
    put_list(graphs.dependencies.get(&node).ok_or(Refusal::InvalidValue)?, nodes, count)
}

/// The fields of `cudaGraphNodeParams` for conditional nodes (driver_types.h).
#[repr(C)]
pub(crate) struct NodeParameters {
    kind: c_int,
    reserved: [c_int; 3],
    condition: u64,
    condition_kind: c_int,
    size: u32,
    bodies: *const usize,
}

/// `cudaGraphNodeTypeMemAlloc`, `cudaGraphNodeTypeMemFree`.
pub(crate) const ALLOCATION: c_int = 10;
pub(crate) const FREE: c_int = 11;

impl NodeParameters {
    /// The kind of node, and the place of the parameters of this kind.
    pub(crate) fn parts(&mut self) -> (c_int, *mut c_void) {
        (self.kind, (&raw mut self.condition).cast())
    }
}

/// Adds a node of a kind.
pub(crate) fn add_node_of(graph: usize, after: *const usize, count: usize, kind: c_int) -> usize {
    let mut graphs = lock(&GRAPHS);
    let new = graphs.add_node(graph, list(after, count));
    graphs.kinds.insert(new, kind);
    new
}

/// `cudaGraphAddNode` of CUDA 13. A conditional node contains graphs, which the caller fills.
pub(crate) fn add_node(
    node: Out<usize>,
    graph: usize,
    after: *const usize,
    _edges: usize,
    count: usize,
    parameters: *mut NodeParameters,
) -> Answer {
    /// `cudaGraphNodeTypeConditional`.
    const CONDITIONAL: c_int = 13;
    let mut graphs = lock(&GRAPHS);
    let new = graphs.add_node(graph, list(after, count));
    // SAFETY: the caller passes a pointer to parameters, or null.
    if let Some(parameters) = unsafe { parameters.as_mut() } {
        graphs.kinds.insert(new, parameters.kind);
        if parameters.kind == CONDITIONAL {
            let bodies: Box<[usize]> = (0..parameters.size).map(|_| new_handle()).collect();
            parameters.bodies = bodies.as_ptr();
            graphs.graphs.entry(graph).or_default().bodies.push(bodies);
        }
    }
    node.set(new)
}

/// `cudaGraphAddEmptyNode`.
pub(crate) fn add_empty_node(node: Out<usize>, graph: usize, after: *const usize, count: usize) -> Answer {
    /// `cudaGraphNodeTypeEmpty`.
    const EMPTY: c_int = 5;
    node.set(add_node_of(graph, after, count, EMPTY))
}

/// `cudaGraphNodeGetType`: 0 for kernels.
pub(crate) fn kind_of(node: usize, kind: Out<c_int>) -> Answer {
    kind.set(lock(&GRAPHS).kinds.get(&node).copied().unwrap_or(0))
}

/// `cudaGraphDebugDotPrint`: writes an empty graph.
pub(crate) fn draw(_graph: usize, path: *const c_char, _flags: u32) -> Answer {
    let path = crate::out::text(path).ok_or(Refusal::InvalidValue)?;
    std::fs::write(path, "digraph {}\n").map_err(|_| Refusal::InvalidValue)
}

// ---- the caller's objects ----

impl UserObject {
    fn end(self) {
        (self.destroy)(std::ptr::with_exposed_provenance_mut(self.data));
    }
}

/// `cudaUserObjectCreate`.
pub(crate) fn create_object(
    object: Out<usize>,
    data: usize,
    destroy: extern "C" fn(*mut c_void),
    references: u32,
) -> Answer {
    let new = new_handle();
    let references = references as usize;
    lock(&GRAPHS).objects.insert(new, UserObject { references, destroy, data });
    object.set(new)
}

/// `cudaUserObjectRetain`.
pub(crate) fn retain_object(object: usize, references: u32) -> Answer {
    let mut graphs = lock(&GRAPHS);
    let object = graphs.objects.get_mut(&object).ok_or(Refusal::InvalidValue)?;
    object.references += references as usize;
    Ok(())
}

/// `cudaUserObjectRelease`.
pub(crate) fn release_object(object: usize, references: u32) -> Answer {
    let gone = lock(&GRAPHS).let_go(object, references as usize);
    gone.into_iter().for_each(UserObject::end);
    Ok(())
}

/// `cudaGraphRetainUserObject`: a graph takes references to an object. The caller may transfer its own references.
pub(crate) fn refer_to_object(graph: usize, object: usize, references: u32, flags: u32) -> Answer {
    /// `cudaGraphUserObjectMove`.
    const MOVE: u32 = 1;
    let mut graphs = lock(&GRAPHS);
    let known = graphs.objects.get_mut(&object).ok_or(Refusal::InvalidValue)?;
    if flags & MOVE == 0 {
        known.references += references as usize;
    }
    let graph = graphs.graphs.entry(graph).or_default();
    graph.objects.extend(std::iter::repeat_n(object, references as usize));
    Ok(())
}

// ---- the caller's lists ----

fn list(nodes: *const usize, count: usize) -> Vec<usize> {
    if nodes.is_null() || count == 0 {
        return Vec::new();
    }
    // SAFETY: the caller passes `count` handles.
    unsafe { std::slice::from_raw_parts(nodes, count) }.to_vec()
}

/// Writes as many handles as fit in the caller's buffer. Without a buffer, writes only the number of handles.
fn put_list(found: &[usize], nodes: *mut usize, count: Out<usize>) -> Answer {
    if nodes.is_null() {
        return count.set(found.len());
    }
    let room = count.get()?;
    for i in 0..room {
        // SAFETY: the caller has room for `room` handles; the unused ones become null.
        unsafe { nodes.add(i).write(found.get(i).copied().unwrap_or(0)) };
    }
    count.set(room.min(found.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// The dependencies of the next work on a stream.
    fn last(stream: usize) -> Vec<usize> {
        lock(&GRAPHS).captured[&stream].last.clone()
    }

    fn waits_for(node: usize) -> Vec<usize> {
        let mut nodes = [0; 8];
        let mut count = nodes.len();
        assert!(dependencies_of(node, nodes.as_mut_ptr(), std::ptr::null_mut(), Out::to(&mut count)).is_ok());
        nodes[..count].to_vec()
    }

    #[test]
    fn a_captured_node_depends_on_the_events_its_stream_waited_for() {
        let (main, side) = (new_handle(), new_handle());
        assert!(begin_capture(main, 0).is_ok());
        add_work(main);
        let first = last(main);
        wait(side, &point(main).unwrap());
        add_work(side);
        add_work(main);
        let (second, beside) = (last(main), last(side));
        assert_eq!((waits_for(second[0]), waits_for(beside[0])), (first.clone(), first));
        wait(main, &point(side).unwrap());
        add_work(main);
        assert_eq!(waits_for(last(main)[0]), [second, beside].concat());
        // The side stream joined a capture that began on another stream, so it cannot end the capture.
        let mut graph = 0;
        assert_eq!(end_capture(side, Out::to(&mut graph)), Err(Refusal::IllegalState));
        assert!(end_capture(main, Out::to(&mut graph)).is_ok());
        assert!(!is_captured(side));
        let mut count = 0;
        assert!(nodes_of(graph, std::ptr::null_mut(), Out::to(&mut count)).is_ok());
        assert_eq!(count, 4);
    }

    #[test]
    fn work_outside_a_capture_is_no_node() {
        let stream = new_handle();
        add_work(stream);
        assert!(point(stream).is_none());
    }

    #[test]
    fn a_callers_object_ends_with_the_last_that_refers_to_it() {
        static ENDED: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn end(data: *mut c_void) {
            ENDED.fetch_add(data.addr(), Ordering::Relaxed);
        }
        let (graph, mut object) = (new_handle(), 0);
        assert!(create_object(Out::to(&mut object), 7, end, 1).is_ok());
        // The graph takes over the caller's reference.
        assert!(refer_to_object(graph, object, 1, 1).is_ok());
        let executable = instantiate(graph);
        assert!(destroy(graph).is_ok());
        assert_eq!(ENDED.load(Ordering::Relaxed), 0);
        assert!(destroy(executable).is_ok());
        assert_eq!(ENDED.load(Ordering::Relaxed), 7);
    }
}
