//! Writing and reading a trace gives an equal trace.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use vramscope_trace::formats::log::LogWriter;
use vramscope_trace::formats::write_pickle;
use vramscope_trace::{
    Action, AllocatorSettings, Annotation, Block, BlockState, DeviceTrace, Event, Frame, FxNode, PoolId,
    PowerOfTwoDivisions, Segment, SegmentKind, Stage, Tags, TorchSettings, Trace,
};

use crate::{everything, read, read_json};

fn rewritten(trace: &Trace) -> Arc<Trace> {
    let mut bytes = Vec::new();
    write_pickle(trace, &mut bytes).unwrap();
    let recording = read(&bytes).unwrap();
    assert!(!recording.notices.trailing_bytes);
    recording.trace
}

#[test]
fn a_trace_is_written_completely() {
    let trace = read_json(&everything()).trace;
    assert!(rewritten(&trace) == trace);
}

/// The readers' limits on device numbers and strings are those of the writers.
#[test]
fn traces_at_the_limits_are_read_back() {
    let of = |device: i64| {
        let mut trace = Trace::default();
        let tags = Tags { user_metadata: Some(trace.strings.intern("x").unwrap()), ..Tags::default() };
        let tags = trace.tags.intern(tags).unwrap();
        let mut recorded = DeviceTrace { device, ..DeviceTrace::default() };
        let (action, address_or_free) = (Action::Alloc, 512);
        recorded.events.push(Event { action, address_or_free, size: 1, time_us: None, stack: None, tags });
        trace.devices.push(recorded);
        trace
    };
    assert_eq!(rewritten(&of(1023)).devices.last().unwrap().events.len(), 1);
    for device in [1024, 4095, 4096, i64::MAX, -2] {
        let error = write_pickle(&of(device), std::io::sink()).unwrap_err().to_string();
        let why = format!("device {device} cannot be written: devices have numbers from 0 to 1023");
        assert_eq!(error, why);
    }
    for device in [-1, 1023, 1024, -2] {
        let mut log = LogWriter::create(Vec::new()).unwrap();
        log.device(device);
        let fits = log.flush().is_ok();
        assert_eq!(fits, (-1..1024).contains(&device), "{device}");
        read(log.get_ref()).unwrap();
    }
    let mut trace = of(0);
    let name = trace.strings.intern(&"é".repeat(9 << 20)).unwrap();
    trace.annotations = Some(vec![Annotation { stage: Stage::Start, name, device: 0, time_us: None }]);
    let read = rewritten(&trace);
    assert_eq!(read.strings.get(read.annotations.as_ref().unwrap()[0].name).len(), 16 << 20);
}

#[test]
fn traces_that_differ_anywhere_are_not_equal() {
    let trace = read_json(&everything()).trace;
    for (path, value) in [
        ("/trace_alloc_overflowed/1", serde_json::json!(true)),
        ("/segments/0/blocks/1/size", serde_json::json!(1024)),
        ("/segments/0/frames/0/line", serde_json::json!(13)),
        ("/device_traces/0/1/user_metadata", serde_json::json!("step 2")),
        ("/segments/0/blocks/0/user_metadata", serde_json::json!("vramscope:category=gradient")),
        ("/device_traces/0/8/forward_frames/1", serde_json::json!("c")),
        ("/device_traces/0/1/frames/0/name", serde_json::json!("backward")),
        ("/allocator_settings/max_split_size", serde_json::json!(-1)),
        ("/external_annotations/0/name", serde_json::json!("epoch")),
        ("/host_traces/0/size", serde_json::json!(9)),
    ] {
        let mut other = everything();
        *other.pointer_mut(path).unwrap() = value;
        assert!(read_json(&other).trace != trace, "{path}");
    }
}

/// Text of a recording, including empty and long strings.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-zäß_./]{0,12}", 1 => Just("x".repeat(300)), 1 => Just(String::new())]
}

#[derive(Debug, Clone)]
struct RawEvent {
    action: usize,
    address: u64,
    size: u64,
    time_us: Option<i64>,
    stack: Option<Vec<usize>>,
    stream: u64,
    pool: Option<(u64, u64)>,
    texts: [Option<String>; 3],
    forward: Option<Vec<String>>,
}

fn event() -> impl Strategy<Value = RawEvent> {
    let texts = [option::of(text()), option::of(text()), option::of(text())];
    let numbers = (0usize..=12, any::<u64>(), 0u64..1 << 40, option::of(-5i64..1 << 50));
    let rest = (option::of(vec(0usize..20, 0..6)), any::<u64>(), option::of(any::<(u64, u64)>()));
    (numbers, rest, texts, option::of(vec(text(), 0..3))).prop_map(
        |((action, address, size, time_us), (stack, stream, pool), texts, forward)| RawEvent {
            action,
            address,
            size,
            time_us,
            stack,
            stream,
            pool,
            texts,
            forward,
        },
    )
}

prop_compose! {
    fn trace()(
        names in vec((text(), text(), 0u32..5000, option::of(text())), 20),
        devices in vec((vec(event(), 0..40), vec((any::<u32>(), vec((1u64..1 << 30, 0usize..3, option::of(0usize..20)), 0..5), option::of(any::<bool>())), 0..4)), 0..3),
        conf in option::of(text()),
        divisions in option::of(proptest::array::uniform16(prop_oneof![Just(0u64), Just(1), Just(8)])),
        annotations in option::of(vec((any::<bool>(), text(), -1i64..4, option::of(any::<i32>())), 0..5)),
        host in option::of(vec(event(), 0..4)),
    ) -> Trace {
        let mut t = Trace::default();
        let mut frames = Vec::new();
        for (name, filename, line, target) in names {
            let name = t.strings.intern(&name).unwrap();
            let filename = t.strings.intern(&filename).unwrap();
            let target = target.map(|s| t.strings.intern(&s).unwrap());
            frames.push(t.frames.intern(Frame { name, filename, line, fx: FxNode { target, ..FxNode::default() } }).unwrap());
        }
        let add = |t: &mut Trace, d: &mut DeviceTrace, raw: RawEvent| {
            let stack = raw.stack.map(|s| s.iter().map(|&i| frames[i]).collect::<Vec<_>>());
            let stack = stack.map(|s| t.stacks.intern(&s).unwrap());
            let [compile_context, user_metadata, internal_metadata] =
                raw.texts.map(|s| s.map(|s| t.strings.intern(&s).unwrap()));
            let forward: Option<Vec<_>> = raw.forward.map(|l| l.iter().map(|s| t.strings.intern(s).unwrap()).collect());
            let forward_frames = forward.map(|l| t.string_lists.intern(l).unwrap());
            let action = Action::KNOWN.get(raw.action).copied().unwrap_or(Action::Unknown);
            let unknown = (action == Action::Unknown).then(|| t.strings.intern("something new").unwrap());
            let tags = Tags {
                stream: raw.stream, pool: raw.pool.map(|(a, b)| PoolId(a, b)), compile_context, user_metadata,
                internal_metadata, category: user_metadata, forward_frames, unknown_action: unknown,
            };
            let tags = t.tags.intern(tags).unwrap();
            d.events.push(Event { action, address_or_free: raw.address, size: raw.size, time_us: raw.time_us, stack, tags });
        };
        for (number, (events, segments)) in devices.into_iter().enumerate() {
            let total_bytes = Some(number as u64 + 1).filter(|_| number > 0);
            let mut d = DeviceTrace { device: number as i64, total_bytes, ..DeviceTrace::default() };
            for raw in events {
                add(&mut t, &mut d, raw);
            }
            let mut address = 1u64 << 40;
            for (stream, blocks, is_expandable) in segments {
                let start = address;
                let blocks: Vec<Block> = blocks.into_iter().map(|(size, state, frame)| {
                    let state = [BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive][state];
                    let stack = frame.map(|f| t.stacks.intern(&[frames[f]]).unwrap());
                    address += size;
                    Block { address: address - size, size, requested_size: size / 2, state, stack, forward_frames: None,
                        user_metadata: stack.map(|_| t.strings.intern("vramscope:category=parameter").unwrap()) }
                }).collect();
                address += 1;
                d.push_segment(Segment {
                    address: start, total_size: address - start, allocated_size: Some(7), active_size: None,
                    requested_size: Some(u64::from(stream)), stream: u64::MAX - u64::from(stream), kind: SegmentKind::Large,
                    pool: Some(PoolId(0, 3)), is_expandable, stack: None, forward_frames: None, blocks: 0..0,
                }, blocks);
            }
            t.devices.push(d);
        }
        t.records_host = host.is_some();
        let host = host.map(|events| {
            let mut d = DeviceTrace { device: -1, ..DeviceTrace::default() };
            for raw in events {
                add(&mut t, &mut d, raw);
            }
            d
        });
        t.devices.extend(host.filter(DeviceTrace::was_used));
        // A settings dictionary without any settings cannot be distinguished from other dictionaries.
        t.settings = conf.map(|conf| AllocatorSettings {
            conf: TorchSettings::parse(&conf).unwrap_or_default(), conf_text: Some(conf),
            recorded: TorchSettings {
                max_split_size: Some(-1), garbage_collection_threshold: Some(0.25),
                roundup_power2_divisions: divisions.map(PowerOfTwoDivisions), ..TorchSettings::default()
            },
        });
        t.annotations = annotations.map(|list| list.into_iter().map(|(start, name, device, time)| Annotation {
            stage: if start { Stage::Start } else { Stage::End }, name: t.strings.intern(&name).unwrap(), device,
            time_us: time.map(i64::from),
        }).collect());
        t
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_trace_is_read_back_as_it_was_written(trace in trace()) {
        // Without settings, such entries would be MLX's.
        let names_primitives = |t: vramscope_trace::Tags| t.category.is_some() && t.category == t.user_metadata;
        prop_assume!(trace.settings.is_some() || !trace.tags.iter().any(names_primitives));
        prop_assert!(*rewritten(&trace) == trace);
    }
}
