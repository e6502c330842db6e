//! Records the events of CuPy's pool, for `vramscope.cupy.record`.
//!
//! CuPy's hooks see the requests of one thread only, and miss frees to the device. So this module replaces both ends of the
//! pool: [`PoolHistory::device_malloc`] is the pool's allocator, and [`PoolHistory::malloc`] serves the program. Both return
//! CuPy's own objects with an attached object that is dropped together with CuPy's, on any thread.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use vramscope::engine::Policy;
use vramscope::trace::Action;
use vramscope::trace::formats::{self, Reader};
use vramscope_basics::lock;

use crate::error::VramscopeError;
use crate::event_log::{EventLog, PoolEvent};

/// `cudaStreamPerThread`: one number for each thread's own stream.
const STREAM_PER_THREAD: u64 = 2;

/// The history of a CuPy pool, written to a file as it happens.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct PoolHistory {
    history: Arc<History>,
}

struct History {
    log: EventLog,
    held: Mutex<Held>,
    /// Returns the current stream as a number.
    current_stream: Py<PyAny>,
    /// Returns the free bytes of the device.
    device_free: Py<PyAny>,
}

/// The pool's live blocks, by device and address.
#[derive(Default)]
struct Held {
    blocks: BTreeMap<(i64, u64), HeldBlock>,
    /// The id of the last block.
    last_id: u64,
}

#[derive(Clone, Copy)]
struct HeldBlock {
    /// Distinguishes it from other blocks at the same address.
    id: u64,
    requested: u64,
    size: u64,
    stream: u64,
}

/// Dropped with CuPy's `PooledMemory`.
#[pyclass(frozen)]
struct Block {
    history: Arc<History>,
    device: i64,
    address: u64,
    id: u64,
}

/// Dropped when the pool frees memory to the device.
#[pyclass(frozen)]
struct Segment {
    history: Arc<History>,
    device: i64,
    address: u64,
    size: u64,
    stream: u64,
    /// The memory from the underlying allocator. Dropping it frees the memory to the device.
    _pointer: Py<PyAny>,
}

#[pymethods]
impl PoolHistory {
    #[new]
    fn new(path: PathBuf, current_stream: Py<PyAny>, device_free: Py<PyAny>) -> PyResult<Self> {
        let log = EventLog::create(&path, &Policy::cupy()).map_err(|error| trouble(&path, &error))?;
        let history = History { log, held: Mutex::default(), current_stream, device_free };
        Ok(Self { history: Arc::new(history) })
    }

    /// Records a device, even if it has no events.
    fn device(&self, device: i64) {
        self.history.log.device(device);
    }

    /// Requests `size` bytes of the device from `allocator`, and records the result. The pool uses this method as its
    /// allocator.
    fn device_malloc<'py>(
        &self,
        py: Python<'py>,
        allocator: &Bound<'py, PyAny>,
        size: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        static UNOWNED_MEMORY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        static MEMORY_POINTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let pointer = allocator.call1((size,))?;
        let address: u64 = pointer.getattr("ptr")?.extract()?;
        let device: i64 = pointer.getattr("device_id")?.extract()?;
        let stream = self.history.stream(py)?;
        let stack = self.history.log.stack(py);
        let event = PoolEvent::new(Action::SegmentAlloc, device, address, size, stream);
        self.history.log.add(&[event], stack);
        let history = Arc::clone(&self.history);
        let owner = Segment { history, device, address, size, stream, _pointer: pointer.unbind() };
        let memory = UNOWNED_MEMORY.import(py, "cupy.cuda.memory", "UnownedMemory")?;
        let memory = memory.call1((address, size, Py::new(py, owner)?, device))?;
        MEMORY_POINTER.import(py, "cupy.cuda.memory", "MemoryPointer")?.call1((memory, 0))
    }

    /// Requests `size` bytes from the pool's `malloc`, and records the result. Programs call this method.
    fn malloc<'py>(
        &self,
        py: Python<'py>,
        malloc: &Bound<'py, PyAny>,
        size: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pointer = malloc.call1((size,)).inspect_err(|error| self.history.out_of_memory(py, error))?;
        let address: u64 = pointer.getattr("ptr")?.extract()?;
        // Requests of 0 bytes get no memory.
        if address != 0 && self.history.log.is_of_this_process() {
            let device = pointer.getattr("device_id")?.extract()?;
            let memory = pointer.getattr("mem")?;
            let block_size = memory.getattr("size")?.extract()?;
            let stream = self.history.stream(py)?;
            let id = self.history.allocated(py, device, address, size, block_size, stream);
            let block = Block { history: Arc::clone(&self.history), device, address, id };
            memory.setattr("_vramscope", Py::new(py, block)?)?;
        }
        Ok(pointer)
    }

    /// Writes pending events and closes the file. With `pickle`, writes the recording to that path as a snapshot, and removes
    /// the file.
    #[pyo3(signature = (pickle=None))]
    fn close(&self, py: Python<'_>, pickle: Option<PathBuf>) -> PyResult<()> {
        let log = &self.history.log;
        if !log.is_of_this_process() {
            return Ok(());
        }
        py.detach(|| log.close()).map_err(|error| trouble(log.path(), &error))?;
        let Some(pickle) = pickle else { return Ok(()) };
        py.detach(|| {
            let recording = Reader::open(log.path()).and_then(Reader::read).map_err(io::Error::other)?;
            formats::write_pickle_file(&recording.trace, &pickle)?;
            std::fs::remove_file(log.path())
        })
        .map_err(|error| trouble(&pickle, &error))
    }
}

impl History {
    fn stream(&self, py: Python<'_>) -> PyResult<u64> {
        let stream = self.current_stream.call0(py)?.extract(py)?;
        if stream == STREAM_PER_THREAD {
            // CuPy also uses one arena per thread in this case.
            let thread: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
            return Ok(thread.wrapping_neg());
        }
        Ok(stream)
    }

    /// Records an allocation and returns the id of its block.
    fn allocated(
        &self,
        py: Python<'_>,
        device: i64,
        address: u64,
        requested: u64,
        size: u64,
        stream: u64,
    ) -> u64 {
        let stack = self.log.stack(py);
        let mut held = lock(&self.held);
        let mut events = held.free_within(device, address, size);
        held.last_id += 1;
        let id = held.last_id;
        held.blocks.insert((device, address), HeldBlock { id, requested, size, stream });
        let event = PoolEvent::new(Action::Alloc, device, address, requested, stream);
        events.push(PoolEvent { block_size: size, ..event });
        self.log.add(&events, stack);
        id
    }

    /// Records an out-of-memory error of a request. The error itself stays unchanged.
    fn out_of_memory(&self, py: Python<'_>, error: &PyErr) {
        let record = || -> PyResult<()> {
            let size: u64 = error.value(py).getattr("_size")?.extract()?;
            let device = py.import("cupy.cuda.device")?.call_method0("get_device_id")?.extract()?;
            let address_or_free: u64 = self.device_free.call0(py)?.extract(py)?;
            let stream = self.stream(py)?;
            let event = PoolEvent::new(Action::Oom, device, address_or_free, size, stream);
            self.log.add(&[event], self.log.stack(py));
            Ok(())
        };
        // Other errors have no size.
        record().ok();
    }
}

impl Held {
    /// Removes the blocks within this range and returns their free events. Such blocks exist if a program freed memory with
    /// `mem.free()` but keeps the object.
    fn free_within(&mut self, device: i64, address: u64, size: u64) -> Vec<PoolEvent> {
        let end = address.saturating_add(size);
        let before = self.blocks.range((device, 0)..(device, address)).next_back();
        let reaches_in =
            before.filter(|((_, start), block)| start + block.size > address).map(|(&key, _)| key);
        let within = self.blocks.range((device, address)..(device, end)).map(|(&key, _)| key);
        let ended: Vec<_> = reaches_in.into_iter().chain(within).collect();
        ended
            .into_iter()
            .filter_map(|key| self.blocks.remove(&key).map(|block| freed(key.0, key.1, block)))
            .flatten()
            .collect()
    }
}

/// The two events of a freed block.
fn freed(device: i64, address: u64, block: HeldBlock) -> [PoolEvent; 2] {
    [Action::FreeRequested, Action::FreeCompleted]
        .map(|action| PoolEvent::new(action, device, address, block.requested, block.stream))
}

impl Drop for Block {
    fn drop(&mut self) {
        if !self.history.log.is_of_this_process() {
            return;
        }
        let stack = Python::try_attach(|py| self.history.log.stack(py)).flatten();
        let mut held = lock(&self.history.held);
        let key = (self.device, self.address);
        if held.blocks.get(&key).is_some_and(|block| block.id == self.id)
            && let Some(block) = held.blocks.remove(&key)
        {
            self.history.log.add(&freed(self.device, self.address, block), stack);
        }
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if !self.history.log.is_of_this_process() {
            return;
        }
        let stack = Python::try_attach(|py| self.history.log.stack(py)).flatten();
        let (device, address, size, stream) = (self.device, self.address, self.size, self.stream);
        let mut events = lock(&self.history.held).free_within(device, address, size);
        events.push(PoolEvent::new(Action::SegmentFree, device, address, size, stream));
        self.history.log.add(&events, stack);
    }
}

fn trouble(path: &std::path::Path, error: &io::Error) -> PyErr {
    let why = match error.kind() {
        io::ErrorKind::ResourceBusy => "another recording is being written to it".to_owned(),
        _ => error.to_string(),
    };
    VramscopeError::new_err(format!("{}: {why}", path.display()))
}
