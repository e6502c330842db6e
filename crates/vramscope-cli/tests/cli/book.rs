//! Runs the commands in the README, the book and the READMEs of the crates as they are written there.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use vramscope::prelude::*;
use vramscope_testing::book::{Fence, fences, pages, read};
use vramscope_testing::fleet::{JobPlan, base};

use crate::{root, run};

/// A folder with the files that the pages assume: the committed recordings, also under the names of a reader's recordings.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = folder.path().join("examples");
    std::os::unix::fs::symlink(root().canonicalize().unwrap().join("examples"), &examples).unwrap();
    for (name, recording) in [
        ("snapshot.pickle", "oom.pickle"),
        ("run.pickle", "oom.pickle"),
        ("main.pickle", "oom.pickle"),
        ("before.pickle", "../crates/vramscope-cli/tests/cli/diff/tagged-base.pickle.zst"),
        ("after.pickle", "../crates/vramscope-cli/tests/cli/diff/tagged-batch.pickle.zst"),
    ] {
        fs::copy(root().join("examples").join(recording), folder.path().join(name)).unwrap();
    }
    JobPlan::new(8, 7).write(&folder.path().join("recordings"), &base());
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30).unwrap();
    let stream_to = Some(folder.path().join("run.vramscope"));
    pool.record_memory_history(&HistoryOptions { stream_to, ..HistoryOptions::default() }).unwrap();
    drop(pool.malloc(1 << 20).unwrap());
    pool.record_memory_history(&HistoryOptions { enabled: None, ..HistoryOptions::default() }).unwrap();
    folder
}

/// A shell command line, in the folder, with the built command in the path.
fn shell(line: &str, folder: &Path) -> Command {
    let built = Path::new(env!("CARGO_BIN_EXE_vramscope")).parent().unwrap();
    let path = std::env::join_paths(
        [built.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", line]).current_dir(folder).env("PATH", path.unwrap());
    // Only this test's programs are visible, and outputs have the width of the page.
    command.env("XDG_RUNTIME_DIR", folder).env("TMPDIR", folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command.env("NO_COLOR", "1").env_remove("COLUMNS");
    command.stdin(Stdio::null());
    command
}

/// Runs a line of a page. Endless commands are stopped: a server after it printed its address, a screen after one sample, a log after a
/// moment. `None` for a line that is checked elsewhere.
fn output(line: &str, folder: &Path) -> Option<Output> {
    let line = line.split(" #").next().unwrap().trim();
    let line = line.replace("cargo run -- ", "vramscope ");
    if let Some(options) = line.strip_prefix("./test") {
        // The script that runs this test.
        assert!(read("test").contains(&format!("./test{options}")), "`./test` does not tell of{options}");
        return None;
    }
    if let Some(example) = line.strip_prefix("cargo run -p vramscope --example ") {
        let name = example.split(' ').next().unwrap();
        let manifest = read("crates/vramscope/Cargo.toml");
        let entry = format!("[[example]]\nname = \"{name}\"\ntest = true\n");
        assert!(manifest.contains(&entry), "{line}: no test runs the example {name}");
        return None;
    }
    let is_served = line.starts_with("vramscope view") || line.ends_with(" --view");
    if is_served && !line.contains("--html") {
        let line = format!("exec {line} --no-open");
        let mut child = shell(&line, folder).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(said.starts_with("http://127.0.0.1:"), "{line} said {said:?}");
        return None;
    }
    let line = if line.starts_with("vramscope top") {
        format!("{line} --json")
    } else if line.starts_with("vramscope monitor") {
        format!("{} --duration 0.2", line.replace("4711", &std::process::id().to_string()))
    } else {
        line
    };
    Some(shell(&line, folder).output().unwrap())
}

/// The lines of a block, joined after a backslash at the line end.
fn commands(fence: &Fence) -> Vec<String> {
    let text = fence.lines.join("\n").replace("\\\n", "");
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

/// Runs each command of every page. The lines of a following output block must occur in the output, in sequence.
#[test]
fn commands_of_the_book_have_the_outputs_shown() {
    let folder = folder();
    let mut wrong = Vec::new();
    for page in pages() {
        let fences = fences(&page);
        for (i, fence) in fences.iter().enumerate() {
            let is_here = match fence.needs() {
                None => true,
                Some(needs) => needs == "rollup" && cfg!(feature = "rollup"),
            };
            if fence.language() != "sh" || !is_here {
                continue;
            }
            let commands = commands(fence);
            for command in &commands {
                let Some(output) = output(command, folder.path()) else { continue };
                let place = format!("{page}:{}: {command}", fence.line);
                // Exit code 1 is a finding of these commands: out of memory, an exceeded budget, a difference, an alert.
                let answers = [
                    "vramscope replay",
                    "vramscope check",
                    "vramscope diff",
                    "vramscope fleet",
                    "vramscope monitor",
                ];
                let most = i32::from(answers.iter().any(|answer| command.contains(answer)));
                if !output.status.code().is_some_and(|code| (0..=most).contains(&code)) {
                    wrong.push(format!(
                        "{place}: {}\n{}",
                        output.status,
                        String::from_utf8_lossy(&output.stderr)
                    ));
                }
                let shown = fences.get(i + 1).filter(|next| next.info == "text");
                if let ([_], Some(shown)) = (&commands[..], shown) {
                    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
                    let printed: Vec<&str> = printed.lines().map(str::trim_end).collect();
                    if !printed.windows(shown.lines.len()).any(|lines| lines == shown.lines) {
                        wrong.push(format!(
                            "{place}: its page shows\n{}\nIt prints\n{}",
                            shown.lines.join("\n"),
                            printed.join("\n")
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Lists all examples that no test here runs, and what they need. The browser tests build the site.
#[test]
fn the_list_of_examples_that_no_test_runs() {
    let mut list = String::new();
    for fence in pages().iter().flat_map(|page| fences(page)) {
        // The Python package's tests run the examples of its pages if their requirements are installed; `./test --rollup` runs those
        // that need DataFusion.
        let is_run_elsewhere = fence.page.starts_with("docs/python") || fence.needs() == Some("rollup");
        if let Some(needs) = fence.needs().filter(|_| !is_run_elsewhere) {
            list += &format!("{} needs {needs}: {}\n", fence.page, fence.lines[0]);
        }
    }
    insta::assert_snapshot!(list, @r#"
    README.md needs network: pip install .
    README.md needs torch: import vramscope.torch
    README.md needs torch: vramscope phantom run --gpu rtx4090 --record run.pickle -- python train.py
    README.md needs torch: vramscope fit --gpu rtx4090 --vary 'batch=1..64' -- python train.py --batch '{batch}'
    docs/check.md needs torch: python train.py --steps 3
    docs/fit.md needs torch: vramscope fit --gpu rtx4060 -- python gpt2.py
    docs/fit.md needs torch: vramscope fit --gpu rtx4060 --vary 'batch=1..64' -- python train.py --batch '{batch}'
    docs/fit.md needs torch: vramscope fit --gpu rtx4060 --recordings runs -- python gpt2.py
    docs/phantom-accuracy.md needs torch: PYTHONPATH=. vramscope phantom run --once --gpu h100-80gb -- python VRAMSCOPE/bench/accuracy/without_values.py cs336_systems/benchmark.py
    docs/phantom-accuracy.md needs gpu: PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128 python VRAMSCOPE/acceptance/workloads/gpt2.py --iterations 4 --record gpu.pickle
    docs/phantom-accuracy.md needs torch: python VRAMSCOPE/bench/accuracy/qwen_checkpoint.py 0.8B qwen-0.8B
    docs/phantom.md needs torch: vramscope phantom run --gpu rtx4090 -- python train.py
    docs/phantom.md needs torch: vramscope phantom run --gpus 8 -- torchrun --nproc-per-node 8 train.py
    docs/phantom.md needs torch: vramscope phantom run --world-size 64 --rank 3 -- python train.py
    docs/phantom.md needs torch: vramscope phantom run --accesses --record run.vramscope -- python train.py
    docs/phantom.md needs torch: cd assignment2-systems/scripts
    docs/phantom.md needs torch: vramscope diff results/medium_512_training_memory_snapshot.pickle theirs.pickle
    docs/pool.md needs gpu: use std::sync::Arc;
    docs/prometheus.md needs prometheus: scrape_configs:
    docs/query.md needs network: cargo install vramscope-cli --features rollup
    docs/query.md needs duckdb: SELECT rank, peak_allocated_bytes
    docs/query.md needs polars: import polars
    docs/query.md needs spark: from pyspark.sql import SparkSession
    docs/query.md needs store: vramscope fleet s3://runs/2026-11-21/
    docs/query.md needs cluster: vramscope fleet-scheduler --listen 0.0.0.0:50050                                          # on one machine
    docs/record.md needs gpu: vramscope run -- python train.py
    docs/record.md needs gpu: vramscope attach 4711 --record run.vramscope
    docs/record.md needs gpu: import vramscope.torch
    docs/record.md needs gpu: vramscope run --record run.vramscope --categories -- python train.py
    docs/record.md needs gpu: with vramscope.torch.record("run.vramscope", operators=True):
    docs/record.md needs gpu: vramscope run --record run.vramscope --keep 2GiB -- python train.py
    docs/record.md needs gpu: vramscope run --record run.vramscope --at 90% -- python train.py
    docs/record.md needs gpu: vramscope dump 4711
    docs/report.md needs torch: import torch
    docs/report.md needs torch: vramscope phantom run --accesses --record run.vramscope -- python train.py
    docs/tutorial.md needs torch: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py
    docs/view.md needs node: npm --prefix viewer ci
    "#);
}

/// The book describes every option of every command.
#[test]
fn every_option_has_its_place_in_the_book() {
    let mut missing = Vec::new();
    for (command, page) in [
        ("report", "report"),
        ("view", "view"),
        ("replay", "replay"),
        ("check", "check"),
        ("diff", "diff"),
        ("export", "export"),
        ("convert", "export"),
        ("split", "export"),
        ("fleet", "fleet"),
        ("query", "query"),
        ("fleet-scheduler", "query"),
        ("fleet-executor", "query"),
        ("fit", "fit"),
        ("top", "watch"),
        ("monitor", "watch"),
        ("run", "record"),
        ("attach", "record"),
        ("dump", "record"),
        ("info", "files"),
        ("mcp", "mcp"),
        ("completions", "files"),
    ] {
        let help = String::from_utf8(run(&[command, "--help"]).stdout).unwrap();
        let text = read(&format!("docs/{page}.md"));
        let options =
            help.split(|c: char| !c.is_ascii_lowercase() && c != '-').filter(|word| word.starts_with("--"));
        for option in options.filter(|option| option.len() > 2 && *option != "--help") {
            if !text.contains(option) {
                missing.push(format!("docs/{page}.md does not tell of {option} of `vramscope {command}`"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
