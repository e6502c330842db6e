//! Sources that know little, fail or panic, or whose code calls the profiler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, Weak, mpsc};
use std::time::Duration;

use vramscope_allocator::{MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    Counts, GpuMemoryProfiler, HostSource, MemorySource, PoolSource, Reading, SourceError, SourceInfo,
    Ticker, Watch,
};

const GIB: u64 = 1 << 30;

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(24 * GIB))]).unwrap()
}

fn info() -> SourceInfo {
    SourceInfo { name: "test".to_owned(), device_id: Some(0) }
}

/// Also while another thread allocates.
#[test]
fn current_bytes_never_exceed_the_peak() {
    let pool = pool();
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                [1, 5, 2].iter().for_each(|mib| drop(pool.malloc(mib << 20).unwrap()));
            }
        });
        let mut ticker = PoolSource::new(&pool, 0).unwrap().ticker();
        for _ in 0..20_000 {
            let tick = ticker.tick().unwrap();
            assert!(tick.now.allocated <= tick.high.allocated && tick.now.reserved <= tick.high.reserved);
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Concurrent calls both see everything that happens on the device, but the totals count it once.
#[test]
fn totals_of_calls_on_several_threads_count_nothing_twice() {
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let outside = pool.malloc(GIB).unwrap();
    let barrier = Barrier::new(2);
    std::thread::scope(|s| {
        for gib in [3, 5] {
            let (profiler, pool, barrier) = (&profiler, &pool, &barrier);
            s.spawn(move || {
                profiler.profile_function("work", || {
                    barrier.wait();
                    drop(pool.malloc(gib * GIB).unwrap());
                    barrier.wait();
                })
            });
        }
    });
    let summary = profiler.get_summary();
    assert_eq!((summary.total_memory_allocated, summary.total_memory_freed), (Some(8 * GIB), Some(8 * GIB)));
    // An open call counts so far, and nothing counts between calls.
    let open = profiler.profile_context("open");
    drop(pool.malloc(GIB).unwrap());
    assert_eq!(profiler.get_summary().total_memory_allocated, Some(9 * GIB));
    drop(open);
    drop(outside);
    assert_eq!(profiler.get_summary().total_memory_freed, Some(9 * GIB));
    profiler.clear_results();
    assert_eq!(profiler.get_summary().total_memory_allocated, Some(0));
}

/// Returns the given values in order; `None` is a failure.
struct ListedSource {
    info: SourceInfo,
    answers: Mutex<std::vec::IntoIter<Option<u64>>>,
}

impl MemorySource for ListedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let bytes = self.answers.lock().unwrap().next().flatten();
        let bytes = bytes.ok_or_else(|| SourceError::Nvml("busy".to_owned()))?;
        let counts = Some(Counts { allocated_bytes: bytes, ..Counts::default() });
        Ok(Reading { allocated: Some(bytes), counts, ..Reading::default() })
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        unreachable!("nobody monitors it")
    }
}

#[test]
fn the_sum_of_calls_is_unknown_if_one_call_is_unknown() {
    // Two readings at creation, two for each of four calls, one for the summary.
    let answers = [0, 0, 0, 10, 10, 20, 20, u64::MAX, 30, 40, 40].map(|n| Some(n).filter(|&n| n < u64::MAX));
    let answers = Mutex::new(Vec::from(answers).into_iter());
    let profiler = GpuMemoryProfiler::new(Arc::new(ListedSource { info: info(), answers })).unwrap();
    for _ in 0..4 {
        profiler.profile_function("call", || ());
    }
    let results: Vec<_> = profiler.results().iter().map(|r| r.memory_allocated).collect();
    assert_eq!(results, [Some(10), Some(10), None, Some(10)]);
    let summary = profiler.get_summary();
    let call = &summary.function_summaries["call"];
    assert_eq!((call.total_memory_allocated, call.avg_memory_allocated), (None, Some(10.0)));
    assert_eq!(summary.total_memory_allocated, None);
}

/// Calls the profiler from each of its functions.
struct Nosy {
    info: SourceInfo,
    profiler: Arc<Mutex<Weak<GpuMemoryProfiler>>>,
}

fn ask(profiler: &Mutex<Weak<GpuMemoryProfiler>>) {
    let profiler = profiler.lock().unwrap().upgrade();
    if let Some(profiler) = profiler {
        profiler.results();
        profiler.last_result();
    }
}

impl MemorySource for Nosy {
    fn info(&self) -> &SourceInfo {
        ask(&self.profiler);
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        ask(&self.profiler);
        Ok(Reading::default())
    }

    fn watch(&self) -> Option<Box<dyn Watch>> {
        ask(&self.profiler);
        Some(Box::new(NosyWatch(Arc::clone(&self.profiler))))
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        ask(&self.profiler);
        unreachable!("nobody monitors it")
    }
}

struct NosyWatch(Arc<Mutex<Weak<GpuMemoryProfiler>>>);

impl Watch for NosyWatch {
    fn peaks(&self) -> Reading {
        ask(&self.0);
        Reading::default()
    }
}

impl Drop for NosyWatch {
    fn drop(&mut self) {
        ask(&self.0);
    }
}

#[test]
fn a_source_may_ask_the_profiler_wherever_it_is_called() {
    let (done, told) = mpsc::channel();
    std::thread::spawn(move || {
        let slot = Arc::new(Mutex::new(Weak::new()));
        let source = Arc::new(Nosy { info: info(), profiler: Arc::clone(&slot) });
        let profiler = Arc::new(GpuMemoryProfiler::new(source).unwrap());
        *slot.lock().unwrap() = Arc::downgrade(&profiler);
        profiler.profile_function("call", || ());
        profiler.snapshot();
        profiler.get_summary();
        profiler.clear_results();
        profiler.stop_monitoring();
        done.send(()).unwrap();
    });
    told.recv_timeout(Duration::from_secs(60)).expect("a deadlock");
}

/// It panics after this number of readings.
struct Fragile(SourceInfo, Mutex<u32>);

impl MemorySource for Fragile {
    fn info(&self) -> &SourceInfo {
        &self.0
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let mut left = self.1.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *left = left.checked_sub(1).expect("no more reads");
        Ok(Reading { allocated: Some(1), ..Reading::default() })
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        unreachable!("nobody monitors it")
    }
}

/// A second panic during the first would abort the process.
#[test]
fn a_source_that_panics_leaves_its_numbers_unknown() {
    let profiler = GpuMemoryProfiler::new(Arc::new(Fragile(info(), Mutex::new(3)))).unwrap();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _context = profiler.profile_context("call");
        panic!("the program's own");
    }));
    assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "the program's own");
    let result = profiler.last_result().unwrap();
    assert_eq!(result.memory_before.allocated_memory, Some(1));
    assert_eq!((result.memory_after.allocated_memory, result.memory_diff()), (None, None));
}

#[test]
#[cfg(target_os = "linux")]
fn host_memory_is_never_that_of_another_process() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let profiler = GpuMemoryProfiler::new(HostSource::of(child.id()).unwrap()).unwrap();
    let before = profiler.snapshot().cpu_memory;
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(before.is_some());
    assert_eq!(profiler.snapshot().cpu_memory, None);
}

#[test]
fn a_wrapped_function_owns_its_name() {
    fn named<'p>(profiler: &'p GpuMemoryProfiler, n: u32) -> impl FnMut(u32) -> u32 + use<'p> {
        profiler.wrap(&format!("layer {n}"), |x| x + 1)
    }
    let pool = pool();
    let profiler = GpuMemoryProfiler::on_pool(&pool, 0).unwrap();
    let mut layer = named(&profiler, 3);
    assert_eq!(layer(1), 2);
    assert_eq!(&*profiler.last_result().unwrap().function_name, "layer 3");
}
