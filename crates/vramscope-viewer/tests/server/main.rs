//! The server as other programs on the machine see it, over plain sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod answers;
mod busy;
mod dropped;
mod log;
mod operators;
mod ranks;
mod security;
mod sql;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use vramscope_trace::formats;
use vramscope_viewer::{Library, OpenFile, Server};

/// The address of the server that these tests share.
fn server() -> &'static Address {
    static SERVER: OnceLock<Address> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Server::bind(0).unwrap();
        let address = Address::of(&server.url());
        let library = Arc::new(Library::default());
        for name in ["training.pickle.zst", "oom.pickle"] {
            library.add(example(name));
        }
        library.complete();
        std::thread::spawn(move || server.serve(library));
        address
    })
}

fn example(name: &str) -> OpenFile {
    let file = std::fs::File::open(format!("{}/../../examples/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    OpenFile::open(name.to_owned(), formats::read(file).unwrap()).unwrap()
}

/// The parts of `http://host/secret/`.
struct Address {
    host: String,
    secret: String,
}

impl Address {
    fn of(url: &str) -> Self {
        let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        Self { host: host.to_owned(), secret: path.trim_end_matches('/').to_owned() }
    }

    /// The page's path for a request.
    fn path(&self, question: &str) -> String {
        format!("/{}/{question}", self.secret)
    }

    /// Sends a request as the page would, with changed or additional headers.
    fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|h| h.to_ascii_lowercase().starts_with("host:")) {
            head += &format!("host: {}\r\n", self.host);
        }
        if !headers.iter().any(|h| h.to_ascii_lowercase().starts_with("content-length:")) {
            head += &format!("content-length: {}\r\n", body.len());
        }
        for header in headers {
            head += &format!("{header}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // A server that rejects a request may not read the body.
        stream.write_all(body).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        Reply::of(&answer)
    }

    /// Sends a query about a device, or about its file if the device does not matter.
    fn question(&self, file: usize, device: usize, question: &Value) -> Reply {
        let path = self.path(&format!("api/{file}/{device}/ask"));
        self.ask("POST", &path, &[], question.to_string().as_bytes())
    }

    fn get(&self, question: &str) -> Reply {
        self.ask("GET", &self.path(question), &[], b"")
    }
}

struct Reply {
    status: u16,
    headers: String,
    body: Vec<u8>,
}

impl Reply {
    fn of(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("an answer has a head");
        let headers = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = headers[9..12].parse().unwrap();
        Self { status, headers: headers.to_ascii_lowercase(), body: answer[end + 4..].to_vec() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}
