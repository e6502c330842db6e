//! Alerts, the log and the watchdog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vramscope_allocator::{Device, DeviceError, EventId, MemoryInfo, MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    Counts, EventKind, LogFile, LogFormat, MemorySource, MemoryTracker, PoolSource, Quantity, Reading,
    Severity, SourceError, SourceInfo, Threshold, Tick, Ticker, TrackerError, TrackerOptions, Watchdog,
};

const GIB: u64 = 1 << 30;

/// Gives ticks that were written beforehand, then is gone.
struct Script {
    info: SourceInfo,
    ticks: Mutex<Vec<Result<Tick, SourceError>>>,
}

struct Reader(Arc<Script>);

impl Ticker for Reader {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        self.0.ticks.lock().unwrap().pop().unwrap_or_else(|| Err(SourceError::Gone("the script".to_owned())))
    }
}

impl MemorySource for Script {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        Ok(Reading::default())
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(Reader(self))
    }
}

fn script(ticks: impl IntoIterator<Item = Result<Tick, SourceError>>) -> Arc<Script> {
    let mut ticks: Vec<_> = ticks.into_iter().collect();
    ticks.reverse();
    let info = SourceInfo { name: "script".to_owned(), device_id: Some(0) };
    Arc::new(Script { info, ticks: Mutex::new(ticks) })
}

/// A look at a device of 100 bytes of which `percent` are in use.
fn in_use(percent: u64) -> Tick {
    let now = Reading {
        allocated: Some(percent),
        reserved: Some(percent),
        device_used: Some(percent),
        device_total: Some(100),
        ..Reading::default()
    };
    Tick { now, high: now, high_is_exact: true }
}

/// What happens until the source is gone.
fn track(source: Arc<Script>, options: TrackerOptions) -> MemoryTracker {
    let options = TrackerOptions { interval: Duration::from_micros(50), ..options };
    let tracker = MemoryTracker::start(source, options).unwrap();
    while tracker.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    tracker
}

fn threshold(quantity: Quantity, above: f64) -> Threshold {
    Threshold { min_interval: Duration::ZERO, ..Threshold::new(quantity, Severity::Warning, above) }
}

fn one(quantity: Quantity, above: f64) -> TrackerOptions {
    TrackerOptions { thresholds: vec![threshold(quantity, above)], ..TrackerOptions::default() }
}

#[test]
fn one_crossing_is_one_alert() {
    let values = [10, 81, 85, 79, 90, 81, 80].into_iter().chain([85; 50]).chain([60, 90]);
    let source = script(values.map(|v| Ok(in_use(v))));
    let tracker = track(source, one(Quantity::DevicePercent, 80.0));
    let alerts: Vec<f64> = tracker.alerts().iter().map(|alert| alert.value).collect();
    assert_eq!(alerts, [81.0, 90.0]);
    let statistics = tracker.statistics();
    assert_eq!((statistics.samples, statistics.alerts, statistics.errors), (59, 2, 1));
    assert_eq!(statistics.high.allocated, Some(90));
}

#[test]
fn callbacks_are_told_once_and_may_panic_and_ask_the_tracker() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
    let options =
        TrackerOptions { interval: Duration::from_secs(3600), ..one(Quantity::DevicePercent, 50.0) };
    let tracker = Arc::new(MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap());
    tracker.add_alert_callback(Arc::new(|_| panic!("a callback's own")));
    let told = Arc::new(AtomicU64::new(0));
    let (count, asked) = (Arc::clone(&told), Arc::downgrade(&tracker));
    tracker.add_alert_callback(Arc::new(move |alert| {
        let known = asked.upgrade().map_or(0, |tracker| tracker.alerts().len() as u64);
        assert_eq!(alert.value, 75.0);
        count.fetch_add(known, Ordering::SeqCst);
    }));
    // Shorter than any interval: the high-water mark tells of it.
    drop(pool.malloc(3 << 18).unwrap());
    tracker.stop();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    assert_eq!(tracker.statistics().callback_panics, 1);
}

/// A device of which others have a part.
struct Shared(VirtualDevice, AtomicU64);

impl Device for Shared {
    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        self.0.allocate(size)
    }
    fn free(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.0.free(address, size)
    }
    fn memory_info(&self) -> Result<MemoryInfo, DeviceError> {
        let MemoryInfo { free, total } = self.0.memory_info()?;
        Ok(MemoryInfo { free: free - self.1.load(Ordering::SeqCst), total })
    }
    fn synchronize_device(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn record_event(&self, stream: u64) -> Result<EventId, DeviceError> {
        self.0.record_event(stream)
    }
    fn event_done(&self, event: EventId) -> Result<bool, DeviceError> {
        self.0.event_done(event)
    }
    fn synchronize(&self, event: EventId) -> Result<(), DeviceError> {
        self.0.synchronize(event)
    }
}

#[test]
fn memory_outside_of_the_pool_is_what_the_device_says() {
    let device = Arc::new(Shared(VirtualDevice::with_capacity(16 * GIB), AtomicU64::new(0)));
    let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::clone(&device) as _]).unwrap();
    let options =
        TrackerOptions { interval: Duration::from_secs(3600), ..one(Quantity::Hidden, (2 * GIB) as f64) };
    let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let _block = pool.malloc(5 * GIB).unwrap();
    device.1.store(3 * GIB, Ordering::SeqCst);
    tracker.stop();
    let alerts = tracker.alerts();
    assert_eq!(alerts.len(), 1);
    assert_eq!(
        alerts[0].to_string(),
        "warning: device memory outside of the pool reached 3.00 GiB; the threshold is 2.00 GiB"
    );
}

/// Pools of PyTorch's policy serve 1 MiB from segments of 20 MiB: keeping one block of each segment is fragmentation,
/// freeing all of them is cache.
#[test]
fn fragmentation_is_what_emptying_the_cache_would_not_give_back() {
    let policy = Policy::torch(&Default::default(), "2.11".parse().unwrap());
    let pool = MemoryPool::new(&policy, vec![Arc::new(VirtualDevice::with_capacity(GIB))]).unwrap();
    let run = |keep: bool| {
        let options = TrackerOptions {
            interval: Duration::from_secs(3600),
            ..one(Quantity::ExternalFragmentationPercent, 20.0)
        };
        let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
        let mut blocks: Vec<_> = (0..600).map(|_| Some(pool.malloc((1 << 20) + 1).unwrap())).collect();
        for (i, block) in blocks.iter_mut().enumerate() {
            if !keep || i % 10 != 0 {
                *block = None;
            }
        }
        tracker.stop();
        let reserved = pool.statistics().reserved.current;
        drop(blocks);
        pool.free_all_blocks().unwrap();
        (tracker.alerts().len(), reserved > GIB / 2)
    };
    assert_eq!(run(false), (0, true));
    assert_eq!(run(true), (1, true));
}

#[test]
fn the_watchdog_gives_back_what_is_cached_and_lets_the_rest_be() {
    let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(GIB))]).unwrap();
    let options = TrackerOptions {
        interval: Duration::from_millis(1),
        thresholds: Vec::new(),
        watchdog: Some(Watchdog { above_percent: 90.0, min_interval: Duration::ZERO }),
        ..TrackerOptions::default()
    };
    let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let kept = pool.malloc(900 << 20).unwrap();
    drop(pool.malloc(100 << 20).unwrap());
    while pool.total_bytes() > 900 << 20 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Live memory alone is no reason.
    drop(pool.malloc(50 << 20).unwrap());
    tracker.stop();
    let cleanups: Vec<_> = tracker
        .events()
        .into_iter()
        .filter_map(|e| {
            if let EventKind::Cleanup { before, after } = e.kind { Some((before, after)) } else { None }
        })
        .collect();
    assert_eq!(cleanups[0], (1000 << 20, 900 << 20));
    assert!(cleanups.iter().all(|(before, after)| before > after), "{cleanups:?}");
    drop(kept);
}

#[test]
fn failures_and_retries_of_the_allocator_are_events() {
    let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(GIB))]).unwrap();
    let options = TrackerOptions { interval: Duration::from_secs(3600), ..TrackerOptions::default() };
    let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    pool.malloc(2 * GIB).unwrap_err();
    pool.malloc(3 * GIB).unwrap_err();
    tracker.stop();
    assert!(tracker.events().iter().any(|e| e.kind == EventKind::OutOfMemory(2)));
}

#[test]
fn an_error_is_said_once_until_the_source_answers_again() {
    let error = || Err(SourceError::Nvml("busy".to_owned()));
    let source = script([Ok(in_use(1)), error(), error(), Ok(in_use(1)), error()]);
    let tracker = track(source, TrackerOptions::default());
    tracker.stop();
    let events: Vec<String> = tracker.events().iter().map(|e| format!("{:?}", e.kind)).collect();
    assert_eq!(
        events,
        ["Start(\"script\")", "Error(\"busy\")", "Error(\"busy\")", "Gone(\"the script is gone\")", "Stop"]
    );
    assert_eq!(tracker.statistics().errors, 4);
}

/// Times are left out; the columns and what stands in them are fixed.
#[test]
fn logs_say_the_same_in_both_formats_and_on_disk() {
    let folder = tempfile::tempdir().unwrap();
    let counts = Counts { num_allocations: 3, num_frees: 1, ..Counts::default() };
    let ticks = || {
        let mut first = in_use(42);
        first.now.counts = Some(counts);
        first.now.cpu = Some(7);
        script([Ok(first), Ok(in_use(90))])
    };
    let mut whole = Vec::new();
    for format in [LogFormat::Csv, LogFormat::JsonLines] {
        let path = folder.path().join("log");
        let log = Some(LogFile { path: path.clone(), format });
        let tracker = track(ticks(), TrackerOptions { log, ..one(Quantity::DevicePercent, 80.0) });
        tracker.stop();
        let mut exported = Vec::new();
        tracker.export_events(format, &mut exported).unwrap();
        let on_disk = std::fs::read_to_string(&path).unwrap();
        assert_eq!(tracker.log_error(), None);
        // On disk an event follows the sample it was seen in; both have the same time.
        let sorted = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&on_disk), sorted(std::str::from_utf8(&exported).unwrap()));
        whole.push(on_disk);
    }
    let mut csv = csv::Reader::from_reader(whole[0].as_bytes());
    let header = csv.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
    let objects: Vec<serde_json::Value> =
        whole[1].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), objects.len());
    for (row, object) in rows.iter().zip(&objects) {
        for (name, cell) in
            header.iter().zip(row).filter(|(name, _)| !["time_us", "missed_ticks"].contains(name))
        {
            let value = match &object[name] {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text.clone(),
                // CSV writes 90.0 as 90.
                serde_json::Value::Number(n) if name == "value" => n.as_f64().unwrap().to_string(),
                other => other.to_string(),
            };
            assert_eq!(cell, value, "{name}");
        }
    }
    let events: Vec<&str> = objects.iter().map(|o| o["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["start", "sample", "sample", "alert", "gone", "stop"]);
    assert_eq!(objects[1]["num_allocations"], 3);
    assert_eq!(objects[1]["cpu_bytes"], 7);
    assert_eq!(objects[2].get("cpu_bytes"), None);
    assert_eq!((&objects[3]["severity"], &objects[3]["value"]), (&"warning".into(), &90.0.into()));
}

#[test]
fn events_and_samples_are_bounded_apart() {
    let source = script((0..100).map(|_| Ok(in_use(1))));
    let options = TrackerOptions { max_samples: 5, max_events: 2, ..TrackerOptions::default() };
    let tracker = track(source, options);
    drop(tracker.phase("warmup"));
    tracker.stop();
    assert_eq!((tracker.samples().len(), tracker.events().len()), (5, 2));
    assert_eq!(tracker.events()[0].kind, EventKind::PhaseExit("warmup".to_owned()));
    assert_eq!(tracker.statistics().samples, 100);
}

#[test]
fn senseless_thresholds_and_a_log_that_cannot_be_written_are_refused() {
    let start = |options| MemoryTracker::start(script([]), options).map(drop).unwrap_err();
    let never_over = Threshold { until: 90.0, ..threshold(Quantity::DevicePercent, 80.0) };
    let options = |threshold| TrackerOptions { thresholds: vec![threshold], ..TrackerOptions::default() };
    assert!(matches!(start(options(never_over)), TrackerError::Threshold(t) if t == never_over));
    let no_number = threshold(Quantity::DevicePercent, f64::NAN);
    assert!(matches!(start(options(no_number)), TrackerError::Threshold(_)));
    let log = Some(LogFile::at("/no/such/folder/log.csv".as_ref()));
    let refused = start(TrackerOptions { log, ..TrackerOptions::default() }).to_string();
    assert!(refused.starts_with("/no/such/folder/log.csv: "), "{refused}");
}
