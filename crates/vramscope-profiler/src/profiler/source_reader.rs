//! Reads a source for a profiler, and computes peaks if the source has none.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::source::{MemorySource, ProcessMemory, Reading, Watch};
use vramscope_allocator::symbol_table_bytes;
use vramscope_basics::lock;

/// A profiler's source, the host memory of this process, and the peaks computed from readings if the source has none.
pub(super) struct SourceReader {
    pub(super) source: Arc<dyn MemorySource>,
    cpu: Option<CpuMemory>,
    /// The open peaks that are computed from readings.
    sampled: Mutex<Vec<Weak<Mutex<Reading>>>>,
}

impl SourceReader {
    pub(super) fn new(source: Arc<dyn MemorySource>, track_cpu_memory: bool) -> Self {
        // This process' host memory does not belong to the numbers of another process.
        let wanted = track_cpu_memory && source.is_of_this_process();
        let cpu = if wanted { CpuMemory::new().ok() } else { None };
        Self { source, cpu, sampled: Mutex::default() }
    }

    /// Returns the current memory use. If the source fails or panics, all numbers are unknown: a call must end even during a panic.
    pub(super) fn read(&self) -> Reading {
        let read = catch_unwind(AssertUnwindSafe(|| self.source.read()));
        read.ok().and_then(Result::ok).map_or_else(Reading::default, |now| self.seen(now, HOLDS))
    }

    /// Adds host memory that was read at most `holds` ago to a reading, and updates the open peaks.
    pub(super) fn seen(&self, mut now: Reading, holds: Duration) -> Reading {
        now.cpu = now.cpu.or_else(|| self.cpu.as_ref()?.resident(holds));
        for peak in lock(&self.sampled).iter().filter_map(Weak::upgrade) {
            let mut peak = lock(&peak);
            *peak = peak.max(now);
        }
        now
    }

    /// Measures peaks from now on: the source's peaks, or else the highest of all readings by any caller.
    pub(super) fn watch(&self) -> Peak {
        match self.source.watch() {
            Some(watch) => Peak::Exact(watch),
            None => {
                let peak = Arc::<Mutex<Reading>>::default();
                let mut sampled = lock(&self.sampled);
                sampled.retain(|open| open.strong_count() > 0);
                sampled.push(Arc::downgrade(&peak));
                Peak::Sampled(peak)
            }
        }
    }
}

/// The peaks since its creation.
pub(super) enum Peak {
    Exact(Box<dyn Watch>),
    Sampled(Arc<Mutex<Reading>>),
}

impl Peak {
    /// Returns the peaks so far.
    pub(super) fn so_far(&self) -> Reading {
        match self {
            Self::Exact(watch) => catch_unwind(AssertUnwindSafe(|| watch.peaks())).unwrap_or_default(),
            Self::Sampled(peak) => *lock(peak),
        }
    }

    /// Returns the state at the moment of peak allocated bytes, if known.
    pub(super) fn at_peak(&self) -> Option<Reading> {
        match self {
            Self::Exact(watch) => catch_unwind(AssertUnwindSafe(|| watch.at_peak())).unwrap_or_default(),
            Self::Sampled(_) => None,
        }
    }

    /// Returns the id of the block whose allocation reached the peak; it changes as the peak rises. `None` if unknown.
    pub(super) fn highest_block(&self) -> Option<Arc<AtomicU64>> {
        match self {
            Self::Exact(watch) => {
                catch_unwind(AssertUnwindSafe(|| watch.highest_block())).unwrap_or_default()
            }
            Self::Sampled(_) => None,
        }
    }

    pub(super) fn is_exact(&self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

/// The resident memory of this process, without the memory for symbols. Reading it takes about a microsecond, as long as the rest of a
/// profiled call. So the last value is reused for a short time.
struct CpuMemory {
    process: ProcessMemory,
    start: Instant,
    /// The time of the last reading, in nanoseconds since `start`.
    asked: AtomicU64,
    /// The last reading, in bytes.
    resident: AtomicU64,
}

/// Time for which calls reuse a reading.
const HOLDS: Duration = Duration::from_micros(100);

/// Time for which monitoring reuses a reading. A new reading takes longer than the rest of a sample.
pub(super) const MONITOR_HOLDS: Duration = Duration::from_millis(100);

/// Subtracts memory that the program would not use without the profiler.
fn without_symbols(resident: u64) -> u64 {
    resident.saturating_sub(symbol_table_bytes())
}

impl CpuMemory {
    fn new() -> io::Result<Self> {
        let process = ProcessMemory::of_this()?;
        let resident = without_symbols(process.resident()?).into();
        Ok(Self { process, start: Instant::now(), asked: AtomicU64::new(0), resident })
    }

    fn resident(&self, holds: Duration) -> Option<u64> {
        let now = self.start.elapsed().as_nanos() as u64;
        if now.saturating_sub(self.asked.load(Ordering::Relaxed)) >= holds.as_nanos() as u64 {
            self.resident.store(without_symbols(self.process.resident().ok()?), Ordering::Relaxed);
            self.asked.store(now, Ordering::Relaxed);
        }
        Some(self.resident.load(Ordering::Relaxed))
    }
}
