//! Rejected requests, and data that must stay inert.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use vramscope_trace::formats::{self, Reader};
use vramscope_viewer::{LARGEST_UPLOAD, Note, PageFile, self_contained};

use crate::server;

#[test]
fn the_page_itself_is_served() {
    let reply = server().get("");
    assert_eq!(reply.status, 200);
    assert!(reply.text().starts_with("<!doctype html>") || reply.text().starts_with("<!DOCTYPE html>"));
    assert_eq!(server().get("viewer.js").status, 200);
    assert_eq!(server().get("viewer.css").status, 200);
    assert_eq!(server().get("api/recordings").status, 200);
}

#[test]
fn no_page_is_served_without_the_secret() {
    let server = server();
    let wrong: String = server.secret.chars().map(|c| if c == 'a' { 'b' } else { 'a' }).collect();
    for path in
        ["/", "/api/recordings", "/viewer.js", &format!("/{wrong}/"), &format!("/{wrong}/api/recordings")]
    {
        let reply = server.ask("GET", path, &[], b"");
        assert_eq!((reply.status, reply.body.len()), (404, 0), "{path}");
    }
    assert_eq!(server.secret.len(), 32, "128 bits in hexadecimal");
}

#[test]
fn a_request_for_source_names_a_frame_and_never_a_path() {
    let server = server();
    let ask = |body: &str| server.ask("POST", &server.path("api/0/source"), &[], body.as_bytes());
    for invalid in [
        "{",
        r#"{"path": "/etc/passwd"}"#,
        r#"{"frame": "/etc/passwd", "choice": null}"#,
        r#"{"frame": 4000000000, "choice": null}"#,
        r#"{"frame": -1, "choice": null}"#,
    ] {
        assert_eq!(ask(invalid).status, 400, "{invalid}");
    }
    // This server has no folders.
    let reply = ask(r#"{"frame": 0, "choice": 0}"#);
    let none = json!({"folders": [], "files": [], "taken": null, "text": null, "why": null});
    assert_eq!((reply.status, serde_json::from_slice::<Value>(&reply.body).unwrap()), (200, none));
    assert_eq!(server.ask("GET", &server.path("api/0/source"), &[], b"").status, 405);
    assert_eq!(
        server.ask("POST", &server.path("api/9/source"), &[], br#"{"frame": 0, "choice": null}"#).status,
        404
    );
}

#[test]
fn foreign_host_names_are_refused() {
    let server = server();
    let port = server.host.split_once(':').unwrap().1;
    let attacker = format!("host: attacker.example:{port}");
    for host in ["host: attacker.example", &attacker, "host: 127.0.0.1", "host: 127.0.0.1:1"] {
        assert_eq!(server.ask("GET", &server.path("api/recordings"), &[host], b"").status, 403, "{host}");
    }
    let local = format!("host: localhost:{port}");
    assert_eq!(server.ask("GET", &server.path("api/recordings"), &[&local], b"").status, 200);
}

#[test]
fn a_request_has_one_host() {
    let server = server();
    let path = server.path("api/recordings");
    let own = format!("host: {}", server.host);
    for hosts in [[&*own, &*own], [&own, "host: attacker.example"], ["host: attacker.example", &own]] {
        assert_eq!(server.ask("GET", &path, &hosts, b"").status, 400, "{hosts:?}");
    }
    // The host of a target in absolute form is the one that counts.
    for (host, status) in [(&*server.host, 200), ("attacker.example", 403), ("user@127.0.0.1", 403)] {
        let target = format!("http://{host}{path}");
        assert_eq!(server.ask("GET", &target, &[&own], b"").status, status, "{target}");
    }
    let target = format!("http://{}{path}", server.host);
    assert_eq!(server.ask("GET", &target, &["host: attacker.example"], b"").status, 200);
    for header in ["x: folded\r\n header", "content-length: 1\r\ncontent-length: 2", "x : space"] {
        assert_eq!(server.ask("GET", &path, &[header], b"").status, 400, "{header}");
    }
}

/// The length of a body is that of its chunks, and no second request follows on the connection.
#[test]
fn a_request_in_a_body_is_not_answered() {
    let server = server();
    let path = server.path("api/recordings");
    let inner = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.host);
    let length = format!("content-length: {}", inner.len() + 5);
    for lengths in [[&*length, "transfer-encoding: chunked"], ["transfer-encoding: chunked", &length]] {
        let mut stream = TcpStream::connect(&server.host).unwrap();
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: {}\r\n{}\r\n\r\n", server.host, lengths.join("\r\n"));
        stream.write_all(format!("{head}0\r\n\r\n{inner}").as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 405") && answer.matches("HTTP/1.1").count() == 1, "{answer}");
    }
}

#[test]
fn pages_of_other_sites_are_refused() {
    let server = server();
    let own = format!("origin: http://{}", server.host);
    let secure = format!("origin: https://{}", server.host);
    for (header, status) in [
        (own.as_str(), 200),
        (&secure, 403),
        ("origin: http://attacker.example", 403),
        ("origin: null", 403),
        ("sec-fetch-site: cross-site", 403),
        ("sec-fetch-site: same-site", 403),
        ("sec-fetch-site: same-origin", 200),
        ("sec-fetch-site: none", 200),
    ] {
        assert_eq!(
            server.ask("GET", &server.path("api/recordings"), &[header], b"").status,
            status,
            "{header}"
        );
    }
    let foreign =
        server.ask("POST", &server.path("api/open?name=x"), &["origin: http://attacker.example"], b"[]");
    assert_eq!(foreign.status, 403);
}

#[test]
fn paths_lead_to_no_files() {
    let server = server();
    for path in [
        "../Cargo.toml",
        "../../../../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "viewer.js/../../src/lib.rs",
        "page/index.html",
        "api/../../../etc/passwd",
        "api/0/../names",
    ] {
        let reply = server.get(path);
        assert_eq!((reply.status, reply.body.len()), (404, 0), "{path}: {}", reply.text());
    }
}

#[test]
fn every_answer_forbids_what_the_page_does_not_need() {
    let server = server();
    for reply in [server.get(""), server.get("api/recordings"), server.ask("GET", "/", &["host: x"], b"")] {
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'",
            "frame-ancestors 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(reply.headers.contains(header), "{header} in {}", reply.headers);
        }
        let policy = reply.headers.lines().find(|l| l.starts_with("content-security-policy")).unwrap();
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert!(!reply.headers.contains("access-control-allow"));
    }
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let length = format!("content-length: {}", 2u64 << 30);
    const { assert!(LARGEST_UPLOAD < 2 << 30) };
    let reply = server().ask("POST", &server().path("api/open?name=huge.pickle"), &[&length], b"\x80\x04");
    assert_eq!(reply.status, 413);
    assert!(reply.text().contains("vramscope view FILE"), "{}", reply.text());
}

#[test]
fn dropped_files_are_read_or_refused_with_a_reason() {
    let server = server();
    let path = server.path("api/open?name=dropped");
    for (body, why) in [
        (&b"hello"[..], "text that begins"),
        (b"", "empty"),
        (b"\x80\x04cos\nsystem\n(S'true'\ntR.", "dropped: "),
    ] {
        let reply = server.ask("POST", &path, &[], body);
        assert_eq!(reply.status, 422, "{}", reply.text());
        assert!(reply.text().contains(why), "{}", reply.text());
    }
    // An additional file must not change the positions of the files from the command line.
    let empty = br#"{"segments": [], "device_traces": []}"#;
    let reply = server.ask("POST", &path, &[], empty);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let file = serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap()["file"].as_u64().unwrap();
    assert!(file >= 2);
    let file = file as usize;
    assert_eq!(server.question(file, 0, &json!({"question": "names"})).status, 200);
    assert_eq!(server.question(file, 0, &json!({"question": "layout", "moment": 0})).status, 404);
}

#[test]
fn questions_without_sense_are_refused() {
    let server = server();
    let picture = |changed: Value| {
        let mut question = json!({"question": "picture", "stacked": "allocated", "axis": "events", "from": 0, "to": 5,
            "width": 10, "height": 10, "low": 0, "high": null, "fit_reserved": false});
        question.as_object_mut().unwrap().extend(changed.as_object().unwrap().clone());
        question
    };
    for (file, device, question, status) in [
        (9, 0, json!({"question": "names"}), 404),
        (0, 9, json!({"question": "layout", "moment": 0}), 404),
        (0, 0, json!({"question": "layout", "moment": 99_999_999}), 400),
        (0, 0, json!({"question": "layout"}), 400),
        (0, 0, json!({"question": "layout", "moment": -1}), 400),
        (0, 0, json!({"question": "<script>"}), 400),
        (0, 0, json!([]), 400),
        (0, 0, json!({"question": "allocation", "id": 99_999_999}), 400),
        (
            0,
            0,
            json!({"question": "live", "moment": 0, "by": "<script>", "calls": "own", "inverted": false, "before": null, "search": null, "only_found": false}),
            400,
        ),
        (
            0,
            0,
            json!({"question": "live", "moment": 0, "by": "line", "calls": "own", "inverted": false, "before": 99_999_999, "search": null, "only_found": false}),
            400,
        ),
        (0, 0, json!({"question": "comparison", "other_file": 9, "other_device": 0}), 404),
        (0, 0, picture(json!({"from": 5})), 400),
        (0, 0, picture(json!({"from": null})), 400),
        (0, 0, picture(json!({"width": 16000, "height": 16000})), 400),
        (0, 0, picture(json!({"width": 0})), 400),
        (0, 0, picture(json!({"stacked": "<script>"})), 400),
        (0, 0, picture(json!({"from": -1e300, "to": 1e300})), 200),
        (0, 0, json!({"question": "events", "first": 99_999_999_999_u64, "count": 99_999_999_999_u64}), 200),
    ] {
        let reply = server.question(file, device, &question);
        assert_eq!(reply.status, status, "{question}: {}", reply.text());
    }
    assert_eq!(server.ask("POST", &server.path("api/recordings"), &[], b"").status, 405);
    assert_eq!(server.ask("DELETE", &server.path("api/0/0/ask"), &[], b"").status, 405);
}

/// A recording in which every name tries to break out of the page.
#[test]
fn hostile_names_cannot_leave_their_place_in_a_page() {
    let evil = "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>";
    let frame = json!({"name": evil, "filename": format!("/home/{evil}.py"), "line": 1});
    let event = |action: &str| json!({"action": action, "addr": 4096, "size": 100, "stream": 0, "frames": [frame], "time_us": 5, "user_metadata": evil, "category": evil});
    let snapshot = json!({
        "segments": [], "device_traces": [[event("alloc"), event("free_completed")]],
        "external_annotations": [{"stage": "START", "name": evil, "device": 0, "time_us": 1}],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": evil},
    });
    let recording = formats::read(snapshot.to_string().as_bytes()).unwrap();
    let operators = json!({"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": evil}]});
    let operators = Reader::new(operators.to_string().as_bytes()).read_operators().unwrap();
    let page = self_contained(
        &[PageFile { operators: Some((evil, &operators)), ..PageFile::new(evil, &recording) }],
        &[Note { file: 0, device: 0, from: 0, to: 1, text: evil.to_owned() }],
    )
    .unwrap();
    let held = |id: &str| {
        let begin = format!("id=\"{id}\">");
        page.split(&begin).nth(1).unwrap().split("</script>").next().unwrap()
    };
    let data = held("recordings");
    assert!(data.len() > 100 && !data.contains(['<', '\0', '\r']));
    let notes: serde_json::Value = serde_json::from_str(held("notes")).unwrap();
    assert_eq!(notes[0]["text"], evil);
    assert!(!held("notes").contains('<'));
    let rest = page.replace(held("notes"), "");
    assert!(!rest.contains("document.title='broken'") && !rest.contains("onerror=alert"));
    assert_eq!(page.matches("<script").count(), 5);
    let policy =
        page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'sha256-")
            && !policy.replace("'wasm-unsafe-eval'", "").contains("unsafe"),
        "{policy}"
    );
}
