//! Files of all PyTorch releases.

use serde_json::json;
use vramscope_trace::formats::{Compression, Format};
use vramscope_trace::{Action, BlockState, OtherAllocator, PoolId, SegmentKind, Stage};

use crate::{everything, read, read_json};

#[test]
fn every_key_reaches_the_trace() {
    let recording = read_json(&everything());
    assert_eq!(recording.format, Format::Json);
    assert_eq!(recording.notices, Default::default());
    let t = &recording.trace;
    assert_eq!(t.devices.iter().map(|d| d.device).collect::<Vec<_>>(), [0, 1, -1]);
    let d = &t.devices[0];
    assert_eq!((d.overflowed, d.max_entries), (Some(true), Some(9)));
    assert_eq!((t.devices[1].overflowed, t.devices[1].max_entries), (Some(false), Some(100_000)));
    let sizes: Vec<_> = t.devices.iter().map(|d| d.total_bytes).collect();
    assert_eq!(sizes, [Some(1 << 34), Some(1 << 33), None]);
    let segment = &d.segments[0];
    assert_eq!(
        (segment.kind, segment.pool, segment.is_expandable),
        (SegmentKind::Small, Some(PoolId(0, 1)), Some(false))
    );
    let states: Vec<BlockState> = d.blocks_of(segment).iter().map(|b| b.state).collect();
    assert_eq!(states, [BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive]);

    let actions: Vec<&str> = d.events.actions().iter().map(|a| a.name()).collect();
    let expected = "segment_alloc alloc alloc free_requested snapshot oom annotate user_defined alloc";
    assert_eq!(actions.join(" "), expected);
    let text = |id| t.strings.get(id);
    let tags = |i: usize| t.tags.get(d.events.get(i).tags);
    assert_eq!(d.events.get(1).time_us, Some(11));
    assert_eq!(tags(1).compile_context.map(text), Some("N/A"));
    assert_eq!(tags(1).user_metadata.map(text), Some("step 1"));
    assert_eq!((tags(2).stream, tags(2).pool), (0x5555_1234, Some(PoolId(0, 1))));
    assert_eq!(d.events.get(3).stack, None);
    assert_eq!(d.events.get(5).device_free(), Some(4096));
    assert_eq!(d.events.get(8).address(), 0xffff_8000_0000_0000);
    assert_eq!(tags(8).internal_metadata.map(text), Some("mallocWithAddress"));
    assert_eq!(tags(8).category.map(text), Some("gradient"));
    let forward = t.string_lists.get(tags(8).forward_frames.unwrap());
    assert_eq!(forward.iter().map(|&s| text(s)).collect::<Vec<_>>(), ["a", "b"]);
    // The stacks of the block, the segment and three events are the same.
    assert_eq!(d.blocks[0].stack, d.events.get(1).stack);
    assert_eq!(t.stacks.get(d.events.get(1).stack.unwrap()).len(), 2);

    let settings = t.settings.as_ref().unwrap();
    assert_eq!(settings.recorded.max_split_size, Some(128 << 20));
    assert_eq!(settings.conf.large_segment_size, Some(64 << 20));
    assert_eq!(settings.recorded.roundup_power2_divisions.unwrap().0[..3], [0, 2, 4]);
    let annotations = t.annotations.as_ref().unwrap();
    assert_eq!((annotations[0].stage, annotations[1].time_us), (Stage::Start, Some(15)));
    let host = t.devices.last().unwrap();
    assert_eq!((host.segments.len(), host.events.len()), (1, 1));
}

#[test]
fn entries_of_paddle_name_operators() {
    let bytes = include_bytes!("../../../../fuzz/corpus/read/paddle");
    let recording = read(bytes).unwrap();
    let t = &recording.trace;
    assert_eq!(t.other_allocator(), Some(OtherAllocator::Paddle));
    assert_eq!(recording.notices.unknown_actions.get("annotation"), Some(&1));
    let d = &t.devices[0];
    let text = |i: usize| t.tags.get(d.events.get(i).tags).user_metadata.map(|text| t.strings.get(text));
    // The marker, an allocation, its free, and an allocation outside of operators.
    assert_eq!([2, 3, 5, 21].map(text), [Some("step 1 begin"), Some("matmul"), None, None]);
    assert_eq!((d.events.len(), d.events.get(3).size, d.segments.len()), (22, 768 << 10, 0));
    // Settings of PyTorch are kept.
    let entry = json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0, "op_name": "add"});
    let named = read_json(&json!({"segments": [], "device_traces": [[entry]],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}}));
    assert_eq!(named.trace.other_allocator(), None);
}

#[test]
fn entries_of_mlx_name_primitives() {
    let recording = read(include_bytes!("../../../../fuzz/corpus/read/mlx")).unwrap();
    let t = &recording.trace;
    assert_eq!((t.other_allocator(), &recording.notices), (Some(OtherAllocator::Mlx), &Default::default()));
    let events = &t.devices[0].events;
    let count = |action| events.actions().iter().filter(|&&of| of == action).count();
    let actions =
        [Action::Alloc, Action::Free, Action::FreeCompleted, Action::SegmentAlloc, Action::SegmentFree];
    assert_eq!(actions.map(count), [9, 8, 0, 3, 2]);
    let category = |i: usize| t.tags.get(events.get(i).tags).category.map(|text| t.strings.get(text));
    assert_eq!([1, 3, 6].map(category), [Some("RandomBits"), Some("Matmul"), None]);

    // A snapshot of `torch.profiler` has categories too, PyTorch's has metadata, and MLX's has no segments.
    let entry = |category: &str| {
        json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0,
        "category": category, "user_metadata": "Add"})
    };
    let other = |category, segments| {
        read_json(&json!({"segments": segments, "device_traces": [[entry(category)]]}))
            .trace
            .other_allocator()
    };
    assert_eq!(other("Add", json!([])), Some(OtherAllocator::Mlx));
    assert_eq!(other("gradient", json!([])), None);
    let segment = json!({"device": 0, "address": 512, "total_size": 512, "stream": 0, "segment_type": "small", "blocks": []});
    assert_eq!(other("Add", json!([segment])), None);
}

#[test]
fn the_oldest_form_is_a_list_of_segments() {
    let t = read_json(&json!([{
        "device": 1, "address": 1000, "total_size": 1536, "allocated_size": 512, "active_size": 512, "stream": 0,
        "segment_type": "large",
        "blocks": [
            {"size": 512, "state": "active_allocated",
             "history": [{"addr": 1000, "real_size": 300, "frames": [{"name": "f", "filename": "a.py", "line": 1}]},
                         {"addr": 1000, "real_size": 20}]},
            {"size": 1024, "state": "inactive"},
        ],
    }]))
    .trace;
    assert_eq!(t.devices.len(), 1);
    assert_eq!((t.devices[0].device, t.devices[0].events.len()), (1, 0));
    let [first, second] = t.devices[0].blocks[..] else { panic!("two blocks") };
    assert_eq!((first.address, first.requested_size), (1000, 300));
    assert!(first.stack.is_some());
    assert_eq!((second.address, second.requested_size), (1512, 1024));
    assert_eq!((&t.settings, &t.annotations), (&None, &None));
}

#[test]
fn entries_without_time_and_snapshots_without_settings_are_read() {
    let t = read_json(
        &json!({"device_traces": [[{"action": "free_completed", "addr": 5, "size": 6, "stream": 0}]], "segments": []}),
    );
    let event = t.trace.devices[0].events.get(0);
    assert_eq!((event.action, event.time_us, event.stack), (Action::FreeCompleted, None, None));
    assert_eq!(t.trace.settings, None);
}

#[test]
fn unknown_keys_and_actions_are_ignored_and_named_once() {
    let event =
        json!({"action": "defragment", "addr": 5, "size": 6, "stream": 0, "color": {"deep": [1, {"x": 2}]}});
    let recording = read_json(&json!({"segments": [], "device_traces": [[event, event]], "rank": 3}));
    let events = &recording.trace.devices[0].events;
    assert_eq!(events.actions(), [Action::Unknown, Action::Unknown]);
    let name = recording.trace.tags.get(events.get(0).tags).unknown_action.unwrap();
    assert_eq!(recording.trace.strings.get(name), "defragment");
    assert_eq!(
        recording.notices.to_string(),
        "ignored the unknown key `rank` in 1 snapshots\n\
         ignored the unknown key `color` in 2 trace entries\n\
         2 events have the unknown action `defragment`; they have no effect\n"
    );
}

#[test]
fn only_events_of_the_trace_count_as_events_with_an_unknown_action() {
    let event = json!({"action": "defragment"});
    let recording = read_json(&json!({"segments": [], "device_traces": [[event]], "rank": [[event]]}));
    assert_eq!(recording.trace.devices[0].events.len(), 1);
    assert_eq!(recording.notices.unknown_actions, [("defragment".to_owned(), 1)].into());
}

#[test]
fn compression_is_known_by_its_first_bytes() {
    use std::io::Write as _;
    let plain = everything().to_string();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(plain.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    let zst = zstd::encode_all(plain.as_bytes(), 1).unwrap();
    let expected = read(plain.as_bytes()).unwrap().trace;
    for (bytes, compression) in [(gz, Compression::Gzip), (zst, Compression::Zstd)] {
        let recording = read(&bytes).unwrap();
        assert_eq!(recording.compression, compression);
        assert!(recording.trace == expected);
        let error = read(&bytes[..bytes.len() - 9]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the {} data is damaged or cut off", compression.name())),
            "{error}"
        );
    }
}
