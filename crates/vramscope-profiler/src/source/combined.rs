//! Two sources as one.

use std::sync::Arc;

use super::{
    AllocationObserver, LiveHolder, MemorySource, Observation, Reading, SourceError, SourceInfo, Tick,
    Ticker, Watch,
};

/// A source, with a second source for the missing numbers of the first: for example a pool, with NVML's numbers of its process.
///
/// ```
/// use std::sync::Arc;
/// use vramscope_allocator::{MemoryPool, Policy};
/// use vramscope_profiler::{CombinedSource, HostSource, MemorySource, PoolSource};
///
/// let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20)?;
/// let mut source: Arc<dyn MemorySource> = PoolSource::new(&pool, 0)?;
/// if let Ok(host) = HostSource::of_this() {
///     source = CombinedSource::new(source, host);
/// }
/// let _block = pool.malloc(512)?;
/// assert_eq!(source.read()?.allocated, Some(512));
/// assert!(source.read()?.cpu.is_some() || !cfg!(target_os = "linux"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Peaks, allocations and the cache come from the first source. If the second source fails, its numbers are unknown. If either source has
/// ended, the combined source has ended.
pub struct CombinedSource {
    first: Arc<dyn MemorySource>,
    other: Arc<dyn MemorySource>,
}

impl CombinedSource {
    /// Combines two sources: numbers that `first` does not provide come from `other`.
    pub fn new(first: Arc<dyn MemorySource>, other: Arc<dyn MemorySource>) -> Arc<Self> {
        Arc::new(Self { first, other })
    }
}

fn unless_gone(answer: Result<Reading, SourceError>) -> Result<Reading, SourceError> {
    match answer {
        Err(SourceError::Gone(who)) => Err(SourceError::Gone(who)),
        answer => Ok(answer.unwrap_or_default()),
    }
}

impl MemorySource for CombinedSource {
    fn info(&self) -> &SourceInfo {
        self.first.info()
    }

    fn read(&self) -> Result<Reading, SourceError> {
        Ok(self.first.read()?.or(unless_gone(self.other.read())?))
    }

    fn live_holders(&self, top: usize) -> Option<Vec<LiveHolder>> {
        self.first.live_holders(top)
    }

    fn watch(&self) -> Option<Box<dyn Watch>> {
        self.first.watch()
    }

    fn inactive_split_bytes(&self) -> Option<u64> {
        self.first.inactive_split_bytes()
    }

    fn releasable_bytes(&self) -> Option<u64> {
        self.first.releasable_bytes()
    }

    fn is_of_this_process(&self) -> bool {
        self.first.is_of_this_process()
    }

    fn observe(&self, observer: Arc<dyn AllocationObserver>) -> Option<Observation> {
        self.first.observe(observer)
    }

    fn free_cache(&self) -> Result<(), SourceError> {
        self.first.free_cache()
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        let first = Arc::clone(&self.first).ticker();
        Box::new(CombinedTicker { first, other: Arc::clone(&self.other).ticker() })
    }
}

struct CombinedTicker {
    first: Box<dyn Ticker>,
    other: Box<dyn Ticker>,
}

impl Ticker for CombinedTicker {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let Tick { now, high, high_is_exact } = self.first.tick()?;
        let other = match self.other.tick() {
            Err(SourceError::Gone(who)) => return Err(SourceError::Gone(who)),
            other => other.unwrap_or_default(),
        };
        Ok(Tick { now: now.or(other.now), high: high.or(other.high), high_is_exact })
    }
}
