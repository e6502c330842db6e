//! The prelude is enough to use and implement the items it names: this file imports nothing else of the crate, and uses every name of the
//! prelude. Common words that a program is likely to define itself are not in the prelude.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vramscope::prelude::*;

fn pool() -> MemoryPool {
    MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap()
}

// ---- hooks ----

#[derive(Default)]
struct Everything {
    told: Mutex<Vec<String>>,
    largest: u64,
}

impl Everything {
    fn tell(&self, what: impl std::fmt::Debug) {
        self.told.lock().unwrap().push(format!("{what:?}"));
    }
}

impl MemoryHook for Everything {
    fn name(&self) -> &str {
        "Everything"
    }

    fn alloc_preprocess(&self, event: &AllocPreprocess) -> Result<(), BoxedError> {
        self.tell(event);
        Ok(())
    }

    fn alloc_postprocess(&self, event: &AllocPostprocess) {
        self.tell(event);
    }

    fn malloc_preprocess(&self, event: &MallocPreprocess) -> Result<(), BoxedError> {
        self.tell(event);
        if event.size > self.largest { Err("too large".into()) } else { Ok(()) }
    }

    fn malloc_postprocess(&self, event: &MallocPostprocess) {
        self.tell(event);
    }

    fn free_preprocess(&self, event: &Free) {
        self.tell(event);
    }

    fn free_postprocess(&self, event: &Free) {
        self.tell(event);
    }
}

/// A program stores the guard next to its hook.
struct Watched {
    hook: Arc<Everything>,
    _guard: HookGuard,
}

#[test]
fn a_hook_sees_and_refuses() {
    let pool = pool();
    let hook = Arc::new(Everything { largest: 4096, ..Everything::default() });
    let watched = Watched { _guard: register(hook.clone()).unwrap(), hook };
    let _line_profile = register(Arc::new(LineProfileHook::new())).unwrap();
    let _printed = hooks::register(Arc::new(DebugPrintHook::new(Vec::new()))).unwrap();
    match register(watched.hook.clone()) {
        Err(HookError::AlreadyExists { name }) => assert_eq!(name, "Everything"),
        _ => panic!("a name is unique"),
    }
    drop(pool.malloc(1000).unwrap());
    assert_eq!(watched.hook.told.lock().unwrap().len(), 6);
    match pool.malloc(5000) {
        Err(AllocError::Hook(HookError::Refused { name, why })) => {
            assert_eq!((name.as_str(), why.to_string().as_str()), ("Everything", "too large"));
        }
        _ => panic!("it was refused"),
    }
    drop(watched);
    match pool.malloc(2 << 20) {
        Err(AllocError::OutOfMemory(OutOfMemory { requested, .. })) => assert_eq!(requested, 2 << 20),
        Err(AllocError::Device(allocator::DeviceError::Panicked)) => panic!("the device did not panic"),
        _ => panic!("there is 1 MiB"),
    }
}

struct Calls(AtomicU64);

impl FunctionHook for Calls {
    fn forward_postprocess(&self, call: &hooks::function::FunctionCall, ended: hooks::function::Ended) {
        assert_eq!((&*call.function, &call.phase), ("Linear", &hooks::function::CallPhase::Forward));
        assert_eq!(ended, hooks::function::Ended::Returned);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn functions_and_a_report_in_a_unit() {
    let pool = pool();
    let profile = Arc::new(CupyMemoryProfileHook::new());
    let calls = Arc::new(Calls(AtomicU64::new(0)));
    let guards: Vec<hooks::function::FunctionHookGuard> = vec![
        hooks::function::register(profile.clone()).unwrap(),
        hooks::function::register(calls.clone()).unwrap(),
    ];
    let linear = hooks::Function::new("Linear");
    let output: Result<Allocation, AllocError> = linear.forward(|| pool.malloc(2048));
    drop((output, guards));
    let rows: Vec<hooks::function::FunctionSummary> = profile.summary();
    assert_eq!((rows[0].used_bytes, calls.0.load(Ordering::Relaxed)), (2048, 1));
    let mut report = Vec::new();
    profile.print_report(hooks::function::Unit::KB, &mut report).unwrap();
    assert!(String::from_utf8(report).unwrap().contains("2.00KB"));
    assert_eq!("auto".parse::<hooks::function::Unit>(), Ok(hooks::function::Unit::Auto));
}

// ---- pools and devices ----

/// A device that the program implements.
struct Counted(HostDevice);

impl allocator::Device for Counted {
    fn allocate(&self, size: u64) -> Result<u64, allocator::DeviceError> {
        self.0.allocate(size)
    }

    fn free(&self, address: u64, size: u64) -> Result<(), allocator::DeviceError> {
        self.0.free(address, size)
    }

    fn memory_info(&self) -> Result<allocator::MemoryInfo, allocator::DeviceError> {
        Ok(allocator::MemoryInfo { free: 1 << 20, total: 1 << 20 })
    }

    fn synchronize_device(&self) -> Result<(), allocator::DeviceError> {
        Ok(())
    }

    fn record_event(&self, _stream: u64) -> Result<allocator::EventId, allocator::DeviceError> {
        Err(allocator::DeviceError::Unsupported("no events".to_owned()))
    }

    fn event_done(&self, _event: allocator::EventId) -> Result<bool, allocator::DeviceError> {
        Ok(true)
    }

    fn synchronize(&self, _event: allocator::EventId) -> Result<(), allocator::DeviceError> {
        Ok(())
    }
}

#[test]
fn policies_devices_and_limits() {
    let settings = TorchSettings::default();
    let mut policy = Policy::torch(&settings, TorchRelease::new(2, 11));
    policy.search_order = allocator::SearchOrder::Address;
    let devices: Vec<Arc<dyn allocator::Device>> = vec![
        Arc::new(Counted(HostDevice::with_capacity(1 << 20))),
        Arc::new(VirtualDevice::with_capacity(1)),
    ];
    let pool = MemoryPool::new(&policy, devices).unwrap();
    let device: &DevicePool = pool.device(0).unwrap();
    device.set_limit(allocator::Limit::Bytes(1 << 19)).unwrap();
    let peaks: PeakScope = device.peak_scope();
    assert!(device.malloc(1 << 21).is_err());
    let statistics: Statistics = device.statistics();
    let highest: allocator::ScopePeaks = peaks.peaks();
    assert_eq!((statistics.allocated.peak, highest.allocated), (0, 0));
}

// ---- history ----

struct OneFrame;

impl allocator::StackSource for OneFrame {
    fn capture(&self, frames: &mut Vec<allocator::SourceFrame>) {
        frames.push(allocator::SourceFrame::new("train.py", 7, "step"));
    }
}

#[test]
fn a_history_is_recorded_and_analyzed() {
    let pool = pool();
    pool.set_stack_source(Some(Arc::new(OneFrame)));
    let options = HistoryOptions {
        enabled: Some(history::Enabled::All),
        context: Some(history::Context::Alloc),
        stacks: history::Stacks::Python,
        skip_actions: vec![trace::Action::Snapshot],
        ..history::HistoryOptions::default()
    };
    pool.record_memory_history(&options).unwrap();
    let kept = pool.malloc(1000).unwrap();
    drop(pool.malloc(2000).unwrap());
    let recorded: Arc<Trace> = pool.snapshot().unwrap();
    assert_eq!(History::of(&recorded, 0).peaks().requested.bytes, 3000);

    let mut file = Vec::new();
    formats::write_pickle(&recorded, &mut file).unwrap();
    let read: Result<Recording, ReadError> = formats::read(&file[..]);
    let recording = read.unwrap();
    let history = History::of(&recording.trace, 0);
    let device: &DeviceTrace = history.device();
    assert_eq!(device.events.len(), recording.trace.devices[0].events.len());
    let frames = analysis::Frames::of(&recording.trace);
    let peak: analysis::Peak = history.peaks().allocated;
    let moment: analysis::Moment = peak.moment;
    for holder in holders_at(&history, &frames, moment, analysis::By::Line) {
        let analysis::Holder { bytes, count, key, .. } = holder;
        assert_eq!((bytes, count), (3072, 2));
        let names = report::Names { trace: &recording.trace, frames: &frames };
        assert_eq!(names.key(&key).to_string(), "train.py:7 step");
    }
    assert!(leak_suspects(&history, &frames).is_empty());
    let options =
        analysis::Options { at: None, by: Some(analysis::By::Function), ..analysis::Options::default() };
    let summary = analysis::Summary::of(&recording.trace, 0, &frames, &options);
    let answers = report::Answers {
        file: "run.pickle",
        recording: &recording,
        frames: &frames,
        devices: vec![summary],
        by: options.by,
        at: None,
        top: None,
        advice: report::Advice::default(),
    };
    let _scripts: ReportJson = ReportJson::new(&answers);
    let text = TextOptions { width: 80, top: 3, full_stacks: false };
    assert!(report::report(&answers, text).contains("step"));
    drop(kept);
}

// ---- the profiler ----

/// A source that the program implements.
struct Constant(profiler::SourceInfo);

impl MemorySource for Constant {
    fn info(&self) -> &profiler::SourceInfo {
        &self.0
    }

    fn read(&self) -> Result<profiler::Reading, profiler::SourceError> {
        Ok(profiler::Reading { allocated: Some(4096), ..profiler::Reading::default() })
    }

    fn watch(&self) -> Option<Box<dyn profiler::Watch>> {
        Some(Box::new(Highest))
    }

    fn observe(&self, observer: Arc<dyn profiler::AllocationObserver>) -> Option<profiler::Observation> {
        observer.allocated(profiler::BlockEvent { id: 1, size: 4096 });
        Some(profiler::Observation::new(()))
    }

    fn ticker(self: Arc<Self>) -> Box<dyn profiler::Ticker> {
        Box::new(Ticking(self))
    }
}

struct Highest;

impl profiler::Watch for Highest {
    fn peaks(&self) -> profiler::Reading {
        profiler::Reading { allocated: Some(8192), ..profiler::Reading::default() }
    }
}

struct Ticking(Arc<Constant>);

impl profiler::Ticker for Ticking {
    fn tick(&mut self) -> Result<profiler::Tick, profiler::SourceError> {
        let now = self.0.read()?;
        Ok(profiler::Tick { now, high: now, high_is_exact: false })
    }
}

#[test]
fn a_source_of_the_program_is_profiled() {
    let info = profiler::SourceInfo { name: "constant".to_owned(), device_id: None };
    let profiled = GpuMemoryProfiler::with_options(Arc::new(Constant(info)), ProfilerOptions::default());
    let block = profiled.as_ref().unwrap().profile_context("block");
    let result: ProfileResult = ProfileContext::finish(block);
    assert_eq!(result.outcome, profiler::CallOutcome::Returned);
    let peak: &MemorySnapshot = &result.memory_peak;
    assert!(matches!(&peak.operation, profiler::Operation::Peak(name) if &**name == "block"));
    assert_eq!(peak.allocated_memory, Some(8192));
}

#[cfg(feature = "macros")]
#[profile(name = "a step")]
fn step(pool: &MemoryPool) -> Result<Allocation, AllocError> {
    pool.malloc(512)
}

#[cfg(feature = "macros")]
#[test]
fn functions_are_profiled_by_the_profiler_of_the_program() {
    let pool = pool();
    let made: Result<PoolProfiler, ProfilerError> = PoolProfiler::new(&pool, DeviceSpec::Index(0));
    let profiler = made.unwrap();
    set_global_profiler(profiler.clone());
    assert!(global_profiler().is_some());
    drop(step(&pool).unwrap());
    let last: OfPool<ProfileResult> = profiler.last_result().unwrap();
    assert_eq!(last.memory_allocated(), 512);
    let summary: ProfileSummary = profiler.get_summary().into_inner();
    assert_eq!(summary.function_summaries["a step"].call_count, 1);
    let leaks: Vec<CallLeakSuspect> = profiler.leaks();
    assert!(leaks.is_empty());
    take_global_profiler();
    match PoolProfiler::new(&pool, 4) {
        Err(ProfilerError::Select(profiler::SelectError::NoSuchDevice { .. })) => {}
        _ => panic!("there is one device"),
    }
}

#[test]
fn a_pool_is_tracked_and_a_bundle_keeps_its_last_events() {
    let pool = pool();
    let folder = std::env::temp_dir().join(format!("vramscope-prelude-{}", std::process::id()));
    let threshold = Threshold {
        min_interval: Duration::ZERO,
        ..Threshold::new(profiler::AlertQuantity::DevicePercent, profiler::Severity::Critical, 50.0)
    };
    let options = TrackerOptions {
        thresholds: vec![threshold],
        watchdog: Some(profiler::Watchdog::default()),
        log: Some(profiler::LogFile::at(&folder.join("log.csv"))),
        ..TrackerOptions::default()
    };
    fs::create_dir_all(&folder).unwrap();
    let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let callback: profiler::AlertCallback = Arc::new(|alert: &profiler::Alert| assert!(alert.value > 50.0));
    tracker.add_alert_callback(callback);
    let recorder = FlightRecorderOptions { max_bundles: 2, ..FlightRecorderOptions::default() };
    let recorder: FlightRecorder = FlightRecorder::attach(&pool, folder.join("bundles"), recorder).unwrap();
    let most = pool.malloc(900 << 10).unwrap();
    tracker.stop();
    assert_eq!(tracker.alerts()[0].threshold.severity, profiler::Severity::Critical);
    assert!(tracker.events().iter().any(|event| matches!(event.kind, profiler::EventKind::Stop)));
    drop((most, recorder));
    fs::remove_dir_all(folder).unwrap();
}

// ---- the rule itself ----

/// Returns the names of the prelude.
fn prelude() -> BTreeSet<String> {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let (_, prelude) = source.split_once("pub mod prelude {").unwrap();
    let (prelude, _) = prelude.split_once("\n}\n").unwrap();
    let used = prelude.split("pub use ").skip(1).map(|used| used.split(';').next().unwrap());
    let names = used.flat_map(|used| used.rsplit_once("::{").map_or(used, |(_, list)| list).split(','));
    let last = |name: &str| name.trim().trim_end_matches('}').trim().rsplit("::").next().unwrap().to_owned();
    names.map(last).filter(|name| !name.is_empty() && name != "self").collect()
}

#[test]
fn everything_that_the_prelude_names_is_used_here() {
    let names = prelude();
    assert!(names.len() > 50, "{names:?}");
    // Words that a program is likely to define itself.
    let common = [
        "Answers", "By", "Context", "Device", "Enabled", "Frames", "Function", "Limit", "Moment", "Options",
        "Outcome", "Quantity", "Severity", "Summary", "Unit",
    ];
    assert_eq!(common.iter().find(|name| names.contains(**name)), None);
    let here = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prelude.rs")).unwrap();
    let words: BTreeSet<&str> = here.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let unused: Vec<_> = names.iter().filter(|name| !words.contains(name.as_str())).collect();
    assert!(unused.is_empty(), "{unused:?}");
}
