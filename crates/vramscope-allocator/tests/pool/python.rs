//! A pool's recording in Python: the standard unpickler, and PyTorch's `_memory_viz` if `VRAMSCOPE_TORCH_PYTHON` names an interpreter with
//! PyTorch.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use vramscope_allocator::{HistoryOptions, MemoryPool, VirtualDevice};

use crate::{MIB, torch_2_11};

/// A recording with every feature: streams, a private pool, a pending free, regions, an out of memory.
fn recording() -> Vec<u8> {
    let gpu = Arc::new(VirtualDevice::with_capacity(256 * MIB));
    let pool = MemoryPool::new(&torch_2_11(), vec![gpu.clone()]).unwrap();
    pool.record_memory_history(&HistoryOptions::default()).unwrap();
    let region = pool.annotate("train");
    let kept: Vec<_> = (1..50).map(|i| pool.malloc_on(i % 3, i * i * 1000).unwrap()).collect();
    drop(kept.into_iter().step_by(2).collect::<Vec<_>>());
    let private = pool.private_pool();
    let _held = [private.malloc_on(0, 1000).unwrap(), pool.malloc(30 * MIB).unwrap()];
    pool.malloc(300 * MIB).unwrap_err();
    gpu.set_busy(5, true);
    let waits = pool.malloc(3 * MIB).unwrap();
    waits.record_stream(5).unwrap();
    drop(waits);
    drop(region);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording.pickle");
    pool.dump_snapshot(&file).unwrap();
    std::fs::read(file).unwrap()
}

pub(crate) fn python(interpreter: &str, script: &str, input: &[u8]) -> String {
    let mut child = Command::new(interpreter)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{interpreter}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pickle_load_gives_the_dictionaries_of_a_snapshot() {
    let script = "import pickle, sys\n\
        s = pickle.load(sys.stdin.buffer)\n\
        t = s['device_traces'][0]\n\
        print(sorted(s), sorted(t[1]), [e['action'] for e in t if e['action'] == 'oom'])\n\
        print(sorted(s['segments'][0]))\n\
        print(sorted({g['segment_pool_id'] for g in s['segments']}))\n\
        print(sorted({b['state'] for g in s['segments'] for b in g['blocks']}))";
    insta::assert_snapshot!(python("python3", script, &recording()), @"
    ['allocator_settings', 'device_traces', 'external_annotations', 'segments'] ['action', 'addr', 'compile_context', 'frames', 'pool_id', 'size', 'stream', 'time_us', 'user_metadata'] ['oom']
    ['active_size', 'address', 'allocated_size', 'blocks', 'device', 'frames', 'is_expandable', 'requested_size', 'segment_pool_id', 'segment_type', 'stream', 'total_size']
    [(0, 0), (0, 1)]
    ['active_allocated', 'active_pending_free', 'inactive']
    ");
}

/// Its commands `stats`, `trace`, `segments` and `memory`. The drawing of the last two is left out, because it is fetched from the network.
#[test]
fn pytorchs_memory_viz_opens_a_pools_recording() {
    let Some(interpreter) = vramscope_testing::interpreter("torch", "VRAMSCOPE_TORCH_PYTHON") else { return };
    let script = "import pickle, sys\n\
        from torch.cuda import _memory_viz as viz\n\
        lines = lambda text: text\n\
        s = pickle.load(sys.stdin.buffer)\n\
        for text in (viz.segsum(s), viz.trace(s), viz.segments(s, lines), viz.memory(s, lines)):\n    print(len(text), 'recording' in text)\n\
        print(len(viz.trace_plot(s)) > 1000, len(viz.segment_plot(s)) > 1000)\n\
        print(s['segments'][0]['total_size'], sum(b['size'] for b in s['segments'][0]['blocks']))";
    let out = python(&interpreter, script, &recording());
    let lines: Vec<&str> = out.lines().collect();
    let (lengths, plots) = lines.split_at(4);
    for (line, names_the_function) in lengths.iter().zip([false, false, true, true]) {
        let (length, named) = line.split_once(' ').unwrap();
        assert!(length.parse::<usize>().unwrap() > 200, "{out}");
        assert!(!names_the_function || named == "True", "{out}");
    }
    assert_eq!(plots[0], "True True");
}
