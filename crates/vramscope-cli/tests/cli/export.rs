//! `vramscope export`: a library other than the writer opens every file, and its sums equal those of the report.
//!
//! The Python libraries are in the interpreter that `VRAMSCOPE_TOOLS_PYTHON` names; `./test` creates one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use insta_cmd::assert_cmd_snapshot;
use serde_json::Value;
use tempfile::TempDir;
use vramscope::trace::{Trace, formats};

use crate::{json, root, run, vramscope};

const OOM: &str = "examples/oom.pickle";
const EXAMPLES: [&str; 3] = [OOM, "examples/leak.pickle", "examples/training.pickle.zst"];

/// A recording, a folder for its exports, and its report.
struct Exports {
    file: String,
    folder: TempDir,
    report: Value,
}

impl Exports {
    fn of(file: &str) -> Self {
        Self { file: file.to_owned(), folder: tempfile::tempdir().unwrap(), report: json(&["report", file]) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Exports to `name` and returns the command's JSON.
    fn export(&self, name: &str, options: &[&str]) -> Value {
        let out = self.path(name);
        let told = json(&[&["export", &self.file, "-o", out.to_str().unwrap()], options].concat());
        assert_eq!(told["output_bytes"], fs::metadata(&out).unwrap().len(), "{}: {name}", self.file);
        told
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn devices(&self) -> &[Value] {
        self.report["devices"].as_array().unwrap()
    }

    /// A number of the report, summed over devices.
    fn sum(&self, key: &str) -> u64 {
        self.devices().iter().map(|d| d[key].as_u64().unwrap()).sum()
    }

    fn trace(&self) -> Arc<Trace> {
        let file = fs::File::open(root().join(&self.file)).unwrap();
        formats::read(file).unwrap().trace
    }
}

/// The columns of a CSV file with numbers and flags, by header.
struct Columns(BTreeMap<String, Vec<String>>);

impl Columns {
    fn of(text: &str) -> Self {
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
        let mut columns = vec![Vec::new(); names.len()];
        for row in reader.records() {
            for (column, field) in columns.iter_mut().zip(&row.unwrap()) {
                if field.len() < 40 {
                    column.push(field.to_owned());
                }
            }
        }
        Self(names.into_iter().zip(columns).collect())
    }

    fn numbers(&self, name: &str) -> impl Iterator<Item = Option<u64>> {
        self.0[name].iter().map(|n| (!n.is_empty()).then(|| n.parse().unwrap()))
    }
}

/// The folded stacks contain the peaks, and `inferno` can read them.
fn check_folded(e: &Exports) {
    let told = e.export("peak.folded", &[]);
    let text = e.text("peak.folded");
    assert_eq!(told["rows"], text.lines().count());
    let bytes: u64 = text.lines().map(|l| l.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
    assert_eq!(bytes, e.sum("peak_allocated_bytes"), "{}", e.file);
    if bytes > 0 {
        let mut svg = Vec::new();
        let mut options = inferno::flamegraph::Options::default();
        options.count_name = "bytes".to_owned();
        inferno::flamegraph::from_lines(&mut options, text.lines(), &mut svg).unwrap();
        assert_eq!(whole(&String::from_utf8(svg).unwrap()), bytes, "{}", e.file);
    }
}

/// The bytes of a flame graph's root.
fn whole(svg: &str) -> u64 {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(svg, options).unwrap();
    let titles = document.descendants().filter(|n| n.has_tag_name("title"));
    let root = titles.filter_map(|n| n.text()).find(|t| t.starts_with("all (")).unwrap();
    root["all (".len()..].split(' ').next().unwrap().replace(',', "").parse().unwrap()
}

fn check_flamegraph(e: &Exports) {
    if e.sum("peak_allocated_bytes") > 0 {
        e.export("peak.svg", &[]);
        assert_eq!(whole(&e.text("peak.svg")), e.sum("peak_allocated_bytes"), "{}", e.file);
    }
}

/// Our reader and CPython read the same contents from the pickle as from the recording.
fn check_pickle(e: &Exports) {
    e.export("again.pickle", &[]);
    let file = fs::File::open(e.path("again.pickle")).unwrap();
    assert!(formats::read(file).unwrap().trace == e.trace(), "{}", e.file);
}

/// The tables sum to the report's peaks, device by device.
fn check_tables(e: &Exports) {
    let [events, allocations, segments] = ["events", "allocations", "segments"].map(|table| {
        let name = format!("{table}.csv");
        let told = e.export(&name, &["--what", table]);
        let columns = Columns::of(&e.text(&name));
        assert_eq!(told["rows"], columns.0["device"].len());
        columns
    });
    for device in e.devices() {
        let number = device["device"].to_string();
        let here =
            |table: &Columns| -> Vec<bool> { table.0["device"].iter().map(|d| *d == number).collect() };
        assert_eq!(device["events"], here(&events).iter().filter(|&&d| d).count());
        for kind in ["requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes"] {
            let values = events.numbers(kind).zip(here(&events)).filter(|v| v.1).filter_map(|v| v.0);
            let highest = values.max().or(Some(0));
            // The peak may be before the first event.
            let peak = device[format!("peak_{kind}")].as_u64();
            let start = kind == "reserved_bytes" || device["preexisting_bytes"] != 0;
            assert!(highest == peak || (start && highest <= peak), "{}: {kind} {highest:?} {peak:?}", e.file);
        }
        // The allocations live at the peak sum to it.
        let peak = device["peak_event"].as_u64();
        let lives = |from: Option<u64>, to: Option<u64>| {
            from.is_none_or(|f| peak.is_some_and(|p| f <= p)) && to.is_none_or(|t| peak.is_none_or(|p| t > p))
        };
        let sum = |table: &Columns, bytes: &str| -> u64 {
            let lives =
                table.numbers("alloc_event").zip(table.numbers("free_event")).map(|(f, t)| lives(f, t));
            let rows = table.numbers(bytes).zip(lives).zip(here(table));
            rows.filter(|((_, lives), here)| *lives && *here).filter_map(|((bytes, _), _)| bytes).sum()
        };
        // A block that has waited for another stream since before recording looks like one that was never freed.
        if allocations.0["origin"].iter().all(|o| o == "recorded") {
            let allocated = sum(&allocations, "block_bytes");
            assert_eq!(Some(allocated), device["peak_allocated_bytes"].as_u64(), "{}", e.file);
        }
        let Some(peak) = peak else { continue };
        let report = json(&["report", &e.file, "--at", &peak.to_string()]);
        let same = |d: &&Value| d["device"] == device["device"];
        let at = &report["devices"].as_array().unwrap().iter().find(same).unwrap()["at"];
        assert_eq!(at["reserved_bytes"], sum(&segments, "size_bytes"), "{}", e.file);
    }
}

/// The counters of a Chrome trace reach the peaks.
fn check_chrome(e: &Exports) {
    let told = e.export("run.json", &[]);
    let trace: Value = serde_json::from_str(&e.text("run.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!(told["rows"], events.len());
    for device in e.devices() {
        for kind in ["requested", "allocated", "active", "reserved"] {
            let name = format!("{kind} bytes");
            let pid = device["device"].as_i64().unwrap() + 1;
            let values = events.iter().filter(|v| v["ph"] == "C" && v["name"] == name && v["pid"] == pid);
            let highest = values.filter_map(|v| v["args"]["bytes"].as_u64()).max();
            assert_eq!(highest, device[format!("peak_{kind}_bytes")].as_u64(), "{}: {kind}", e.file);
        }
    }
}

/// The output of `script` of the export crate's tests for each file; `None`, with a note on stderr, without a Python that has the
/// libraries.
fn tool(script: &str, arguments: &[&str], files: &[PathBuf]) -> Option<Vec<Value>> {
    let python = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON")?;
    let script = root().join("crates/vramscope-export/tests/tools").join(script);
    let output = Command::new(python).arg(script).args(arguments).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(|l| serde_json::from_str(l).unwrap()).collect())
}

/// Google's protobuf library reads the profiles; they contain the peaks and all allocations.
fn check_pprof(all: &[Exports]) {
    let told: Vec<Value> = all.iter().map(|e| e.export("heap.pb.gz", &[])).collect();
    let files: Vec<PathBuf> = all.iter().map(|e| e.path("heap.pb.gz")).collect();
    let Some(answers) = tool("pprof.py", &[], &files) else { return };
    for ((e, told), answer) in all.iter().zip(told).zip(answers) {
        assert_eq!(answer["default"], "inuse_space");
        assert_eq!(answer["samples"], told["rows"]);
        for device in e.devices() {
            let churn = device["churn"].as_array().unwrap();
            let churned = |key: &str| churn.iter().map(|c| c[key].as_u64().unwrap()).sum::<u64>();
            let sums = &answer["sums"][device["device"].to_string()];
            let sum = |key: &str| sums[key].as_u64().unwrap_or(0);
            assert_eq!(Some(sum("inuse_space/bytes")), device["peak_allocated_bytes"].as_u64(), "{}", e.file);
            assert_eq!(sum("alloc_space/bytes"), churned("total_bytes"), "{}", e.file);
            assert_eq!(sum("alloc_objects/count"), churned("count"), "{}", e.file);
        }
    }
}

/// pyarrow reads the Parquet files; every cell equals that of the CSV file.
fn check_parquet(all: &[Exports]) {
    for table in ["events", "allocations", "segments"] {
        let export = |e: &Exports| {
            let csv = format!("{table}.csv");
            if !e.path(&csv).exists() {
                e.export(&csv, &["--what", table]);
            }
            e.export(&format!("{table}.parquet"), &["--what", table])
        };
        let told: Vec<Value> = all.iter().map(export).collect();
        let files: Vec<PathBuf> = all.iter().map(|e| e.path(&format!("{table}.parquet"))).collect();
        let Some(answers) = tool("parquet.py", &[], &files) else { return };
        for (told, answer) in told.iter().zip(&answers) {
            assert_eq!(answer["rows"], told["rows"]);
            let types = answer["types"].as_object().unwrap();
            for (name, kind) in types {
                let expected = match name.as_str() {
                    "device" => "int64",
                    "block_inferred" | "before_recording" | "expandable" => "bool",
                    "lifetime_us" => "uint64",
                    n if n.ends_with("time_us") => "timestamp[us, tz=UTC]",
                    "action" | "pool" | "origin" | "kind" | "line" | "stack" | "compile_context"
                    | "user_metadata" | "category" => "string",
                    _ => "uint64",
                };
                assert_eq!(kind, expected, "{table}: {name}");
            }
        }
    }
}

/// The Chrome traces conform to the schema. Of very many events, every `every`th is checked individually.
fn check_schema(all: &[Exports], every: &str) {
    for e in all.iter().filter(|e| !e.path("run.json").exists()) {
        e.export("run.json", &[]);
    }
    let files: Vec<PathBuf> = all.iter().map(|e| e.path("run.json")).collect();
    let Some(answers) = tool("chrome.py", &[every], &files) else { return };
    for (e, answer) in all.iter().zip(answers) {
        for device in e.devices() {
            let peak = &answer["peaks"][device["device"].to_string()]["reserved bytes"];
            assert_eq!(peak, &device["peak_reserved_bytes"], "{}", e.file);
        }
    }
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["export", "--help"]));
}

#[test]
fn the_examples_hold_the_reports_numbers() {
    for file in EXAMPLES {
        let e = Exports::of(file);
        check_folded(&e);
        check_flamegraph(&e);
        check_pickle(&e);
        check_tables(&e);
        check_chrome(&e);
    }
}

#[test]
fn pprof_is_decoded_by_googles_library() {
    check_pprof(&EXAMPLES.map(Exports::of));
}

/// Two devices with times, and more overlapping regions than threads for them.
#[test]
fn several_devices_and_more_overlapping_regions_than_threads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("two.json");
    let alloc = |time: u64| serde_json::json!([{"action": "alloc", "addr": 512, "size": 9, "stream": 0, "time_us": time}]);
    let note = |stage: &str, i: u64, time: u64| serde_json::json!({"stage": stage, "name": format!("r{i}"), "device": 0, "time_us": time});
    let notes: Vec<Value> =
        (0..100).map(|i| note("START", i, i)).chain((0..100).map(|i| note("END", i, 100 + i))).collect();
    let snapshot = serde_json::json!({"segments": [], "device_traces": [alloc(5), alloc(7)], "external_annotations": notes});
    fs::write(&file, snapshot.to_string()).unwrap();
    let all = [Exports::of(file.to_str().unwrap())];
    check_chrome(&all[0]);
    check_schema(&all, "1");
    check_pprof(&all);
}

#[test]
fn parquet_is_opened_by_pyarrow() {
    check_parquet(&EXAMPLES.map(Exports::of));
}

#[test]
fn chrome_traces_keep_to_the_schema() {
    check_schema(&EXAMPLES.map(Exports::of), "1");
}

#[test]
fn cpython_loads_the_pickle() {
    let e = Exports::of("examples/training.pickle.zst");
    e.export("again.pickle", &[]);
    let script = "import pickle, sys; s = pickle.load(open(sys.argv[1], 'rb'))\n\
                  print(len(s['segments']), [len(t) for t in s['device_traces']])";
    let output = Command::new("python3").args(["-c", script]).arg(e.path("again.pickle")).output().unwrap();
    let device = &e.devices()[0];
    let expected = format!("{} [{}]\n", device["end_segments"], device["events"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn recordings_of_every_kind_become_snapshots() {
    let e = Exports::of("fuzz/corpus/read/log");
    check_pickle(&e);
    check_chrome(&e);
    check_tables(&e);
}

#[test]
fn stdout_gets_what_a_file_would() {
    let e = Exports::of(OOM);
    for (format, name) in [
        ("chrome", "x.json"),
        ("pprof", "x.pb.gz"),
        ("folded", "x.folded"),
        ("flamegraph", "x.svg"),
        ("csv", "x.csv"),
        ("parquet", "x.parquet"),
        ("pickle", "x.pickle"),
    ] {
        e.export(name, &[]);
        for output in
            [&["export", OOM, "--format", format][..], &["export", OOM, "--format", format, "-o", "-"]]
        {
            let output = run(output);
            assert!(output.status.success() && output.stderr.is_empty(), "{format}");
            assert!(output.stdout == fs::read(e.path(name)).unwrap(), "{format}");
        }
    }
}

#[test]
fn one_moment_and_one_device() {
    let e = Exports::of(OOM);
    e.export("x.folded", &["--at", "400", "--device", "0"]);
    let bytes: u64 =
        e.text("x.folded").lines().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    let report = json(&["report", OOM, "--at", "400"]);
    assert_eq!(report["devices"][0]["at"]["allocated_bytes"], bytes);
}

#[test]
fn the_json_of_export() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root().join("examples/leak.pickle"), folder.path().join("leak.pickle")).unwrap();
    let mut command = vramscope(&["export", "leak.pickle", "-o", "leak.folded", "--json"]);
    command.current_dir(folder.path());
    assert_cmd_snapshot!(command);
    assert_cmd_snapshot!(vramscope(&["export", "examples/leak.pickle", "--format", "folded"]));
}

#[test]
fn options_of_export_that_exclude_each_other() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root().join(OOM), folder.path().join("oom.pickle")).unwrap();
    let refuse = |args: &[&str]| {
        let output =
            vramscope(&[&["export", "oom.pickle"], args].concat()).current_dir(folder.path()).output();
        let output = output.unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
        format!("{}\n  {}", args.join(" "), String::from_utf8(output.stderr).unwrap())
    };
    let told = [
        &[][..],
        &["-o", "out.xyz"],
        &["--format", "csv", "--at", "3"],
        &["--format", "chrome", "--what", "segments"],
        &["--format", "csv", "--json"],
        &["--format", "folded", "--at", "99999"],
        &["--format", "csv", "--device", "7"],
        &["--format", "csv", "-o", "."],
        &["-o", "nowhere/out.csv"],
        &["-o", "out.svg", "--at", "0"],
    ]
    .map(refuse);
    insta::assert_snapshot!(told.concat());
    // No temporary files remain.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_is_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("out.svg"), folder.path().join("link.svg"));
    fs::write(&file, "before").unwrap();
    let export = |args: &[&str]| run(&[&["export", OOM], args].concat()).status.code();
    assert_eq!(export(&["-o", file.to_str().unwrap(), "--at", "0"]), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "before");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        assert_eq!(export(&["-o", link.to_str().unwrap()]), Some(0));
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(mode(&file), 0o640);
        fs::write(folder.path().join("plain"), "").unwrap();
        let new = folder.path().join("new.csv");
        assert_eq!(export(&["-o", new.to_str().unwrap()]), Some(0));
        assert_eq!(mode(&new), mode(&folder.path().join("plain")));
        assert_eq!(export(&["-o", "/dev/null", "--format", "parquet"]), Some(0));
        // A dangling link becomes the file.
        let dangling = folder.path().join("dangling.csv");
        std::os::unix::fs::symlink(folder.path().join("gone.csv"), &dangling).unwrap();
        assert_eq!(export(&["-o", dangling.to_str().unwrap()]), Some(0));
        assert!(fs::symlink_metadata(&dangling).unwrap().is_file());
        fs::remove_file(&dangling).unwrap();
    }
    assert!(fs::read_to_string(&file).unwrap().starts_with("<?xml"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
#[cfg(unix)]
fn nothing_binary_reaches_a_terminal() {
    let on_terminal = |format: &str| {
        let script = "import os, pty, sys\n\
            os.environ['NO_COLOR'] = '1'\n\
            sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
        let mut command = Command::new("python3");
        command.args(["-c", script, env!("CARGO_BIN_EXE_vramscope"), "export", OOM, "--format", format]);
        let output = command.current_dir(root()).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, told) = on_terminal("parquet");
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("parquet is a binary format: write it to a file, as `--output out.parquet`"),
        "{told}"
    );
    assert_eq!(on_terminal("folded").0, Some(0));
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    for format in ["chrome", "csv", "parquet", "pickle"] {
        let mut child = vramscope(&["export", "examples/training.pickle.zst", "--format", format])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()),
            (Some(0), ""),
            "{format}"
        );
    }
}

#[test]
fn a_stack_of_any_depth_and_names_of_any_kind() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep.json");
    let name = "x;\n\u{1b}]0;<&>\"'\u{feff}\u{ffff} 7";
    let frames: Vec<Value> = (0..10_000)
        .map(|i| serde_json::json!({"name": name, "filename": "=a,\"b\".py", "line": i}))
        .collect();
    let event = |addr: u64| {
        serde_json::json!({"action": "alloc", "addr": addr, "size": 9, "stream": 0, "frames": frames,
            "time_us": 5, "user_metadata": name})
    };
    let snapshot = serde_json::json!({"segments": [], "device_traces": [[event(512), event(1024)]]});
    fs::write(&file, snapshot.to_string()).unwrap();
    let e = Exports::of(file.to_str().unwrap());
    check_folded(&e);
    check_flamegraph(&e);
    check_pickle(&e);
    check_tables(&e);
    check_chrome(&e);
    let all = [e];
    check_pprof(&all);
    check_parquet(&all);
    check_schema(&all, "1");
}

/// Larger recordings next to the checkout.
mod data {
    use super::*;
    use crate::data::{data, recordings};

    fn all() -> Vec<Exports> {
        let Some(data) = data() else { return Vec::new() };
        let files = ["phantom", "real"].into_iter().flat_map(|f| recordings(&data.join(f)));
        files.map(|f| Exports::of(f.to_str().unwrap())).collect()
    }

    #[test]
    #[ignore = "takes long: ./test --slow"]
    fn exports_of_the_peak_have_its_live_allocations() {
        let all = all();
        for e in &all {
            check_folded(e);
            check_flamegraph(e);
        }
        check_pprof(&all);
    }

    #[test]
    fn pickles() {
        all().iter().for_each(check_pickle);
    }

    #[test]
    #[ignore = "takes long: ./test --slow"]
    fn tables() {
        let all = all();
        all.iter().for_each(check_tables);
        check_parquet(&all);
    }

    #[test]
    #[ignore = "takes long: ./test --slow"]
    fn traces() {
        let all = all();
        all.iter().for_each(check_chrome);
        check_schema(&all, "50");
    }
}
