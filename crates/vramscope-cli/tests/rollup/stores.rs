//! Recordings in a store: a small S3 server in Python, from the interpreter in `VRAMSCOPE_TOOLS_PYTHON`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::Fleet;

/// Serves S3 with a bucket `runs` that contains the recordings.
const SERVER: &str = r#"
import os, sys, boto3
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
url = f"http://{host}:{port}"
s3 = boto3.client("s3", endpoint_url=url, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
s3.create_bucket(Bucket="runs")
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.join(folder, name)
        s3.upload_file(path, "runs", "today/" + os.path.relpath(path, sys.argv[1]))
s3.put_object(Bucket="runs", Key="today/notes.txt", Body=b"no recording")
print(url, flush=True)
for line in sys.stdin:
    s3.put_object(Bucket="runs", Key=line.strip(), Body=open(sys.argv[2], "rb").read())
    print("put", flush=True)
"#;

struct Store {
    server: Child,
    out: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.server.kill().ok();
        self.server.wait().ok();
    }
}

impl Store {
    fn of(fleet: &Fleet) -> Option<Self> {
        let python = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON")?;
        let another = fleet.path("recordings").join(fleet.plan.file(7));
        let mut server = Command::new(python)
            .args(["-c", SERVER])
            .args([fleet.path("recordings"), another])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(server.stdout.take().unwrap());
        let mut url = String::new();
        out.read_line(&mut url).unwrap();
        Some(Self { server, out, url: url.trim().to_owned() })
    }

    fn run(&self, fleet: &Fleet, args: &[&str]) -> Output {
        let mut command = fleet.command(args);
        command.env("AWS_ENDPOINT_URL", &self.url).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").output().unwrap()
    }

    /// Uploads the recording of rank 7 under another name.
    fn put(&mut self, key: &str) {
        use std::io::Write as _;
        writeln!(self.server.stdin.as_mut().unwrap(), "{key}").unwrap();
        let mut said = String::new();
        self.out.read_line(&mut said).unwrap();
        assert_eq!(said, "put\n");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The answers equal those of the same files on disk, except for the URLs.
#[test]
fn answers_from_a_store_equal_those_from_disk() {
    let fleet = Fleet::new();
    let Some(mut store) = Store::of(&fleet) else { return };
    let there = "s3://runs/today/";
    let local = |text: String| text.replace("s3://runs/today/", "recordings/");
    let output = store.run(&fleet, &["fleet", there, "--format", "json"]);
    let here = fleet.run(&["fleet", "recordings/", "--format", "json"]);
    assert_eq!(local(text(&output.stdout)), text(&here.stdout), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), here.status.code());
    // The second query uses the cache.
    for sql in [
        "SELECT * FROM summary ORDER BY rank",
        "SELECT * FROM summary ORDER BY rank",
        "SELECT * FROM events ORDER BY rank, event",
    ] {
        let output = store.run(&fleet, &["query", sql, there, "--format", "json"]);
        assert_eq!(
            local(text(&output.stdout)),
            text(&fleet.run(&["query", sql, "recordings/", "--format", "json"]).stdout)
        );
    }
    assert!(fleet.path("cache/vramscope").is_dir() && !fleet.path("recordings/today").exists());
    // A recording that is uploaded again gets a new summary.
    store.put(&format!("today/{}", fleet.plan.file(5).display()));
    let sql = "SELECT rank, peak_allocated_bytes AS peak FROM summary WHERE rank IN (5, 7) ORDER BY rank";
    let rows: Value =
        serde_json::from_slice(&store.run(&fleet, &["query", sql, there, "--format", "json"]).stdout)
            .unwrap();
    assert_eq!(rows[0]["peak"], rows[1]["peak"]);

    for (out, from) in [("here", "recordings/"), ("there", there)] {
        let what = "holders,summary";
        let output = store.run(
            &fleet,
            &["export", from, "--format", "parquet", "--what", what, "-o", out, "--format", "json"],
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(fleet.path(out).join("summary")).unwrap().count(), 8);
    }
}

/// Answers every request with this status while the test runs.
fn refuses(status: &'static str) -> String {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).ok();
        }
    });
    url
}

#[test]
fn a_store_without_access_is_one_line_of_error() {
    let fleet = Fleet::new();
    for status in ["403 Forbidden", "401 Unauthorized"] {
        let mut command = fleet.command(&["fleet", "s3://runs/today/"]);
        command.env("AWS_ENDPOINT_URL", refuses(status)).env("AWS_REGION", "us-east-1");
        let output =
            command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").output().unwrap();
        let said = text(&output.stderr);
        let line =
            "error: s3://runs/today/: the store refuses access; set the credentials in the environment";
        assert!(said.starts_with(line) && said.lines().count() == 1, "{status}: {said}");
        assert_eq!(output.status.code(), Some(2));
        // A file on a web server.
        let address = format!("{}/rank0.pickle", refuses(status));
        let said = text(&fleet.run(&["fleet", &address]).stderr);
        assert!(said.starts_with(&format!("error: {address}: the store refuses access")), "{status}: {said}");
    }
}

/// Files on an ordinary web server.
#[test]
fn files_of_a_web_server_are_read() {
    let fleet = Fleet::new();
    let Some(python) = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON") else { return };
    let serve = "import functools, http.server as h
server = h.ThreadingHTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler)
print(server.server_port, flush=True)
server.serve_forever()";
    let mut server = Command::new(python)
        .args(["-c", serve])
        .current_dir(fleet.path("recordings"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let address = |rank: u64| format!("http://127.0.0.1:{}/{}", port.trim(), fleet.plan.file(rank).display());
    let sql = "SELECT rank, count(*) AS n FROM events GROUP BY rank ORDER BY rank";
    let (rows, said) = fleet.query(&[sql, &address(5), &address(7), &address(9)]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(rows, serde_json::json!([{"rank": 5, "n": 1538}, {"rank": 7, "n": 1540}]));
    assert_eq!(
        said,
        format!("note: {}: the store has no such file; check the name of the bucket\n", address(9))
    );
}

/// An error of one URL is a note, and the others are answered.
#[test]
fn an_error_of_one_url_is_a_note() {
    let fleet = Fleet::new();
    let Some(store) = Store::of(&fleet) else { return };
    let sql = "SELECT count(*) AS n FROM summary";
    for (address, why) in [
        ("s3://nobodys/today/", "the store has no such file; check the name of the bucket"),
        ("s3://runs/yesterday/", "contains no recording"),
        ("http://127.0.0.1:9/rank8.pickle", "the store cannot be read: "),
        ("s3:///today/", "contains no bucket or host"),
    ] {
        let output = store.run(&fleet, &["query", sql, "recordings/", address, "--format", "csv"]);
        let said = text(&output.stderr);
        assert_eq!(text(&output.stdout), "n\n8\n", "{said}");
        let line =
            said.lines().find(|line| line.contains(address)).unwrap_or_else(|| panic!("{address}: {said}"));
        assert!(line.starts_with(&format!("note: {address}: {why}")), "{said}");
        // Alone, it is an error.
        let output = store.run(&fleet, &["query", sql, address]);
        let said = text(&output.stderr);
        assert!(said.starts_with(&format!("error: {address}: {why}")) && said.lines().count() == 1, "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}
