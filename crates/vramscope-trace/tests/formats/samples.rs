//! Logs of samples: each format of vramscope and gpumemprof, damaged logs and hostile logs.

use std::io::Read as _;

use proptest::prelude::*;
use vramscope_trace::ReadError;
use vramscope_trace::formats::{self, Opened, Reader};
use vramscope_trace::samples::{Highest, LogEnd, LogEventKind, Quantity, SampleForm, SampleLog};

fn read(bytes: &[u8]) -> Result<SampleLog, ReadError> {
    match Reader::new(bytes).read_any()? {
        Opened::Samples { log, .. } => Ok(log),
        Opened::Recording(recording) => panic!("{recording:?}"),
    }
}

/// A log of the Rust tracker with one sample per second.
const LINES: &str = r#"{"time_us":1000000,"event":"start","message":"pool on device 0"}
{"time_us":1000000,"event":"sample","requested_bytes":90,"allocated_bytes":100,"active_bytes":110,"reserved_bytes":200,"device_used_bytes":700,"device_total_bytes":1000,"process_used_bytes":260,"high_allocated_bytes":150,"high_reserved_bytes":200,"high_is_exact":true,"num_alloc_retries":2,"num_ooms":5,"missed_ticks":0}
{"time_us":1500000,"event":"phase_enter","message":"epoch","phase":"epoch","phase_scope":1,"thread":"main"}
{"time_us":2000000,"event":"sample","requested_bytes":95,"allocated_bytes":120,"active_bytes":120,"reserved_bytes":200,"device_used_bytes":800,"device_total_bytes":1000,"process_used_bytes":260,"high_allocated_bytes":190,"high_reserved_bytes":200,"high_is_exact":true,"num_alloc_retries":3,"num_ooms":7,"missed_ticks":3,"phase":"epoch | load"}
{"time_us":2000000,"event":"oom","message":"2 requests failed because memory ran out"}
{"time_us":2000000,"event":"alert","severity":"warning","value":80.0,"message":"warning: device memory in use reached 80.0 %","device_used_bytes":800}
{"time_us":3000000,"event":"gone","message":"it is gone"}
{"time_us":3000000,"event":"stop","message":""}
"#;

/// The same log as a table.
fn table() -> String {
    let names = "time_us,event,severity,value,message,requested_bytes,allocated_bytes,active_bytes,reserved_bytes,device_used_bytes,device_total_bytes,process_used_bytes,high_allocated_bytes,high_reserved_bytes,high_is_exact,num_alloc_retries,num_ooms,missed_ticks,phase,phase_scope,thread";
    let mut out = format!("{names}\n");
    for line in LINES.lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let cell = |name: &str| match &row[name] {
            serde_json::Value::Null => String::new(),
            serde_json::Value::String(text) => format!("\"{text}\""),
            other => other.to_string(),
        };
        out += &(names.split(',').map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    out
}

#[test]
fn a_log_of_the_tracker() {
    let log = read(LINES.as_bytes()).unwrap();
    assert_eq!((log.form, log.source.as_deref()), (SampleForm::JsonLines, Some("pool on device 0")));
    assert_eq!((log.ended, log.damage.clone()), (Some(LogEnd::Gone), Default::default()));
    let [series] = &log.series[..] else { panic!("{log:?}") };
    assert_eq!((series.device, series.samples, series.missed, series.high_is_exact), (None, 2, 3, true));
    assert_eq!((series.failed_requests, series.retries, series.device_total), (2, 1, Some(1000)));
    assert_eq!(series.highest(Quantity::Allocated), Some(Highest { bytes: 190, time_us: 2_000_000 }));
    assert_eq!(series.highest(Quantity::Active), Some(Highest { bytes: 120, time_us: 2_000_000 }));
    let last = series.last();
    let of = |quantity| last.get(quantity);
    assert_eq!(
        (of(Quantity::Hidden), of(Quantity::Others), of(Quantity::Inactive)),
        (Some(60), Some(540), Some(80))
    );
    assert_eq!(of(Quantity::Cpu), None);
    assert_eq!(series.most_seen.get(Quantity::Requested), Some(95));
    let kinds: Vec<LogEventKind> = log.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [LogEventKind::OutOfMemory, LogEventKind::Alert, LogEventKind::Gone]);
    let phases: Vec<(&str, u64)> = series.phases.iter().map(|p| (p.path.as_str(), p.samples)).collect();
    assert_eq!(phases, [("epoch", 1), ("load", 1)]);
}

/// Every format gives the same log.
#[test]
fn every_format_of_samples_gives_the_same_log() {
    let lines = read(LINES.as_bytes()).unwrap();
    let list = format!("[\n{}\n]", LINES.lines().collect::<Vec<_>>().join(",\n"));
    let mut zipped = Vec::new();
    flate2::read::GzEncoder::new(LINES.as_bytes(), flate2::Compression::fast())
        .read_to_end(&mut zipped)
        .unwrap();
    let twice = [table(), table()].concat();
    for (bytes, form) in [
        (table().into_bytes(), SampleForm::Csv),
        (list.into_bytes(), SampleForm::Json),
        (zipped, SampleForm::JsonLines),
        (LINES.replace('\n', "\r\n").into_bytes(), SampleForm::JsonLines),
        (format!("\n  {LINES}").into_bytes(), SampleForm::JsonLines),
    ] {
        assert_eq!(read(&bytes).unwrap(), SampleLog { form, ..lines.clone() });
    }
    // In two concatenated tables, the second header is not a row.
    let twice = read(twice.as_bytes()).unwrap();
    assert_eq!((twice.series[0].samples, twice.damage.bad_rows, twice.damage.unordered), (4, 0, 1));
}

/// A log whose writer was killed: everything before the last line is read.
#[test]
fn a_cut_log_of_samples_is_read_up_to_the_cut() {
    let list = format!("[{}]", LINES.lines().collect::<Vec<_>>().join(",\n"));
    for whole in [LINES.to_owned(), table(), list] {
        let second = whole.match_indices("\"sample\"").nth(1).unwrap().0;
        let mut was_cut = 0;
        for end in second..whole.len() - 2 {
            let log = read(&whole.as_bytes()[..end]).unwrap();
            assert!(log.series[0].samples >= 1 && log.damage.bad_rows == 0, "{end}: {log:?}");
            was_cut += usize::from(log.damage.cut_off);
        }
        assert!(was_cut > (whole.len() - second) / 2, "{was_cut}");
    }
}

/// A quote in the middle takes one row, and no other.
#[test]
fn a_stray_quote_takes_one_row() {
    let row = |n: u64| format!("{{\"time_us\":{n},\"event\":\"sample\",\"allocated_bytes\":{}}}", 1000 + n);
    let lines: Vec<String> = (1..=40).map(row).collect();
    let cells = |n: u64| format!("{n},sample,\"epoch, {n}\",{}", 1000 + n);
    let table: Vec<String> = (1..=40).map(cells).collect();
    for whole in [
        lines.join("\n"),
        format!("[{}]", lines.join(", ")),
        format!("time_us,event,message,allocated_bytes\n{}\n", table.join("\n")),
    ] {
        let (of_20, of_21) = (whole.find("20,").or(whole.find(":20,")).unwrap(), whole.find("21,").unwrap());
        for at in of_20..of_21 {
            let damaged = [&whole[..at], "\"", &whole[at..]].concat();
            if damaged[..at + 1].rsplit(',').next().is_some_and(|cell| cell.starts_with('s')) {
                // A tracker's event of a name of its own.
                continue;
            }
            let log = read(damaged.as_bytes()).unwrap();
            let lost = 40 - log.series[0].samples;
            assert!(lost <= 2, "{lost} rows of {:?} are lost at {at}", log.form);
            assert!(lost == 0 || log.damage.bad_rows > 0, "{:?}, {at}: {:?}", log.form, log.damage);
            assert!(!log.damage.cut_off, "{:?}, {at}", log.form);
        }
    }
}

#[test]
fn invalid_lines_are_left_out_and_counted() {
    let long = format!("{{\"time_us\":5,\"message\":\"{}\"}}", "x".repeat(3 << 20));
    let bad = format!("not json\n{{\"event\":\"sample\"}}\n[1]\n{long}\n");
    let mixed = LINES.replacen("{\"time_us\":1500000", &format!("{bad}{{\"time_us\":1500000"), 1);
    let log = read(mixed.as_bytes()).unwrap();
    assert_eq!((log.series[0].samples, log.damage.bad_rows, log.damage.first_bad_row), (2, 4, Some(3)));
    // A log without any readable row is an error.
    let error = read(b"{\"time_us\": null}\n{\"time_us\": {}}\n").unwrap_err().to_string();
    assert_eq!(error, "none of the 2 rows of this log can be read; copy it again from where it was written");
}

/// Telemetry of the Python package's `MemoryTracker.export_events`, and of gpumemprof, whose device use is the use of its pool.
#[test]
fn telemetry() {
    let row = |collector: &str, kind: &str, at: u64, allocated: u64, metadata: &str| {
        format!(
            r#"{{"schema_version":2,"timestamp_ns":{at}000000000,"event_type":"{kind}","collector":"{collector}","sampling_interval_ms":100,"pid":1,"host":"h","device_id":3,"allocator_allocated_bytes":{allocated},"allocator_reserved_bytes":500,"allocator_active_bytes":{allocated},"device_used_bytes":900,"device_total_bytes":1000,"context":"c","rank":1,"metadata":{metadata}}}"#
        )
    };
    let of = |collector: &str, kinds: [(&str, &str); 4]| {
        let rows =
            kinds.iter().zip(1..).map(|((kind, metadata), at)| row(collector, kind, at, at * 100, metadata));
        read(format!("[{}]", rows.collect::<Vec<_>>().join(",")).as_bytes()).unwrap()
    };
    let ours = of(
        "vramscope.cuda_tracker",
        [
            ("start", "{}"),
            ("sample", r#"{"high_allocated_bytes": 450, "phases": ["epoch / step"], "device_id": 9}"#),
            ("sample", "{}"),
            ("error", r#"{"oom_reason": "torch.cuda.OutOfMemoryError"}"#),
        ],
    );
    let series = &ours.series[0];
    assert_eq!((series.device, series.rank, series.samples), (Some(3), Some(1), 2));
    assert_eq!(series.highest(Quantity::Allocated), Some(Highest { bytes: 450, time_us: 2_000_000 }));
    assert_eq!(series.last().get(Quantity::Hidden), Some(400));
    assert_eq!(series.phases[0].path, "epoch / step");
    assert_eq!((ours.events.len(), ours.events[0].kind), (1, LogEventKind::OutOfMemory));
    // In this log, every event is a sample of the pool.
    let theirs = of(
        "gpumemprof.cuda_tracker",
        [("start", "{}"), ("allocation", "{}"), ("peak", "{}"), ("warning", "{}")],
    );
    assert_eq!((theirs.series[0].samples, theirs.events.len()), (4, 1));
    assert_eq!(theirs.series[0].last().get(Quantity::DeviceUsed), None);
}

#[test]
fn saved_results() {
    let saved = br#"{"summary": {"message": "No profiling results available"},
        "results": [{"function_name": "f", "peak_memory_usage": 70, "memory_diff": 5, "memory_peak": {"timestamp": 1}},
                    {"function_name": "g", "peak_memory_usage": 90, "memory_diff": -2},
                    {"function_name": "f", "peak_memory_usage": 80, "memory_diff": 5}],
        "snapshots": [{"timestamp": 1.5, "allocated_memory": 40, "reserved_memory": 60, "device_id": 0, "operation": "monitor"},
                      {"timestamp": 2, "allocated_memory": 50, "reserved_memory": 60, "device_id": 0}]}"#;
    let log = read(saved).unwrap();
    let calls: Vec<_> = log.calls.iter().map(|c| (c.name.as_str(), c.calls, c.peak, c.kept)).collect();
    assert_eq!(calls, [("g", 1, Some(90), -2), ("f", 2, Some(80), 10)]);
    let looks: Vec<i64> = log.series[0].looks.iter().map(|look| look.from_us).collect();
    assert_eq!((log.form, looks), (SampleForm::SavedResults, vec![1_500_000, 2_000_000]));
}

/// A log of a day with ten samples a second has as many looks as a log of an hour.
#[test]
fn a_long_log_is_read_in_bounded_memory() {
    struct Rows(u64, Vec<u8>);
    impl std::io::Read for Rows {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            while self.1.len() < out.len() && self.0 < 200_000 {
                let n = self.0;
                self.0 += 1;
                let high = if n == 77_777 { 5000 } else { n % 100 };
                self.1.extend(
                    format!("{{\"time_us\":{n},\"event\":\"sample\",\"allocated_bytes\":{},\"high_allocated_bytes\":{high}}}\n", n % 100)
                        .bytes(),
                );
            }
            let n = out.len().min(self.1.len());
            out[..n].copy_from_slice(&self.1[..n]);
            self.1.drain(..n);
            Ok(n)
        }
    }
    let opened = Reader::new(Rows(0, Vec::new())).read_any().unwrap();
    let Opened::Samples { log, .. } = opened else { panic!() };
    let series = &log.series[0];
    assert_eq!(series.samples, 200_000);
    assert!((1 << 15..=1 << 16).contains(&series.looks.len()), "{}", series.looks.len());
    assert_eq!(series.looks.iter().map(|look| look.samples).sum::<u64>(), 200_000);
    assert_eq!(series.highest(Quantity::Allocated), Some(Highest { bytes: 5000, time_us: 77_777 }));
}

/// A reader of recordings names a log of samples without reading it.
#[test]
fn a_log_is_no_recording() {
    for log in [LINES.to_owned(), table()] {
        assert!(matches!(formats::read(log.as_bytes()), Err(ReadError::Samples)));
    }
    // A recording is not a log of samples.
    let snapshot = br#"{"segments": [], "device_traces": [[]]}"#;
    let opened = Reader::new(&snapshot[..]).read_any().unwrap();
    assert!(matches!(opened, Opened::Recording(_)));
}

/// Texts and rows without an end are not buffered.
#[test]
fn texts_and_records_without_an_end_are_refused() {
    let list = format!(
        "[{{\"time_us\": 1, \"allocated_bytes\": 1}}, {{\"time_us\": 2, \"x\": \"{}",
        "x".repeat(3 << 20)
    );
    let error = read(list.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("more than 1 MiB"), "{error}");
    let table = format!("time_us,allocated_bytes\n1,1\n2,\"{}", "\n".repeat(3 << 20));
    let log = read(table.as_bytes()).unwrap();
    assert_eq!((log.series[0].samples, log.damage.bad_rows), (1, 1));
}

proptest! {
    /// Any change is read or rejected, and quickly.
    #[test]
    fn any_damage_is_read_or_refused(
        form in 0..3usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        end in any::<prop::sample::Index>(),
    ) {
        let list = format!("[{}]", LINES.lines().collect::<Vec<_>>().join(","));
        let mut bytes = [LINES.to_owned(), table(), list][form].clone().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len()) + 1);
        if let Ok(Opened::Samples { log, .. }) = Reader::new(&bytes[..]).read_any() {
            let samples: u64 = log.series.iter().map(|series| series.samples).sum();
            prop_assert!(samples <= 8);
        }
    }

    /// Numbers of any size stay in order and never overflow.
    #[test]
    fn samples_with_numbers_of_any_size_stay_in_order(rows in prop::collection::vec((any::<i64>(), any::<u64>(), any::<u64>(), any::<f64>()), 1..50)) {
        let lines: String = rows
            .iter()
            .map(|(time, a, b, f)| {
                format!("{{\"time_us\":{time},\"allocated_bytes\":{a},\"reserved_bytes\":{b},\"device_used_bytes\":{f:?},\"missed_ticks\":{a},\"num_ooms\":{b}}}\n").replace("NaN", "null").replace("inf", "1")
            })
            .collect();
        if let Ok(log) = read(lines.as_bytes()) {
            prop_assert!(log.series.iter().all(|series| series.samples as usize <= rows.len()));
        }
    }
}
