//! One test for each rule of `MemoryHook`: order, attempts, values on failure, registration, threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use vramscope_allocator::hooks::{
    AllocPostprocess, AllocPreprocess, BoxedError, DebugPrintHook, Free, MallocPostprocess, MallocPreprocess,
    MemoryHook, register,
};
use vramscope_allocator::{AllocError, Device, DeviceError, Limit, MemoryPool, Policy, VirtualDevice};

use crate::MIB;

/// The first address of a `VirtualDevice`; the tests print addresses relative to it.
const BASE: u64 = 0x7f00_0000_0000;

/// A closure that a test runs inside a callback.
type Act = Box<dyn Fn() -> Result<(), BoxedError> + Send + Sync>;

/// Logs its callbacks, and runs the test's closure at one of them.
struct Log {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
    at: Option<(&'static str, Act)>,
}

impl Log {
    fn new(name: &'static str, lines: &Arc<Mutex<Vec<String>>>) -> Self {
        Self { name, lines: Arc::clone(lines), at: None }
    }

    fn doing(
        self,
        event: &'static str,
        what: impl Fn() -> Result<(), BoxedError> + Send + Sync + 'static,
    ) -> Self {
        Self { at: Some((event, Box::new(what))), ..self }
    }

    fn told(&self, event: &str, values: String) -> Result<(), BoxedError> {
        self.lines.lock().unwrap().push(format!("{}.{event} {values}", self.name));
        match &self.at {
            Some((at, what)) if *at == event => what(),
            _ => Ok(()),
        }
    }
}

fn pointer(p: u64) -> String {
    if p == 0 { "0".to_owned() } else { format!("@{}", p - BASE) }
}

fn id(id: u64) -> &'static str {
    if id == 0 { "0" } else { "id" }
}

impl MemoryHook for Log {
    fn name(&self) -> &str {
        self.name
    }
    fn alloc_preprocess(&self, e: &AllocPreprocess) -> Result<(), BoxedError> {
        self.told("alloc_pre", format!("{}", e.mem_size))
    }
    fn alloc_postprocess(&self, e: &AllocPostprocess) {
        self.told("alloc_post", format!("{} {}", e.mem_size, pointer(e.mem_ptr))).unwrap();
    }
    fn malloc_preprocess(&self, e: &MallocPreprocess) -> Result<(), BoxedError> {
        self.told("malloc_pre", format!("{} {}", e.size, e.mem_size))
    }
    fn malloc_postprocess(&self, e: &MallocPostprocess) {
        let values = format!("{} {} {} {}", e.size, e.mem_size, pointer(e.mem_ptr), id(e.pmem_id));
        self.told("malloc_post", values).unwrap();
    }
    fn free_preprocess(&self, e: &Free) {
        self.told("free_pre", format!("{} {} {}", e.mem_size, pointer(e.mem_ptr), id(e.pmem_id))).unwrap();
    }
    fn free_postprocess(&self, e: &Free) {
        self.told("free_post", format!("{} {} {}", e.mem_size, pointer(e.mem_ptr), id(e.pmem_id))).unwrap();
    }
}

type Lines = Arc<Mutex<Vec<String>>>;

fn take(lines: &Lines) -> Vec<String> {
    std::mem::take(&mut *lines.lock().unwrap())
}

fn pool_of(capacity: u64) -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(capacity))]).unwrap()
}

/// As `MemoryHook` documents: malloc around alloc, and free around the actual free.
#[test]
fn callbacks_nest_and_come_in_the_order_of_registration() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let _a = register(Arc::new(Log::new("a", &lines))).unwrap();
    let _b = register(Arc::new(Log::new("b", &lines))).unwrap();
    drop(pool.malloc(1000).unwrap());
    assert_eq!(
        take(&lines),
        [
            "a.malloc_pre 1000 1024",
            "b.malloc_pre 1000 1024",
            "a.alloc_pre 1024",
            "b.alloc_pre 1024",
            "a.alloc_post 1024 @0",
            "b.alloc_post 1024 @0",
            "a.malloc_post 1000 1024 @0 id",
            "b.malloc_post 1000 1024 @0 id",
            "a.free_pre 1024 @0 id",
            "b.free_pre 1024 @0 id",
            "a.free_post 1024 @0 id",
            "b.free_post 1024 @0 id",
        ]
    );
}

/// `SingleDeviceMemoryPool.malloc`: a cached chunk needs no device allocation.
#[test]
fn a_cached_block_has_no_alloc_callbacks() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    drop(pool.malloc(1000).unwrap());
    let _hook = register(Arc::new(Log::new("a", &lines))).unwrap();
    let block = pool.malloc(600).unwrap();
    assert_eq!(take(&lines), ["a.malloc_pre 600 1024", "a.malloc_post 600 1024 @0 id"]);
    drop(block);
}

/// `_try_malloc`: one malloc tries the device three times, each time with both callbacks.
#[test]
fn an_out_of_memory_tries_the_device_three_times_and_postprocess_gets_zeros() {
    let (lines, pool) = (Lines::default(), pool_of(4 * MIB));
    let collections = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&collections);
    pool.add_free_memory_callback(Arc::new(move || *counted.lock().unwrap() += 1));
    let _hook = register(Arc::new(Log::new("a", &lines))).unwrap();
    let error = pool.malloc(8 * MIB).unwrap_err();
    assert_eq!(error.to_string(), "Out of memory allocating 8,388,608 bytes (allocated so far: 0 bytes).");
    let attempt = ["a.alloc_pre 8388608", "a.alloc_post 8388608 0"];
    let mut expected = vec!["a.malloc_pre 8388608 8388608"];
    expected.extend([attempt; 3].concat());
    expected.push("a.malloc_post 8388608 8388608 0 0");
    assert_eq!(take(&lines), expected);
    assert_eq!(*collections.lock().unwrap(), 1, "memory is collected before the third attempt");
}

/// Memory that the collector frees is used: CuPy calls `gc.collect()` before the third attempt.
#[test]
fn memory_freed_by_a_callback_serves_the_request() {
    let (lines, pool) = (Lines::default(), pool_of(4 * MIB));
    let garbage = Mutex::new(Some(pool.malloc(3 * MIB).unwrap()));
    pool.add_free_memory_callback(Arc::new(move || drop(garbage.lock().unwrap().take())));
    let _hook = register(Arc::new(Log::new("a", &lines))).unwrap();
    let block = pool.malloc(4 * MIB).unwrap();
    let lines = take(&lines);
    assert_eq!(lines.iter().filter(|l| l.starts_with("a.alloc_post")).count(), 3, "{lines:?}");
    assert!(lines.iter().any(|l| l.starts_with("a.free_post")), "frees nest inside: {lines:?}");
    drop(block);
}

/// `_try_malloc`: beyond the limit there is no device allocation.
#[test]
fn beyond_the_limit_there_are_no_alloc_callbacks() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    pool.set_limit(Limit::Bytes(4096)).unwrap();
    let _hook = register(Arc::new(Log::new("a", &lines))).unwrap();
    let block = pool.malloc(4000).unwrap();
    take(&lines);
    let error = pool.malloc(512).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Out of memory allocating 512 bytes (allocated so far: 4,096 bytes, limit set to: 4,096 bytes)."
    );
    assert_eq!(take(&lines), ["a.malloc_pre 512 512", "a.malloc_post 512 512 0 0"]);
    // The pool releases cached memory to make room.
    drop(block);
    drop(pool.malloc(512).unwrap());
    let larger = pool.malloc(4096).unwrap();
    assert_eq!(pool.total_bytes(), 4096);
    drop(larger);
}

/// Only out of memory is tried again (`_try_malloc`: `e.status != errorMemoryAllocation` is raised).
#[test]
fn an_error_other_than_out_of_memory_is_not_retried() {
    struct Broken;
    impl Device for Broken {
        fn allocate(&self, _: u64) -> Result<u64, DeviceError> {
            Err(DeviceError::Driver { call: "cuMemAlloc", why: "unspecified launch failure".to_owned() })
        }
        fn free(&self, _: u64, _: u64) -> Result<(), DeviceError> {
            Ok(())
        }
        fn memory_info(&self) -> Result<vramscope_allocator::MemoryInfo, DeviceError> {
            Ok(vramscope_allocator::MemoryInfo { free: MIB, total: MIB })
        }
        fn synchronize_device(&self) -> Result<(), DeviceError> {
            Ok(())
        }
        fn record_event(&self, _: u64) -> Result<vramscope_allocator::EventId, DeviceError> {
            Ok(vramscope_allocator::EventId(0))
        }
        fn event_done(&self, _: vramscope_allocator::EventId) -> Result<bool, DeviceError> {
            Ok(true)
        }
        fn synchronize(&self, _: vramscope_allocator::EventId) -> Result<(), DeviceError> {
            Ok(())
        }
    }
    let (lines, pool) = (Lines::default(), MemoryPool::new(&Policy::cupy(), vec![Arc::new(Broken)]).unwrap());
    let _hook = register(Arc::new(Log::new("a", &lines))).unwrap();
    let error = pool.malloc(512).unwrap_err();
    assert_eq!(error.to_string(), "cuMemAlloc failed: unspecified launch failure");
    assert_eq!(
        take(&lines),
        ["a.malloc_pre 512 512", "a.alloc_pre 512", "a.alloc_post 512 0", "a.malloc_post 512 512 0 0"]
    );
}

/// `MemoryHook.__enter__`: a thread has one hook per name, even if it is the same instance.
#[test]
fn a_name_is_registered_once() {
    let lines = Lines::default();
    let hook = Arc::new(Log::new("a", &lines));
    let first = register(hook.clone()).unwrap();
    let again = register(hook.clone()).err().unwrap();
    assert_eq!(again.to_string(), "memory hook a already exists");
    assert!(register(Arc::new(Log::new("a", &lines))).is_err());
    std::thread::scope(|s| {
        s.spawn(|| drop(register(hook.clone()).unwrap()));
    });
    drop(first);
    drop(register(hook).unwrap());
}

/// Dropping the guard drops the registry's reference to the hook.
#[test]
fn dropping_a_guard_releases_its_hook() {
    let hook = Arc::new(Log::new("a", &Lines::default()));
    let guard = register(hook.clone()).unwrap();
    drop(pool_of(MIB * 4).malloc(1).unwrap());
    drop(guard);
    assert_eq!(Arc::strong_count(&hook), 1);
}

/// The loop over preprocess callbacks is outside the `try`: its error has no postprocess callback.
#[test]
fn an_error_in_malloc_preprocess_stops_everything() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let _a = register(Arc::new(Log::new("a", &lines))).unwrap();
    let _b = register(Arc::new(Log::new("b", &lines).doing("malloc_pre", || Err("budget is spent".into()))))
        .unwrap();
    let _c = register(Arc::new(Log::new("c", &lines))).unwrap();
    let error = pool.malloc(512).unwrap_err();
    assert!(matches!(error, AllocError::Hook(_)));
    assert_eq!(error.to_string(), "memory hook b refused: budget is spent");
    assert_eq!(take(&lines), ["a.malloc_pre 512 512", "b.malloc_pre 512 512"]);
    assert_eq!(pool.total_bytes(), 0);
}

/// `_alloc` is inside malloc's `try`: malloc_postprocess follows, alloc_postprocess does not.
#[test]
fn an_error_in_alloc_preprocess_is_seen_by_malloc_postprocess() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let _a = register(Arc::new(Log::new("a", &lines).doing("alloc_pre", || Err("no".into())))).unwrap();
    assert_eq!(pool.malloc(512).unwrap_err().to_string(), "memory hook a refused: no");
    assert_eq!(take(&lines), ["a.malloc_pre 512 512", "a.alloc_pre 512", "a.malloc_post 512 512 0 0"]);
}

#[test]
fn a_panic_in_a_postprocess_callback_loses_no_memory() {
    for event in ["alloc_post", "malloc_post"] {
        let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
        let hook = Log::new("a", &lines).doing(event, || panic!("on purpose"));
        let guard = register(Arc::new(hook)).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| pool.malloc(512).unwrap())).is_err());
        drop(guard);
        assert_eq!((pool.used_bytes(), pool.free_bytes()), (0, 512), "{event}");
        assert_eq!(pool.n_free_blocks(), 1);
        let frees = take(&lines).iter().filter(|l| l.contains("free")).count();
        assert_eq!(frees, if event == "malloc_post" { 2 } else { 0 }, "only a block handed out is freed");
    }
}

#[test]
fn a_panic_in_a_free_callback_comes_after_the_block_went_back() {
    for event in ["free_pre", "free_post"] {
        let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
        let block = pool.malloc(512).unwrap();
        let guard = register(Arc::new(Log::new("a", &lines).doing(event, || panic!("on purpose")))).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(block))).is_err());
        drop(guard);
        assert_eq!((pool.used_bytes(), pool.free_bytes()), (0, 512), "{event}");
    }
}

/// A device that panics under the pool's locks.
#[test]
fn a_panic_of_the_device_leaves_the_pool_as_it_was() {
    struct Panics(VirtualDevice, Mutex<bool>);
    impl Device for Panics {
        fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
            assert!(!*self.1.lock().unwrap(), "on purpose");
            self.0.allocate(size)
        }
        fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
            if *self.1.lock().unwrap() {
                return Err(DeviceError::Driver { call: "cuMemFree", why: "no".to_owned() });
            }
            self.0.free(address, size)
        }
        fn memory_info(&self) -> Result<vramscope_allocator::MemoryInfo, DeviceError> {
            self.0.memory_info()
        }
        fn synchronize_device(&self) -> Result<(), DeviceError> {
            Ok(())
        }
        fn record_event(&self, stream: u64) -> Result<vramscope_allocator::EventId, DeviceError> {
            self.0.record_event(stream)
        }
        fn event_done(&self, event: vramscope_allocator::EventId) -> Result<bool, DeviceError> {
            self.0.event_done(event)
        }
        fn synchronize(&self, event: vramscope_allocator::EventId) -> Result<(), DeviceError> {
            self.0.synchronize(event)
        }
    }
    let device = Arc::new(Panics(VirtualDevice::with_capacity(64 * MIB), Mutex::new(false)));
    let pool = MemoryPool::new(&Policy::cupy(), vec![device.clone()]).unwrap();
    let held = pool.malloc(512).unwrap();
    drop(pool.malloc(1024).unwrap());
    *device.1.lock().unwrap() = true;
    let panicked = catch_unwind(AssertUnwindSafe(|| pool.malloc(4096).unwrap()));
    assert!(panicked.is_err());
    // A refused free keeps the block in the cache and returns an error.
    assert_eq!(pool.free_all_blocks().unwrap_err().to_string(), "cuMemFree failed: no");
    assert_eq!((pool.used_bytes(), pool.total_bytes(), pool.n_free_blocks()), (512, 1536, 1));
    *device.1.lock().unwrap() = false;
    drop(pool.malloc(4096).unwrap());
    drop(held);
    pool.free_all_blocks().unwrap();
    assert_eq!((pool.used_bytes(), pool.total_bytes()), (0, 0));
    assert_eq!(device.memory_info().unwrap().used(), 0);
}

/// In CuPy, leaving the `with` block on another thread is a `KeyError`.
#[test]
fn a_guard_may_be_dropped_on_another_thread() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let guard = register(Arc::new(Log::new("a", &lines))).unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    drop(pool.malloc(512).unwrap());
    assert!(take(&lines).is_empty());
    drop(register(Arc::new(Log::new("a", &lines))).unwrap());
}

/// CuPy's hooks are thread-local, so they miss a free on another thread.
#[test]
fn a_free_on_another_thread_is_seen_once_by_everyone_concerned() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let shared: Arc<dyn MemoryHook> = Arc::new(Log::new("both", &lines));
    let _a = register(Arc::new(Log::new("a", &lines))).unwrap();
    let _both = register(shared.clone()).unwrap();
    let block = pool.malloc(512).unwrap();
    take(&lines);
    let lines_there = Arc::clone(&lines);
    std::thread::spawn(move || {
        let _b = register(Arc::new(Log::new("b", &lines_there))).unwrap();
        drop(block);
    })
    .join()
    .unwrap();
    let seen = take(&lines);
    let pres: Vec<&String> = seen.iter().filter(|l| l.contains("free_pre")).collect();
    assert_eq!(pres, ["b.free_pre 512 @0 id", "a.free_pre 512 @0 id", "both.free_pre 512 @0 id"]);
    assert_eq!(seen.len(), 6);
}

/// A request of zero bytes: as in CuPy no address and no free, but with an id.
#[test]
fn a_request_of_no_bytes_has_no_address_and_is_never_freed() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let _hook = register(Arc::new(Log::new("a", &lines))).unwrap();
    let nothing = pool.malloc(0).unwrap();
    let more = pool.malloc(0).unwrap();
    assert_eq!((nothing.address(), nothing.size()), (0, 0));
    assert_ne!(nothing.id(), more.id());
    drop((nothing, more));
    assert_eq!(take(&lines), ["a.malloc_pre 0 0", "a.malloc_post 0 0 0 id"].repeat(2));
    assert_eq!((pool.total_bytes(), pool.statistics().num_allocations), (0, 0));
}

/// CuPy's `pmem_id` is an address, which Python reuses for the next object.
#[test]
fn ids_are_never_used_again() {
    let pool = pool_of(64 * MIB);
    let mut ids: Vec<u64> = (0..100).map(|i| pool.malloc_on(i % 3, 512).unwrap().id()).collect();
    let other = pool_of(64 * MIB);
    ids.extend((0..100).map(|_| other.malloc(512).unwrap().id()));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
}

/// In CuPy, changing the registry inside a callback breaks the loop over it, and allocating recurses.
#[test]
fn a_callback_may_register_hooks_and_allocate() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let guards = Arc::new(Mutex::new(Vec::new()));
    let (inner, also, own) = (Arc::clone(&guards), Arc::clone(&lines), pool.clone());
    let _a = register(Arc::new(Log::new("a", &lines).doing("malloc_pre", move || {
        drop(own.malloc(99)?);
        if inner.lock().unwrap().is_empty() {
            inner.lock().unwrap().push(register(Arc::new(Log::new("b", &also)))?);
        }
        Ok(())
    })))
    .unwrap();
    let first = pool.malloc(512).unwrap();
    assert!(take(&lines).iter().all(|l| l.starts_with("a.")), "the change takes effect with the next event");
    drop(first);
    assert!(take(&lines).contains(&"b.free_pre 512 @0 id".to_owned()));
    guards.lock().unwrap().clear();
}

/// If hooks saw an allocation, they see its free, even inside a callback.
#[test]
fn a_free_inside_a_callback_is_seen() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let held = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&held);
    let hook = Log::new("a", &lines).doing("malloc_pre", move || {
        let taken = std::mem::take(&mut *inner.lock().unwrap());
        drop(taken);
        Ok(())
    });
    let _guard = register(Arc::new(hook)).unwrap();
    let block = pool.malloc(512).unwrap();
    held.lock().unwrap().push(block);
    take(&lines);
    drop(pool.malloc(4096).unwrap());
    assert!(take(&lines).contains(&"a.free_post 512 @0 id".to_owned()));
}

/// One hook's panic does not hide a free from the others.
#[test]
fn a_panic_of_one_hook_hides_no_free_from_the_others() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let block = pool.malloc(512).unwrap();
    let _a = register(Arc::new(Log::new("a", &lines).doing("free_pre", || panic!("on purpose")))).unwrap();
    let _b = register(Arc::new(Log::new("b", &lines))).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(block))).is_err());
    assert_eq!(
        take(&lines),
        ["a.free_pre 512 @0 id", "b.free_pre 512 @0 id", "a.free_post 512 @0 id", "b.free_post 512 @0 id"]
    );
    assert_eq!(pool.used_bytes(), 0);
}

#[test]
fn a_pools_hook_sees_every_thread_and_no_other_pool() {
    let (lines, pool, other) = (Lines::default(), pool_of(64 * MIB), pool_of(64 * MIB));
    let guard = pool.register_hook(Arc::new(Log::new("pool", &lines))).unwrap();
    assert!(pool.register_hook(Arc::new(Log::new("pool", &lines))).is_err());
    let block = std::thread::scope(|s| s.spawn(|| pool.malloc(512).unwrap()).join().unwrap());
    drop(other.malloc(512).unwrap());
    drop(block);
    assert_eq!(take(&lines).len(), 6);
    drop(guard);
    drop(pool.malloc(512).unwrap());
    assert!(take(&lines).is_empty());
}

/// CuPy 14 gives `alloc_*` and `malloc_*` the device that was current at first use.
#[test]
fn device_ids_are_those_of_the_device() {
    let devices: Vec<Arc<dyn Device>> =
        (0..2).map(|_| Arc::new(VirtualDevice::with_capacity(MIB * 64)) as Arc<dyn Device>).collect();
    let pool = MemoryPool::new(&Policy::cupy(), devices).unwrap();
    let printed = Arc::new(DebugPrintHook::new(Vec::new()));
    let guard = register(printed.clone()).unwrap();
    drop(pool.device(1).unwrap().malloc(24).unwrap());
    drop(guard);
    let printed = Arc::into_inner(printed).unwrap().into_inner();
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(printed.lines().filter(|l| l.contains("\"device_id\":1,")).count(), 3, "{printed}");
}

/// The lines of CuPy's documentation, except for address and id.
#[test]
fn debug_print_writes_json_lines_with_cupys_keys() {
    let pool = pool_of(64 * MIB);
    let printed = Arc::new(DebugPrintHook::new(Vec::new()));
    let guard = register(printed.clone()).unwrap();
    let block = pool.malloc(24).unwrap();
    let id = block.id();
    drop(block);
    pool.malloc(65 * MIB).unwrap_err();
    drop(guard);
    let printed = String::from_utf8(Arc::into_inner(printed).unwrap().into_inner()).unwrap();
    let expected = format!(
        r#"{{"hook":"alloc","device_id":0,"mem_size":512,"mem_ptr":{BASE}}}
{{"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":{BASE},"pmem_id":"{id:#x}"}}
{{"hook":"free","device_id":0,"mem_size":512,"mem_ptr":{BASE},"pmem_id":"{id:#x}"}}
{{"hook":"alloc","device_id":0,"mem_size":68157440,"mem_ptr":0}}
{{"hook":"alloc","device_id":0,"mem_size":68157440,"mem_ptr":0}}
{{"hook":"alloc","device_id":0,"mem_size":68157440,"mem_ptr":0}}
{{"hook":"malloc","device_id":0,"size":68157440,"mem_size":68157440,"mem_ptr":0,"pmem_id":"0x0"}}
"#
    );
    assert_eq!(printed, expected);
}

#[test]
fn a_failing_writer_ends_only_the_printing() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let hook = Arc::new(DebugPrintHook::new(Full));
    let _guard = register(hook.clone()).unwrap();
    drop(pool_of(MIB * 4).malloc(1).unwrap());
    assert_eq!(hook.error(), Some(std::io::ErrorKind::StorageFull));
}

/// Dropping its guard drops a pool's hook, which may own memory of the pool.
#[test]
fn a_pools_hook_is_dropped_with_its_guard() {
    struct Owns(
        #[expect(dead_code, reason = "the field only keeps the memory alive")]
        vramscope_allocator::Allocation,
    );
    impl MemoryHook for Owns {}
    let pool = pool_of(64 * MIB);
    let hook: Arc<dyn MemoryHook> = Arc::new(Owns(pool.malloc(512).unwrap()));
    let guard = pool.register_hook(hook).unwrap();
    drop(guard);
    assert_eq!(pool.used_bytes(), 0);
    drop(pool.malloc(512).unwrap());
}

/// A hook that is registered for the thread and for the pool runs once.
#[test]
fn a_hook_of_the_thread_and_of_the_pool_runs_once() {
    let (lines, pool) = (Lines::default(), pool_of(64 * MIB));
    let hook: Arc<dyn MemoryHook> = Arc::new(Log::new("a", &lines));
    let _pools = pool.register_hook(hook.clone()).unwrap();
    let _threads = register(hook.clone()).unwrap();
    let block = pool.malloc(512).unwrap();
    std::thread::spawn(move || {
        let _guard = register(hook).unwrap();
        drop(block);
    })
    .join()
    .unwrap();
    assert_eq!(take(&lines).len(), 6);
}
