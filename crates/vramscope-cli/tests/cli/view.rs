//! `vramscope view` without a browser; `viewer/browser` tests the page.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use insta_cmd::assert_cmd_snapshot;
use vramscope::trace::OperatorTrace;
use vramscope::trace::formats::Reader;

use crate::{run, vramscope};

/// A command that serves; killed at the end of the test.
struct Serving {
    child: Child,
    line: String,
}

impl Serving {
    fn start(args: &[&str]) -> Self {
        let all = [&["view", "--no-open"], args].concat();
        let mut child = vramscope(&all).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { child, line: line.trim().to_owned() }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn help() {
    assert_cmd_snapshot!(vramscope(&["view", "--help"]));
}

#[test]
fn the_printed_address_leads_to_the_recordings() {
    let serving = Serving::start(&["examples/oom.pickle", "examples/leak.pickle"]);
    let answer = get(&format!("{}api/recordings", serving.line));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let body = answer.split("\r\n\r\n").nth(1).unwrap();
    let recordings: serde_json::Value = serde_json::from_str(body).unwrap();
    let names: Vec<&str> = recordings.as_array().unwrap().iter().filter_map(|r| r["name"].as_str()).collect();
    assert_eq!(names, ["examples/oom.pickle", "examples/leak.pickle"]);
}

#[test]
fn a_port_of_ones_choice_and_json() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut child = vramscope(&["view", "--no-open", "--json", "--port", &free.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = serde_json::Deserializer::from_reader(child.stdout.take().unwrap()).into_iter();
    let said: serde_json::Value = said.next().unwrap().unwrap();
    let url = said["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("http://127.0.0.1:{free}/")), "{url}");
    // Without a file, the page waits for one to be dropped.
    assert!(get(&format!("{url}api/recordings")).ends_with("[]"));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_port_that_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["view", "--no-open", "--port", &port, "examples/oom.pickle"]);
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with(&format!("error: port {port}: ")) && stderr.lines().count() == 1, "{stderr}");
}

#[test]
fn files_that_cannot_be_shown() {
    assert_cmd_snapshot!(vramscope(&["view", "--no-open", "examples/none.pickle"]));
    assert_cmd_snapshot!(vramscope(&["view", "--html", "page.html"]));
    assert_cmd_snapshot!(vramscope(&["view", "--html", "page.html", "README.md"]));
    assert_cmd_snapshot!(vramscope(&["view", "--html", "no/such/folder.html", "examples/leak.pickle"]));
    for (folder, why) in [("no/such/folder", "No such file"), ("README.md", "Not a directory")] {
        let output = run(&["view", "--no-open", "--source", folder]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{said}");
        assert!(said.starts_with(&format!("error: --source {folder}: {why}")), "{said}");
    }
    // A self-contained page has no server that could read files.
    let output = run(&["view", "--html", "page.html", "--source", ".", "examples/leak.pickle"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used with"));
    // The error is found after the address was printed.
    let output = run(&["view", "--no-open", "README.md"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: README.md: "));
}

#[test]
fn a_trace_is_shown_with_the_first_file_that_it_fits() {
    let trace = ["--operators", "examples/operators.json.gz"];
    let serving =
        Serving::start(&[&trace[..], &["examples/leak.pickle", "examples/operators.pickle.zst"]].concat());
    let answer = get(&format!("{}api/recordings", serving.line));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let error = |args: &[&str]| {
        let output = run(&[&["view", "--no-open"], args].concat());
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(
        error(&[&trace[..], &["examples/leak.pickle"]].concat()),
        "error: --operators examples/operators.json.gz: the trace is of another run: 0 of its 70 allocations are \
         in the recording, by their times and by their order\n"
    );
    let other = error(&["--operators", "README.md", "examples/leak.pickle"]);
    assert!(other.starts_with("error: --operators README.md: not a trace of `torch.profiler`"), "{other}");
    assert!(error(&trace).contains("required"));
}

/// The decompressed trace in a self-contained page.
fn trace_in(page: &str) -> Option<String> {
    let text = page.split("id=\"recordings\">").nth(1).unwrap().split('<').next().unwrap();
    let bytes = STANDARD.decode(text).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let head: serde_json::Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let place = head["recordings"].as_array().unwrap().iter().find_map(|one| one["operators"].as_object())?;
    assert_eq!(place["name"], "examples/operators.json.gz");
    let [begin, size] = [0, 1].map(|i| place["bytes"]["u8"][i].as_u64().unwrap() as usize);
    let packed = &bytes[(4 + length).next_multiple_of(8) + begin..][..size];
    Some(String::from_utf8(zstd::decode_all(packed).unwrap()).unwrap())
}

#[test]
fn a_page_carries_a_trace_beside_its_recording() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let files = ["examples/leak.pickle", "examples/operators.pickle.zst", "--html", page];
    assert!(run(&[&["view"][..], &files].concat()).status.success());
    assert_eq!(trace_in(&std::fs::read_to_string(page).unwrap()), None);
    let trace = ["--operators", "examples/operators.json.gz"];
    let output = run(&[&["view"][..], &trace, &files].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(
        said.starts_with("examples/operators.json.gz: Aligned by the clock of both files: 70 of 70"),
        "{said}"
    );
    let trace_text = trace_in(&std::fs::read_to_string(page).unwrap()).unwrap();
    let read = Reader::new(trace_text.as_bytes()).read_operators().unwrap();
    let original = std::fs::File::open(crate::root().join(trace[1])).unwrap();
    let original = Reader::new(original).read_operators().unwrap();
    assert_eq!(read.memory, original.memory);
    let spans = |trace: &OperatorTrace| trace.lanes.iter().map(|lane| lane.spans.len()).collect::<Vec<_>>();
    assert_eq!(spans(&read), spans(&original));
    // A trace that fits no recording makes no page.
    std::fs::remove_file(page).unwrap();
    let output = run(&[&["view"][..], &trace, &["examples/leak.pickle", "--html", page]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the trace is of another run"));
    assert!(!std::path::Path::new(page).exists());
}

#[test]
fn a_page_with_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    let output = run(&["view", "examples/leak.pickle", "--html", page, "--json"]);
    assert!(output.status.success());
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let written = std::fs::read_to_string(page).unwrap();
    assert_eq!(said["bytes"].as_u64(), Some(written.len() as u64));
    assert!(written.starts_with("<!doctype html>") && written.ends_with("</html>\n"));
    // The page loads nothing.
    assert!(!written.contains("src=\"") && !written.contains("href=\"http"));
}
