//! A busy server never keeps the page waiting.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use vramscope_viewer::{Library, Server};

use crate::{Address, example};

/// More connections than a server keeps.
const MANY: usize = 400;

/// Longer than anything takes here; if a server does not answer, the test fails after this time.
const LONG: Duration = Duration::from_secs(120);

fn connect(server: &Address) -> TcpStream {
    let stream = TcpStream::connect(&server.host).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// A separate server, for tests that disturb others.
fn alone() -> Address {
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    let library = Arc::new(Library::default());
    library.add(example("leak.pickle"));
    library.complete();
    std::thread::spawn(move || server.serve(library));
    address
}

/// Sends a request on a keep-alive connection and reads the whole answer.
fn ask_again(stream: &mut TcpStream, server: &Address) -> String {
    let path = server.path("api/recordings");
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.host).as_bytes()).unwrap();
    let mut answer = Vec::new();
    loop {
        let mut part = [0; 4096];
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the connection is ended");
        answer.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        if body.len() >= length.parse().unwrap() {
            return head.to_owned();
        }
    }
}

#[test]
fn connections_that_send_no_question_make_room() {
    let server = alone();
    let mut page = connect(&server);
    ask_again(&mut page, &server);
    let mut silent: Vec<TcpStream> = (0..MANY).map(|_| connect(&server)).collect();
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(b"GET /half-a-question HTT").ok();
    }
    assert_eq!(server.get("api/recordings").status, 200);
    // The first connection was closed and the last one stays: no request waited for a timeout.
    assert!(!matches!(silent[0].read(&mut [0; 9]), Ok(1..)));
    let last = silent.last_mut().unwrap();
    last.set_nonblocking(true).unwrap();
    assert_eq!(last.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // The page's own idle connection stays.
    assert!(ask_again(&mut page, &server).starts_with("HTTP/1.1 200"));
}

#[test]
fn connections_without_the_secret_are_replaced_before_the_page() {
    let server = alone();
    let mut page = connect(&server);
    ask_again(&mut page, &server);
    let mut strangers = Vec::new();
    for _ in 0..MANY {
        let mut stream = connect(&server);
        stream
            .write_all(format!("GET /guess/ HTTP/1.1\r\nhost: {}\r\n\r\n", server.host).as_bytes())
            .unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 404");
        strangers.push(stream);
    }
    assert!(ask_again(&mut page, &server).starts_with("HTTP/1.1 200"));
}

/// Uploads that sent the first byte of their file and then stalled.
fn stalled_uploads(server: &Address) -> Vec<TcpStream> {
    let upload = |i: u32| {
        let mut stream = connect(server);
        let path = server.path(&format!("api/open?name={i}"));
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: 1000\r\n\r\n\u{1}", server.host);
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    (0..40).map(upload).collect()
}

#[test]
fn files_that_stop_arriving_delay_no_other_file() {
    let server = alone();
    let mut stalled = stalled_uploads(&server);
    // All of them are being read.
    std::thread::sleep(Duration::from_millis(200));
    let file = std::fs::read(format!("{}/../../examples/oom.pickle", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let answer = server.ask("POST", &server.path("api/open?name=whole"), &[], &file);
    assert_eq!(answer.text(), r#"{"file":1}"#);
    // None of them was closed.
    for stream in &mut stalled {
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn files_that_stop_arriving_keep_no_question_waiting() {
    let server = alone();
    let _stalled = stalled_uploads(&server);
    for path in ["", "api/recordings"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for question in [
        json!({"question": "names"}),
        json!({"question": "report"}),
        json!({"question": "live", "moment": 5, "by": "line", "calls": "all", "inverted": true, "before": 2, "search": null, "only_found": false}),
    ] {
        assert_eq!(server.question(0, 0, &question).status, 200, "{question}");
    }
}

#[test]
fn a_file_that_is_closed_is_gone_and_the_others_keep_their_positions() {
    let server = alone();
    let file = std::fs::read(format!("{}/../../examples/oom.pickle", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let path = server.path("api/open?name=second");
    assert_eq!(server.ask("POST", &path, &[], &file).text(), r#"{"file":1}"#);
    assert_eq!(server.ask("POST", &server.path("api/0/close"), &[], b"").status, 204);
    assert_eq!(server.ask("POST", &server.path("api/0/close"), &[], b"").status, 404);
    assert_eq!(server.ask("POST", &server.path("api/7/close"), &[], b"").status, 404);
    let names = json!({"question": "names"});
    assert_eq!(server.question(0, 0, &names).status, 404);
    assert_eq!(server.question(1, 0, &names).status, 200);
    let all: Vec<Value> = serde_json::from_slice(&server.get("api/recordings").body).unwrap();
    assert_eq!((all.len(), &all[0], &all[1]["name"]), (2, &Value::Null, &Value::from("second")));
    assert_eq!(server.ask("POST", &path, &[], &file).text(), r#"{"file":2}"#);
    let foreign = ["origin: http://attacker.example"];
    assert_eq!(server.ask("POST", &server.path("api/1/close"), &foreign, b"").status, 403);
}

#[test]
fn the_progress_of_reading_is_reported_until_all_files_are_read() {
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    let library = Arc::new(Library::default());
    std::thread::spawn({
        let library = Arc::clone(&library);
        move || server.serve(library)
    });
    let told = || address.get("api/progress").text();
    assert_eq!(told(), "null");
    library.reads("run.pickle", 7, Some(100));
    assert_eq!(told(), r#"{"name":"run.pickle","bytes":7,"total":100}"#);
    library.reads("standard input", 9, None);
    assert_eq!(told(), r#"{"name":"standard input","bytes":9,"total":null}"#);
    library.complete();
    assert_eq!(told(), "null");
}
