//! Tests of the feature `rollup`: SQL, stores, a cluster. `./test --rollup` runs them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test that cannot go on fails")]

mod cluster;
mod console;
mod questions;
mod sql;
mod stores;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use vramscope_testing::fleet::{JobPlan, base};

/// The recordings of eight ranks, three of them broken.
struct Fleet {
    folder: tempfile::TempDir,
    plan: JobPlan,
}

impl Fleet {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = JobPlan::new(8, 7);
        plan.write(&folder.path().join("recordings"), &base());
        Self { folder, plan }
    }

    /// The report of each readable rank, by number.
    fn reports(&self) -> Vec<(u64, Value)> {
        let readable = (0..self.plan.ranks).filter(|rank| !self.plan.broken.contains(rank));
        let report = |rank: u64| {
            let file = Path::new("recordings").join(self.plan.file(rank));
            let output = self.run(&["report", file.to_str().unwrap(), "--json"]);
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            (rank, report["devices"][0].clone())
        };
        readable.map(report).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the command in the folder that contains `recordings`.
    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
        command.args(args).current_dir(self.folder.path()).env("NO_COLOR", "1").env_remove("COLUMNS");
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    /// The rows of an answer, and the messages on stderr.
    fn query(&self, args: &[&str]) -> (Value, String) {
        let output = self.run(&[&["query"], args, &["--format", "json"]].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        let rows = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"));
        (rows, said)
    }
}
