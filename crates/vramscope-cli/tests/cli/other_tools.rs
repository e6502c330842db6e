//! Opens a recording of each other tool, as a user does.

use insta_cmd::assert_cmd_snapshot;

use crate::{run, vramscope};

pub(crate) const SAMPLES: [&str; 6] = [
    "fuzz/corpus/read/rmm",
    "fuzz/corpus/read/memscope",
    "fuzz/corpus/read/torch-profiler",
    "fuzz/corpus/read/jax",
    "fuzz/corpus/read/nsys",
    "fuzz/corpus/read/paddle",
];

#[test]
fn reports() {
    for sample in SAMPLES {
        assert_cmd_snapshot!(vramscope(&["report", sample, "--top", "3"]));
    }
}

#[test]
fn every_command_opens_them_but_replays() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    for sample in SAMPLES {
        for command in [
            vec!["info"],
            vec!["view", "--html", page.to_str().unwrap()],
            vec!["export", "--format", "csv"],
            vec!["fleet"],
        ] {
            let output = run(&[&command[..1], &[sample], &command[1..]].concat());
            assert!(
                output.status.success(),
                "{command:?} {sample}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            std::fs::remove_file(&page).ok();
        }
        for command in ["replay", "plan"] {
            let output = run(&[command, sample]);
            assert!(!output.status.success(), "{command} {sample}");
            let why = String::from_utf8_lossy(&output.stderr);
            assert!(why.contains("whose rules are unknown here"), "{why}");
        }
    }
}
