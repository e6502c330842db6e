//! Alerts, the log and the watchdog.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vramscope_allocator::{Device, DeviceError, EventId, MemoryInfo, MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    AlertQuantity, Counts, EventKind, LogFile, LogFormat, MemorySource, MemoryTracker, PoolSource, Reading,
    Severity, SourceError, SourceInfo, Threshold, Tick, Ticker, TrackerError, TrackerOptions, Watchdog,
};

const GIB: u64 = 1 << 30;

/// Returns prepared ticks, then reports that it is gone.
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

/// Returns a tick of a device of 100 bytes with `percent` bytes in use.
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

/// Runs a tracker until the source is gone.
fn track(source: Arc<Script>, options: TrackerOptions) -> MemoryTracker {
    let options = TrackerOptions { interval: Duration::from_micros(50), ..options };
    let tracker = MemoryTracker::start(source, options).unwrap();
    while tracker.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    tracker
}

fn threshold(quantity: AlertQuantity, above: f64) -> Threshold {
    Threshold { min_interval: Duration::ZERO, ..Threshold::new(quantity, Severity::Warning, above) }
}

fn one(quantity: AlertQuantity, above: f64) -> TrackerOptions {
    TrackerOptions { thresholds: vec![threshold(quantity, above)], ..TrackerOptions::default() }
}

#[test]
fn one_crossing_is_one_alert() {
    let values = [10, 81, 85, 79, 90, 81, 80].into_iter().chain([85; 50]).chain([60, 90]);
    let source = script(values.map(|v| Ok(in_use(v))));
    let tracker = track(source, one(AlertQuantity::DevicePercent, 80.0));
    let alerts: Vec<f64> = tracker.alerts().iter().map(|alert| alert.value).collect();
    assert_eq!(alerts, [81.0, 90.0]);
    let statistics = tracker.statistics();
    assert_eq!((statistics.samples, statistics.alerts, statistics.errors), (59, 2, 1));
    assert_eq!(statistics.high.allocated, Some(90));
}

#[test]
fn callbacks_run_once_for_each_alert_and_may_panic_or_use_the_tracker() {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 20).unwrap();
    let options =
        TrackerOptions { interval: Duration::from_secs(3600), ..one(AlertQuantity::DevicePercent, 50.0) };
    let tracker = Arc::new(MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap());
    tracker.add_alert_callback(Arc::new(|_| panic!("a callback's own")));
    let told = Arc::new(AtomicU64::new(0));
    let (count, asked) = (Arc::clone(&told), Arc::downgrade(&tracker));
    tracker.add_alert_callback(Arc::new(move |alert| {
        let known = asked.upgrade().map_or(0, |tracker| tracker.alerts().len() as u64);
        assert_eq!(alert.value, 75.0);
        count.fetch_add(known, Ordering::SeqCst);
    }));
    // Shorter than any interval: the peak includes it.
    drop(pool.malloc(3 << 18).unwrap());
    tracker.stop();
    assert_eq!(told.load(Ordering::SeqCst), 1);
    assert_eq!(tracker.statistics().callback_panics, 1);
}

/// A device that other processes use too.
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
fn memory_outside_the_pool_comes_from_the_device() {
    let device = Arc::new(Shared(VirtualDevice::with_capacity(16 * GIB), AtomicU64::new(0)));
    let pool = MemoryPool::new(&Policy::cupy(), vec![Arc::clone(&device) as _]).unwrap();
    let options = TrackerOptions {
        interval: Duration::from_secs(3600),
        ..one(AlertQuantity::Hidden, (2 * GIB) as f64)
    };
    let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    let _block = pool.malloc(5 * GIB).unwrap();
    device.1.store(3 * GIB, Ordering::SeqCst);
    tracker.stop();
    let alerts = tracker.alerts();
    assert_eq!(alerts.len(), 1);
    assert_eq!(
        alerts[0].to_string(),
        "warning: device memory outside the pool reached 3.00 GiB; the threshold is 2.00 GiB"
    );
}

/// Pools under PyTorch's policy serve 1 MiB from segments of 20 MiB. Keeping one block of each segment is fragmentation; freeing all of
/// them is cache.
#[test]
fn fragmentation_is_free_memory_that_emptying_the_cache_would_not_release() {
    let policy = Policy::torch(&Default::default(), "2.11".parse().unwrap());
    let pool = MemoryPool::new(&policy, vec![Arc::new(VirtualDevice::with_capacity(GIB))]).unwrap();
    let run = |keep: bool| {
        let options = TrackerOptions {
            interval: Duration::from_secs(3600),
            ..one(AlertQuantity::ExternalFragmentationPercent, 20.0)
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
fn the_watchdog_releases_only_cached_memory() {
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
    // Live memory alone is no reason for a cleanup.
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
    drop(pool.malloc(800 << 20).unwrap());
    // Succeeds only after the cache is released.
    drop(pool.malloc(900 << 20).unwrap());
    pool.malloc(3 * GIB).unwrap_err();
    tracker.stop();
    let events = tracker.events();
    assert!(events.iter().any(|e| e.kind == EventKind::OutOfMemory(2)));
    let retries = pool.statistics().num_alloc_retries;
    assert!(retries > 0 && events.iter().any(|e| e.kind == EventKind::Retry(retries)));
    let seen = tracker.statistics();
    assert_eq!((seen.failed_requests, seen.retries), (2, retries));
}

/// PyTorch's expandable segments: whole free pages are released, so they are cache, not fragmentation.
#[test]
fn the_watchdog_empties_expandable_segments_and_no_alert_takes_them_for_lost() {
    let settings = vramscope_trace::TorchSettings { expandable_segments: Some(true), ..Default::default() };
    let policy = Policy::torch(&settings, "2.11".parse().unwrap());
    let pool = MemoryPool::new(&policy, vec![Arc::new(VirtualDevice::with_capacity(GIB))]).unwrap();
    let options = TrackerOptions {
        interval: Duration::from_secs(3600),
        watchdog: Some(Watchdog { above_percent: 80.0, min_interval: Duration::ZERO }),
        ..one(AlertQuantity::ExternalFragmentationPercent, 20.0)
    };
    let tracker = MemoryTracker::start(PoolSource::new(&pool, 0).unwrap(), options).unwrap();
    drop(pool.malloc(900 << 20).unwrap());
    tracker.stop();
    assert_eq!((tracker.alerts().len(), tracker.statistics().cleanups), (0, 1));
    assert_eq!(pool.total_bytes(), 0);
}

/// Alerts have a separate limit, and the statistics count everything.
#[test]
fn alerts_are_not_pushed_out_by_events() {
    let ticks = (0..400).map(|i| {
        let mut tick = in_use(if i % 2 == 0 { 90 } else { 10 });
        tick.now.counts = Some(Counts { num_ooms: i, ..Counts::default() });
        Ok(tick)
    });
    let options = TrackerOptions { max_events: 300, ..one(AlertQuantity::DevicePercent, 80.0) };
    let tracker = track(script(ticks), options);
    assert_eq!(tracker.events().len(), 300);
    assert_eq!(tracker.alerts().len(), 200);
    let seen = tracker.statistics();
    assert_eq!((seen.alerts, seen.failed_requests), (200, 399));
}

#[test]
fn a_late_callback_gets_the_alerts_raised_before() {
    let tracker = track(script([Ok(in_use(90))]), one(AlertQuantity::DevicePercent, 80.0));
    for _ in 0..2 {
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        tracker.add_alert_callback(Arc::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        assert_eq!(told.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn thresholds_that_were_never_measured_are_named() {
    let thresholds = [AlertQuantity::DevicePercent, AlertQuantity::Hidden, AlertQuantity::GrowthPerMinute]
        .map(|q| threshold(q, 1.0));
    let options = TrackerOptions { thresholds: thresholds.to_vec(), ..TrackerOptions::default() };
    let mut without_pool = in_use(50);
    without_pool.now.reserved = None;
    let tracker = track(script([Ok(without_pool)]), options);
    let never: Vec<AlertQuantity> = tracker.never_measured().iter().map(|t| t.quantity).collect();
    assert_eq!(never, [AlertQuantity::Hidden, AlertQuantity::GrowthPerMinute]);
}

/// Every tick panics except the first and the last.
struct Fragile(Script);

struct FragileTicker(Arc<Fragile>);

impl Ticker for FragileTicker {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let tick = self.0.0.ticks.lock().unwrap().pop();
        match tick {
            Some(Err(SourceError::Panicked(why))) => std::panic::panic_any(why),
            tick => tick.unwrap_or_else(|| Err(SourceError::Gone("the script".to_owned()))),
        }
    }
}

impl MemorySource for Fragile {
    fn info(&self) -> &SourceInfo {
        &self.0.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        Ok(Reading::default())
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(FragileTicker(self))
    }
}

#[test]
fn a_source_that_panics_is_an_error_and_looked_at_again() {
    let script = script([Ok(in_use(1)), Err(SourceError::Panicked(String::new())), Ok(in_use(2))]);
    let source = Arc::new(Fragile(Arc::into_inner(script).unwrap()));
    let options = TrackerOptions { interval: Duration::from_micros(50), ..TrackerOptions::default() };
    let tracker = MemoryTracker::start(source, options).unwrap();
    while tracker.is_running() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(tracker.events().iter().any(|e| e.kind == EventKind::Error("script panicked".to_owned())));
    assert_eq!(tracker.samples().len(), 2);
}

#[test]
fn an_error_of_the_source_is_reported_once_until_it_recovers() {
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
        let log = Some(LogFile { format, ..LogFile::at(&path) });
        let tracker = track(ticks(), TrackerOptions { log, ..one(AlertQuantity::DevicePercent, 80.0) });
        tracker.stop();
        let mut exported = Vec::new();
        tracker.export_events(format, &mut exported).unwrap();
        let on_disk = std::fs::read_to_string(&path).unwrap();
        assert_eq!(tracker.log_error(), None);
        // On disk an event follows the sample it was found in; both have the same time.
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

/// Names of sources and phases, and error messages, may contain any text.
#[test]
fn logs_contain_no_control_characters_and_no_formulas() {
    const HOSTILE: &str = "x\u{1b}]0;t\u{7}\r\n\u{7f}\u{9b}31m\u{202e}\u{61c}\u{200b}\u{feff}\u{e0041}z";
    const FORMULA: &str = "=HYPERLINK(\"//x\")";
    let whole = format!("{FORMULA}{HOSTILE}");
    for format in [LogFormat::Csv, LogFormat::JsonLines] {
        let failed = SourceError::Answer { source_name: whole.clone(), why: whole.clone() };
        let mut source = script([Ok(in_use(1)), Err(failed)]);
        Arc::get_mut(&mut source).unwrap().info.name = whole.clone();
        let tracker = track(source, TrackerOptions::default());
        drop(tracker.phase(&whole));
        tracker.stop();
        let mut log = Vec::new();
        tracker.export_events(format, &mut log).unwrap();
        let log = String::from_utf8(log).unwrap();
        let steers = |c: char| c != '\n' && !c.is_ascii_graphic() && HOSTILE.contains(c);
        assert_eq!(log.chars().find(|&c| steers(c)), None, "{log}");
        match format {
            LogFormat::Csv => {
                let mut csv = csv::Reader::from_reader(log.as_bytes());
                let rows: Vec<csv::StringRecord> = csv.records().map(Result::unwrap).collect();
                let mut texts = rows.iter().flatten().filter(|cell| cell.contains("HYPERLINK"));
                assert!(texts.clone().count() >= 3, "{log}");
                assert!(texts.all(|cell| !cell.starts_with('=')), "{log}");
            }
            LogFormat::JsonLines => {
                let rows = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
                assert!(rows.into_iter().any(|row| row["message"] == *whole), "{log}");
            }
        }
    }
}

#[test]
fn events_and_samples_are_bounded_apart() {
    let source = script((0..100).map(|_| Ok(in_use(1))));
    let options = TrackerOptions { max_samples: 5, max_events: 2, ..TrackerOptions::default() };
    let tracker = track(source, options);
    drop(tracker.phase("warmup"));
    tracker.stop();
    assert_eq!((tracker.samples().len(), tracker.events().len()), (5, 2));
    let EventKind::PhaseExit(phase) = &tracker.events()[0].kind else { panic!("{:?}", tracker.events()) };
    assert_eq!(phase.name(), "warmup");
    assert_eq!(tracker.statistics().samples, 100);
}

#[test]
fn senseless_thresholds_and_a_log_that_cannot_be_written_are_refused() {
    let start = |options| MemoryTracker::start(script([]), options).map(drop).unwrap_err();
    let never_over = Threshold { until: 90.0, ..threshold(AlertQuantity::DevicePercent, 80.0) };
    let options = |threshold| TrackerOptions { thresholds: vec![threshold], ..TrackerOptions::default() };
    assert!(matches!(start(options(never_over)), TrackerError::Threshold(t) if t == never_over));
    let no_number = threshold(AlertQuantity::DevicePercent, f64::NAN);
    assert!(matches!(start(options(no_number)), TrackerError::Threshold(_)));
    let watchdog = Some(Watchdog { above_percent: f64::NAN, ..Watchdog::default() });
    let never = start(TrackerOptions { watchdog, ..TrackerOptions::default() });
    assert!(matches!(never, TrackerError::Watchdog(mark) if mark.is_nan()));
    // A rejected interval must not delete an existing log.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    std::fs::write(&path, "before").unwrap();
    let log = Some(LogFile::at(&path));
    start(TrackerOptions { log, interval: Duration::ZERO, ..TrackerOptions::default() });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
    let log = Some(LogFile::at("/no/such/folder/log.csv".as_ref()));
    let refused = start(TrackerOptions { log, ..TrackerOptions::default() }).to_string();
    assert!(refused.starts_with("/no/such/folder/log.csv: "), "{refused}");
}

#[test]
fn two_trackers_do_not_write_the_same_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let start = || {
        let options = TrackerOptions { log: Some(LogFile::at(&path)), ..TrackerOptions::default() };
        MemoryTracker::start(script([Ok(in_use(50))]), options)
    };
    let first = start().unwrap();
    let refused = start().map(drop).unwrap_err();
    assert!(matches!(&refused, TrackerError::Busy { path: busy } if *busy == path));
    assert!(
        refused.to_string().ends_with("log.jsonl: another tracker writes to this file; choose another name"),
        "{refused}"
    );
    drop(first);
    let whole = std::fs::read_to_string(&path).unwrap();
    assert!(whole.lines().all(|row| serde_json::from_str::<serde_json::Value>(row).is_ok()), "{whole}");
    assert!(whole.contains("\"stop\""), "{whole}");
    // The file is unlocked again.
    drop(start().unwrap());
}

/// Starts a tracker that samples every millisecond, and raises alerts immediately.
fn often(pool: &MemoryPool, thresholds: Vec<Threshold>) -> MemoryTracker {
    let options =
        TrackerOptions { interval: Duration::from_millis(1), thresholds, ..TrackerOptions::default() };
    MemoryTracker::start(PoolSource::new(pool, 0).unwrap(), options).unwrap()
}

/// Waits for samples that began after this call.
fn look(tracker: &MemoryTracker) {
    let seen = tracker.statistics().samples;
    while tracker.statistics().samples < seen + 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn pool_of(bytes: u64) -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(bytes))]).unwrap()
}

#[test]
fn thresholds_are_set_while_it_runs() {
    let pool = pool_of(100 << 20);
    let tracker = often(&pool, vec![threshold(AlertQuantity::DevicePercent, 90.0)]);
    let _live = pool.malloc(50 << 20).unwrap();
    look(&tracker);
    assert_eq!(tracker.alerts(), []);
    tracker.set_threshold(threshold(AlertQuantity::DevicePercent, 40.0)).unwrap();
    look(&tracker);
    let values: Vec<f64> = tracker.alerts().iter().map(|alert| alert.threshold.above).collect();
    assert_eq!(values, [40.0]);
    // A threshold of another severity is separate; an alert that was raised is not raised again.
    let critical =
        Threshold { severity: Severity::Critical, ..threshold(AlertQuantity::DevicePercent, 45.0) };
    tracker.set_threshold(critical).unwrap();
    look(&tracker);
    assert_eq!(tracker.alerts().len(), 2);
    assert_eq!(tracker.thresholds().len(), 2);
    tracker.set_threshold(threshold(AlertQuantity::Hidden, 1e9)).unwrap();
    assert!(tracker.remove_threshold(AlertQuantity::DevicePercent, Severity::Critical));
    assert!(!tracker.remove_threshold(AlertQuantity::DevicePercent, Severity::Critical));
    look(&tracker);
    assert_eq!(tracker.thresholds().len(), 2);
    assert_eq!(tracker.never_measured(), []);
    assert_eq!(tracker.alerts().len(), 2);
    for senseless in [
        threshold(AlertQuantity::DevicePercent, f64::NAN),
        threshold(AlertQuantity::DevicePercent, 100.5),
        threshold(AlertQuantity::ExternalFragmentationPercent, 1e9),
        Threshold { until: 60.0, ..threshold(AlertQuantity::DevicePercent, 50.0) },
    ] {
        assert!(matches!(tracker.set_threshold(senseless), Err(TrackerError::Threshold(_))), "{senseless:?}");
    }
}

#[test]
fn a_removed_callback_gets_no_alerts() {
    let pool = pool_of(100 << 20);
    let tracker = often(&pool, vec![threshold(AlertQuantity::DevicePercent, 40.0)]);
    let told: [Arc<AtomicU64>; 2] = Default::default();
    let callbacks = told.clone().map(|told| {
        let callback: vramscope_profiler::AlertCallback = Arc::new(move |_| {
            told.fetch_add(1, Ordering::Relaxed);
        });
        tracker.add_alert_callback(Arc::clone(&callback));
        callback
    });
    assert!(tracker.remove_alert_callback(&callbacks[0]));
    assert!(!tracker.remove_alert_callback(&callbacks[0]));
    let _live = pool.malloc(50 << 20).unwrap();
    tracker.stop();
    assert_eq!(told.map(|told| told.load(Ordering::Relaxed)), [0, 1]);
    let [gone, _] = callbacks;
    assert_eq!(Arc::strong_count(&gone), 1, "the tracker drops the callback");
}

#[test]
fn clearing_events_does_not_repeat_alerts() {
    let pool = pool_of(100 << 20);
    let tracker = often(&pool, vec![threshold(AlertQuantity::DevicePercent, 40.0)]);
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    tracker.add_alert_callback(Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let live = pool.malloc(50 << 20).unwrap();
    look(&tracker);
    let _phase = tracker.phase("after");
    tracker.clear_events();
    assert!(tracker.alerts().is_empty() && tracker.events().is_empty());
    drop(live);
    pool.free_all_blocks().unwrap();
    // A sample in progress may still include it.
    look(&tracker);
    tracker.clear_events();
    look(&tracker);
    assert_eq!(tracker.statistics().high.allocated, Some(0));
    assert_eq!((tracker.statistics().alerts, tracker.alerts()), (0, vec![]));
    assert!(tracker.samples_in_phases().iter().all(|seen| seen.phases.len() == 1), "phases stay open");
    let _live = pool.malloc(50 << 20).unwrap();
    tracker.stop();
    assert_eq!((tracker.statistics().alerts, told.load(Ordering::Relaxed)), (1, 2));
}

#[test]
fn a_timeline_has_the_last_and_the_highest_of_each_interval() {
    let ticks = [10, 60, 30].map(|v| Ok(in_use(v)));
    let tracker = track(script(ticks), TrackerOptions::default());
    let timeline = tracker.memory_timeline(Duration::from_secs(3600)).unwrap();
    let [all] = timeline[..] else { panic!("{timeline:?}") };
    assert_eq!((all.last.allocated, all.high.allocated, all.samples), (Some(30), Some(60), 3));
    assert_eq!(all.time_us, tracker.samples()[0].time_us);
    let each = tracker.memory_timeline(Duration::from_micros(1)).unwrap();
    assert_eq!(each.iter().map(|point| point.samples).sum::<u64>(), 3);
    assert!(each.is_sorted_by_key(|point| point.time_us));
    assert!(tracker.memory_timeline(Duration::ZERO).is_err());
}

#[test]
fn limits_of_zero_are_refused() {
    let refused = |options| MemoryTracker::start(script([]), options).err().unwrap().to_string();
    let words = |name| format!("{name} is 0, so none would be kept; set it to 1 or more");
    assert_eq!(refused(TrackerOptions { max_events: 0, ..TrackerOptions::default() }), words("max_events"));
    assert_eq!(refused(TrackerOptions { max_samples: 0, ..TrackerOptions::default() }), words("max_samples"));
    let never = "invalid threshold: `above` and `until` must be numbers, `until` at most `above`, percentages at most 100: ";
    assert!(refused(one(AlertQuantity::DevicePercent, 101.0)).starts_with(never));
}

#[test]
fn samples_say_in_which_phases_they_were_taken() {
    let pool = pool_of(1 << 30);
    let tracker = often(&pool, vec![]);
    {
        let _epoch = tracker.phase("epoch");
        let metadata = [("batch".to_owned(), "17".to_owned())].into();
        let step = tracker.phase_with("step", metadata);
        assert_eq!((step.scope().to_string().as_str(), step.scope().depth()), ("epoch / step", 2));
        std::thread::scope(|scope| {
            let loader = std::thread::Builder::new().name("loader".to_owned());
            let load = || {
                let _load = tracker.phase("load");
                look(&tracker);
            };
            loader.spawn_scoped(scope, load).unwrap();
        });
        assert_eq!(tracker.open_phases().len(), 2);
    }
    look(&tracker);
    tracker.stop();
    let paths = |seen: &vramscope_profiler::PhasedSample| {
        seen.phases.iter().map(|phase| phase.to_string()).collect::<Vec<_>>()
    };
    let samples = tracker.samples_in_phases();
    assert_eq!(samples.len(), tracker.samples().len());
    let all = samples.iter().find(|seen| seen.phases.len() == 3).expect("a sample while all are open");
    assert_eq!(paths(all), ["epoch", "epoch / step", "load"]);
    assert_eq!(all.phases[1].metadata["batch"], "17");
    assert_eq!((all.phases[2].thread.as_ref(), all.phases[2].parent_scope_id), ("loader", None));
    assert_eq!(all.phases[1].parent_scope_id, Some(all.phases[0].scope_id));
    assert_eq!(paths(samples.last().unwrap()), Vec::<String>::new());
    // The log contains the same.
    let mut log = Vec::new();
    tracker.export_events(LogFormat::JsonLines, &mut log).unwrap();
    let rows: Vec<serde_json::Value> = log
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect();
    let of = |event: &str, phase: &str| {
        rows.iter().find(|row| row["event"] == event && row["phase"] == phase).expect(phase)
    };
    of("sample", "epoch / step | load");
    let entered = of("phase_enter", "epoch / step");
    assert_eq!((&entered["phase_scope"], &entered["phase_parent_scope"]), (&2.into(), &1.into()));
    assert_eq!(of("phase_exit", "load")["thread"], "loader");
    assert!(rows.iter().any(|row| row["event"] == "sample" && row.get("phase").is_none()));
}
