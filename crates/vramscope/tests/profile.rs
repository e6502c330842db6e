//! `#[profile]` on everything that it supports. There is only one global profiler, so one test covers the functions that use it. All others
//! name their profiler.
#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]
#![deny(warnings)]

use std::cell::RefCell;
use std::error::Error;
use std::fmt::Display;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use vramscope::prelude::*;
use vramscope::profiler::CallOutcome;

const GIB: u64 = 1 << 30;

static POOL: LazyLock<MemoryPool> = LazyLock::new(pool);

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(24 * GIB))]).unwrap()
}

thread_local! {
    /// Each test is a thread with its own profiler.
    static PROFILER: Arc<GpuMemoryProfiler> = Arc::new(GpuMemoryProfiler::on_pool(&POOL, 0).unwrap());
}

fn profiler() -> Arc<GpuMemoryProfiler> {
    PROFILER.with(Arc::clone)
}

fn last() -> ProfileResult {
    profiler().last_result().unwrap()
}

/// Returns the bytes that the last call allocated and freed on its thread.
fn own() -> (u64, u64) {
    let thread = last().thread.unwrap();
    (thread.allocated_bytes, thread.freed_bytes)
}

fn name() -> String {
    last().function_name.to_string()
}

fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

/// Is pending once.
async fn wait() {
    let mut waited = false;
    poll_fn(|_| if std::mem::replace(&mut waited, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

// ---- the global profiler ----

#[profile]
fn unnamed(bytes: u64) -> u64 {
    POOL.malloc(bytes).map_or(0, |block| block.size())
}

#[profile(name = "a name")]
fn named() {
    unnamed(512);
}

#[test]
fn the_profiler_of_the_program_measures_once_there_is_one() {
    assert!(global_profiler().is_none());
    assert_eq!(unnamed(1000), 1024);
    let first = Arc::new(GpuMemoryProfiler::on_pool(&POOL, 0).unwrap());
    assert!(set_global_profiler(first.clone()).is_none());
    unnamed(1000);
    named();
    let names: Vec<_> = first.results().iter().map(|r| (r.function_name.to_string(), r.depth)).collect();
    assert_eq!(names, [("unnamed".to_owned(), 0), ("unnamed".to_owned(), 1), ("a name".to_owned(), 0)]);
    // Another profiler replaces it, also a profiler of a pool.
    let second = PoolProfiler::new(&POOL, 0).unwrap();
    assert!(Arc::ptr_eq(&set_global_profiler(second.clone()).unwrap(), &first));
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(named);
        }
    });
    assert_eq!(second.get_summary().function("unnamed").unwrap().call_count(), 4);
    assert_eq!(first.results().len(), 3);
    assert!(take_global_profiler().is_some());
    named();
    assert_eq!(second.results().len(), 8);
}

// ---- functions of every kind ----

/// Documented like any function.
#[profile(with = profiler())]
#[must_use = "dropping it frees the memory"]
#[inline(never)]
pub fn kept(bytes: u64) -> Allocation {
    POOL.malloc(bytes).unwrap()
}

#[profile(with = profiler())]
fn given(_: Allocation, (first, _): (Allocation, Allocation), _unused: Allocation, n: &str) -> usize {
    n.len() + usize::from(first.size() > 0)
}

#[profile(with = profiler())]
fn early(stop: bool) -> Option<u64> {
    if stop {
        return None;
    }
    let block = POOL.malloc(512).ok()?;
    Some(block.size())
}

#[profile(with = profiler())]
fn fails(bytes: u64) -> Result<Allocation, Box<dyn Error>> {
    let block = POOL.malloc(bytes)?;
    Ok(block)
}

struct Unwritten;

#[profile(with = profiler())]
fn fails_without_words() -> Result<(), Unwritten> {
    Err(Unwritten)
}

#[profile(with = profiler())]
fn generic<'a, T, const N: usize>(value: &'a T, others: [&'a str; N]) -> (&'a T, String)
where
    T: Display + ?Sized,
{
    (value, others.map(|other| format!("{other}{value}")).concat())
}

#[profile(with = profiler())]
fn opaque(n: u64, keep: impl Fn(u64) -> bool) -> impl Iterator<Item = u64> {
    (0..n).filter(move |n| keep(*n))
}

#[profile(with = profiler())]
fn opaque_or_error(n: u64) -> Result<impl Iterator<Item = u64>, String> {
    let n = u8::try_from(n).map_err(|error| error.to_string())?;
    Ok(0..u64::from(n))
}

#[profile(with = profiler())]
fn changes(mut n: u64) -> u64 {
    n += 1;
    n
}

#[profile(with = profiler())]
extern "C" fn called_from_c(n: i32) -> i32 {
    n + 1
}

#[profile(with = profiler())]
fn never() -> ! {
    panic!("no such layer")
}

#[profile(with = profiler())]
fn r#loop(n: u64) -> u64 {
    if n == 0 { 0 } else { 1 + r#loop(n - 1) }
}

#[test]
fn a_profiled_function_returns_its_result() {
    let block = kept(1000);
    assert_eq!((own(), name().as_str()), ((1024, 0), "kept"));
    drop(block);
    assert_eq!((early(true), early(false)), (None, Some(512)));
    assert_eq!(own(), (512, 512));
    assert_eq!(generic("a", ["b", "c"]), ("a", "baca".to_owned()));
    assert_eq!(opaque(5, |n| n % 2 == 0).collect::<Vec<_>>(), [0, 2, 4]);
    assert_eq!(changes(4), 5);
    assert_eq!(called_from_c(4), 5);
    assert_eq!(r#loop(3), 3);
    assert_eq!((name().as_str(), last().depth), ("loop", 0));
    let calls = profiler().get_summary();
    assert_eq!(calls.function_summaries["loop"].call_count, 4);
}

/// Arguments that a function does not return are freed during the call.
#[test]
fn arguments_freed_by_a_function_count_for_its_call() {
    let [a, b, c, d] = [512, 1024, 1536, 2048].map(|bytes| POOL.malloc(bytes).unwrap());
    assert_eq!(given(a, (b, c), d, "xy"), 3);
    assert_eq!(own(), (0, 512 + 1024 + 1536 + 2048));
    assert_eq!(last().thread.unwrap().num_frees, 4);
}

#[test]
fn errors_and_panics_are_recorded_and_passed_on() {
    assert!(fails(512).is_ok());
    assert_eq!(last().outcome, CallOutcome::Returned);
    let error = fails(25 * GIB).unwrap_err();
    assert_eq!(last().outcome, CallOutcome::Failed(error.to_string()));
    assert!(error.is::<AllocError>());
    assert!(fails_without_words().is_err());
    assert_eq!(
        last().outcome,
        CallOutcome::Failed("an error without a message (profile::Unwritten)".to_owned())
    );
    assert!(opaque_or_error(3).is_ok_and(|values| values.sum::<u64>() == 3));
    assert!(opaque_or_error(300).is_err());
    assert_eq!(last().error(), Some("out of range integral type conversion attempted"));
    let panic = catch_unwind(|| never()).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"no such layer"));
    assert!(matches!(last().outcome, CallOutcome::Panicked(_)));
}

// ---- methods ----

struct Model {
    pool: MemoryPool,
    profiler: Arc<GpuMemoryProfiler>,
    layers: Vec<Allocation>,
}

const FORWARD: &str = "Model::forward";

trait Layer {
    fn size(&self) -> u64;

    #[profile(with = profiler(), name = "provided")]
    fn twice(&self) -> u64 {
        2 * self.size()
    }
}

impl Layer for Model {
    #[profile(with = self.profiler)]
    fn size(&self) -> u64 {
        self.layers.iter().map(Allocation::size).sum()
    }
}

impl Model {
    #[profile(with = self.profiler, name = FORWARD)]
    fn forward(&self, rows: u64) -> Result<&[Allocation], AllocError> {
        drop(self.pool.malloc(rows * 512)?);
        Ok(&self.layers)
    }

    /// A profiler inside a mutably borrowed value is cloned.
    #[profile(with = self.profiler.clone(), name = format!("add {bytes}"))]
    fn add(&mut self, bytes: u64) -> &mut Allocation {
        self.layers.push(self.pool.malloc(bytes).unwrap());
        self.layers.last_mut().unwrap()
    }

    #[profile(with = profiler())]
    fn into_layers(mut self) -> Vec<Allocation> {
        self.layers.pop();
        self.layers
    }

    #[profile(with = profiler())]
    fn boxed(self: Box<Self>) -> usize {
        self.layers.len()
    }

    #[profile(with = self.profiler)]
    async fn load(&self, bytes: u64) -> Result<Allocation, AllocError> {
        let staging = self.pool.malloc(bytes)?;
        wait().await;
        drop(staging);
        self.pool.malloc(bytes)
    }
}

#[test]
fn methods_are_measured_by_the_profiler_they_name() {
    let pool = pool();
    let own = Arc::new(GpuMemoryProfiler::on_pool(&pool, 0).unwrap());
    let mut model = Model { pool: pool.clone(), profiler: own.clone(), layers: Vec::new() };
    assert_eq!(model.add(1000).size(), 1024);
    assert_eq!(own.last_result().unwrap().function_name.as_ref(), "add 1000");
    assert_eq!(model.forward(4).unwrap().len(), 1);
    assert_eq!(own.last_result().unwrap().function_name.as_ref(), "Model::forward");
    assert_eq!(model.twice(), 2048);
    assert_eq!((name().as_str(), own.results().len()), ("provided", 3));
    assert!(model.forward(24 * GIB).is_err());
    assert!(own.last_result().unwrap().error().unwrap().starts_with("Out of memory"));
    assert_eq!(run(model.load(512)).unwrap().size(), 512);
    let loaded = own.last_result().unwrap();
    assert_eq!((loaded.function_name.as_ref(), loaded.memory_allocated), ("load", Some(1024)));
    model.add(512);
    assert_eq!(model.into_layers().len(), 1);
    assert_eq!(name(), "into_layers");
    let model = Box::new(Model { pool, profiler: own, layers: Vec::new() });
    assert_eq!(model.boxed(), 0);
}

// ---- async functions ----

#[profile(with = profiler())]
async fn waits(n: u64, _given: Allocation) -> Result<Vec<u64>, Box<dyn Error + Send + Sync>> {
    let mut sizes = Vec::new();
    for bytes in 1..=n {
        if bytes == 4 {
            return Err("four is too many".into());
        }
        sizes.push(POOL.malloc(bytes * 512)?.size());
        wait().await;
    }
    Ok(sizes)
}

#[profile(with = profiler())]
async fn waits_for_nothing<T>(value: &T) -> impl Display + use<'_, T>
where
    T: Clone + Display,
{
    value.clone()
}

#[test]
fn functions_that_wait_are_measured_until_they_are_done() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let sizes = run(is_send(waits(2, POOL.malloc(2048).unwrap()))).unwrap();
    assert_eq!(sizes, [512, 1024]);
    assert_eq!((own(), name().as_str()), ((1536, 1536 + 2048), "waits"));
    let error = run(waits(9, POOL.malloc(2048).unwrap())).unwrap_err();
    assert_eq!(last().error(), Some(error.to_string().as_str()));
    assert_eq!(run(waits_for_nothing(&4)).to_string(), "4");
    let calls = profiler().results().len();
    {
        let mut begun = pin!(waits(2, POOL.malloc(2048).unwrap()));
        assert!(begun.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(profiler().results().len(), calls);
    }
    assert_eq!(last().error(), Some("the future was dropped before it completed"));
}

// ---- names ----

mod renamed {
    pub(crate) use ::vramscope as vram;
}

#[profile(crate = crate::renamed::vram, with = profiler())]
fn of_a_renamed_crate() {}

/// Names in the function do not clash with those of the attribute.
#[profile(with = PROFILER.with(Arc::clone))]
fn same_names(profiler: u64, value: u64, name: u64) -> u64 {
    profiler + value + name
}

#[test]
fn names_of_the_macro_do_not_clash() {
    of_a_renamed_crate();
    assert_eq!(same_names(1, 2, 3), 6);
    let seen = RefCell::new(0);
    #[profile(with = profiler())]
    fn inside(seen: &RefCell<u64>) {
        *seen.borrow_mut() += 1;
    }
    catch_unwind(AssertUnwindSafe(|| inside(&seen))).unwrap();
    assert_eq!((seen.into_inner(), name().as_str()), (1, "inside"));
}
