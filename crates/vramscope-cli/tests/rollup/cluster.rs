//! A scheduler and two executors as processes: the answers equal those without a cluster.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use vramscope_testing::fleet::{JobPlan, base};

use crate::Fleet;

/// Limit on the time to start a process.
const PATIENCE: Duration = Duration::from_secs(30);

/// Processes that end with the test.
struct Cluster {
    scheduler: SocketAddr,
    processes: Vec<Child>,
    /// Their messages.
    said: Arc<Mutex<String>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in &mut self.processes {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// A free port whose next port is also free.
fn free() -> SocketAddr {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = first.local_addr().unwrap();
        if address.port() < u16::MAX && TcpListener::bind(("127.0.0.1", address.port() + 1)).is_ok() {
            return address;
        }
    }
}

fn waited_for(address: SocketAddr) {
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < PATIENCE, "{address} does not answer");
        thread::sleep(Duration::from_millis(20));
    }
}

impl Cluster {
    fn of(fleet: &Fleet, executors: usize) -> Self {
        let scheduler = free();
        let mut cluster = Self { scheduler, processes: Vec::new(), said: Arc::default() };
        let address = scheduler.to_string();
        cluster.start(fleet.command(&["fleet-scheduler", "--listen", &address]), scheduler);
        for _ in 0..executors {
            let listen = free();
            let args =
                ["fleet-executor", "--scheduler", &address, "--listen", &listen.to_string(), "--jobs", "1"];
            cluster.start(fleet.command(&args), listen);
        }
        cluster
    }

    fn start(&mut self, mut command: Command, address: SocketAddr) {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let said = self.said.clone();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // Shown if the test fails.
                eprintln!("{address}: {line}");
                *said.lock().unwrap() += &format!("{line}\n");
            }
        });
        self.processes.push(child);
        waited_for(address);
    }

    fn url(&self) -> String {
        format!("df://{}", self.scheduler)
    }
}

/// The output of a command, its exit code, and its messages.
fn answer(fleet: &Fleet, args: &[&str]) -> (String, Option<i32>, String) {
    let output = fleet.run(args);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (out, output.status.code(), err)
}

const STATEMENTS: [&str; 7] = [
    "SELECT * FROM summary ORDER BY rank",
    "SELECT rank, count(*) AS n, max(allocated_bytes) AS peak FROM events GROUP BY rank ORDER BY rank",
    "SELECT count(*) FROM events",
    "SELECT line, category, sum(block_bytes) AS b, count(*) AS n FROM allocations GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
    "SELECT * FROM holders ORDER BY rank, grouped_by, bytes DESC, key, preexisting",
    "SELECT e.rank, e.event, a.block_bytes, a.stack FROM events e JOIN allocations a USING (rank, device, allocation) \
     WHERE e.action = 'alloc' ORDER BY 1, 2 LIMIT 500",
    "SELECT s.rank, s.size_bytes, y.peak_reserved_bytes FROM segments s JOIN summary y USING (rank) \
     WHERE s.rank BETWEEN 2 AND 5 ORDER BY 1, 2 DESC, s.address",
];

#[test]
fn two_executors_give_the_same_answer_as_one_process() {
    let fleet = Fleet::new();
    let cluster = Cluster::of(&fleet, 2);
    let url = cluster.url();
    for sql in STATEMENTS {
        for form in ["csv", "json", "table"] {
            let alone = answer(&fleet, &["query", sql, "recordings/", "--format", form]);
            let there = answer(&fleet, &["query", sql, "recordings/", "--format", form, "--cluster", &url]);
            assert_eq!(there, alone, "{sql}");
        }
    }
    for args in [&["fleet", "recordings/"][..], &["fleet", "recordings/", "--no-cache", "--json"]] {
        assert_eq!(answer(&fleet, &[args, &["--cluster", &url]].concat()), answer(&fleet, args));
    }
    // The rules for statements are those without a cluster.
    fs::write(fleet.path("secret.csv"), "a\n1\n").unwrap();
    for sql in [
        "COPY (SELECT 1) TO 'out.csv'",
        "CREATE EXTERNAL TABLE mine STORED AS CSV LOCATION 'secret.csv'",
        "SET datafusion.execution.batch_size = 1",
        "SELECT * FROM 'secret.csv'",
        "SELECT length(repeat('x', 2000000000))",
    ] {
        let (_, code, said) = answer(&fleet, &["query", sql, "recordings/", "--cluster", &url]);
        assert!(said.starts_with("error: query: ") && said.lines().count() == 1, "{sql}: {said}");
        assert_eq!(code, Some(2), "{sql}");
    }
    assert!(!fleet.path("out.csv").exists());
    let (_, code, said) =
        answer(&fleet, &["query", "SELECT nothing FROM events", "recordings/", "--cluster", &url]);
    assert!(said.starts_with("error: query: Schema error: No field named nothing."), "{said}");
    assert_eq!((said.lines().count(), code), (1, Some(2)));
}

/// The busy executor is killed, and the other one takes over all its work.
#[test]
fn an_executor_that_dies_changes_no_answer() {
    let mut fleet = Fleet::new();
    fleet.plan = JobPlan::new(64, 7);
    let more = fleet.path("more");
    fleet.plan.write(&more, &base());
    let sql = "SELECT rank, line, stack, count(*) AS n, sum(size_bytes) AS b FROM events GROUP BY 1, 2, 3 ORDER BY 1, 2, 3";
    let args = ["query", sql, "more/", "--format", "csv", "--no-cache"];
    let alone = answer(&fleet, &args);
    let mut cluster = Cluster::of(&fleet, 2);
    let url = cluster.url();
    let asked = fleet
        .command(&[&args[..], &["--cluster", &url]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It is killed while it reads.
    let begun = Instant::now();
    while !is_reading(cluster.processes[1].id()) {
        assert!(begun.elapsed() < PATIENCE, "no executor works");
        thread::sleep(Duration::from_millis(5));
    }
    cluster.processes[1].kill().unwrap();
    let there = asked.wait_with_output().unwrap();
    let said = String::from_utf8(there.stderr).unwrap();
    assert_eq!(String::from_utf8(there.stdout).unwrap(), alone.0, "{said}");
    assert_eq!(there.status.code(), Some(0), "{said}");
    // Its work was done by the other executor.
    let told = cluster.said.lock().unwrap().clone();
    assert!(told.contains("tasks for running job/stage"), "{told}");
}

/// Whether a process reads a recording.
fn is_reading(process: u32) -> bool {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| is_recording(&path))
}

fn is_recording(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "pickle")
}

#[test]
fn a_cluster_that_is_not_there_is_a_line() {
    let fleet = Fleet::new();
    let nobody = free();
    for (url, said) in [
        (format!("df://{nobody}"), "error: query: no scheduler answers at "),
        ("nonsense".to_owned(), "error: query: nonsense: is not a scheduler address as df://host:50050"),
    ] {
        let (_, code, err) = answer(&fleet, &["query", "SELECT 1", "recordings/", "--cluster", &url]);
        assert!(err.starts_with(said) && err.lines().count() == 1, "{err}");
        assert_eq!(code, Some(2));
        let (_, code, err) = answer(&fleet, &["fleet", "recordings/", "--cluster", &url]);
        assert!(err.starts_with(&said.replace("query", "--cluster")), "{err}");
        assert_eq!(code, Some(2));
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_, code, err) = answer(&fleet, &["fleet-scheduler", "--listen", &address]);
    assert!(err.contains("in use"), "{err}");
    assert_eq!(code, Some(2));
}
