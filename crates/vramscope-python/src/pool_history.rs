//! What CuPy's pool does, event by event: what `vramscope.cupy.record` records.
//!
//! CuPy's hooks see requests of one thread, and miss what goes back to the device. So the pool's two ends are stood in for: what it
//! asks for memory is [`PoolHistory::device_malloc`], and what programs ask is [`PoolHistory::malloc`]. Each hands out what
//! CuPy made, with an object on it that dies when CuPy's does: on any thread, at the end of any variable.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use vramscope::engine::Policy;
use vramscope::trace::{Action, formats};

use crate::error::VramscopeError;
use crate::event_log::{EventLog, PoolEvent};

/// `cudaStreamPerThread`: each thread's own stream under one number.
const STREAM_PER_THREAD: u64 = 2;

/// The history of a pool of CuPy's, written to a file as it happens.
#[pyclass(frozen, module = "vramscope._native")]
pub(crate) struct PoolHistory {
    history: Arc<History>,
}

struct History {
    log: EventLog,
    held: Mutex<Held>,
    /// Gives the current stream, as a number.
    current_stream: Py<PyAny>,
    /// Gives the bytes that the device has free.
    device_free: Py<PyAny>,
}

/// What the pool has from the device, and programs from the pool, by device and address.
#[derive(Default)]
struct Held {
    blocks: BTreeMap<(i64, u64), HeldBlock>,
    /// The last number that was given to a block.
    last_id: u64,
}

#[derive(Clone, Copy)]
struct HeldBlock {
    /// Tells it from others at the same address.
    id: u64,
    requested: u64,
    size: u64,
    stream: u64,
}

/// Lives as long as CuPy's `PooledMemory`.
#[pyclass(frozen)]
struct Block {
    history: Arc<History>,
    device: i64,
    address: u64,
    id: u64,
}

/// Lives as long as the pool keeps memory that it has from the device.
#[pyclass(frozen)]
struct Segment {
    history: Arc<History>,
    device: i64,
    address: u64,
    size: u64,
    stream: u64,
    /// What the allocator below the pool gave. It goes back to the device with this object.
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

    /// Says that a device is recorded, even where nothing happens on it.
    fn device(&self, device: i64) {
        self.history.log.device(device);
    }

    /// Asks `allocator` for `size` bytes of the device, and records what came of it. The pool is made with this as its allocator.
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
        let event = PoolEvent { action: Action::SegmentAlloc, device, address, size, block_size: 0, stream };
        self.history.log.add(&[event], stack);
        let history = Arc::clone(&self.history);
        let owner = Segment { history, device, address, size, stream, _pointer: pointer.unbind() };
        let memory = UNOWNED_MEMORY.import(py, "cupy.cuda.memory", "UnownedMemory")?;
        let memory = memory.call1((address, size, Py::new(py, owner)?, device))?;
        MEMORY_POINTER.import(py, "cupy.cuda.memory", "MemoryPointer")?.call1((memory, 0))
    }

    /// Asks the pool for `size` bytes by its `malloc`, and records what came of it. This is what programs call.
    fn malloc<'py>(
        &self,
        py: Python<'py>,
        malloc: &Bound<'py, PyAny>,
        size: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let pointer = malloc.call1((size,)).inspect_err(|error| self.history.out_of_memory(py, error))?;
        let address: u64 = pointer.getattr("ptr")?.extract()?;
        // Requests of no bytes get no memory.
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

    /// Writes what waits and closes the file. With `pickle`, the recording is then written there as a snapshot, and the file removed.
    #[pyo3(signature = (pickle=None))]
    fn close(&self, py: Python<'_>, pickle: Option<PathBuf>) -> PyResult<()> {
        let log = &self.history.log;
        if !log.is_of_this_process() {
            return Ok(());
        }
        py.detach(|| log.close()).map_err(|error| trouble(log.path(), &error))?;
        let Some(pickle) = pickle else { return Ok(()) };
        py.detach(|| {
            let recording = formats::read(std::fs::File::open(log.path())?, &mut |_| {});
            let recording = recording.map_err(io::Error::other)?;
            formats::write_pickle_file(&recording.trace, &pickle)?;
            std::fs::remove_file(log.path())
        })
        .map_err(|error| trouble(&pickle, &error))
    }
}

impl History {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self, py: Python<'_>) -> PyResult<u64> {
        let stream = self.current_stream.call0(py)?.extract(py)?;
        if stream == STREAM_PER_THREAD {
            // As CuPy does, which has an arena for each thread then.
            let thread: u64 = py.import("threading")?.call_method0("get_ident")?.extract()?;
            return Ok(thread.wrapping_neg());
        }
        Ok(stream)
    }

    /// Records an allocation and returns the number of its block.
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
        let mut held = self.held();
        let mut events = held.free_within(device, address, size);
        held.last_id += 1;
        let id = held.last_id;
        held.blocks.insert((device, address), HeldBlock { id, requested, size, stream });
        events.push(PoolEvent {
            action: Action::Alloc,
            device,
            address,
            size: requested,
            block_size: size,
            stream,
        });
        self.log.add(&events, stack);
        id
    }

    /// Records the error of a request, where it is an out of memory. The error itself stays as it is.
    fn out_of_memory(&self, py: Python<'_>, error: &PyErr) {
        let record = || -> PyResult<()> {
            let size: u64 = error.value(py).getattr("_size")?.extract()?;
            let device = py.import("cupy.cuda.device")?.call_method0("get_device_id")?.extract()?;
            let address: u64 = self.device_free.call0(py)?.extract(py)?;
            let stream = self.stream(py)?;
            let event = PoolEvent { action: Action::Oom, device, address, size, block_size: 0, stream };
            self.log.add(&[event], self.log.stack(py));
            Ok(())
        };
        // Other errors have no size.
        record().ok();
    }
}

impl Held {
    /// Takes the blocks within these bytes out, and gives the events of their ends. There are some where a program gave memory back by
    /// `mem.free()` and keeps the object.
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

/// The two events of a block's end.
fn freed(device: i64, address: u64, block: HeldBlock) -> [PoolEvent; 2] {
    [Action::FreeRequested, Action::FreeCompleted].map(|action| {
        let HeldBlock { requested: size, stream, .. } = block;
        PoolEvent { action, device, address, size, block_size: 0, stream }
    })
}

impl Drop for Block {
    fn drop(&mut self) {
        if !self.history.log.is_of_this_process() {
            return;
        }
        let stack = Python::try_attach(|py| self.history.log.stack(py)).flatten();
        let mut held = self.history.held();
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
        let mut events = self.history.held().free_within(device, address, size);
        events.push(PoolEvent { action: Action::SegmentFree, device, address, size, block_size: 0, stream });
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
