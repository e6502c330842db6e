//! `vramscope export` of several recordings: a dataset that other programs can open.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use vramscope_testing::book::{Fence, fences};
use vramscope_testing::fleet::{JobPlan, base};

use crate::{json as json_of, root, run, vramscope};

/// A folder with eight ranks, three of them broken.
fn fleet() -> (tempfile::TempDir, JobPlan) {
    let folder = tempfile::tempdir().unwrap();
    let plan = JobPlan::new(8, 7);
    plan.write(&folder.path().join("recordings"), &base());
    (folder, plan)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The messages on stderr, and the exit code.
fn refused(args: &[&str]) -> (String, i32) {
    let output = run(args);
    (String::from_utf8(output.stderr).unwrap(), output.status.code().unwrap())
}

const ALL: &str = "events,allocations,segments,holders,summary";

/// Every library reads the numbers of each rank's report from the dataset.
#[test]
fn a_dataset_is_opened_by_pyarrow_duckdb_and_polars() {
    let (folder, plan) = fleet();
    let (recordings, out) = (folder.path().join("recordings"), folder.path().join("dataset"));
    let told =
        json_of(&["export", text(&recordings), "--format", "parquet", "--what", ALL, "-o", text(&out)]);
    let unread: Vec<u64> = told["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|rank| !rank["unread_because"].is_null())
        .map(|rank| rank["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(unread, plan.broken);
    for (table, parts) in [("events", 5), ("allocations", 5), ("segments", 5), ("holders", 5), ("summary", 8)]
    {
        assert_eq!(fs::read_dir(out.join(table)).unwrap().count(), parts, "{table}");
    }

    let (mut events, mut holders, mut summary) = (Vec::new(), Vec::new(), Vec::new());
    for rank in 0..plan.ranks {
        let file = recordings.join(plan.file(rank));
        if plan.broken.contains(&rank) {
            let (said, _) = refused(&["report", text(&file)]);
            let why = said.trim_end().split_once(&format!("{}: ", text(&file))).unwrap().1;
            summary.push(json!([rank, text(&file), null, why]));
            continue;
        }
        let report = json_of(&["report", text(&file)]);
        let device = &report["devices"][0];
        let peak = &device["peak_allocated_bytes"];
        events.push(json!([rank, device["events"], peak]));
        for by in ["category", "layer", "line"] {
            holders.push(json!([rank, by, peak]));
        }
        summary.push(json!([rank, text(&file), peak, null]));
    }
    let expected = json!({"events": events, "holders": holders, "summary": summary});

    let Some(python) = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON") else { return };
    let script = root().join("crates/vramscope-export/tests/tools/dataset.py");
    let output = Command::new(python).arg(script).arg(&out).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    for library in ["pyarrow", "duckdb", "polars"] {
        assert_eq!(answers[library], expected, "{library}");
    }
}

/// Runs the book's examples for DuckDB and polars; Spark is not tested.
#[test]
fn recipes_of_the_book_run() {
    let (folder, _) = fleet();
    let (recordings, out) = (folder.path().join("recordings"), folder.path().join("dataset"));
    json_of(&["export", text(&recordings), "--format", "parquet", "--what", ALL, "-o", text(&out)]);
    let Some(python) = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON") else { return };
    let page = fences("docs/query.md");
    let recipe = |language: &str, has: &str| {
        let is_it = |fence: &&Fence| {
            fence.language() == language && fence.lines.iter().any(|line| line.contains(has))
        };
        page.iter().find(is_it).unwrap().lines.join("\n")
    };
    let sql = format!("import duckdb\nprint(duckdb.sql(\"\"\"{}\"\"\"))", recipe("sql", "read_parquet"));
    for (program, said) in [(sql, "62425088"), (recipe("python", "import polars"), "parameter")] {
        let output =
            Command::new(&python).args(["-c", &program]).current_dir(folder.path()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains(said), "{program}\n{printed}{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// An export of only summaries uses cached summaries; the rows are the same.
#[test]
fn summaries_alone_are_those_of_the_whole() {
    let (folder, _) = fleet();
    let recordings = folder.path().join("recordings");
    let [whole, alone] = [ALL, "summary"].map(|what| {
        let out = folder.path().join(what);
        json_of(&["export", text(&recordings), "--format", "parquet", "--what", what, "-o", text(&out)]);
        let parts =
            (0..8).map(|rank| fs::read(out.join(format!("summary/rank={rank}/part-0.parquet"))).unwrap());
        parts.collect::<Vec<_>>()
    });
    assert!(whole == alone);
}

#[test]
fn failures_of_a_dataset_export_are_one_line_each() {
    let (folder, plan) = fleet();
    let recordings = folder.path().join("recordings");
    let out = folder.path().join("dataset");
    let (recordings, out) = (text(&recordings), text(&out));
    for (args, said) in [
        (
            vec!["export", recordings],
            "error: several recordings are exported as a dataset, which is a folder: name it with --output\n",
        ),
        (
            vec!["export", recordings, "-o", out],
            "error: several recordings are exported as a dataset, which needs --format parquet; other formats take one recording\n",
        ),
        (
            vec!["export", recordings, "--format", "parquet", "-o", out, "--device", "0"],
            "error: --at and --device apply to one recording; a dataset contains all devices, and holders at their peaks\n",
        ),
        (
            vec!["export", "examples/oom.pickle", "--format", "csv", "--rank", "rank(.)"],
            "error: --rank applies to datasets; this is one recording\n",
        ),
    ] {
        assert_eq!(refused(&args), (said.to_owned(), 2), "{args:?}");
    }
    let write = ["export", recordings, "--format", "parquet", "-o", out];
    let (said, code) = refused(&write);
    assert_eq!((said.lines().count(), code), (3, 0), "{said}");
    assert!(
        said.lines().all(|line| line.starts_with("note: ") && line.ends_with("; this recording is left out")),
        "{said}"
    );
    let (said, code) = refused(&write);
    assert_eq!(said, format!("error: {out}/events: already exists; remove it, or name another folder\n"));
    assert_eq!(code, 2);
    let broken = folder.path().join("recordings").join(plan.file(plan.broken[1]));
    let (said, code) =
        refused(&["export", text(&broken), recordings, "--format", "parquet", "-o", "/dev/null/x"]);
    assert!(said.lines().last().unwrap().starts_with("error: /dev/null/x: "), "{said}");
    assert_eq!(code, 2);
}

/// A dataset is complete or absent, and a killed export does not block the next one.
#[cfg(unix)]
#[test]
fn a_killed_export_leaves_no_part_of_a_table() {
    let (folder, _) = fleet();
    let recordings = folder.path().join("recordings");
    let export = |out: &Path| {
        let args = ["export", text(&recordings), "--format", "parquet", "--what", ALL, "-o", text(out)];
        vramscope(&args)
    };
    let names = |out: &Path| -> Vec<String> {
        let entries = fs::read_dir(out).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let killed = (0..20).map(|n| folder.path().join(n.to_string())).find(|out| {
        let mut child = export(out).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() && names(out).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap().code().is_none()
    });
    let out = killed.unwrap();
    let left = names(&out);
    assert!(left.len() == 1 && left[0].starts_with(".vramscope-part-"), "{left:?}");
    let output = export(&out).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let note = format!(
        "note: {}: belongs to another export, which is running or was killed",
        out.join(&left[0]).display()
    );
    assert!(said.starts_with(&note), "{said}");
    assert_eq!(names(&out).len(), ALL.split(',').count() + 1);
}

/// Commands that need DataFusion print how to install it if it is not built in.
#[cfg(not(feature = "rollup"))]
#[test]
fn a_missing_feature_says_how_to_install_it() {
    let how = "install one with `cargo install vramscope-cli --features rollup`\n";
    for (args, what) in [
        (vec!["query", "SELECT 1", "examples"], "this build of vramscope has no SQL support"),
        (vec!["fleet", "s3://runs/today/"], "s3://runs/today/: this build of vramscope has no store support"),
        (
            vec!["export", "gs://runs/today/", "--format", "parquet", "-o", "x"],
            "gs://runs/today/: this build of vramscope has no store support",
        ),
        (
            vec!["fleet", "examples/oom.pickle", "--cluster", "df://host"],
            "--cluster: this build of vramscope has no cluster support",
        ),
        (vec!["fleet-executor"], "this build of vramscope has no cluster support"),
        (vec!["fleet-scheduler"], "this build of vramscope has no cluster support"),
    ] {
        let (said, code) = refused(&args);
        let last = said.lines().last().unwrap();
        assert_eq!((format!("{last}\n"), code), (format!("error: {what}; {how}"), 2), "{args:?}");
    }
}
