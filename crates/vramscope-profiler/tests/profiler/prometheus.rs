//! The endpoint from Prometheus' point of view, over plain sockets.
//!
//! Prometheus' Python client also reads the scraped text, with the interpreter in `VRAMSCOPE_TOOLS_PYTHON`; `./test` creates one.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use vramscope_allocator::{MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::{
    MemorySource, PoolSource, PrometheusEndpoint, PrometheusError, Reading, SourceError, SourceInfo, Tick,
    Ticker,
};

const GIB: u64 = 1 << 30;

struct Reply {
    status: u16,
    headers: BTreeMap<String, String>,
    body: String,
}

fn ask(address: SocketAddr, head: &str) -> Reply {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let headers = head.lines().skip(1).map(|l| l.split_once(": ").unwrap());
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Reply { status: head[9..12].parse().unwrap(), headers, body: body.to_owned() }
}

fn get(address: SocketAddr, path: &str) -> Reply {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}"))
}

/// Dropping the endpoint does not wait for a source that hangs or for an open connection.
fn drops_at_once(endpoint: PrometheusEndpoint) {
    let (done, dropped) = channel();
    std::thread::spawn(move || {
        drop(endpoint);
        done.send(())
    });
    dropped.recv_timeout(Duration::from_secs(3)).unwrap();
}

/// The scraped values by series: `vramscope_up{source="...",device="..."}`.
struct Scrape {
    kind: String,
    text: String,
    series: BTreeMap<String, u64>,
}

impl Scrape {
    fn of(endpoint: &PrometheusEndpoint) -> Self {
        let reply = get(endpoint.address(), "/metrics");
        assert_eq!(reply.status, 200, "{}", reply.body);
        let lines = reply.body.lines().filter(|l| !l.starts_with('#'));
        let series =
            lines.map(|l| l.rsplit_once(' ').unwrap()).map(|(s, n)| (s.to_owned(), n.parse().unwrap()));
        let (kind, series) = (reply.headers["content-type"].clone(), series.collect());
        Self { kind, text: reply.body, series }
    }

    /// Returns the value of the only series with this name and a label with this value.
    fn value(&self, name: &str, label: &str) -> Option<u64> {
        let (start, label) = (format!("{name}{{"), format!("\"{label}\""));
        let mut found = self.series.iter().filter(|(s, _)| s.starts_with(&start) && s.contains(&label));
        let value = found.next().map(|(_, &value)| value);
        assert!(found.next().is_none(), "{name} {label} in {}", self.text);
        value
    }

    /// Parses the text with Prometheus' Python client: families by name. `None`, with a message on stderr, if no Python has it.
    fn as_python_reads_it(&self) -> Option<Value> {
        let python = vramscope_testing::interpreter("tools", "VRAMSCOPE_TOOLS_PYTHON")?;
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tools/prometheus.py");
        let mut command = Command::new(python);
        let command = command.args([script, &self.kind]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(self.text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stderr), self.text);
        Some(serde_json::from_slice(&output.stdout).unwrap())
    }
}

/// A source with any name, and responses from a closure.
struct ClosureSource {
    info: SourceInfo,
    answer: Box<dyn Fn() -> Result<Reading, SourceError> + Send + Sync>,
}

impl ClosureSource {
    fn named(
        name: &str,
        answer: impl Fn() -> Result<Reading, SourceError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        let info = SourceInfo { name: name.to_owned(), device_id: None };
        Arc::new(Self { info, answer: Box::new(answer) })
    }
}

impl MemorySource for ClosureSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        (self.answer)()
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(Asked(self))
    }
}

/// It knows only current values.
struct Asked(Arc<ClosureSource>);

impl Ticker for Asked {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let now = self.0.read()?;
        Ok(Tick { now, high: now, high_is_exact: false })
    }
}

fn allocated(bytes: u64) -> Result<Reading, SourceError> {
    Ok(Reading { allocated: Some(bytes), ..Reading::default() })
}

/// Returns a pool of 24 GiB in which every counter is above 0.
fn used() -> (MemoryPool, Vec<vramscope_allocator::Allocation>) {
    let device = Arc::new(VirtualDevice::with_capacity(24 * GIB));
    let pool = MemoryPool::new(&Policy::cupy(), vec![device]).unwrap();
    let mut live = vec![pool.malloc(3_000_000_001).unwrap(), pool.malloc(1001).unwrap()];
    // Split, so that the rest of it cannot be released.
    drop(pool.malloc(8 << 20).unwrap());
    live.push(pool.malloc(1 << 20).unwrap());
    // Served after the cache was released; and not served at all.
    drop(pool.malloc(12 * GIB).unwrap());
    drop(pool.malloc(20 * GIB).unwrap());
    pool.malloc(30 * GIB).unwrap_err();
    (pool, live)
}

#[test]
fn a_scrape_has_the_pools_own_numbers() {
    let (pool, _live) = used();
    let source = PoolSource::new(&pool, 0).unwrap();
    let endpoint = PrometheusEndpoint::start(0, vec![source.clone()]).unwrap();
    // Much shorter than any scrape interval.
    drop(pool.malloc(9 * GIB).unwrap());
    let scrape = Scrape::of(&endpoint);
    assert_eq!(scrape.kind, "application/openmetrics-text; version=1.0.0; charset=utf-8");

    let s = pool.statistics();
    let counts = source.read().unwrap().counts.unwrap();
    let reading = source.read().unwrap();
    let bytes = [
        ("requested", s.requested.current),
        ("allocated", s.allocated.current),
        ("active", s.active.current),
        ("reserved", s.reserved.current),
        ("inactive_split", source.inactive_split_bytes().unwrap()),
        ("device_used", s.device_used.current),
        ("device_total", 24 * GIB),
        ("hidden", s.device_used.current - s.reserved.current),
        ("peak_allocated", s.allocated.current + 9 * GIB),
        ("peak_reserved", s.reserved.current),
    ];
    let numbers = [("up", 1), ("peak_is_exact", 1)];
    let totals = [
        ("allocations", "", s.num_allocations),
        ("frees", "", s.num_frees),
        ("allocations", "_bytes", s.allocated.allocated),
        ("frees", "_bytes", s.allocated.freed),
        ("alloc_retries", "", s.num_alloc_retries),
        ("ooms", "", s.num_ooms),
    ];
    assert!(totals.iter().all(|&(_, _, n)| n > 0) && bytes[4].1 > 0, "a number is 0: {counts:?} {reading:?}");
    let bytes = bytes.map(|(name, n)| (format!("vramscope_{name}_bytes"), "", "gauge", "bytes", n));
    let numbers = numbers.map(|(name, n)| (format!("vramscope_{name}"), "", "gauge", "", n));
    let totals = totals.map(|(name, unit, n)| {
        (format!("vramscope_{name}{unit}"), "_total", "counter", unit.trim_start_matches('_'), n)
    });
    let expected: Vec<_> = bytes.into_iter().chain(numbers).chain(totals).collect();

    let labels = r#"{source="pool on device 0",device="cuda:0"}"#;
    let series = expected.iter().map(|(name, suffix, .., n)| (format!("{name}{suffix}{labels}"), *n));
    assert_eq!(scrape.series, series.collect());

    let Some(families) = scrape.as_python_reads_it() else { return };
    assert_eq!(families.as_object().unwrap().len(), expected.len());
    for (name, suffix, kind, unit, n) in expected {
        let family = &families[&name];
        assert_eq!((&family["type"], &family["unit"]), (&kind.into(), &unit.into()), "{name}");
        assert!(family["help"].as_str().unwrap().ends_with('.'));
        let sample = json!({
            "name": format!("{name}{suffix}"),
            "labels": {"source": "pool on device 0", "device": "cuda:0"},
            "value": family["samples"][0]["value"],
        });
        assert_eq!(family["samples"], json!([sample]));
        assert_eq!(sample["value"].as_f64(), Some(n as f64), "{name}");
    }
}

/// Every metric has a row, and every row has a metric.
#[test]
fn the_metrics_are_those_of_the_documentation() {
    let (pool, _live) = used();
    let every = ClosureSource::named("every", || {
        Ok(Reading { process_used: Some(1), cpu: Some(1), ..Reading::default() })
    });
    let endpoint = PrometheusEndpoint::start(0, vec![PoolSource::new(&pool, 0).unwrap(), every]).unwrap();
    let text = Scrape::of(&endpoint).text;
    let mut units = BTreeMap::new();
    let mut served = BTreeMap::new();
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "UNIT", name, unit] => {
                units.insert(name, unit);
            }
            ["#", "TYPE", name, kind] => {
                let suffix = if kind == "counter" { "_total" } else { "" };
                served.insert(format!("{name}{suffix}"), (name, kind));
            }
            _ => (),
        }
    }
    let served: BTreeMap<_, _> = served
        .into_iter()
        .map(|(series, (name, kind))| (series, (kind, units.get(name).copied().unwrap_or("-"))))
        .collect();
    let rows =
        include_str!("../../../../docs/prometheus.md").lines().filter(|l| l.starts_with("| `vramscope_"));
    let told: BTreeMap<_, _> = rows
        .map(|row| {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            (cells[1].trim_matches('`').to_owned(), (cells[2], cells[3]))
        })
        .collect();
    assert_eq!(served, told);
}

#[test]
fn a_failing_source_is_down_and_has_no_other_metric() {
    let fails = Arc::new(AtomicBool::new(false));
    let (failing, panicking) = (fails.clone(), fails.clone());
    let endpoint = PrometheusEndpoint::start(
        0,
        vec![
            ClosureSource::named("fails", move || match failing.load(Ordering::Relaxed) {
                true => Err(SourceError::Gone("fails".to_owned())),
                false => allocated(512),
            }),
            ClosureSource::named("panics", move || {
                assert!(!panicking.load(Ordering::Relaxed), "this is a test of a source that panics");
                allocated(512)
            }),
            ClosureSource::named("works", || allocated(1024)),
        ],
    )
    .unwrap();
    for (up, value) in [(1, Some(512)), (0, None), (1, Some(512))] {
        fails.store(up == 0, Ordering::Relaxed);
        let scrape = Scrape::of(&endpoint);
        for name in ["fails", "panics"] {
            assert_eq!(scrape.value("vramscope_up", name), Some(up));
            let series = scrape.series.keys().filter(|s| s.contains(name)).count();
            assert_eq!(series, if up == 1 { 4 } else { 1 }, "{}", scrape.text);
            assert_eq!(scrape.value("vramscope_allocated_bytes", name), value);
        }
        assert_eq!(scrape.value("vramscope_up", "works"), Some(1));
        assert_eq!(scrape.value("vramscope_allocated_bytes", "works"), Some(1024));
    }
}

/// One source hangs, the other responds; the endpoint ends in the meantime.
#[test]
fn a_hanging_source_is_down_and_delays_no_other() {
    let (release, released) = channel::<()>();
    let released: Mutex<Receiver<()>> = Mutex::new(released);
    let hangs = ClosureSource::named("hangs", move || {
        released.lock().unwrap().recv().ok();
        allocated(1)
    });
    let endpoint =
        PrometheusEndpoint::start(0, vec![hangs, ClosureSource::named("works", || allocated(2))]).unwrap();
    for _ in 0..2 {
        let scrape = Scrape::of(&endpoint);
        assert_eq!(scrape.value("vramscope_up", "hangs"), Some(0));
        assert_eq!(scrape.value("vramscope_allocated_bytes", "works"), Some(2));
    }
    drops_at_once(endpoint);
    drop(release);
}

#[test]
fn a_sampled_source_reports_the_peak_of_its_scrapes() {
    let values = Mutex::new([7, 3, 5].into_iter());
    let source = ClosureSource::named("sampled", move || allocated(values.lock().unwrap().next().unwrap()));
    let endpoint = PrometheusEndpoint::start(0, vec![source]).unwrap();
    for now in [7, 3, 5] {
        let scrape = Scrape::of(&endpoint);
        assert_eq!(scrape.value("vramscope_allocated_bytes", "sampled"), Some(now));
        assert_eq!(scrape.value("vramscope_peak_allocated_bytes", "sampled"), Some(7));
        assert_eq!(scrape.value("vramscope_peak_is_exact", "sampled"), Some(0));
        assert_eq!(scrape.value("vramscope_reserved_bytes", "sampled"), None);
    }
}

#[test]
fn names_stay_in_their_labels_and_no_two_are_the_same() {
    let hostile = "a\"b\\c\nvramscope_up{source=\"x\"} 1\n# EOF\u{7f}é}";
    let names = ["same", "same", "same (2)", hostile];
    let sources = names.map(|name| ClosureSource::named(name, || allocated(1)) as _).to_vec();
    let endpoint = PrometheusEndpoint::start(0, sources).unwrap();
    let scrape = Scrape::of(&endpoint);
    assert_eq!(scrape.text.matches("\n# EOF\n").count(), 1);
    assert!(scrape.text.ends_with("\n# EOF\n"));
    assert_eq!(scrape.series.keys().filter(|s| s.starts_with("vramscope_up{")).count(), 4);
    let Some(families) = scrape.as_python_reads_it() else { return };
    let samples = families["vramscope_up"]["samples"].as_array().unwrap();
    let read: Vec<&str> = samples.iter().map(|s| s["labels"]["source"].as_str().unwrap()).collect();
    assert_eq!(read, ["same", "same (2)", "same (2) (2)", hostile]);
}

#[test]
fn fifty_scrapes_at_once_are_all_answered() {
    let (pool, _live) = used();
    let endpoint = PrometheusEndpoint::start(0, vec![PoolSource::new(&pool, 0).unwrap()]).unwrap();
    let first = Scrape::of(&endpoint);
    let barrier = Barrier::new(50);
    std::thread::scope(|s| {
        for _ in 0..50 {
            s.spawn(|| {
                barrier.wait();
                assert_eq!(Scrape::of(&endpoint).series, first.series);
            });
        }
    });
}

/// More connections than the limit send nothing, or half a request. A scrape replaces the first of them. It does not wait for their
/// timeout, which would close all of them.
#[test]
fn connections_that_say_nothing_make_room() {
    let endpoint =
        PrometheusEndpoint::start(0, vec![ClosureSource::named("works", || allocated(1))]).unwrap();
    let mut silent: Vec<_> = (0..600).map(|_| TcpStream::connect(endpoint.address()).unwrap()).collect();
    for stream in silent.iter_mut().step_by(2) {
        stream.write_all(b"GET /metrics HTT").ok();
    }
    assert_eq!(Scrape::of(&endpoint).value("vramscope_up", "works"), Some(1));
    let last = silent.last_mut().unwrap();
    last.set_nonblocking(true).unwrap();
    let still = last.read(&mut [0; 9]).map_err(|e| e.kind());
    assert_eq!(still.unwrap_err(), std::io::ErrorKind::WouldBlock, "the newest stays");
    let first = &mut silent[0];
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(!matches!(first.read(&mut [0; 9]), Ok(1..)), "the first is ended");
}

/// Connects as often, and as fast, as it can.
fn scraped_by(endpoint: &PrometheusEndpoint, clients: usize, times: usize) {
    let barrier = Barrier::new(clients);
    std::thread::scope(|s| {
        for _ in 0..clients {
            s.spawn(|| {
                barrier.wait();
                (0..times).for_each(|_| drop(Scrape::of(endpoint)));
            });
        }
    });
}

/// More scrapers than connections.
#[test]
fn four_thousand_scrapes_of_two_hundred_clients_are_all_answered() {
    let (pool, _live) = used();
    let endpoint = PrometheusEndpoint::start(0, vec![PoolSource::new(&pool, 0).unwrap()]).unwrap();
    scraped_by(&endpoint, 200, 20);
}

/// Silent connections, half requests, and whole requests without the announced body.
#[test]
fn scrapes_are_answered_beside_connections_that_waste_time() {
    let endpoint =
        PrometheusEndpoint::start(0, vec![ClosureSource::named("works", || allocated(1))]).unwrap();
    let address = endpoint.address();
    let body = format!("POST /metrics HTTP/1.1\r\nhost: {address}\r\ncontent-length: 1000000\r\n\r\nx");
    let ended = AtomicBool::new(false);
    std::thread::scope(|s| {
        for start in ["", "GET /metrics HTT", &body] {
            s.spawn(|| {
                let mut open = Vec::new();
                while !ended.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(start.as_bytes()).ok();
                    open.push(stream);
                    open.drain(..open.len().saturating_sub(100));
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
        }
        scraped_by(&endpoint, 20, 10);
        ended.store(true, Ordering::Relaxed);
    });
}

/// A source that hangs keeps all connections busy for five seconds.
#[test]
fn a_scrape_too_many_is_asked_to_come_again() {
    let (release, released) = channel::<()>();
    let released: Mutex<Receiver<()>> = Mutex::new(released);
    let hangs = ClosureSource::named("hangs", move || {
        released.lock().unwrap().recv().ok();
        allocated(1)
    });
    let endpoint = PrometheusEndpoint::start(0, vec![hangs]).unwrap();
    let replies: Vec<Reply> = std::thread::scope(|s| {
        let clients: Vec<_> = (0..300).map(|_| s.spawn(|| get(endpoint.address(), "/metrics"))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (answered, refused): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status == 200);
    assert_eq!((answered.len(), refused.len()), (256, 44));
    for reply in refused {
        assert_eq!((reply.status, &*reply.headers["retry-after"]), (503, "1"), "{}", reply.body);
        assert_eq!(reply.body, "all connections are in use; try again in a second");
    }
    drop(release);
    Scrape::of(&endpoint);
}

#[test]
fn dropping_it_closes_connections_and_frees_the_port() {
    let endpoint = PrometheusEndpoint::start(0, vec![]).unwrap();
    let address = endpoint.address();
    assert_eq!(get(address, "/metrics").body, "# EOF\n");
    let taken = PrometheusEndpoint::start(address, vec![]).map(drop).unwrap_err();
    assert!(matches!(taken, PrometheusError::Bind { .. }));
    let begin = format!("cannot listen on {address}: ");
    let said = taken.to_string();
    assert!(
        said.starts_with(&begin) && said.ends_with("; choose another port, or 0 for any free port"),
        "{said}"
    );

    let mut open = TcpStream::connect(address).unwrap();
    open.write_all(b"GET /metr").unwrap();
    drops_at_once(endpoint);
    open.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert!(!matches!(open.read(&mut [0; 9]), Ok(1..)), "it answers");
    drop(TcpListener::bind(address).unwrap());
}

#[test]
fn the_endpoint_serves_only_metrics_and_refuses_foreign_hosts() {
    let endpoint = PrometheusEndpoint::start(0, vec![]).unwrap();
    let address = endpoint.address();
    assert!(address.ip().is_loopback());
    let port = address.port();
    let long = format!("GET /metrics HTTP/1.1\r\nx: {}", "x".repeat(1 << 20));
    for (head, status) in [
        ("GET /metrics HTTP/1.1\r\nhost: localhost:1", 200),
        ("GET /metrics?debug=1 HTTP/1.1\r\nhost: [::1]:9", 200),
        ("GET /metrics HTTP/1.0", 200),
        (&format!("GET http://127.0.0.1:{port}/metrics HTTP/1.1\r\nhost: 127.0.0.1"), 200),
        ("GET / HTTP/1.1\r\nhost: 127.0.0.1", 404),
        ("GET /metrics/ HTTP/1.1\r\nhost: 127.0.0.1", 404),
        ("GET /../etc/passwd HTTP/1.1\r\nhost: 127.0.0.1", 404),
        ("POST /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0", 405),
        ("DELETE /metrics HTTP/1.1\r\nhost: 127.0.0.1", 405),
        (&format!("GET /metrics HTTP/1.1\r\nhost: attacker.example:{port}"), 403),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1.attacker.example", 403),
        ("GET /metrics HTTP/1.1\r\nhost: [::1", 400),
        (&format!("GET http://attacker.example:{port}/metrics HTTP/1.1\r\nhost: 127.0.0.1"), 403),
        ("what is this", 400),
        ("GET /metrics HTTP/1.1", 400),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: 127.0.0.1", 400),
        ("GET /metrics HTTP/1.0\r\nhost: 127.0.0.1\r\nhost: attacker.example", 400),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1 attacker.example", 400),
        ("GET /metrics HTTP/1.1\r\nhost:\r\n 127.0.0.1", 400),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\nx: folded\r\n header", 400),
        ("GET /metrics HTTP/1.1\r\nhost : 127.0.0.1", 400),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2", 400),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: +1", 400),
        ("GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked, identity", 400),
        ("GET /metrics HTTP/1.0\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked", 400),
    ] {
        let reply = ask(address, head);
        assert_eq!(reply.status, status, "{head}: {}", reply.body);
        assert_eq!(reply.headers.get("allow").map(String::as_str), (status == 405).then_some("GET"));
    }
    // Rejected before everything was read.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(long.as_bytes()).ok();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).ok();
    assert!(
        answer == [0; 12] || answer.starts_with(b"HTTP/1.1 431"),
        "{:?}",
        String::from_utf8_lossy(&answer)
    );
}

/// A requested address is reachable under any name.
#[test]
fn an_address_that_was_named_is_listened_on() {
    let everywhere: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let endpoint = PrometheusEndpoint::start(everywhere, vec![]).unwrap();
    assert!(endpoint.address().ip().is_unspecified());
    let local = SocketAddr::from(([127, 0, 0, 1], endpoint.address().port()));
    assert_eq!(ask(local, "GET /metrics HTTP/1.1\r\nhost: gpu-7.example").status, 200);
}
