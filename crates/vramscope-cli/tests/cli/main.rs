//! Tests of the command as a user runs it: exit code, stdout and stderr.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test that cannot go on fails")]

mod bad_input;
#[cfg(unix)]
mod book;
mod categories;
mod changed;
mod check;
mod clinic;
mod convert;
mod data;
mod dataset;
mod diff;
mod examples;
mod export;
#[cfg(target_os = "linux")]
mod fit;
mod fleet;
mod formats;
#[cfg(unix)]
mod gpus;
mod hostile;
mod hostile_live;
mod mcp;
mod monitor;
mod options;
mod other_tools;
mod other_users;
mod outputs;
mod page;
#[cfg(target_os = "linux")]
mod phantom;
mod plan;
mod pool;
mod replay;
#[cfg(target_os = "linux")]
mod run_log;
mod samples;
#[cfg(target_os = "linux")]
mod signals;
mod split;
#[cfg(unix)]
mod top;
mod view;
mod words;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The project's root, where the commands run, so that output has the paths of the README.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn vramscope(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    command.args(args).current_dir(root()).env_remove("COLUMNS").env("NO_COLOR", "1");
    command
}

fn run(args: &[&str]) -> Output {
    // Not in `vramscope`, because snapshots of commands show its variables. Protects the developer's cache.
    let cache = concat!(env!("CARGO_TARGET_TMPDIR"), "/cache");
    vramscope(args).env("XDG_CACHE_HOME", cache).output().unwrap()
}

/// Its JSON answer.
fn json(args: &[&str]) -> serde_json::Value {
    let output = run(&[args, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
