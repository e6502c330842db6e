//! Readers and writers of every format, tested with handwritten files, files written by CPython, and random data.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "the test of damaged logs shows its shares")]

mod files;
mod generations;
mod hostile;
mod libtorch;
mod log;
mod log_damage;
mod log_versions;
mod nsys;
mod python;
mod roundtrip;
mod samples;
mod schema;

use vramscope_trace::ReadError;
use vramscope_trace::formats::{self, Recording};

fn read(bytes: &[u8]) -> Result<Recording, ReadError> {
    formats::read(bytes)
}

fn read_json(snapshot: &serde_json::Value) -> Recording {
    read(snapshot.to_string().as_bytes()).unwrap()
}

/// A recording with every feature that PyTorch 2.11 writes.
fn everything() -> serde_json::Value {
    let stack = serde_json::json!([
        {"name": "forward", "filename": "/home/user/model.py", "line": 12},
        {"name": "<module>", "filename": "/home/user/train.py", "line": 3},
    ]);
    serde_json::json!({
        "segments": [{
            "device": 0, "address": 0x7f00_0000_0000u64, "total_size": 2_097_152, "allocated_size": 512,
            "active_size": 1024, "requested_size": 300, "stream": 0, "segment_type": "small",
            "segment_pool_id": [0, 1], "is_expandable": false, "frames": stack,
            "blocks": [
                {"address": 0x7f00_0000_0000u64, "size": 512, "requested_size": 100, "state": "active_allocated", "frames": stack, "user_metadata": "vramscope:category=parameter"},
                {"address": 0x7f00_0000_0200u64, "size": 512, "requested_size": 200, "state": "active_pending_free", "frames": []},
                {"address": 0x7f00_0000_0400u64, "size": 2_096_128, "requested_size": 0, "state": "inactive", "frames": []},
            ],
        }],
        "device_traces": [[
            {"action": "segment_alloc", "addr": 0x7f00_0000_0000u64, "size": 2_097_152, "stream": 0, "time_us": 10, "frames": stack},
            {"action": "alloc", "addr": 0x7f00_0000_0000u64, "size": 100, "stream": 0, "time_us": 11, "compile_context": "N/A", "user_metadata": "step 1", "frames": stack},
            {"action": "alloc", "addr": 0x7f00_0000_0200u64, "size": 200, "stream": 0x5555_1234, "time_us": 12, "pool_id": [0, 1], "frames": []},
            {"action": "free_requested", "addr": 0x7f00_0000_0200u64, "size": 200, "stream": 0, "time_us": 13},
            {"action": "snapshot", "addr": 0, "size": 1024, "stream": 0, "time_us": 14},
            {"action": "oom", "device_free": 4096, "size": 1_048_576, "stream": 0, "time_us": 15, "frames": stack},
            {"action": "annotate", "addr": 0x7f00_0000_0000u64, "size": 100, "stream": 0, "user_metadata": "weights"},
            {"action": "user_defined", "addr": 0, "size": 0, "stream": 0, "frames": [{"name": "START", "filename": "ProfilerStep#0", "line": 0}]},
            {"action": "alloc", "addr": 0xffff_8000_0000_0000u64, "size": 7, "stream": 0, "internal_metadata": "mallocWithAddress", "category": "gradient", "forward_frames": ["a", "b"]},
        ], []],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,large_segment_size_mb:64", "max_split_size": 134_217_728,
            "garbage_collection_threshold": 0.5, "expandable_segments": false, "pinned_num_register_threads": 1,
            "release_lock_on_cudamalloc": false, "pinned_use_cuda_host_register": true,
            "graph_capture_record_stream_reuse": false, "max_round_threshold": -1, "max_cached_size": -1,
            "roundup_power2_divisions": {"1": 0, "2": 2, "4": 4, "32768": 8},
        },
        "external_annotations": [
            {"stage": "START", "name": "step", "device": 0, "time_us": 10},
            {"stage": "END", "name": "step", "device": 0, "time_us": 15},
        ],
        "trace_alloc_overflowed": [true, false],
        "trace_alloc_max_entries": [9, 100_000],
        "device_total_bytes": [1u64 << 34, 1u64 << 33],
        "host_segments": [{"device": -1, "address": 4096, "total_size": 512, "stream": 0, "segment_type": "small", "frames": [], "blocks": []}],
        "host_traces": [{"action": "alloc", "addr": 4096, "size": 8, "stream": 0}],
    })
}
