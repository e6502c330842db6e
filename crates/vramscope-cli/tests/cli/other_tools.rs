//! Reports of a recording of each other tool. `formats` opens all samples in all commands.

use insta_cmd::assert_cmd_snapshot;

use crate::vramscope;

pub(crate) const SAMPLES: [&str; 7] = [
    "fuzz/corpus/read/rmm",
    "fuzz/corpus/read/memscope",
    "fuzz/corpus/read/torch-profiler",
    "fuzz/corpus/read/jax",
    "fuzz/corpus/read/nsys",
    "fuzz/corpus/read/paddle",
    "fuzz/corpus/read/mlx",
];

#[test]
fn reports() {
    for sample in SAMPLES {
        assert_cmd_snapshot!(vramscope(&["report", sample, "--top", "3"]));
    }
}
