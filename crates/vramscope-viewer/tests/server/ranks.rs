//! The page of a job: its recordings are read on request, and no other file can be read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use vramscope_trace::formats;
use vramscope_viewer::{JobFiles, Library, Server};

use crate::{Address, example};

/// A job of three ranks, the last of which cannot be read, and the number of reads.
fn job() -> (Address, Arc<Library>, Arc<AtomicUsize>) {
    let server = Server::bind(0).unwrap();
    let address = Address::of(&server.url());
    let library = Arc::new(Library::of_ranks());
    let read = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&read);
    let read_one = move |position: usize| {
        count.fetch_add(1, Ordering::Relaxed);
        let name = ["oom.pickle", "leak.pickle"].get(position).ok_or("the file is empty")?;
        let path = format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"));
        let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
        formats::read(file).map_err(|e| e.to_string())
    };
    library.know_ranks(JobFiles {
        answer: b"what is told".to_vec(),
        names: ["a/rank0", "a/rank1", "a/rank2"].map(str::to_owned).to_vec(),
        read: Box::new(read_one),
    });
    let served = Arc::clone(&library);
    std::thread::spawn(move || server.serve(served));
    (address, library, read)
}

#[test]
fn a_rank_is_read_on_request_and_only_once() {
    let (server, library, read) = job();
    assert_eq!(server.get("api/ranks").text(), "what is told");
    assert_eq!(server.get("api/recordings").text(), "[null,null,null]");
    assert_eq!(read.load(Ordering::Relaxed), 0);
    let ask = |path: &str| server.ask("POST", &server.path(path), &[], b"");
    for _ in 0..2 {
        let told: Value = serde_json::from_slice(&ask("api/1/read").body).unwrap();
        assert_eq!(told["name"], "a/rank1");
    }
    assert_eq!(read.load(Ordering::Relaxed), 1);
    // Dropped files come after the ranks.
    assert_eq!(library.add(example("oom.pickle")), 3);
    let all: Value = serde_json::from_slice(&server.get("api/recordings").body).unwrap();
    let names: Vec<_> = all.as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [None, Some("a/rank1"), None, Some("oom.pickle")]);
    // After closing, it is read again.
    assert_eq!(ask("api/1/close").status, 204);
    assert_eq!(ask("api/1/read").status, 200);
    assert_eq!(read.load(Ordering::Relaxed), 2);
}

#[test]
fn only_ranks_are_read_and_a_broken_one_has_a_reason() {
    let (server, _, read) = job();
    let ask = |path: &str| server.ask("POST", &server.path(path), &[], b"");
    let broken = ask("api/2/read");
    assert_eq!((broken.status, broken.text().as_str()), (422, r#"{"error":"a/rank2: the file is empty"}"#));
    let before = read.load(Ordering::Relaxed);
    for path in ["api/3/read", "api/18446744073709551615/read"] {
        assert_eq!(ask(path).status, 404, "{path}");
    }
    for path in ["api/-1/read", "api/..%2f..%2fetc%2fpasswd/read", "api/rank1/read"] {
        assert_eq!(ask(path).status, 400, "{path}");
    }
    assert_eq!(server.ask("POST", &server.path("api/1/read"), &["origin: http://other"], b"").status, 403);
    assert_eq!(server.ask("POST", "/secret/api/1/read", &[], b"").status, 404);
    assert_eq!(read.load(Ordering::Relaxed), before);
}

#[test]
fn only_the_page_of_a_job_loads_the_view_of_ranks() {
    let (server, ..) = job();
    assert!(server.get("").text().contains(r#"href="./ranks.js""#));
    assert_eq!(server.get("ranks.js").status, 200);
    let plain = crate::server();
    assert!(!plain.get("").text().contains("ranks.js"));
    assert_eq!(plain.get("api/ranks").status, 404);
    let ask = plain.ask("POST", &plain.path("api/7/read"), &[], b"");
    assert_eq!(ask.status, 404);
}
