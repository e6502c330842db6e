//! Pinned host memory (`aten/src/ATen/core/CachingHostAllocator.h`), other devices, and allocators whose rules are unknown.

use std::sync::Arc;

use serde_json::{Value, json};
use vramscope_analysis::{History, Replay, ReplayError};
use vramscope_engine::{Allocator, Rounding};
use vramscope_trace::{DeviceKind, OtherAllocator, Trace, formats};

fn read(snapshot: &Value) -> Arc<Trace> {
    formats::read(snapshot.to_string().as_bytes()).unwrap().trace
}

fn event(action: &str, addr: u64, size: u64) -> Value {
    json!({"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1})
}

fn free(addr: u64, size: u64) -> [Value; 2] {
    [event("free_requested", addr, size), event("free_completed", addr, size)]
}

const A: u64 = 0x10000;
const B: u64 = 0x20000;

/// Two blocks of 1024 bytes are freed, `A` and then `B`. A third request takes the block at `reused`.
fn pinned(reused: u64, settings: &Value) -> Arc<Trace> {
    let mut events = vec![
        event("segment_alloc", A, 1024),
        event("alloc", A, 700),
        event("segment_alloc", B, 1024),
        event("alloc", B, 1024),
    ];
    events.extend(free(A, 700).into_iter().chain(free(B, 1024)));
    events.push(event("alloc", reused, 600));
    let segment = |address: u64| {
        let state = if address == reused { "active_allocated" } else { "inactive" };
        let block = json!({"address": address, "size": 1024, "requested_size": 600, "state": state});
        json!({"device": -1, "address": address, "total_size": 1024, "stream": 0, "segment_type": "small",
            "blocks": [block]})
    };
    read(&json!({"segments": [], "device_traces": [[]], "allocator_settings": settings,
        "host_segments": [segment(A), segment(B)], "host_traces": events}))
}

fn defaults() -> Value {
    json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "max_round_threshold": -1, "max_cached_size": -1})
}

#[test]
fn pinned_memory_is_a_device_with_rules_of_its_own() {
    let trace = pinned(B, &defaults());
    assert_eq!(trace.devices.iter().map(|d| d.device).collect::<Vec<_>>(), [0, -1]);
    assert_eq!(trace.device_name(-1), "pinned host memory");
    let history = History::of(&trace, 1);
    assert_eq!(history.policy.allocator, Allocator::TorchHost);
    assert_eq!(history.allocations.iter().map(|a| a.size).collect::<Vec<_>>(), [1024, 1024, 1024]);
    assert_eq!((history.peaks().allocated.bytes, history.peaks().reserved.bytes), (2048, 2048));
    assert!(history.quality.sizes_exact(), "{:?}", history.quality);
}

#[test]
fn a_request_takes_the_block_that_was_freed_last() {
    let last = pinned(B, &defaults());
    let history = History::of(&last, 1);
    let replay = Replay::of(&history).unwrap();
    assert_eq!(replay.reproduction.first_difference, None);
    assert!(replay.reproduction.compared_end);

    let first = pinned(A, &defaults());
    let history = History::of(&first, 1);
    assert!(Replay::of(&history).unwrap().reproduction.first_difference.is_some());
}

#[test]
fn unknown_rules_are_a_reason_not_to_replay() {
    let limited =
        pinned(B, &json!({"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "max_cached_size": 4096}));
    let history = History::of(&limited, 1);
    assert_eq!(Replay::of(&history).err(), Some(ReplayError::HostLimits));

    let log = "Thread,Time,Action,Pointer,Size,Stream\n1,10:00:00,allocate,0x7f00,1000,0x0\n";
    let trace = formats::read(log.as_bytes()).unwrap().trace;
    let history = History::of(&trace, 0);
    assert_eq!(history.peaks().allocated.bytes, 1000);
    assert_eq!(Replay::of(&history).err(), Some(ReplayError::UnknownRules(OtherAllocator::Rmm)));
}

/// One request of 480 or 512 bytes, whose block has `size` bytes, under a configuration text with this key.
fn one_block(key: &str, requested: u64, size: u64) -> Arc<Trace> {
    let blocks = json!([
        {"address": A, "size": size, "requested_size": requested, "state": "active_allocated"},
        {"address": A + size, "size": (2 << 20) - size, "requested_size": 0, "state": "inactive"}]);
    read(&json!({
        "segments": [{"device": 0, "address": A, "total_size": 2 << 20, "stream": 0x55d1_c0a4_1e80_u64,
            "segment_type": "small", "blocks": blocks}],
        "device_traces": [[
            {"action": "segment_alloc", "addr": A, "size": 2 << 20, "stream": 0x55d1_c0a4_1e80_u64},
            {"action": "alloc", "addr": A, "size": requested, "stream": 0x55d1_c0a4_1e80_u64}]],
        "allocator_settings": {key: "", "expandable_segments": false}}))
}

#[test]
fn devices_are_named_for_what_they_are() {
    for (key, kind, name) in [
        ("PYTORCH_CUDA_ALLOC_CONF", DeviceKind::Cuda, "device 0"),
        ("PYTORCH_HIP_ALLOC_CONF", DeviceKind::Rocm, "ROCm device 0"),
        ("PYTORCH_ALLOC_CONF", DeviceKind::Xpu, "XPU 0"),
        ("PYTORCH_NPU_ALLOC_CONF", DeviceKind::Npu, "NPU 0"),
    ] {
        let trace = one_block(key, 512, 512);
        assert_eq!((trace.kind, trace.device_name(0)), (kind, name.to_owned()));
        // Entries without times, contexts and pools are replayed all the same; streams may be any address.
        let history = History::of(&trace, 0);
        let replay = Replay::of(&history).unwrap();
        assert_eq!(replay.reproduction.first_difference, None, "{key}");
        let mut pickle = Vec::new();
        formats::write_pickle(&trace, &mut pickle).unwrap();
        assert!(formats::read(&pickle[..]).unwrap().trace == trace, "{key}");
    }
    let frame = json!({"name": "f", "filename": "/venv/torch_npu/npu/memory.py", "line": 1});
    let shown = read(&json!({"segments": [], "device_traces": [[
        {"action": "alloc", "addr": 1, "size": 1, "stream": 0, "frames": [frame]}]]}));
    assert_eq!(shown.kind, DeviceKind::Npu);
}

/// `AddPadSize` in `NPUCachingAllocator.cpp`: most devices add 32 bytes to a request.
#[test]
fn an_npu_pads_requests_unless_a_block_shows_otherwise() {
    let rounding = |requested, size| {
        let trace = one_block("PYTORCH_NPU_ALLOC_CONF", requested, size);
        let history = History::of(&trace, 0);
        assert_eq!(Replay::of(&history).unwrap().reproduction.first_difference, None);
        history.policy.rounding
    };
    assert_eq!(rounding(512, 1024), Rounding::PaddedUnits(32));
    assert_eq!(rounding(512, 512), Rounding::PaddedUnits(0));
}
