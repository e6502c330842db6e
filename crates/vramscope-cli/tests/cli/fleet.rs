//! Runs `vramscope fleet` as a user does.

use std::fs;
use std::path::{Path, PathBuf};

use insta_cmd::assert_cmd_snapshot;
use serde_json::{Value, json};
use vramscope_testing::fleet::{JobPlan, base};

use crate::{root, run, vramscope};

/// Exit code, stdout and stderr.
fn text(args: &[&str]) -> (i32, String, String) {
    let output = run(&[&["fleet"], args].concat());
    let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
}

/// The same with a separate cache folder.
fn text_with(cache: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = vramscope(&[&["fleet"], args].concat());
    let output = command.env("XDG_CACHE_HOME", cache).output().unwrap();
    let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
}

/// The files in a cache folder.
fn kept(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache.join("vramscope/summaries")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// The JSON answer, and the messages on stderr.
fn answer(args: &[&str]) -> (Value, String) {
    let (_, out, err) = text(&[args, &["--json"]].concat());
    (serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {err}")), err)
}

/// A folder with the recordings of this number of ranks, and its name.
fn fleet(plan: &JobPlan) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    plan.write(folder.path(), &base());
    let name = folder.path().to_str().unwrap().to_owned();
    (folder, name)
}

/// A folder with these examples, each under a given name.
fn copies(names: &[(&str, &str)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, example) in names {
        let to = folder.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(root().join("examples").join(example), to).unwrap();
    }
    let name = folder.path().to_str().unwrap().to_owned();
    (folder, name)
}

/// The numbers in a JSON list.
fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
}

/// The value of `key` in each entry of a list.
fn each(list: &Value, key: &str) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|entry| entry[key].as_u64().unwrap()).collect()
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["fleet", "--help"]));
}

/// Every change of a rank is reported for that rank, and for no other.
#[test]
fn exactly_the_ranks_that_differ_are_named() {
    for (ranks, seed) in [(8, 7), (8, 1), (64, 7), (64, 2)] {
        let plan = JobPlan::new(ranks, seed);
        let (_folder, name) = fleet(&plan);
        let (answer, err) = answer(&[&name, "--no-cache"]);
        assert_eq!(err, "", "{plan:?}");
        let counts = [&answer["rank_count"], &answer["read_count"]].map(|n| n.as_u64().unwrap());
        assert_eq!(counts, [ranks, ranks - 3], "{plan:?}");
        assert_eq!(each(&answer["unread"], "rank"), plan.broken, "{plan:?}");
        assert_eq!(each(&answer["out_of_memory"], "rank"), plan.out_of_memory, "{plan:?}");
        let unlike: Vec<Vec<u64>> = answer["kinds"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|kind| kind["is_usual"] == false)
            .map(|kind| numbers(&kind["ranks"]))
            .collect();
        let mut expected = vec![plan.larger_stage.1.clone(), vec![plan.leaks]];
        expected.sort_by_key(|ranks| (std::cmp::Reverse(ranks.len()), ranks[0]));
        assert_eq!(unlike, expected, "{plan:?}");
        assert_eq!(answer["kinds"].as_array().unwrap().len(), 3, "{plan:?}");
        let leaks = answer["leaks"].as_array().unwrap();
        assert_eq!((leaks.len(), numbers(&leaks[0]["ranks"])), (1, vec![plan.leaks]), "{plan:?}");
        for nothing in ["missing_ranks", "peaks_not_known", "not_exact", "several_devices"] {
            assert_eq!(answer[nothing], json!([]), "{nothing}: {plan:?}");
        }
        assert_eq!(answer["fragmentation"]["above"], json!([]), "{plan:?}");
        assert_eq!(answer["mixed"], json!({"releases": [], "settings": [], "programs": []}));
        // The reason: a fifth more, at the line that holds it.
        let reason = |ranks: &[u64]| {
            let kinds = answer["kinds"].as_array().unwrap();
            let kind = kinds.iter().find(|kind| numbers(&kind["ranks"]) == ranks).unwrap();
            kind["lines"][0]["name"].as_str().unwrap().to_owned()
        };
        assert_eq!(reason(&plan.larger_stage.1), "workloads.py:90 leak");
        assert_eq!(reason(&[plan.leaks]), "workloads.py:92 leak");
    }
}

/// Real FSDP2 on eight phantom GPUs: rank 0 retains too much, rank 5 has longer texts.
#[test]
fn the_two_ranks_of_the_example_are_named() {
    let mut command = vramscope(&["fleet", "examples/fleet", "--gpu", "a100-40gb", "--no-cache"]);
    assert_cmd_snapshot!(command.current_dir(root()));
}

#[test]
fn a_fleet_as_text() {
    let plan = JobPlan::new(64, 7);
    let folder = tempfile::tempdir().unwrap();
    plan.write(&folder.path().join("job"), &base());
    let cache = folder.path().join("cache");
    let text = |args: &[&str]| {
        let mut command = vramscope(&[&["fleet", "job"], args].concat());
        let output = command.current_dir(folder.path()).env("XDG_CACHE_HOME", &cache).output().unwrap();
        let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
    };
    let (code, out, err) = text(&[]);
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!(out);
    assert_eq!(text(&[]), (0, out.clone(), String::new()));
    // The second answer comes entirely from the cache.
    let files = kept(&cache);
    assert_eq!(files.len(), 8);
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("\"format\":\"pickle\"", "\"format\":\"kept\"")).unwrap();
    }
    let formats = |args: &[&str]| {
        let answer: Value = serde_json::from_str(&text(args).1).unwrap();
        let format = |rank: &Value| rank["summary"].get("format")?.as_str().map(str::to_owned);
        answer["ranks"].as_array().unwrap().iter().filter_map(format).collect::<Vec<_>>()
    };
    assert_eq!(formats(&["--json"]), vec!["kept"; 61]);
    assert_eq!(formats(&["--json", "--no-cache"]), vec!["pickle"; 61]);
    // Overwritten recordings are read again, even with unchanged length and modification time.
    for rank in (0..64).filter(|rank| !plan.broken.contains(rank)) {
        let file = folder.path().join("job").join(plan.file(rank));
        let metadata = fs::metadata(&file).unwrap();
        fs::write(&file, vec![0; metadata.len() as usize]).unwrap();
        let changed = fs::File::options().write(true).open(&file).unwrap();
        changed.set_modified(metadata.modified().unwrap()).unwrap();
    }
    let (code, _, err) = text(&[]);
    assert_eq!((code, err.as_str()), (2, "error: none of 64 recordings could be read\n"));
}

/// The summary of a rank has the numbers of its report.
#[test]
fn the_summary_of_a_rank_has_the_numbers_of_its_report() {
    for file in ["examples/oom.pickle", "examples/leak.pickle", "examples/training.pickle.zst"] {
        let (fleet, err) = answer(&[file, "--no-cache"]);
        assert_eq!(err, "", "{file}");
        let summary = &fleet["ranks"][0]["summary"];
        let report = |by: &str| crate::json(&["report", file, "--by", by])["devices"][0].clone();
        let device = report("line");
        for (peak, kind) in [("peak_allocated", "allocated"), ("peak_reserved", "reserved")] {
            assert_eq!(summary[peak]["bytes"], device[format!("peak_{kind}_bytes")], "{file}");
            let course = summary["course"][format!("{kind}_bytes")].as_array().unwrap();
            assert_eq!(course.len(), 128);
            let highest = course.iter().map(|n| n.as_u64().unwrap()).max();
            assert_eq!(highest, summary[peak]["bytes"].as_u64(), "{file}");
        }
        assert_eq!(summary["peak_allocated"]["event"], device["peak_event"]);
        assert_eq!(summary["peak_allocated"]["time_us"], device["peak_time_us"]);
        for same in ["device", "events", "preexisting_bytes"] {
            assert_eq!(summary[same], device[same], "{file} {same}");
        }
        for (ours, by) in [("lines", "line"), ("categories", "category")] {
            let held = summary[ours]["top"].as_array().unwrap();
            let all = report(by);
            let all = all["holders_at_peak"].as_array().unwrap();
            let expected: Vec<_> = all
                .iter()
                .take(held.len())
                .map(|h| (h["key"].clone(), h["bytes"].clone(), h["count"].clone()))
                .collect();
            let found: Vec<_> =
                held.iter().map(|h| (h["name"].clone(), h["bytes"].clone(), h["count"].clone())).collect();
            assert_eq!(found, expected, "{file} {ours}");
        }
        for ours in ["lines", "categories"] {
            let held: u64 = each(&summary[ours]["top"], "bytes").iter().sum();
            let all = held + summary[ours]["rest_bytes"].as_u64().unwrap();
            assert_eq!(Some(all), device["peak_allocated_bytes"].as_u64(), "{file} {ours}");
        }
        // The groups by layer equal those of the report, if modules are recorded.
        let layers = report("layer");
        let of_report: Vec<Value> = layers["holders_at_peak"].as_array().unwrap().clone();
        for held in summary["layers"]["top"].as_array().unwrap() {
            let theirs = of_report.iter().find(|h| h["key"] == held["name"]);
            assert_eq!(theirs.map(|h| &h["bytes"]), Some(&held["bytes"]), "{file} {held}");
        }
        let ooms = device["ooms"].as_array().unwrap();
        assert_eq!(summary["ooms"].as_u64(), Some(ooms.len() as u64 + device["more_ooms"].as_u64().unwrap()));
        for (oom, report) in summary["oom"].as_object().into_iter().zip(ooms) {
            for same in [
                "event",
                "time_us",
                "requested_bytes",
                "device_free_bytes",
                "allocated_bytes",
                "reserved_bytes",
                "enough_in_total",
                "at_limit",
            ] {
                assert_eq!(oom[same], report[same], "{file} {same}");
            }
        }
        let leaks = device["leaks"].as_array().unwrap();
        assert_eq!(
            each(&summary["leaks"], "kept_bytes"),
            leaks.iter().map(|l| l["kept_bytes"].as_u64().unwrap()).collect::<Vec<_>>()
        );
        assert_eq!(
            each(&summary["leaks"], "kept"),
            leaks.iter().map(|l| l["kept"].as_u64().unwrap()).collect::<Vec<_>>()
        );
        let at_peak = &device["fragmentation"]["at_peak"];
        for same in ["internal_bytes", "external_bytes", "whole_segments_bytes"] {
            assert_eq!(summary["fragmentation_at_peak"][same], at_peak[same], "{file} {same}");
        }
        let unusable: u64 = each(&at_peak["unusable"], "bytes").iter().sum();
        assert_eq!(summary["fragmentation_at_peak"]["unusable_bytes"], unusable);
        let steps = device.get("steps").map_or(0, |steps| steps["steps"].as_array().unwrap().len() as u64);
        assert_eq!(summary["steps"].get("count").and_then(Value::as_u64).unwrap_or(0), steps, "{file}");
        // The description of a failure in the text.
        if let Some(verdict) = summary["oom"].get("verdict").and_then(Value::as_str) {
            let text = String::from_utf8(run(&["report", file]).stdout).unwrap().replace('\n', " ");
            assert!(text.contains(verdict), "{verdict}");
            assert!(text.contains(summary["oom"]["remedy"].as_str().unwrap()));
        }
    }
}

#[test]
fn budgets_decide_the_exit_code() {
    let (_folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "leak.pickle")]);
    for (args, code) in [
        (vec!["--max-peak", "60MiB"], 0),
        (vec!["--max-peak", "59MiB"], 1),
        (vec!["--max-imbalance", "0%"], 0),
        (vec!["--max-peak", "60MiB", "--max-imbalance", "5%"], 0),
    ] {
        let args = [&[name.as_str()], args.as_slice()].concat();
        assert_eq!(text(&args).0, code, "{args:?}");
        assert_eq!(answer(&args).0["kept"], json!(code == 0), "{args:?}");
    }
    fs::copy(root().join("examples/oom.pickle"), Path::new(&name).join("rank2.pickle")).unwrap();
    assert_eq!(text(&[&name, "--max-imbalance", "190%"]).0, 1);
    assert_eq!(text(&[&name, "--max-imbalance", "200%"]).0, 0);
    // A missing rank may have exceeded any budget.
    fs::rename(Path::new(&name).join("rank2.pickle"), Path::new(&name).join("rank3.pickle")).unwrap();
    let (code, xml, err) = text(&[&name, "--max-peak", "8GiB", "--max-imbalance", "100%", "--junit", "-"]);
    assert_eq!((code, err.as_str()), (1, ""));
    insta::assert_snapshot!(xml);
    let document = roxmltree::Document::parse(&xml).unwrap();
    let suite = document.descendants().find(|n| n.has_tag_name("testsuite")).unwrap();
    assert_eq!(
        ["tests", "failures", "errors"].map(|n| suite.attribute(n)),
        [Some("2"), Some("1"), Some("1")]
    );
}

/// Names that break XML, control a terminal, or are not text. `]]>` and similar are as they are, other characters are escaped.
#[cfg(unix)]
#[test]
fn names_of_files_are_text_in_junit() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    let names: [&[u8]; 12] = [
        b"]]>",
        b"&\"'<!-- --><failure>",
        b"<![CDATA[",
        b"&#0;&lt;&evil;",
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x SYSTEM 'file'>]>",
        b"\x1b[31mred\x1b]0;title\x07",
        b"\x01\x08\x0b\x0c\x7f\r\n\t",
        "\u{85}\u{9b}\u{2028}\u{202e}\u{2066}\u{200b}\u{fe0f}\u{e0041}".as_bytes(),
        "\u{fffe}\u{ffff}\u{feff}".as_bytes(),
        b"\xed\xa0\x80 \xff",
        &[b'x'; 200],
        b"",
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut expected = Vec::new();
    for (rank, name) in names.into_iter().enumerate() {
        let name = [name, format!(" rank{rank}.pickle").as_bytes()].concat();
        let path = folder.path().join(OsStr::from_bytes(&name));
        fs::write(&path, [b"evil ]]> & < \x1b[31m \0", &*name].concat()).unwrap();
        let path = vramscope::report::Shown::of(&path.display().to_string()).to_string();
        expected.push(format!(
            "rank {rank}: {}: not a memory snapshot",
            path.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
        ));
    }
    fs::copy(root().join("examples/oom.pickle"), folder.path().join("rank12.pickle")).unwrap();
    let args =
        [folder.path().to_str().unwrap(), "--rank", r"rank(\d+)\.pickle", "--max-peak", "1", "--junit", "-"];
    let (code, xml, err) = text(&args);
    assert_eq!((code, err.as_str()), (1, ""));
    let document = roxmltree::Document::parse(&xml).unwrap();
    let tags: Vec<&str> =
        document.descendants().filter(|n| n.is_element()).map(|n| n.tag_name().name()).collect();
    assert_eq!(tags, ["testsuites", "testsuite", "testcase", "failure", "system-out"], "{xml}");
    let told = document.descendants().find(|n| n.has_tag_name("system-out")).unwrap().text().unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{told}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{line:?}, not {expected:?}");
        let is_fit = |c: char| {
            !c.is_control() && !"\u{2028}\u{202e}\u{2066}\u{200b}\u{fe0f}\u{e0041}\u{feff}".contains(c)
        };
        assert!(line.chars().all(is_fit), "{line:?}");
    }
}

#[test]
fn the_card_is_given_or_shown() {
    let (_folder, name) = copies(&[("rank0.pickle", "oom.pickle"), ("rank1.pickle", "leak.pickle")]);
    let card = |args: &[&str]| answer(&[&[name.as_str()], args].concat()).0["card"].clone();
    let shown = card(&[]);
    let reserved = shown["peak_reserved_bytes"].as_u64().unwrap();
    assert_eq!((&shown["shown_by_rank"], &shown["rank"]), (&json!(0), &json!(0)));
    let given = card(&["--capacity", "8GiB"]);
    assert_eq!(given["headroom_bytes"].as_u64(), Some((8 << 30) - reserved));
    assert_eq!(given["shown_by_rank"], json!(null));
    assert!(card(&["--gpu", "a100-40gb"])["headroom_bytes"].as_u64() > Some(30 << 30));
    assert!(card(&["--capacity", "4GiB"])["headroom_bytes"].as_i64() < Some(0));
}

#[test]
fn files_without_rank_numbers_are_an_error() {
    let (_folder, name) = copies(&[("a.pickle", "leak.pickle"), ("b.pickle", "leak.pickle")]);
    let (code, out, err) = text(&[&name]);
    assert_eq!((code, out.as_str()), (2, ""));
    let why = "a.pickle: expected a number that differs, as in rank3, rank_03, r3, snapshot_3 or host-a/3; give --rank REGEX, whose first group is the number\n";
    assert!(
        err.starts_with("error: no rank in the names of 2 files, for example ") && err.ends_with(why),
        "{err}"
    );
    let (code, _, err) = text(&[&name, "--rank", "rank"]);
    assert!(code == 2 && err.contains("the pattern has no group for the number"), "{err}");
    let (code, _, err) = text(&[&name, "--rank", "(x)"]);
    assert!(
        code == 2 && err.starts_with("error: --rank (x) matches no number in 2 files, for example "),
        "{err}"
    );
    let empty = tempfile::tempdir().unwrap();
    let (code, _, err) = text(&[empty.path().to_str().unwrap()]);
    assert!(code == 2 && err.contains(": searched for files that end in .pickle, "), "{err}");
    let (code, _, err) = text(&["no/such/folder"]);
    let why = "error: no/such/folder: no such file or folder; check the name, or give the full path\n";
    assert_eq!((code, err.as_str()), (2, why));
}

#[test]
fn the_newer_of_two_files_of_a_rank_is_reported() {
    let (folder, name) = copies(&[
        ("a/rank0.pickle", "leak.pickle"),
        ("b/rank0.pickle", "oom.pickle"),
        ("a/notes.json", "leak.pickle"),
    ]);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    fs::File::options()
        .write(true)
        .open(folder.path().join("b/rank0.pickle"))
        .unwrap()
        .set_modified(old)
        .unwrap();
    let (answer, err) = answer(&[&name]);
    assert!(answer["ranks"][0]["file"].as_str().unwrap().ends_with("a/rank0.pickle"));
    insta::assert_snapshot!(err.replace(&name, "FOLDER"), @r"
    note: 1 file is left out, because it has no rank there: FOLDER/a/notes.json
    note: rank 0 has two files: FOLDER/a/rank0.pickle is used, because it is newer than FOLDER/b/rank0.pickle
    ");
}

#[test]
fn ranks_with_other_programs_and_settings_are_reported() {
    let (folder, name) = copies(&[
        ("rank0.pickle", "leak.pickle"),
        ("rank1.pickle", "leak.pickle"),
        ("rank2.pickle", "leak.pickle"),
    ]);
    // Another model, with other settings and another release.
    let frame = json!({"name": "forward", "filename": "/home/user/other/model.py", "line": 7});
    let event = json!({"action": "alloc", "addr": 1 << 20, "size": 59 << 20, "stream": 0, "frames": [frame], "time_us": 5});
    let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": true});
    let other = json!({"segments": [], "device_traces": [[event]], "allocator_settings": settings});
    fs::write(folder.path().join("rank3.json"), other.to_string()).unwrap();
    let (answer, _) = answer(&[&name]);
    let mixed = &answer["mixed"];
    for what in ["programs", "settings"] {
        let ranks: Vec<_> = mixed[what].as_array().unwrap().iter().map(|of| numbers(&of["ranks"])).collect();
        assert_eq!(ranks, [vec![0, 1, 2], vec![3]], "{what}");
    }
    assert_eq!(mixed["programs"][1]["relation"], "other");
    let (_, out, _) = text(&[&name]);
    assert!(out.contains("Rank 3 differs from the others: another program (model.py).\n"), "{out}");
    assert!(out.contains("  settings expandable_segments:True: rank 3\n"), "{out}");
    assert!(out.contains("  program of most ranks, workloads.py: ranks 0-2\n"), "{out}");
}

/// An unreadable file is reported for its rank, and does not affect others.
#[cfg(unix)]
#[test]
fn files_that_cannot_be_read_are_rows() {
    let (folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "leak.pickle")]);
    std::os::unix::fs::symlink("nowhere.pickle", folder.path().join("rank2.pickle")).unwrap();
    fs::write(folder.path().join("rank3.json"), r#"{"segments": [], "device_traces": [[]]}"#).unwrap();
    fs::copy(root().join("examples/tracker.csv.zst"), folder.path().join("rank4.pickle")).unwrap();
    let (answer, _) = answer(&[&name]);
    let unread = answer["unread"].as_array().unwrap();
    let reasons: Vec<_> =
        unread.iter().map(|u| (u["rank"].as_u64().unwrap(), u["reason"].as_str().unwrap())).collect();
    assert_eq!(reasons[0], (2, "no such file; check the name, or give the full path"));
    assert_eq!(reasons[1], (3, "nothing was recorded on any device"));
    assert!(reasons[2].0 == 4 && reasons[2].1.contains("samples"), "{reasons:?}");
    assert_eq!(answer["read_count"], 2);
}

/// Folders named after times and processes, whose ranks are in files next to the recordings.
#[test]
fn the_bundle_of_a_flight_recorder_has_the_rank_of_its_process() {
    let folder = tempfile::tempdir().unwrap();
    for (process, rank, example) in [("4711", "1", "leak"), ("4712", "0", "oom"), ("4713", "7", "")] {
        let bundle = folder.path().join(format!("oom_dump_20261123T101112Z_{process}_cuda_1"));
        fs::create_dir(&bundle).unwrap();
        let environment = json!({"pid": 1, "variables": {"LOCAL_RANK": "0", "RANK": rank}});
        fs::write(bundle.join("environment.json"), environment.to_string()).unwrap();
        for other in ["manifest.json", "metadata.json", "events.json"] {
            fs::write(bundle.join(other), "{}").unwrap();
        }
        if !example.is_empty() {
            let example = root().join(format!("examples/{example}.pickle"));
            fs::copy(example, bundle.join("snapshot.pickle")).unwrap();
        }
    }
    let (answer, said) = answer(&[folder.path().to_str().unwrap()]);
    assert_eq!(each(&answer["ranks"], "rank"), [0, 1]);
    assert_eq!(each(&answer["out_of_memory"], "rank"), [0]);
    assert_eq!(answer["ranks_by"], "their launcher's variables in environment.json next to them");
    assert!(
        said.ends_with("_4713_cuda_1: contains no snapshot.pickle, because no history was recorded\n"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn damaged_and_old_summaries_in_the_cache_are_replaced() {
    let (folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "oom.pickle")]);
    let cache = tempfile::tempdir().unwrap();
    let text = |args: &[&str]| text_with(cache.path(), args);
    let first = text(&[&name]);
    let files = kept(cache.path());
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let whole = fs::read_to_string(file).unwrap();
    let fewer_cells = whole.replacen("\"allocated_bytes\":[", "\"allocated_bytes\":[7,", 1);
    for damaged in [
        &whole[..whole.len() / 2],
        "",
        "{}",
        "[1, 2",
        &whole.replacen("\"version\":1", "\"version\":0", 1),
        &fewer_cells,
    ] {
        fs::write(file, damaged).unwrap();
        assert_eq!(text(&[&name]), first);
        assert_eq!(fs::read_to_string(file).unwrap(), whole);
    }
    // A replaced file is read again; a deleted file is dropped from the cache.
    fs::copy(root().join("examples/oom.pickle"), folder.path().join("rank0.pickle")).unwrap();
    let answer: Value = serde_json::from_str(&text(&[&name, "--json"]).1).unwrap();
    assert_eq!(each(&answer["out_of_memory"], "rank"), [0, 1]);
    fs::rename(folder.path().join("rank1.pickle"), folder.path().join("rank2.pickle")).unwrap();
    text(&[&name]);
    let whole = fs::read_to_string(file).unwrap();
    assert!(whole.contains("rank2.pickle") && !whole.contains("rank1.pickle"), "{whole}");
    assert_eq!(kept(cache.path()).len(), 1);
    // Nothing is written next to the recordings.
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["rank0.pickle", "rank2.pickle"]);
}

#[test]
fn no_cache_writes_no_summaries() {
    let (_folder, name) = copies(&[("rank0.pickle", "leak.pickle")]);
    let cache = tempfile::tempdir().unwrap();
    assert_eq!(text_with(cache.path(), &[&name, "--no-cache"]).0, 0);
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
}

/// A failed cache gives one note and the same answer: with a full disk, or without a folder.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_stores_no_summary_and_the_answer_is_the_same() {
    let (_folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "oom.pickle")]);
    let cache = tempfile::tempdir().unwrap();
    let whole = text(&[&name, "--no-cache"]);
    // Files are limited to two blocks of a kilobyte.
    let limited = |command: &str| {
        let mut bash = std::process::Command::new("bash");
        bash.args(["-c", command]).env("NO_COLOR", "1").env("XDG_CACHE_HOME", cache.path());
        let output = bash.output().unwrap();
        let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
    };
    let (code, out, err) =
        limited(&format!("ulimit -f 2; {} fleet {name} | cat", env!("CARGO_BIN_EXE_vramscope")));
    assert_eq!((code, &out), (0, &whole.1), "{err}");
    let place = cache.path().join("vramscope/summaries");
    assert_eq!(
        err,
        format!(
            "note: summaries cannot be cached in {}: File too large (os error 27); the next run reads the recordings again\n",
            place.display()
        )
    );
    assert!(kept(cache.path()).is_empty());
    // A file is in place of the cache folder.
    fs::remove_dir_all(&place).unwrap();
    fs::write(&place, "").unwrap();
    let (code, out, err) = text_with(cache.path(), &[&name]);
    assert_eq!((code, &out), (0, &whole.1));
    let note = format!("note: summaries are not cached: {}: Not a directory ", place.display());
    assert!(err.starts_with(&note) && err.lines().count() == 1, "{err}");
}

#[test]
fn two_runs_of_fleet_at_once_share_the_cache() {
    let plan = JobPlan::new(16, 3);
    let (_folder, name) = fleet(&plan);
    let cache = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = vramscope(&["fleet", &name]);
        command.env("XDG_CACHE_HOME", cache.path()).stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<_> = (0..4).map(|_| start()).collect();
    let outputs: Vec<Vec<u8>> =
        started.into_iter().map(|child| child.wait_with_output().unwrap().stdout).collect();
    assert!(outputs.iter().all(|output| *output == outputs[0]));
    let files = kept(cache.path());
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| serde_json::from_slice::<Value>(&fs::read(file).unwrap()).is_ok()));
}

/// Length, modification time and inode of a file, as released versions stored them next to the recordings.
#[cfg(unix)]
fn version(file: &Path) -> Value {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::metadata(file).unwrap();
    let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    json!({"length": metadata.len(), "modified_ns": modified, "inode": metadata.ino()})
}

/// Summaries next to recordings may come from an archive, or from anyone who can write to the folder; they are not used.
#[cfg(unix)]
#[test]
fn summaries_beside_recordings_are_not_believed() {
    let (folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "leak.pickle")]);
    let cache = tempfile::tempdir().unwrap();
    let budget = [name.as_str(), "--max-peak", "1MiB"];
    let before = text_with(cache.path(), &budget);
    assert_eq!(before.0, 1);
    let (answer, _) = answer(&[&name]);
    let entries = ["rank0.pickle", "rank1.pickle"].map(|name| {
        let mut entry = version(&folder.path().join(name));
        entry["sha256"] = "0".repeat(64).into();
        entry["summary"] = answer["ranks"][0]["summary"].clone();
        entry["summary"]["peak_allocated"]["bytes"] = 512.into();
        (name.to_owned(), entry)
    });
    let summaries: serde_json::Map<String, Value> = entries.into_iter().collect();
    let planted = json!({"version": 1, "summaries": summaries}).to_string();
    let beside = folder.path().join(".vramscope-summaries");
    fs::create_dir(&beside).unwrap();
    fs::write(beside.join("summaries.json"), &planted).unwrap();
    let another = tempfile::tempdir().unwrap();
    assert_eq!(text_with(another.path(), &budget), before);
    assert_eq!(fs::read_to_string(beside.join("summaries.json")).unwrap(), planted);
    // Pipes do not block.
    fs::remove_file(beside.join("summaries.json")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(beside.join("summaries.json")).status().unwrap();
    assert!(made.success());
    let another = tempfile::tempdir().unwrap();
    assert_eq!(text_with(another.path(), &budget), before);
}

/// A link in an archive may point anywhere.
#[cfg(unix)]
#[test]
fn fleet_writes_through_no_link_beside_recordings() {
    let (folder, name) = copies(&[("rank0.pickle", "leak.pickle")]);
    let outside = tempfile::tempdir().unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_hours(2);
    for name in ["work.part", "summaries.json"] {
        let file = fs::File::create(outside.path().join(name)).unwrap();
        file.set_modified(old).unwrap();
    }
    std::os::unix::fs::symlink(outside.path(), folder.path().join(".vramscope-summaries")).unwrap();
    assert_eq!(text(&[&name]).0, 0);
    for name in ["work.part", "summaries.json"] {
        assert_eq!(fs::read(outside.path().join(name)).unwrap(), b"", "{name}");
    }
}

/// Another user who can write to the cache could forge summaries.
#[cfg(unix)]
#[test]
fn summaries_that_others_can_write_are_not_used() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    let (_folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "leak.pickle")]);
    let cache = tempfile::tempdir().unwrap();
    let budget = [name.as_str(), "--max-peak", "1MiB"];
    let before = text_with(cache.path(), &budget);
    assert_eq!(before.0, 1);
    let files = kept(cache.path());
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let peak = answer(&[&name]).0["ranks"][0]["summary"]["peak_allocated"]["bytes"].to_string();
    let forged = fs::read_to_string(file).unwrap().replace(&peak, "512");
    // The user's cache is used, as this changed value shows.
    fs::write(file, &forged).unwrap();
    assert_eq!(text_with(cache.path(), &budget).0, 0);

    fs::set_permissions(file, fs::Permissions::from_mode(0o666)).unwrap();
    let (code, out, err) = text_with(cache.path(), &budget);
    assert_eq!((code, &out), (before.0, &before.1));
    let said = |why: &str| format!("note: {}: {why}, so its cached summaries are not used\n", file.display());
    assert_eq!(err, said("other users can write to it"));

    fs::write(file, &forged).unwrap();
    if chown(file, Some(65534), None).is_err() {
        return vramscope_testing::skip("root", "only root gives files to other users");
    }
    let (code, out, err) = text_with(cache.path(), &budget);
    assert_eq!((code, &out, err), (before.0, &before.1, said("belongs to another user")));
    // The file now belongs to the user again.
    assert_eq!(text_with(cache.path(), &budget), before);
}

/// Pipes and devices in folders and patterns are left out and never block.
#[cfg(unix)]
#[test]
fn pipes_and_devices_in_folders_are_left_out() {
    let (folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "leak.pickle")]);
    let pipe = folder.path().join("rank2.pickle");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("rank3.pickle")).unwrap();
    for path in [name.clone(), format!("{name}/rank*")] {
        let (answer, err) = answer(&[&path]);
        assert_eq!(each(&answer["ranks"], "rank"), [0, 1]);
        let said: Vec<&str> = err.lines().collect();
        assert!(
            said.len() == 2
                && said.iter().all(|line| line.ends_with(": is not a regular file; it is left out")),
            "{err}"
        );
    }
    // A pipe given by name is a row.
    let (answer, _) = answer(&[&name, pipe.to_str().unwrap()]);
    assert_eq!(answer["unread"][0]["reason"], "is not a regular file; name a recording");
}

/// Links that lead back to their folder do not make the search endless.
#[cfg(unix)]
#[test]
fn links_that_lead_back_do_not_make_the_search_endless() {
    let (folder, name) = copies(&[("rank0.pickle", "leak.pickle"), ("rank1.pickle", "leak.pickle")]);
    for link in ["one", "two"] {
        std::os::unix::fs::symlink(".", folder.path().join(link)).unwrap();
    }
    let (answer, err) = answer(&[&format!("{name}/**/rank*.pickle")]);
    assert_eq!((each(&answer["ranks"], "rank"), err.as_str()), (vec![0, 1], ""));
    let (code, _, err) = text(&[&format!("{name}/**/rank*.zst")]);
    assert!(code == 2 && err.starts_with("error: no recording in "), "{err}");
}

/// File names and contents cannot control a terminal.
#[test]
fn hostile_names_are_shown_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let frame = json!({"name": "f\u{1b}[31m", "filename": "/x/\u{202e}.py", "line": 7});
    let event = json!({"action": "alloc", "addr": 1 << 20, "size": 512, "stream": 0, "frames": [frame]});
    let snapshot = json!({"segments": [], "device_traces": [[event]]}).to_string();
    for name in ["\u{1b}]0;x\u{7}-rank0.json", "\u{1b}]0;x\u{7}-rank1.json"] {
        fs::write(folder.path().join(name), &snapshot).unwrap();
    }
    fs::write(folder.path().join("\u{1b}]0;x\u{7}-rank2.json"), "").unwrap();
    let (_, out, err) = text(&[folder.path().to_str().unwrap()]);
    assert!(!(out + &err).contains(['\u{1b}', '\u{7}', '\u{202e}']));
}

/// Of several devices, the one with the highest peak is reported, with a note about the others.
#[test]
fn fleet_reports_the_device_with_the_highest_peak() {
    let folder = tempfile::tempdir().unwrap();
    let event =
        |size: u64| json!({"action": "alloc", "addr": 1 << 20, "size": size, "stream": 0, "frames": []});
    let snapshot = json!({"segments": [], "device_traces": [[event(512)], [event(4096)], [], [event(4096)]]});
    let file = folder.path().join("rank0.json");
    fs::write(&file, snapshot.to_string()).unwrap();
    let (answer, _) = answer(&[file.to_str().unwrap(), "--no-cache"]);
    let summary = &answer["ranks"][0]["summary"];
    assert_eq!((&summary["device"], &summary["other_devices"]), (&json!(1), &json!([0, 3])));
    assert_eq!(summary["peak_allocated"]["bytes"], 4096);
    assert_eq!(answer["several_devices"], json!([0]));
}
