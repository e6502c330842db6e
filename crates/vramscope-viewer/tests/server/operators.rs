//! A trace of `torch.profiler` beside a recording.

use std::io::Write as _;
use std::sync::Arc;

use flate2::write::GzEncoder;
use serde_json::{Value, json};
use vramscope_trace::formats;
use vramscope_viewer::{Library, OpenFile, Server};

use crate::{Address, Reply, example};

/// The head of a binary answer.
fn head(answer: &[u8]) -> Value {
    let length = u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize;
    serde_json::from_slice(&answer[4..4 + length]).unwrap()
}

/// The values of a column, which a member of the head refers to.
fn column(answer: &[u8], name: &str) -> Vec<f64> {
    let head = head(answer);
    let (kind, place) = head[name].as_object().unwrap().iter().next().unwrap();
    let [begin, length] = [0, 1].map(|i| place[i].as_u64().unwrap() as usize);
    let behind = (4 + u32::from_le_bytes(answer[..4].try_into().unwrap()) as usize).next_multiple_of(8);
    let values = &answer[behind + begin..];
    let value = |i: usize| match kind.as_str() {
        "u8" => f64::from(values[i]),
        "u32" => f64::from(u32::from_le_bytes(values[4 * i..][..4].try_into().unwrap())),
        _ => f64::from_le_bytes(values[8 * i..][..8].try_into().unwrap()),
    };
    (0..length).map(value).collect()
}

/// A server with the recording of the trace, and another recording.
fn serving() -> Address {
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    let library = Arc::new(Library::default());
    library.add(example("operators.pickle.zst"));
    library.add(example("leak.pickle"));
    library.complete();
    std::thread::spawn(move || server.serve(library));
    address
}

fn packed() -> Vec<u8> {
    std::fs::read(format!("{}/../../examples/operators.json.gz", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The trace with the kernels and the collective call of a GPU.
fn with_kernels() -> Vec<u8> {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed()[..]), &mut text).unwrap();
    let mut trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let forward = events.iter().find(|e| e["name"] == "forward").unwrap().clone();
    let (ts, dur) = (forward["ts"].as_f64().unwrap(), forward["dur"].as_f64().unwrap());
    let kernel = |name: &str, stream: i64, at: f64, dur: f64| {
        json!({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts + at, "dur": dur,
            "args": {"device": 0, "stream": stream, "External id": 1, "queued": 0}})
    };
    events.push(kernel("sm90_xmma_gemm_f32f32", 7, 0.0, dur));
    events.push(kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        20,
        0.0,
        dur / 2.0,
    ));
    // Very many that no pixel tells apart.
    events.extend((0..20_000).map(|n| kernel("tiny", 9, dur * f64::from(n) / 20_000.0, dur / 40_000.0)));
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // The first key shows the format.
    trace.as_object_mut().unwrap().remove("schemaVersion");
    gzip.write_all(format!("{{\"schemaVersion\": 1, {}", &trace.to_string()[1..]).as_bytes()).unwrap();
    gzip.finish().unwrap()
}

fn add(address: &Address, file: usize, trace: &[u8]) -> Reply {
    address.ask("POST", &address.path(&format!("api/{file}/operators?name=trace.json.gz")), &[], trace)
}

/// A recording that has a trace itself, as a log may have it.
fn with_own(name: &str, trace: &[u8]) -> OpenFile {
    let file = std::fs::File::open(format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut recording = formats::read(file).unwrap();
    Arc::make_mut(&mut recording.trace).operators = Some(Arc::from(trace));
    OpenFile::open(name.to_owned(), recording).unwrap()
}

#[test]
fn operators_that_a_recording_has_are_shown_at_once() {
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    let library = Arc::new(Library::default());
    library.add(with_own("operators.pickle.zst", &packed()));
    library.add(with_own("leak.pickle", &packed()));
    library.add(with_own("leak.pickle", b"no trace"));
    library.complete();
    std::thread::spawn(move || server.serve(library));
    let lanes = |file| head(&address.question(file, 0, &json!({"question": "operator_lanes"})).body);
    assert_eq!(lanes(0)["name"], "operators.pickle.zst");
    assert!(lanes(0)["told"].as_str().unwrap().starts_with("Aligned by the clock"), "{}", lanes(0));
    for (file, why) in [(1, "the trace is of another run"), (2, "not a trace of `torch.profiler`")] {
        assert_eq!(lanes(file), Value::Null);
        let recordings: Value = serde_json::from_slice(&address.get("api/recordings").body).unwrap();
        let facts = recordings[file]["facts"].to_string();
        assert!(facts.contains("Operators are not shown") && facts.contains(why), "{facts}");
    }
}

#[test]
fn operators_are_shown_beside_the_recording_of_their_run() {
    let address = serving();
    let ask = |question: Value| address.question(0, 0, &question);
    assert_eq!(head(&ask(json!({"question": "operator_lanes"})).body), Value::Null);
    assert_eq!(ask(json!({"question": "operator", "lane": 0, "span": 0})).status, 400);
    let added = add(&address, 0, &with_kernels());
    assert_eq!(added.status, 204, "{}", added.text());

    let lanes = head(&ask(json!({"question": "operator_lanes"})).body);
    let told = lanes["told"].as_str().unwrap();
    assert!(told.starts_with("Aligned by the clock of both files: 70 of 70 allocations"), "{told}");
    let labels: Vec<_> =
        lanes["lanes"].as_array().unwrap().iter().map(|l| l["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["annotations", "operators", "autograd_0", "stream 7", "stream 9", "NCCL"]);
    let place = |label: &str| labels.iter().position(|&l| l == label).unwrap();
    let number = |label: &str| lanes["lanes"][place(label)]["number"].as_u64().unwrap();

    // A window has no more spans of a row than pixels, and each is in it.
    for (axis, from, to) in [("time", 0.0, 200_000.0), ("events", 0.0, 446.0), ("events", 150.0, 170.0)] {
        let all: Vec<_> = (0..labels.len()).map(|lane| [lane, 32]).collect();
        let window = json!({"question": "operator_picture", "axis": axis, "from": from, "to": to, "width": 300, "lanes": all});
        let answer = ask(window).body;
        let [lane, row, begin, end] = ["lane", "row", "from", "to"].map(|name| column(&answer, name));
        assert!(lane.contains(&(number("autograd_0") as f64)), "{axis} {from}");
        for (i, (&begin, &end)) in begin.iter().zip(&end).enumerate() {
            assert!(begin <= to && end >= from && begin <= end, "{axis} {begin} {end}");
            let same_row = |j: usize| (lane[i], row[i]) == (lane[j], row[j]);
            assert!((0..lane.len()).filter(|&j| same_row(j)).count() <= 301);
        }
    }

    // An allocation of the profiled part: its own thread, innermost first, and what the GPU ran.
    let spans = |label: &str, name: &str| -> (usize, Value) {
        let lane = number(label);
        let count = lanes["lanes"][place(label)]["spans"].as_u64().unwrap();
        let facts = (0..count)
            .map(|span| head(&ask(json!({"question": "operator", "lane": lane, "span": span})).body));
        facts.enumerate().find(|(_, facts)| facts["name"] == name).unwrap()
    };
    let (_, forward) = spans("annotations", "forward");
    let (_, empty) = spans("operators", "aten::empty");
    let largest = empty["largest"].as_u64().unwrap();
    assert_eq!(empty["allocated"], json!({"bytes": 2_097_152, "count": 1}));
    assert_eq!(empty["largest_bytes"], 2_097_152);
    assert_eq!(empty["of_thread"], true);
    assert_eq!(empty["around"][0][1], "aten::randn");
    let answer = ask(json!({"question": "in_flight", "from": 0, "to": 0, "allocation": largest})).body;
    let names: Vec<_> =
        head(&answer)["name"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()).collect();
    let operators: Vec<_> =
        names.iter().zip(column(&answer, "lane")).filter(|(_, l)| *l == number("operators") as f64).collect();
    assert_eq!(
        operators.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["aten::empty", "aten::randn"]
    );
    for other in ["forward", "sm90_xmma_gemm_f32f32"] {
        assert!(names.iter().any(|name| name == other), "{other} in {names:?}");
    }
    assert!(names.iter().any(|name| name.starts_with("ncclDevKernel_AllReduce")), "{names:?}");

    // An interval: what encloses it, then the others by name.
    let (from, to) = (forward["from"].as_u64().unwrap(), forward["to"].as_u64().unwrap());
    assert!(forward["allocated"]["count"].as_u64().unwrap() >= 5, "{forward}");
    let answer = ask(json!({"question": "in_flight", "from": from, "to": to, "allocation": null})).body;
    let names = head(&answer)["name"].clone();
    let tiny = names.as_array().unwrap().iter().position(|name| name == "tiny").unwrap();
    assert_eq!(names[0], "forward", "{names}");
    assert!(column(&answer, "count")[tiny] > 5000.0);
    let encloses = column(&answer, "encloses");
    assert!(encloses.windows(2).all(|two| two[0] >= two[1]) && encloses[0] == 1.0);

    // A part of the file's devices, lanes and spans only.
    for wrong in [
        json!({"question": "operator", "lane": 99, "span": 0}),
        json!({"question": "operator", "lane": 0, "span": 99_999}),
        json!({"question": "in_flight", "from": 0, "to": 9999, "allocation": null}),
        json!({"question": "operator_picture", "axis": "time", "from": 0, "to": 9, "width": 9, "lanes": [[99, 1]]}),
        json!({"question": "operator_picture", "axis": "time", "from": 9, "to": 9, "width": 9, "lanes": []}),
    ] {
        assert_eq!(ask(wrong.clone()).status, 400, "{wrong}");
    }
}

#[test]
fn other_traces_and_other_files_are_refused_with_the_reason() {
    let address = serving();
    let trace = packed();
    for (file, bytes, why) in [
        (1, &trace[..], "trace.json.gz: the trace is of another run: 0 of its 70 allocations"),
        (0, &trace[..trace.len() / 2], "trace.json.gz: "),
        (0, b"{\"schemaVersion\": 1, \"traceEvents\": [", "byte 37: EOF while parsing"),
        (0, b"{\"schemaVersion\": 1, \"traceEvents\": []}", "the trace has no operators"),
        (0, b"notes", "not a trace of `torch.profiler`"),
    ] {
        let reply = add(&address, file, bytes);
        assert_eq!(reply.status, 422, "{}", reply.text());
        assert!(reply.text().contains(why), "{}", reply.text());
    }
    assert_eq!(add(&address, 7, &trace).status, 404);
    let lanes = address.question(0, 0, &json!({"question": "operator_lanes"})).body;
    assert_eq!(head(&lanes), Value::Null);
}

/// The trace with an operator's kernels, by events in the form that Kineto documents.
fn with_launches() -> Vec<u8> {
    let mut trace: Value = serde_json::from_reader(flate2::read::GzDecoder::new(&packed()[..])).unwrap();
    let events = trace["traceEvents"].as_array_mut().unwrap();
    let is_linear = |e: &&Value| e["name"] == "aten::linear" && e["cat"] == "cpu_op";
    let linear = events.iter().find(is_linear).unwrap().clone();
    let (ts, tid) = (linear["ts"].as_f64().unwrap(), linear["tid"].clone());
    let mut event = |cat: &str, name: &str, tid: &Value, at: f64, dur: f64, args: Value| {
        events.push(json!({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts + at, "dur": dur, "args": args}));
    };
    let external = linear["args"]["External id"].clone();
    for (n, kernel) in ["gemm", "gemm", "bias"].into_iter().enumerate() {
        let at = n as f64;
        let call = json!({"correlation": 900 + n, "External id": external, "cbid": 211});
        event("cuda_runtime", "cudaLaunchKernel", &tid, at, 0.5, call);
        let ids = json!({"device": 0, "stream": 7, "correlation": 900 + n, "External id": external});
        event("kernel", kernel, &json!(7), 100.0 + 10.0 * at, 5.0 + at, ids);
    }
    // Of another device.
    event("cuda_runtime", "cudaLaunchKernel", &tid, 3.0, 0.5, json!({"correlation": 903}));
    event("kernel", "gemm", &json!(7), 150.0, 9.0, json!({"device": 1, "stream": 7, "correlation": 903}));
    trace.as_object_mut().unwrap().remove("schemaVersion");
    format!("{{\"schemaVersion\": 1, {}", &trace.to_string()[1..]).into_bytes()
}

#[test]
fn a_kernel_has_its_operator_and_an_operator_its_kernels() {
    let address = serving();
    let added = add(&address, 0, &with_launches());
    assert_eq!(added.status, 204, "{}", added.text());
    let ask = |question: Value| address.question(0, 0, &question).body;
    let lanes = head(&ask(json!({"question": "operator_lanes"})));
    let stream = lanes["lanes"].as_array().unwrap().iter().find(|lane| lane["label"] == "stream 7").unwrap();
    assert_eq!(stream["spans"], 3);
    let of = |lane: &Value, span: &Value| ask(json!({"question": "operator", "lane": lane, "span": span}));

    let bias = head(&of(&stream["number"], &json!(2)));
    assert_eq!((&bias["name"], &bias["kernels"]), (&json!("bias"), &Value::Null));
    let (operator, call) = (&bias["launch"]["operator"], &bias["launch"]["call"]);
    assert_eq!((&operator[2], &call[2]), (&json!("aten::linear"), &json!("cudaLaunchKernel")));
    let waited = bias["launch"]["waited_us"].as_f64().unwrap();
    assert!((waited - 118.0).abs() < 0.01, "{waited}");

    let linear = of(&operator[0], &operator[1]);
    let facts = head(&linear);
    assert_eq!((&facts["name"], &facts["launch"]), (&json!("aten::linear"), &Value::Null));
    // Two of the same name; the one on the other device is not here.
    let kernels = &facts["kernels"];
    assert_eq!((&kernels["count"], &kernels["name"]), (&json!(3), &json!(["gemm", "bias"])));
    assert!((kernels["took_us"].as_f64().unwrap() - 18.0).abs() < 0.01, "{kernels}");
    assert_eq!(kernels["left_out"], 0);
    // Its call has its own kernel, and the annotation around it has all.
    let of_call = head(&of(&call[0], &call[1]));
    assert_eq!((&of_call["kernels"]["count"], &of_call["kernels"]["name"]), (&json!(1), &json!(["bias"])));
    let forward =
        lanes["lanes"].as_array().unwrap().iter().find(|lane| lane["label"] == "annotations").unwrap();
    let mut annotations =
        (0..forward["spans"].as_u64().unwrap()).map(|span| head(&of(&forward["number"], &json!(span))));
    let forward = annotations.find(|facts| facts["name"] == "forward").unwrap();
    assert_eq!(forward["kernels"]["count"], 3);
}
