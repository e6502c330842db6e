//! Dependencies of a program that uses only the pool, or only reads recordings.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::process::Command;

use vramscope_testing::book::root;

/// Returns the packages that a crate of ours brings with its default features, including itself.
fn packages(of: &str) -> BTreeSet<String> {
    let cargo = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--package", of])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let tree = String::from_utf8(cargo.stdout).unwrap();
    tree.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

/// Plus one for the program itself.
#[test]
fn a_program_with_the_pool_compiles_fewer_than_44_crates() {
    let packages = packages("vramscope-allocator");
    assert!(packages.len() + 1 < 44, "{} packages: {packages:?}", packages.len());
}

/// The analysis crate brings no code for sockets, drawing or stack walking.
#[test]
fn analysis_needs_no_sockets_no_stacks_and_no_drawing() {
    let packages = packages("vramscope-analysis");
    for name in
        ["tokio", "hyper", "axum", "ratatui", "inferno", "framehop", "backtrace", "libloading", "parquet"]
    {
        assert!(!packages.iter().any(|package| package.split(' ').next() == Some(name)), "{name}");
    }
}
