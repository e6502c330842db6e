//! External texts that try to control a terminal: in every field of a recording, in file names, in arguments. For all commands, the output
//! contains only letters, line ends and our styles.

use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::vramscope;

/// Each kind of forbidden character: escape sequences, C0, C1, DEL, Unicode line ends, characters that change the text direction, and
/// invisible ones.
const HOSTILE: &str = "x\u{1b}[35;5m\u{1b}]0;title\u{7}\r\n\u{8}\u{7f}\u{9b}35m\u{85}\u{2028}\u{2029}\u{202e}\
    \u{2066}\u{200f}\u{61c}\u{200b}\u{200d}\u{feff}\u{ad}\u{2060}\u{e0041}\u{fe0f}\u{3164}\u{180e}z";

/// Our styles: bold, dimmed, colors, and their end.
const STYLES: [&str; 9] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[2m",
    "\u{1b}[4m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\u{1b}[35m",
];

/// A recording with this text in every text field.
fn recording() -> Value {
    let frames = |line: u32| {
        let python = format!("/home/{HOSTILE}/{HOSTILE}.py");
        json!([
            {"name": HOSTILE, "filename": "??", "line": 0},
            {"name": HOSTILE, "filename": python, "line": line, "fx_node_op": HOSTILE, "fx_node_name": HOSTILE,
                "fx_node_target": HOSTILE, "fx_original_trace": HOSTILE},
            {"name": format!("main{HOSTILE}"), "filename": format!("{HOSTILE}.py"), "line": 9},
        ])
    };
    let event = |action: &str, number: u64, size: u64| {
        json!({"action": action, "addr": (2 << 20) + 512 * number, "size": size, "stream": 0, "time_us": 10 * number,
            "frames": frames(number as u32 % 2), "user_metadata": HOSTILE, "compile_context": HOSTILE,
            "category": HOSTILE, "forward_frames": [HOSTILE], "internal_metadata": HOSTILE, HOSTILE: 1})
    };
    let mut events = vec![event("segment_alloc", 0, 20 << 20)];
    events.extend((0..100).map(|number| event("alloc", number, 500)));
    events.push(event(HOSTILE, 100, 1));
    let mut oom = event("oom", 101, 1 << 30);
    oom["device_free"] = json!(4096);
    events.push(oom);
    let note =
        |stage: &str, time: i64| json!({"stage": stage, "name": HOSTILE, "device": 0, "time_us": time});
    json!({
        "segments": [{"device": 0, "address": 2 << 20, "total_size": 20 << 20, "stream": 0, "segment_type": HOSTILE,
            "allocated_size": 512, "active_size": 512, "frames": frames(1), HOSTILE: HOSTILE,
            "blocks": [
                {"address": 2 << 20, "size": 512, "requested_size": 500, "state": "active_allocated",
                    "frames": frames(1), HOSTILE: HOSTILE},
                {"address": (2 << 20) + 512, "size": 512, "requested_size": 500, "state": "inactive"}]}],
        "device_traces": [events],
        "external_annotations": [note("START", 15), note("END", 300)],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": format!("{HOSTILE}:1,max_split_size_mb:64"), HOSTILE: 2},
        HOSTILE: HOSTILE,
    })
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let text = recording().to_string();
        for path in [files.hostile(), files.path("plain.json")] {
            std::fs::write(path, &text).unwrap();
        }
        std::fs::write(files.path(&format!("broken{HOSTILE}")), "nothing").unwrap();
        std::fs::create_dir(files.path(&format!("folder{HOSTILE}"))).unwrap();
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A recording in a file with such a name.
    fn hostile(&self) -> PathBuf {
        self.path(&format!("{HOSTILE}.json"))
    }

    /// Runs the command with colors, which are not stripped.
    fn run(&self, args: &[&str]) -> Output {
        let mut command = vramscope(args);
        command.current_dir(self.0.path()).env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1").output().unwrap()
    }
}

/// Panics on forbidden characters in `text`.
fn unfit(text: &str) -> Option<char> {
    let mut text = text.to_owned();
    for style in STYLES {
        text = text.replace(style, "");
    }
    let is_unfit = |c: char| {
        (c.is_control() && c != '\n') || HOSTILE.chars().any(|h| h == c && !h.is_ascii_graphic() && h != '\n')
    };
    text.chars().find(|&c| is_unfit(c))
}

fn holds_nothing_unfit(args: &[&str], output: &Output) {
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let text = std::str::from_utf8(bytes).unwrap_or_else(|e| panic!("{args:?}, {stream}: {e}"));
        if let Some(c) = unfit(text) {
            let line = text.lines().find(|line| line.contains(c)).unwrap_or_default();
            panic!("{args:?} prints {c:?} on {stream}: {line:?}");
        }
    }
}

#[test]
fn foreign_text_never_controls_the_terminal() {
    let files = Files::new();
    let hostile = files.hostile();
    let [file, plain] = [hostile.to_str().unwrap(), "plain.json"];
    let mut commands: Vec<Vec<&str>> = vec![
        vec!["info", file],
        vec!["report", file],
        vec!["report", file, "--full-stacks"],
        vec!["report", file, "--at", "50", "--top", "1"],
        vec!["replay", file],
        vec!["replay", file, "--find-capacity"],
        vec!["replay", file, "--conf", "expandable_segments:True", "--capacity", "1GiB"],
        vec!["check", file, "--max-peak", "1", "--max-reserved", "1", "--no-leaks", "--no-oom"],
        vec!["check", plain, "--baseline", file, "--max-growth", "5%"],
        vec!["check", plain, "--max-peak", "1", "--no-oom", "--junit", "-"],
        vec!["diff", file, plain],
        vec!["diff", plain, file],
    ];
    let by = ["line", "function", "file", "module", "stack", "pool", "stream"];
    commands.extend(by.map(|by| vec!["report", file, "--by", by]));
    let formats = ["chrome", "folded", "flamegraph", "csv"];
    commands.extend(formats.map(|format| vec!["export", file, "--format", format]));
    commands.extend(
        ["allocations", "segments"].map(|table| vec!["export", file, "--format", "csv", "--what", table]),
    );
    for args in &commands {
        let output = files.run(args);
        assert_ne!(output.status.code(), Some(2), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{args:?}");
        holds_nothing_unfit(args, &output);
        if args[0] == "export" || args.contains(&"--junit") {
            continue;
        }
        let args = [&args[..], &["--json"]].concat();
        let output = files.run(&args);
        holds_nothing_unfit(&args, &output);
        serde_json::from_slice::<Value>(&output.stdout).unwrap();
    }
}

#[test]
fn json_has_the_texts_as_they_are() {
    let files = Files::new();
    let hostile = files.hostile();
    let output = files.run(&["report", hostile.to_str().unwrap(), "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["file"].as_str(), hostile.to_str());
    assert_eq!(report["devices"][0]["regions"][0]["name"], HOSTILE);
    let stack = report["devices"][0]["holders_at_peak"][0]["stack"].as_array().unwrap();
    assert_eq!(stack[0]["name"], HOSTILE);
}

#[test]
fn errors_never_repeat_control_characters() {
    let files = Files::new();
    let [none, broken, folder, argument, sweep, alert, device] = [
        format!("none{HOSTILE}"),
        format!("broken{HOSTILE}"),
        format!("folder{HOSTILE}"),
        format!("--{HOSTILE}"),
        format!("{HOSTILE}=1..0"),
        format!("{HOSTILE}=1"),
        format!("1{HOSTILE}"),
    ];
    let values = format!("max_split_size_mb={HOSTILE}");
    let conf = format!("{HOSTILE}:True");
    let inside = format!("{none}/out.json");
    let mut commands: Vec<Vec<&str>> = vec![
        vec![&argument],
        vec!["report", "plain.json", &argument],
        vec!["report", "plain.json", "--by", &none],
        vec!["report", "plain.json", "--device", &device],
        vec!["report", "plain.json", "--filter", "(\u{1b}[35;5m\n"],
        vec!["replay", "plain.json", "--conf", &conf],
        vec!["replay", "plain.json", "--sweep", &sweep],
        vec!["replay", "plain.json", "--sweep", &values],
        // The recorded settings are no better.
        vec!["replay", "plain.json", "--sweep", "max_split_size_mb=32..512"],
        vec!["replay", "plain.json", "--gpu", &none],
        vec!["replay", "plain.json", "--torch", &none],
        vec!["replay", "plain.json", "--capacity", &none],
        vec!["check", "plain.json", "--max-peak", &none],
        vec!["check", "plain.json", "--baseline", &none],
        vec!["check", "plain.json", "--baseline", "plain.json", "--max-growth", &none],
        vec!["check", "plain.json", "--no-oom", "--junit", &inside],
        vec!["check", "plain.json", "--no-oom", "--junit", &folder],
        vec!["export", "plain.json", "--format", &none],
        vec!["export", "plain.json", "-o", &none],
        vec!["export", "plain.json", "--format", "csv", "-o", &inside],
        vec!["export", "plain.json", "--format", "csv", "-o", &folder],
        vec!["view", "plain.json", "--html", &inside],
        vec!["view", &none, "--no-open"],
        vec!["view", "plain.json", "--port", &none],
        vec!["completions", &none],
        vec![&none],
    ];
    if cfg!(unix) {
        commands.extend([
            vec!["monitor", &*none],
            vec!["monitor", "1", "--alert", &*alert],
            vec!["monitor", "1", "--interval", &*none],
            vec!["monitor", "1", "--prometheus", &*none],
            vec!["top", "--json", "--socket", &*none],
            vec!["top", "--json", "--socket", &*broken],
        ]);
    }
    for file in [&none, &broken, &folder] {
        commands.extend([
            vec!["info", file],
            vec!["report", file],
            vec!["replay", file],
            vec!["check", file, "--no-oom"],
            vec!["check", "plain.json", "--baseline", file],
            vec!["export", file, "--format", "csv"],
            vec!["view", "--html", "-", file],
        ]);
    }
    for args in &commands {
        let output = files.run(args);
        holds_nothing_unfit(args, &output);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains("error:"), "{args:?}: {said}");
    }
    // The written files are named in the output as well.
    for args in [
        &["view", "plain.json", "--html", &format!("page{HOSTILE}.html")][..],
        &["view", "plain.json", "--json", "--html", &format!("page{HOSTILE}.html")],
        &["export", "plain.json", "--json", "-o", &format!("run{HOSTILE}.csv")],
    ] {
        let output = files.run(args);
        assert!(output.status.success(), "{args:?}");
        holds_nothing_unfit(args, &output);
    }
}

/// Names that once took hours: paths of slashes, letters without width.
#[test]
fn very_long_names_are_cut_quickly() {
    let files = Files::new();
    for text in [
        "/".repeat(200 << 10),
        "/x".repeat(100 << 10),
        "\u{301}".repeat(100 << 10),
        "\u{200b} ".repeat(50 << 10),
    ] {
        let frames = |line: u32| json!([{"name": text, "filename": format!("{text}.py"), "line": line}]);
        let event = |number: u32| {
            json!({"action": "alloc", "addr": 512 * (number + 1), "size": 500, "stream": 0, "frames": frames(number),
                "time_us": number})
        };
        let note =
            |stage: &str, time: i64| json!({"stage": stage, "name": text, "device": 0, "time_us": time});
        let whole = json!({"segments": [], "device_traces": [[event(0), event(1), event(2)]],
            "external_annotations": [note("START", 0), note("END", 2)],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": text}});
        let file = files.path("long.json");
        std::fs::write(&file, whole.to_string()).unwrap();
        let file = file.to_str().unwrap();
        for args in [
            &["info", file][..],
            &["report", file],
            &["report", file, "--by", "line"],
            &["report", file, "--by", "function", "--full-stacks"],
            &["report", file, "--by", "file"],
            &["report", file, "--by", "module"],
            &["replay", file],
            &["check", file, "--max-peak", "1"],
            &["diff", file, "plain.json"],
        ] {
            let output = files.run(args);
            assert_ne!(output.status.code(), Some(2), "{args:?}");
            let longest = output.stdout.split(|&b| b == b'\n').map(<[u8]>::len).max().unwrap();
            // Rows for searching and copying contain two names, each up to the limit of shown bytes.
            assert!(longest < 200 << 10, "{args:?}: a line of {longest} bytes");
            assert!(output.stderr.len() < 200 << 10, "{args:?}: {} bytes", output.stderr.len());
        }
    }
}
