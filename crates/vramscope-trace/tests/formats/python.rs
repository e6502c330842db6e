//! Tests with CPython's pickler and unpickler, if `python3` is installed, and with PyTorch's module, if `VRAMSCOPE_TORCH_PYTHON` names
//! an interpreter that has it.

use std::io::Write as _;
use std::process::{Command, Stdio};

use vramscope_trace::formats;

use crate::{everything, read, read_json};

/// Runs `script` with `input`. Without the interpreter, skips the test and returns `None`.
fn python(interpreter: &str, script: &str, input: &[u8]) -> Option<Vec<u8>> {
    let child =
        Command::new(interpreter).args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = child else {
        vramscope_testing::skip("python", &format!("there is no `{interpreter}`"));
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{interpreter} failed");
    Some(output.stdout)
}

#[test]
fn every_protocol_of_cpython_is_read() {
    let expected = read_json(&everything()).trace;
    for protocol in 2..=5 {
        let script = format!(
            "import json, pickle, sys\n\
             s = json.load(sys.stdin)\n\
             sys.stdout.buffer.write(pickle.dumps(s, protocol={protocol}))"
        );
        let Some(pickle) = python("python3", &script, everything().to_string().as_bytes()) else { return };
        let recording = read(&pickle).unwrap();
        assert_eq!(recording.format, formats::Format::Pickle { protocol });
        assert!(recording.trace == expected, "protocol {protocol}");
    }
}

#[test]
fn shared_frames_and_lists_longer_than_a_batch_are_read() {
    // As PyTorch creates them: one dictionary per frame, one list per captured traceback, shared by reference.
    let script = "import pickle, sys, json\n\
        frames = [{'name': f'f{i}', 'filename': 'a.py', 'line': i} for i in range(2500)]\n\
        deep, shallow = frames[:], frames[10:13]\n\
        trace = [{'action': 'alloc', 'addr': 512 * i, 'size': i, 'stream': 0,\n\
                  'frames': deep if i % 500 == 0 else shallow if i % 3 else frames[i % 40:i % 40 + 20]}\n\
                 for i in range(3001)]\n\
        s = {'segments': [], 'device_traces': [trace]}\n\
        out = pickle.dumps(s) if sys.stdin.read() == 'pickle' else json.dumps(s).encode()\n\
        sys.stdout.buffer.write(out)";
    let Some(pickle) = python("python3", script, b"pickle") else { return };
    let Some(json) = python("python3", script, b"json") else { return };
    let trace = read(&pickle).unwrap().trace;
    assert_eq!(trace.devices[0].events.len(), 3001);
    assert_eq!(trace.stacks.get(trace.devices[0].events.get(500).stack.unwrap()).len(), 2500);
    assert!(trace == read(&json).unwrap().trace);
}

#[test]
fn cpython_loads_what_we_write() {
    let mut ours = Vec::new();
    formats::write_pickle(&read_json(&everything()).trace, &mut ours).unwrap();
    let script = "import json, pickle, sys\njson.dump(pickle.load(sys.stdin.buffer), sys.stdout)";
    let Some(loaded) = python("python3", script, &ours) else { return };
    let mut loaded: serde_json::Value = serde_json::from_slice(&loaded).unwrap();
    let mut expected = everything();
    // All 16 divisions are written, even if not listed.
    let divisions = loaded["allocator_settings"]["roundup_power2_divisions"].take();
    assert_eq!(divisions.as_object().unwrap().len(), 16);
    expected["allocator_settings"]["roundup_power2_divisions"] = serde_json::Value::Null;
    // An address is written where PyTorch writes one: everywhere except in `oom`.
    assert_eq!(loaded, expected);
}

/// The memory_viz page has a separate unpickler: protocols 2 to 4, these opcodes, and batches that fit into the arguments of one call.
#[test]
fn the_memory_viz_page_knows_every_opcode_we_write() {
    let mut ours = Vec::new();
    formats::write_pickle(&read_json(&everything()).trace, &mut ours).unwrap();
    let script = "import pickletools, sys\n\
        print(*{op.name for op, _, _ in pickletools.genops(sys.stdin.buffer.read())})";
    let Some(out) = python("python3", script, &ours) else { return };
    const KNOWN: &str = "APPEND APPENDS BINFLOAT BINGET BININT BININT1 BININT2 BINPUT BINUNICODE EMPTY_DICT \
        EMPTY_LIST EMPTY_TUPLE FRAME LONG1 LONG_BINGET LONG_BINPUT MARK MEMOIZE NEWFALSE NEWTRUE NONE PROTO \
        SETITEM SETITEMS SHORT_BINUNICODE STOP TUPLE TUPLE1 TUPLE2 TUPLE3";
    let known: Vec<&str> = KNOWN.split_whitespace().collect();
    for opcode in String::from_utf8(out).unwrap().split_whitespace() {
        assert!(known.contains(&opcode), "{opcode}");
    }
}

#[test]
fn pytorchs_own_module_opens_what_we_write() {
    let Some(interpreter) = vramscope_testing::interpreter("torch", "VRAMSCOPE_TORCH_PYTHON") else { return };
    let mut ours = Vec::new();
    formats::write_pickle(&read_json(&everything()).trace, &mut ours).unwrap();
    let script = "import pickle, sys\n\
        from torch.cuda import _memory_viz as viz\n\
        s = pickle.load(sys.stdin.buffer)\n\
        print(len(viz.segsum(s)), len(viz.trace_plot(s)), len(viz.segment_plot(s)), viz.trace(s)[:0])";
    let out = python(&interpreter, script, &ours).unwrap();
    let lengths: Vec<usize> =
        String::from_utf8(out).unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(lengths.len() == 3 && lengths.iter().all(|&n| n > 100), "{lengths:?}");
}
