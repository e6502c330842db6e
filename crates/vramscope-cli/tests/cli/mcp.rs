//! `vramscope mcp` as an assistant uses it: with the SDK's client, with the official Python client, and with invalid messages.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use rmcp::model::{CallToolRequestParams, CallToolResult, ClientRequest, GetPromptRequestParams, Request};
use rmcp::service::{PeerRequestOptions, RunningService};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};
use vramscope_testing::book::fences;

use crate::{root, vramscope};

type Client = RunningService<RoleClient, ()>;

/// Runs a client with a server that may read `folder`.
fn with_client<F: Future<Output = ()>>(folder: &Path, of: impl FnOnce(Client) -> F) {
    with_server(folder, &[], |client, _| of(client));
}

/// Runs a client with a server that may read `folder` and has further options; passes the server's process ID.
fn with_server<F: Future<Output = ()>>(folder: &Path, options: &[&str], of: impl FnOnce(Client, u32) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_vramscope"));
        command.args(["mcp", "--allow"]).arg(folder).args(options).current_dir(root()).kill_on_drop(true);
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let streams = (server.stdout.take().unwrap(), server.stdin.take().unwrap());
        let process = server.id().unwrap();
        let client = ().serve(streams).await.unwrap();
        of(client, process).await;
        // The client's end is closed, so the server ends.
        let ended = tokio::time::timeout(Duration::from_secs(60), server.wait()).await.unwrap().unwrap();
        assert!(ended.success(), "{ended}");
    });
}

/// A file that is small on disk and large in memory is refused before it is read completely.
#[cfg(target_os = "linux")]
#[test]
fn memory_is_bounded_while_a_recording_is_read() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let event = r#"{"action":"alloc","addr":512,"size":512,"stream":0,"frames":[]}"#;
    let start = br#"{"segments":[],"device_traces":[["#;
    let mut packed = zstd::Encoder::new(fs::File::create(folder.path().join("a.zst")).unwrap(), 1).unwrap();
    packed.write_all(start).unwrap();
    for _ in 0..4000 {
        packed.write_all(format!("{event},").repeat(1000).as_bytes()).unwrap();
    }
    packed.write_all(format!("{event}]]}}").as_bytes()).unwrap();
    packed.finish().unwrap();
    let options = ["--max-memory", "64MiB", "--max-expanded", "1GiB"];
    with_server(folder.path(), &options, async |client, process| {
        let refused = call(&client, "open", json!({"path": "a.zst"})).await;
        let text = &refused.content[0].as_text().unwrap().text;
        assert!(
            text.starts_with("a.zst: the limit for open recordings is 64.00 MiB, and this one needs more"),
            "{text}"
        );
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let highest = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let highest = highest.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10;
        assert!(highest < 128 * MIB, "{highest} bytes");
    });
}

async fn call(client: &Client, tool: &'static str, arguments: Value) -> CallToolResult {
    let arguments = arguments.as_object().unwrap().clone();
    client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await.unwrap()
}

/// The answer of a tool, which must equal its text form.
async fn answer(client: &Client, tool: &'static str, arguments: Value) -> Value {
    let result = call(client, tool, arguments).await;
    assert_eq!(result.is_error, Some(false), "{tool}: {result:?}");
    let text = &result.content[0].as_text().unwrap().text;
    let value = result.structured_content.unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), value, "{tool}");
    value
}

/// Cuts the lists of `whole` to their lengths in `told`.
fn cut(whole: &mut Value, told: &Value) {
    match (whole, told) {
        (Value::Array(whole), Value::Array(told)) => {
            whole.truncate(told.len());
            whole.iter_mut().zip(told).for_each(|(whole, told)| cut(whole, told));
        }
        (Value::Object(whole), Value::Object(told)) => {
            whole
                .iter_mut()
                .for_each(|(key, whole)| told.get(key).into_iter().for_each(|told| cut(whole, told)));
        }
        _ => {}
    }
}

/// The output of the command.
fn printed(args: &[&str]) -> Value {
    let output = vramscope(&[args, &["--json"]].concat()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An answer without the keys that the command does not have.
fn without(mut answer: Value, keys: &[&str]) -> Value {
    let map = answer.as_object_mut().unwrap();
    for key in keys {
        assert!(map.remove(*key).is_some(), "{key}");
    }
    answer
}

/// The findings, one sentence per line.
fn sentences(answer: &Value) -> String {
    let findings = answer["findings"].as_array().unwrap();
    findings.iter().map(|finding| finding.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

/// Validates a value against a schema that uses only our keywords.
fn fits(schema: &Value, value: &Value, place: &str) {
    for (word, wants) in schema.as_object().unwrap() {
        match word.as_str() {
            "description" => {}
            "type" => {
                let types = wants.as_array().cloned().unwrap_or_else(|| vec![wants.clone()]);
                let is = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(n) if n.is_f64() => "number",
                    Value::Number(_) => "integer",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                assert!(types.contains(&json!(is)), "{place} is {is}: {value}");
            }
            "minimum" => {
                assert!(value.as_i64().is_none_or(|n| n >= wants.as_i64().unwrap()), "{place}: {value}");
            }
            "required" => {
                for key in wants.as_array().unwrap() {
                    assert!(value.get(key.as_str().unwrap()).is_some(), "{place} lacks {key}");
                }
            }
            "properties" => {
                for (key, schema) in wants.as_object().unwrap() {
                    if let Some(value) = value.get(key) {
                        fits(schema, value, &format!("{place}.{key}"));
                    }
                }
            }
            "items" => value.as_array().unwrap().iter().for_each(|member| fits(wants, member, place)),
            _ => panic!("{place}: this test does not know the word {word}"),
        }
    }
}

#[test]
fn the_sdk_s_client_gets_the_answers_of_the_commands() {
    with_client(&root().join("examples"), async |client| {
        let info = client.peer_info().unwrap();
        assert_eq!(info.server_info.as_ref().unwrap().name, "vramscope");
        assert!(info.instructions.as_ref().unwrap().contains("Start with `open`"));
        let tools = client.list_all_tools().await.unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["open", "summary", "holders", "at", "diff", "replay", "leaks", "check", "ask"]);
        let mut schemas = HashMap::new();
        for tool in &tools {
            assert!(tool.description.as_ref().unwrap().len() > 100, "{}", tool.name);
            let hints = tool.annotations.as_ref().unwrap();
            assert_eq!((hints.read_only_hint, hints.open_world_hint), (Some(true), Some(false)));
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            for (name, argument) in tool.input_schema["properties"].as_object().unwrap() {
                assert!(argument["description"].is_string(), "{}: {name}", tool.name);
            }
            let schema = tool.output_schema.as_ref().unwrap();
            schemas.insert(&*tool.name, Value::Object((**schema).clone()));
        }

        let (oom, leak) = ("examples/oom.pickle", "examples/leak.pickle");
        let all = json!({"recording": "r1", "rows": 200, "frames": 100});
        let open = answer(&client, "open", json!({"path": oom})).await;
        fits(&schemas["open"], &open, "open");
        assert_eq!(without(open, &["recording", "notices"]), printed(&["info", oom]));
        assert_eq!(answer(&client, "open", json!({"path": leak})).await["recording"], "r2");

        let summary = answer(&client, "summary", all.clone()).await;
        fits(&schemas["summary"], &summary, "summary");
        insta::assert_snapshot!(sentences(&summary), @r"
        Device 0: peaks of 6.23 GiB allocated, 7.68 GiB reserved.
        Device 0, event 1652: Out of memory: a request of 223.24 MiB failed, likely because of fragmentation: 1.61 GiB is free in 52 blocks, each smaller than the request. The device lacked 42.00 MiB. Not sufficient alone: 6.63 MiB free in the pool for requests of another size.
        Add `expandable_segments:True` to `PYTORCH_CUDA_ALLOC_CONF`: the request then succeeds, and reserved bytes peak at 7.50 GiB up to that event.
        ");
        let leaking = answer(&client, "summary", json!({"recording": "r2"})).await;
        insta::assert_snapshot!(sentences(&leaking), @r"
        Device 0: peaks of 59.53 MiB allocated, 70.00 MiB reserved.
        Keep less of the results of workloads.py:92 leak, move them to host memory (`.cpu()`), or `detach()` them if they have a graph: they retain 15.01 MiB.
        `vramscope.torch.record(..., referrers=True)` names the variables that hold it.
        Device 0: 1 line suspected of a leak; workloads.py:92 leak retains 15.01 MiB.
        ");
        let report = printed(&["report", oom]);
        assert_eq!(without(summary, &["recording", "findings"]), report);

        let replay = answer(&client, "replay", all).await;
        fits(&schemas["replay"], &replay, "replay");
        assert_eq!(without(replay, &["recording", "findings"]), printed(&["replay", oom]));
        let asked = json!({"recording": "r1", "gpu": "t4", "overhead": "1GiB", "conf": "expandable_segments:True",
            "torch": "2.11", "rows": 200});
        let replay = answer(&client, "replay", asked).await;
        let options =
            ["--gpu", "t4", "--overhead", "1GiB", "--conf", "expandable_segments:True", "--torch", "2.11"];
        assert_eq!(
            without(replay, &["recording", "findings"]),
            printed(&[&["replay", oom][..], &options].concat())
        );

        let holders =
            answer(&client, "holders", json!({"recording": "r1", "by": "stack", "frames": 100})).await;
        fits(&schemas["holders"], &holders, "holders");
        assert_eq!(holders["holders"], report["devices"][0]["holders_at_peak"]);
        assert_eq!(holders["bytes"], report["devices"][0]["peak_allocated_bytes"]);
        assert_eq!(holders["event"], report["devices"][0]["peak_event"]);
        let some =
            json!({"recording": "r1", "by": "line", "filter": "py:100 churn", "event": 1397, "frames": 100});
        let same = answer(&client, "holders", some).await;
        assert_eq!(same["bytes"], holders["bytes"]);

        let at =
            answer(&client, "at", json!({"recording": "r1", "event": 1000, "by": "stack", "frames": 100}))
                .await;
        fits(&schemas["at"], &at, "at");
        let report = printed(&["report", oom, "--at", "1000"]);
        for key in
            ["event", "requested_bytes", "allocated_bytes", "active_bytes", "reserved_bytes", "holders"]
        {
            assert_eq!(at[key], report["devices"][0]["at"][key], "{key}");
        }
        assert_eq!(at["pools"], report["devices"][0]["pools"]);

        let diff = answer(&client, "diff", json!({"a": "r1", "b": "r2", "rows": 200})).await;
        fits(&schemas["diff"], &diff, "diff");
        let mut expected = printed(&["diff", oom, leak]);
        if let Some(left_out) = diff.get("left_out") {
            // The command has the parts that were cut here.
            assert!(left_out["how_to_get_it"].is_string());
            let changed = |of: &Value| of["devices"][0]["changed"].as_array().unwrap().len();
            let left_out_of_changed = left_out["rows"]["devices.changed"].as_u64().unwrap_or(0) as usize;
            assert_eq!(left_out_of_changed, changed(&expected) - changed(&diff));
            cut(&mut expected, &diff);
            expected["left_out"] = left_out.clone();
        }
        assert_eq!(without(diff, &["a", "b"]), expected);

        let leaks = answer(&client, "leaks", json!({"recording": "r2", "frames": 100})).await;
        fits(&schemas["leaks"], &leaks, "leaks");
        assert_eq!(leaks["leaks"], printed(&["report", leak])["devices"][0]["leaks"]);

        let events = json!({"recording": "r1", "ask": {"question": "events", "first": 0, "count": 3}});
        let events = answer(&client, "ask", events).await;
        fits(&schemas["ask"], &events, "ask");
        assert_eq!(events["answer"]["first"], 0);
        let comparison = json!({"question": "comparison", "other_file": 0, "other_device": 0});
        let comparison =
            answer(&client, "ask", json!({"recording": "r1", "other": "r2", "ask": comparison})).await;
        assert!(!comparison["answer"]["changes"].as_array().unwrap().is_empty());
        let refused = call(&client, "ask", json!({"recording": "r1", "ask": {"question": "layout"}})).await;
        assert_eq!(refused.is_error, Some(true));
        let line = &refused.content[0].as_text().unwrap().text;
        assert!(line.ends_with("missing field `moment`; arguments of layout: moment"), "{line}");

        let refused = call(&client, "open", json!({"path": "/etc/passwd"})).await;
        assert_eq!(refused.is_error, Some(true));
        let line = &refused.content[0].as_text().unwrap().text;
        assert!(line.starts_with("/etc/passwd: no such file in ") && !line.contains('\n'), "{line}");

        let prompts = client.list_all_prompts().await.unwrap();
        let arguments = json!({"path": "run.pickle"}).as_object().unwrap().clone();
        let asked = GetPromptRequestParams::new(&*prompts[0].name).with_arguments(arguments);
        let prompt = client.get_prompt(asked).await.unwrap();
        assert!(prompt.messages[0].content.as_text().unwrap().text.contains("\"run.pickle\""));
        client.cancel().await.unwrap();
    });
}

/// A snapshot that takes a while to read.
fn large(folder: &Path) {
    let event = |number: usize| {
        let frames = json!([{"filename": format!("{}.py", number % 1000), "line": number, "name": "f"}]);
        json!({"action": "alloc", "addr": number * 512, "size": 512, "stream": 0, "time_us": number, "frames": frames})
    };
    let events: Vec<Value> = (0..60_000).map(event).collect();
    let snapshot = json!({"segments": [], "device_traces": [events]}).to_string();
    std::fs::write(folder.join("large.json"), snapshot).unwrap();
}

/// Cancelled calls free their worker for others.
#[test]
fn questions_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    large(folder.path());
    std::fs::copy(root().join("examples/oom.pickle"), folder.path().join("oom.pickle")).unwrap();
    with_client(folder.path(), async |client| {
        let request = |path: &str| {
            let arguments = json!({"path": path}).as_object().unwrap().clone();
            let asked = CallToolRequestParams::new("open").with_arguments(arguments);
            ClientRequest::CallToolRequest(Request::new(asked))
        };
        for _ in 0..8 {
            let asked =
                client.send_cancellable_request(request("large.json"), PeerRequestOptions::no_options());
            asked.await.unwrap().cancel(None).await.unwrap();
        }
        let soon = Duration::from_secs(60);
        let open = tokio::time::timeout(soon, answer(&client, "open", json!({"path": "oom.pickle"}))).await;
        // None of the cancelled calls got as far as creating a handle.
        assert_eq!(open.unwrap()["recording"], "r1");
        client.cancel().await.unwrap();
    });
}

/// A server that receives raw lines.
struct Raw {
    server: std::process::Child,
    input: ChildStdin,
    answers: std::sync::mpsc::Receiver<Value>,
}

impl Raw {
    fn new(folder: &Path) -> Self {
        Self::of(vramscope(&["mcp", "--allow"]).arg(folder))
    }

    fn of(command: &mut Command) -> Self {
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(server.stdout.take().unwrap());
        let (told, answers) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Only protocol messages are on stdout, one per line.
            for line in output.lines() {
                told.send(serde_json::from_str(&line.unwrap()).unwrap()).ok();
            }
        });
        let input = server.stdin.take().unwrap();
        Self { server, input, answers }
    }

    fn begun(folder: &Path) -> Self {
        let mut raw = Self::new(folder);
        raw.begin();
        raw
    }

    fn begin(&mut self) {
        let client = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
        self.write(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}).to_string());
        assert_eq!(self.next()["id"], 0);
        self.write(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn call(&mut self, id: usize, tool: &str, arguments: Value) {
        let params = json!({"name": tool, "arguments": arguments});
        self.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string(),
        );
    }

    /// Checks that a line is answered with an error.
    fn refuses(&mut self, line: &str, code: i64, id: &Value) {
        self.write(line);
        let answer = self.next();
        let line: String = line.chars().take(100).collect();
        assert_eq!(
            (&answer["error"]["code"], answer.get("id")),
            (&json!(code), Some(id)),
            "{line}: {answer}"
        );
        assert!(!answer["error"]["message"].as_str().unwrap().is_empty(), "{line}: {answer}");
    }

    fn next(&self) -> Value {
        self.answers.recv_timeout(Duration::from_secs(120)).unwrap()
    }

    /// Checks that the server still answers, and exits with success when its input ends.
    fn ends(mut self) {
        self.call(987_654, "open", json!({"path": "oom.pickle"}));
        while self.next()["id"] != 987_654 {}
        drop(self.input);
        assert!(self.server.wait().unwrap().success());
    }
}

/// Clients that request it get progress notifications, also while their call waits.
#[test]
fn clients_that_request_progress_get_notifications() {
    let mut raw = Raw::begun(&root().join("examples"));
    raw.call(1, "open", json!({"path": "oom.pickle"}));
    assert_eq!(raw.next()["id"], 1);
    let mut told: HashMap<u64, f64> = HashMap::new();
    // Enough calls to wait for half a second.
    for round in 1..=6 {
        let mut open = 4_usize.pow(round);
        for id in (0..open).map(|n| 10_000 * round as usize + n) {
            let params =
                json!({"name": "replay", "arguments": {"recording": "r1"}, "_meta": {"progressToken": id}});
            raw.write(
                &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string(),
            );
        }
        while open > 0 {
            let message = raw.next();
            if message["method"] != "notifications/progress" {
                assert_eq!(message["result"]["isError"], false, "{message}");
                open -= 1;
                continue;
            }
            let progress = &message["params"];
            let now = progress["progress"].as_f64().unwrap();
            assert_eq!(progress["message"], "replay");
            // Progress increases.
            let before = told.insert(progress["progressToken"].as_u64().unwrap(), now);
            assert!(now > before.unwrap_or(0.0), "{message}");
        }
        if !told.is_empty() {
            return raw.ends();
        }
    }
    panic!("no question took long enough");
}

/// Every line with an error has one answer: its code, and the `id` of the request or null.
#[test]
fn invalid_lines_do_not_end_the_mcp_server() {
    let mut raw = Raw::new(&root().join("examples"));
    // Before the first request.
    raw.write("");
    raw.write(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    raw.write(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#);
    raw.refuses("nothing of JSON", -32700, &Value::Null);
    raw.refuses("[]", -32600, &Value::Null);
    raw.begin();
    let call = |params: &str| {
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {params}}}"#)
    };
    let long =
        format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "{}"}}"#, "x".repeat(3 << 20));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
    for (line, code, id) in [
        ("nothing of JSON", -32700, Value::Null),
        ("{", -32700, Value::Null),
        ("\u{0}\u{1}\u{2}", -32700, Value::Null),
        (&deep, -32700, Value::Null),
        (&format!("{ping}{ping}"), -32700, Value::Null),
        (&call(r#"{"name": "open", "arguments": {"path": 1e999}}"#), -32700, Value::Null),
        ("null", -32600, Value::Null),
        ("7", -32600, Value::Null),
        ("{}", -32600, Value::Null),
        ("[]", -32600, Value::Null),
        (&format!("[{ping}]"), -32600, Value::Null),
        (&long, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "id": {"a": 1}, "method": "tools/list"}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, -32600, Value::Null),
        (r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#, -32600, json!(1)),
        (r#"{"id": "a", "method": "ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc": "2.0", "id": 1}"#, -32600, json!(1)),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": 7}"#, -32600, json!(1)),
        (&call("7"), -32600, json!(1)),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "no/such/method"}"#, -32601, json!(1)),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}"#, -32601, json!(1)),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/call"}"#, -32602, json!(1)),
        (r#"{"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {}}"#, -32602, json!(1)),
        (&call(r#"{"name": 7}"#), -32602, json!(1)),
        (&call(r#"{"name": "nothing"}"#), -32602, json!(1)),
        (&call(r#"{"name": "open", "arguments": [1]}"#), -32602, json!(1)),
    ] {
        raw.refuses(line, code, &id);
    }
    raw.input.write_all(b"\xff\xfe\n").unwrap();
    assert_eq!(raw.next()["error"]["code"], -32700);
    // Notifications and answers have no answer, even if they are wrong. So an error that is sent back ends there.
    for line in [
        " \t\r",
        r#"{"jsonrpc": "2.0", "id": 77, "result": {}}"#,
        r#"{"jsonrpc": "2.0", "id": 77, "error": 7}"#,
        r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "the line is not JSON"}}"#,
        r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}"#,
        r#"{"jsonrpc": "2.0", "method": "notifications/nothing"}"#,
        r#"{"jsonrpc": "2.0", "method": 7}"#,
    ] {
        raw.write(line);
    }
    raw.write(&format!("\u{feff}{ping}\r"));
    assert_eq!(raw.next(), json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    raw.ends();
}

#[test]
fn thousands_of_requests_at_once_are_answered_or_refused() {
    const REQUESTS: usize = 5000;

    let mut raw = Raw::begun(&root().join("examples"));
    raw.call(1, "open", json!({"path": "oom.pickle"}));
    assert_eq!(raw.next()["id"], 1);
    for id in 0..REQUESTS {
        match id % 3 {
            0 => raw.call(id + 2, "holders", json!({"recording": "r1"})),
            1 => raw.call(id + 2, "open", json!({"path": format!("{}/none", "x".repeat(1000))})),
            _ => raw.call(id + 2, "nothing", json!({})),
        }
    }
    let mut seen = vec![false; REQUESTS];
    let mut answered = 0;
    for _ in 0..REQUESTS {
        let told = raw.next();
        let id = told["id"].as_u64().unwrap() as usize - 2;
        assert!(!std::mem::replace(&mut seen[id], true), "{id} is answered twice");
        let result = &told["result"];
        answered += usize::from(result["isError"] == false);
        if result["isError"] == true {
            let line = result["content"][0]["text"].as_str().unwrap();
            let known = line.contains("calls are already waiting") || line.contains("no such file in");
            assert!(known && !line.contains('\n'), "{line}");
        }
    }
    assert!(answered > 0);
    raw.ends();
}

#[test]
fn mcp_writes_no_file_and_prints_only_responses() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(root().join("examples/oom.pickle"), folder.path().join("oom.pickle")).unwrap();
    let mut raw = Raw::begun(folder.path());
    for (id, (tool, arguments)) in [
        ("open", json!({"path": "oom.pickle"})),
        ("summary", json!({"recording": "r1"})),
        ("replay", json!({"recording": "r1"})),
    ]
    .into_iter()
    .enumerate()
    {
        raw.call(id + 1, tool, arguments);
        assert_eq!(raw.next()["result"]["isError"], false);
    }
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1);
    raw.ends();
}

/// The configuration for assistants in the book.
#[test]
fn the_configuration_of_the_book_starts_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    std::fs::copy(root().join("examples/oom.pickle"), folder.path().join("runs/oom.pickle")).unwrap();
    let shown = fences("docs/mcp.md").into_iter().find(|fence| fence.language() == "json").unwrap();
    let shown: Value = serde_json::from_str(&shown.lines.join("\n")).unwrap();
    let server = &shown["mcpServers"]["vramscope"];
    assert_eq!(server["command"], "vramscope");
    let arguments: Vec<&str> =
        server["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let mut raw = Raw::of(vramscope(&arguments).current_dir(folder.path()));
    raw.begin();
    // A path relative to the allowed folder, and one relative to the current folder.
    for (id, path) in ["oom.pickle", "runs/oom.pickle"].into_iter().enumerate() {
        raw.call(id + 1, "open", json!({"path": path}));
        assert_eq!(raw.next()["result"]["structuredContent"]["recording"], "r1");
    }
    raw.ends();
}

#[test]
fn a_folder_that_is_none_is_refused() {
    let output = vramscope(&["mcp", "--allow", "no/such/folder"]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: --allow no/such/folder: ") && said.lines().count() == 1, "{said}");
    // No request was sent.
    let output = vramscope(&["mcp"]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}

/// The official Python client validates every answer against its schema.
#[test]
fn the_client_for_python_gets_answers() {
    const SCRIPT: &str = r#"
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

QUESTIONS = [
    ("open", {"path": "oom.pickle"}), ("open", {"path": "leak.pickle"}), ("summary", {"recording": "r1"}),
    ("summary", {"recording": "r1", "at": 7, "by": "line"}), ("summary", {"recording": "r1", "at": "10..99"}),
    ("check", {"recording": "r1", "baseline": "r2", "max_peak": "1GiB", "no_oom": True}),
    ("replay", {"recording": "r1", "sweep": "max_split_size_mb=32..64", "torch": 2.11}),
    ("holders", {"recording": "r1", "by": "function", "rows": 1}), ("at", {"recording": "r1", "event": 7}),
    ("diff", {"a": "r1", "b": "r2"}), ("replay", {"recording": "r1", "find_capacity": True}),
    ("leaks", {"recording": "r2"}), ("ask", {"recording": "r1", "ask": {"question": "layout", "moment": 7}}),
    ("open", {"path": "/etc/passwd"}),
]

async def main(command, folder):
    server = StdioServerParameters(command=command, args=["mcp", "--allow", folder])
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        print([tool.name for tool in (await session.list_tools()).tools])
        for tool, arguments in QUESTIONS:
            answer = (await session.call_tool(tool, arguments)).model_dump(by_alias=True)
            print(tool, "refused" if answer["isError"] else "answered")

asyncio.run(main(*sys.argv[1:]))
"#;
    let Some(python) = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON") else { return };
    let examples = root().join("examples");
    let command = [env!("CARGO_BIN_EXE_vramscope"), examples.to_str().unwrap()];
    let output = Command::new(python).args(["-c", SCRIPT]).args(command).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    insta::assert_snapshot!(String::from_utf8(output.stdout).unwrap(), @r"
    ['open', 'summary', 'holders', 'at', 'diff', 'replay', 'leaks', 'check', 'ask']
    open answered
    open answered
    summary answered
    summary answered
    summary answered
    check answered
    replay answered
    holders answered
    at answered
    diff answered
    replay answered
    leaks answered
    ask answered
    open refused
    ");
}
