//! Runs `vramscope replay` as a user does.

use insta_cmd::assert_cmd_snapshot;
use serde_json::Value;

use crate::{run, vramscope};

const OOM: &str = "examples/oom.pickle";

fn replay(args: &[&str]) -> (i32, Value) {
    let output = run(&[&["replay"], args, &["--json"]].concat());
    let answer = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code().unwrap(), answer)
}

fn text(args: &[&str]) -> (i32, String, String) {
    let output = run(&[&["replay"], args].concat());
    let words = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), words(output.stdout), words(output.stderr))
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["replay", "--help"]));
}

#[test]
fn a_run_out_of_memory_and_the_settings_that_would_have_saved_it() {
    assert_cmd_snapshot!(vramscope(&["replay", OOM]));
}

#[test]
fn a_run_that_fits_on_a_named_gpu() {
    assert_cmd_snapshot!(vramscope(&[
        "replay",
        "examples/training.pickle.zst",
        "--gpu",
        "NVIDIA T4",
        "--overhead",
        "500MiB"
    ]));
}

#[test]
fn one_setting_on_a_device_too_small_for_it() {
    assert_cmd_snapshot!(vramscope(&[
        "replay",
        OOM,
        "--conf",
        "expandable_segments:True",
        "--capacity",
        "7GiB",
        "--overhead",
        "512MiB"
    ]));
}

#[test]
fn values_of_one_setting() {
    assert_cmd_snapshot!(vramscope(&["replay", OOM, "--sweep", "max_split_size_mb=20..512"]));
}

#[test]
fn the_smallest_device() {
    assert_cmd_snapshot!(vramscope(&["replay", OOM, "--find-capacity"]));
}

#[test]
fn everything_as_json() {
    assert_cmd_snapshot!(vramscope(&["replay", OOM, "--conf", "max_split_size_mb:128", "--json"]));
}

#[test]
fn the_exit_code_says_whether_it_fits() {
    for (args, code) in [
        (vec![OOM], 1),
        (vec![OOM, "--capacity", "80GiB"], 0),
        (vec![OOM, "--conf", "expandable_segments:True"], 0),
        (vec![OOM, "--conf", "expandable_segments:True", "--capacity", "7000MiB"], 1),
        (vec![OOM, "--sweep", "expandable_segments=False,True"], 0),
        (vec![OOM, "--sweep", "max_split_size_mb=256,512"], 1),
        (vec![OOM, "--find-capacity"], 0),
        (vec!["examples/leak.pickle"], 0),
    ] {
        assert_eq!(text(&args).0, code, "{args:?}");
        assert_eq!(replay(&args).0, code, "{args:?} --json");
    }
}

#[test]
fn the_smallest_device_is_one_on_which_it_fits() {
    let (_, answer) = replay(&[OOM, "--find-capacity", "--overhead", "300MiB"]);
    let bytes = answer["devices"][0]["smallest_capacity_bytes"].as_u64().unwrap();
    let on =
        |bytes: u64| text(&[OOM, "--conf", "", "--capacity", &bytes.to_string(), "--overhead", "300MiB"]).0;
    assert_eq!((on(bytes), on(bytes - (2 << 20))), (0, 1));
}

#[test]
fn invalid_settings_get_pytorchs_own_message() {
    for (conf, why) in [
        ("expandable_segment:True", "`expandable_segment:True` has an unrecognized key"),
        ("max_split_size_mb:19", "`max_split_size_mb:19` is too small, must be >= 20"),
        ("garbage_collection_threshold:1.0", "is invalid, set it in (0.0, 1.0)"),
        ("per_process_memory_fraction:2", "is not between 0 and 1"),
        ("roundup_power2_divisions:3", "not a power of two"),
        ("expandable_segments:yes", "is neither True nor False"),
        ("large_segment_size_mb:10", "must be > 10"),
        ("backend:cudaMallocAsync", "only `native` can be replayed"),
    ] {
        let (code, out, err) = text(&[OOM, "--conf", conf]);
        assert_eq!((code, out.as_str()), (2, ""), "{conf}");
        assert!(err.starts_with("error: --conf: ") && err.contains(why), "{conf}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
    }
    let (code, _, err) = text(&[OOM, "--torch", "2.6", "--conf", "large_segment_size_mb:64"]);
    assert!(code == 2 && err.contains("PyTorch 2.6 does not support it"), "{err}");
}

#[test]
fn invalid_requests_are_refused() {
    for (args, why) in [
        (vec!["--capacity", "24X"], "a size is a number of bytes or has a unit, such as 24GiB or 512MB"),
        (vec!["--capacity", "much"], "a size is a number"),
        (vec!["--capacity", "9999TiB"], "more than 1 PiB"),
        (vec!["--capacity", "99999999TiB"], "the size is 16 EiB or more"),
        (vec!["--capacity", "-5"], "a size is a number"),
        (vec!["--capacity", "0"], "the device size must be more than 0 bytes"),
        (vec!["--gpu", "a100"], "unknown GPU; use one of a10g, a100-40gb, a100-80gb"),
        (vec!["--gpu", "t4", "--capacity", "1GiB"], "cannot be used with"),
        (
            vec!["--overhead", "1GiB"],
            "`--overhead` is part of a device: set its size with `--capacity` or `--gpu`",
        ),
        (vec!["--capacity", "1GiB", "--overhead", "1GiB"], "leaves nothing of a device"),
        (vec!["--sweep", "max_split_size_mb"], "expected KEY=A..B or KEY=A,B,C"),
        (vec!["--sweep", "max_split_size_mb=512..20"], "512 is not below 20"),
        (vec!["--sweep", "max_split=20..40"], "unrecognized key"),
        (vec!["--torch", "new"], "a release is two numbers"),
        (vec!["--device", "3"], "has no device 3; it has 0"),
    ] {
        let (code, _, err) = text(&[&[OOM], args.as_slice()].concat());
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(why), "{args:?}: {err}");
    }
}

#[test]
fn a_recording_without_events_is_replayed_from_its_end_state() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("empty.json");
    std::fs::write(&file, r#"{"segments": [], "device_traces": [[]]}"#).unwrap();
    let (code, out, _) = text(&[file.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}");
}

/// The advice is meant to be pasted into a shell, and the file may come from anyone.
#[test]
fn nothing_from_a_file_runs_in_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evil.json");
    let events = r#"[{"action": "alloc", "addr": 4096, "size": 3000000, "stream": 0, "frames": []}]"#;
    let conf = "max_split_size_mb:20,pinned_free_catch_all:$(touch${IFS}pwned);id 'x'";
    let settings = format!(r#"{{"PYTORCH_CUDA_ALLOC_CONF": "{conf}", "max_split_size": 20971520}}"#);
    let snapshot =
        format!(r#"{{"segments": [], "device_traces": [{events}], "allocator_settings": {settings}}}"#);
    std::fs::write(&file, snapshot).unwrap();
    let (_, answer) = replay(&[file.to_str().unwrap()]);
    let tried = answer["devices"][0]["what_if"].as_array().unwrap();
    let others = tried.iter().filter(|t| t["recorded"] == false).map(|t| t["conf"].as_str().unwrap());
    assert!(others.clone().count() > 5);
    assert!(others.clone().all(|conf| !conf.contains(['$', ';', '\''])), "{:?}", others.collect::<Vec<_>>());
}

/// `--conf ""` uses PyTorch's defaults, not the recorded settings.
#[test]
fn an_empty_conf_means_pytorchs_defaults() {
    let (_, answer) = replay(&[OOM, "--conf", "", "--capacity", "80GiB"]);
    let device = &answer["devices"][0];
    assert_eq!(device["conf"], "");
    assert_eq!(device["reproduces_recording"], true);
    assert_eq!(device["exact"], true);
    assert_eq!(device["replayed"]["fits"], true);
    assert_eq!(device["replayed"]["oom"], Value::Null);
    assert_eq!(device["replayed"]["rescued_requests"], 1);
}
