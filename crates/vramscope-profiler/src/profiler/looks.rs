//! Looking at a source for a profiler.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::source::{MemorySource, ProcessMemory, Reading, Watch};
use vramscope_basics::lock;

/// The source, this process's host memory, and peaks where the source has none.
pub(super) struct Looks {
    pub(super) source: Arc<dyn MemorySource>,
    cpu: Option<CpuMemory>,
    /// Peaks that are made of what is looked at.
    sampled: Mutex<Vec<Weak<Mutex<Reading>>>>,
}

impl Looks {
    pub(super) fn new(source: Arc<dyn MemorySource>, track_cpu_memory: bool) -> Self {
        // Another process's numbers are not mixed with this one's.
        let wanted = track_cpu_memory && source.is_of_this_process();
        let cpu = if wanted { CpuMemory::new().ok() } else { None };
        Self { source, cpu, sampled: Mutex::default() }
    }

    /// What is in use now; nothing is known where the source fails, be it with a panic: calls end while others pass.
    pub(super) fn read(&self) -> Reading {
        let read = catch_unwind(AssertUnwindSafe(|| self.source.read()));
        read.ok().and_then(Result::ok).map_or_else(Reading::default, |now| self.seen(now, HOLDS))
    }

    /// Adds host memory that is no older than `holds`, and counts it among the open peaks.
    pub(super) fn seen(&self, mut now: Reading, holds: Duration) -> Reading {
        now.cpu = now.cpu.or_else(|| self.cpu.as_ref()?.resident(holds));
        for peak in lock(&self.sampled).iter().filter_map(Weak::upgrade) {
            let mut peak = lock(&peak);
            *peak = peak.max(now);
        }
        now
    }

    /// The highest values from here on: the source's, or the highest of what anyone looks at meanwhile.
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

/// The highest values since some moment.
pub(super) enum Peak {
    Exact(Box<dyn Watch>),
    Sampled(Arc<Mutex<Reading>>),
}

impl Peak {
    /// So far.
    pub(super) fn so_far(&self) -> Reading {
        match self {
            Self::Exact(watch) => catch_unwind(AssertUnwindSafe(|| watch.peaks())).unwrap_or_default(),
            Self::Sampled(peak) => *lock(peak),
        }
    }

    /// What there was when most was allocated, where that is known.
    pub(super) fn at_peak(&self) -> Option<Reading> {
        match self {
            Self::Exact(watch) => catch_unwind(AssertUnwindSafe(|| watch.at_peak())).unwrap_or_default(),
            Self::Sampled(_) => None,
        }
    }

    /// The block with which most was allocated, as it changes.
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

/// Resident memory of this process. The system takes about a microsecond to tell, as long as everything else
/// that a profiled call costs; so an answer holds for a while.
struct CpuMemory {
    process: ProcessMemory,
    start: Instant,
    /// When it was asked, in nanoseconds since the start.
    asked: AtomicU64,
    resident: AtomicU64,
}

/// How long an answer holds for a call.
const HOLDS: Duration = Duration::from_micros(100);

/// How long it holds for a monitor, for which it would cost more than all the rest of a look.
pub(super) const MONITOR_HOLDS: Duration = Duration::from_millis(100);

impl CpuMemory {
    fn new() -> io::Result<Self> {
        let process = ProcessMemory::of_this()?;
        let resident = process.resident()?.into();
        Ok(Self { process, start: Instant::now(), asked: AtomicU64::new(0), resident })
    }

    fn resident(&self, holds: Duration) -> Option<u64> {
        let now = self.start.elapsed().as_nanos() as u64;
        if now.saturating_sub(self.asked.load(Ordering::Relaxed)) >= holds.as_nanos() as u64 {
            self.resident.store(self.process.resident().ok()?, Ordering::Relaxed);
            self.asked.store(now, Ordering::Relaxed);
        }
        Some(self.resident.load(Ordering::Relaxed))
    }
}
