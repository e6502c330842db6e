//! A served source, read by clients and served by servers of every kind.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::Value;
use tempfile::TempDir;
use vramscope_allocator::{Allocation, MemoryPool, Policy, VirtualDevice};
use vramscope_profiler::live::{self, Connection, LiveError, LiveOptions, LiveServer, RemoteSource};
use vramscope_profiler::{MemorySource, PoolSource, SourceError};

const MIB: u64 = 1 << 20;

/// Longer than any step here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn pool() -> MemoryPool {
    MemoryPool::new(&Policy::cupy(), vec![Arc::new(VirtualDevice::with_capacity(1 << 30))]).unwrap()
}

fn serve(pool: &MemoryPool, path: &Path, collect_holders: bool) -> LiveServer {
    let title = Some("a test".to_owned());
    let options =
        LiveOptions { path: Some(path.to_owned()), collect_holders, title, ..LiveOptions::default() };
    LiveServer::start(PoolSource::new(pool, 0).unwrap(), options).unwrap()
}

/// Returns a pool, and a server of it in its own folder.
fn served() -> (MemoryPool, LiveServer, TempDir) {
    let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
    let server = serve(&pool, &folder.path().join("live.sock"), false);
    (pool, server, folder)
}

/// Sends bytes, and returns response lines until the server closes the connection or `lines` lines have arrived.
fn ask(path: &Path, bytes: &[u8], lines: usize) -> Vec<Value> {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(bytes).unwrap();
    let answers = BufReader::new(stream).lines().take(lines);
    answers.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
}

#[test]
fn each_connection_has_its_own_high_water_mark() {
    let (pool, server, _folder) = served();
    let [mut a, mut b] = [(); 2].map(|()| Connection::open(server.path()).unwrap());
    let high = |connection: &mut Connection| {
        let look = connection.look(0).unwrap();
        assert!(look.tick.high_is_exact && look.holders.is_none());
        look.tick.high.allocated.unwrap() / MIB
    };
    let kept = pool.malloc(MIB).unwrap();
    drop(pool.malloc(6 * MIB).unwrap());
    assert_eq!(high(&mut a), 7);
    drop(pool.malloc(2 * MIB).unwrap());
    // The second connection has not sent a request yet.
    assert_eq!([high(&mut a), high(&mut b)], [3, 7]);
    drop(kept);
    assert_eq!([high(&mut b), high(&mut a)], [1, 1]);
    assert_eq!([high(&mut a), high(&mut b)], [0, 0]);
}

/// Returns the keys of a response, including nested objects. For a list, the keys of its first object.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(object) => {
            object.iter().flat_map(|(key, value)| [vec![key.clone()], keys(value)].concat()).collect()
        }
        Value::Array(list) => list.first().map(keys).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// docs/live.md shows one response to each request.
#[test]
fn answers_have_the_keys_that_the_protocol_shows() {
    let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
    let server = serve(&pool, &folder.path().join("live.sock"), true);
    let _held = pool.malloc(MIB).unwrap();
    let answers = ask(server.path(), b"{\"ask\":\"hello\"}\n{\"ask\":\"tick\",\"holders\":10}\n", 2);
    let shown = vramscope_testing::book::fences("docs/live.md");
    let shown = shown.iter().filter(|fence| fence.language() == "json");
    let shown: Vec<Value> = shown.map(|fence| serde_json::from_str(&fence.lines.concat()).unwrap()).collect();
    assert_eq!(answers.iter().map(keys).collect::<Vec<_>>(), shown.iter().map(keys).collect::<Vec<_>>());
}

#[test]
fn a_remote_source_knows_what_the_pool_knows() {
    let (pool, server, _folder) = served();
    let remote = RemoteSource::connect(server.path()).unwrap();
    let own = PoolSource::new(&pool, 0).unwrap();
    let kept: Vec<Allocation> = (1..20).map(|i| pool.malloc(i * 70_000).unwrap()).collect();
    drop(kept.into_iter().step_by(2).collect::<Vec<_>>());
    assert_eq!(remote.read(), own.read());
    assert_eq!(remote.inactive_split_bytes(), own.inactive_split_bytes());
    assert_eq!(remote.releasable_bytes(), own.releasable_bytes());
    assert_eq!(remote.info().name, format!("a test (process {}): pool on device 0", std::process::id()));
    assert_eq!((remote.info().device_id, remote.hello().collects_holders), (Some(0), false));

    let mut ticker = remote.ticker();
    drop(pool.malloc(100 * MIB).unwrap());
    let tick = ticker.tick().unwrap();
    assert_eq!((tick.high.allocated, tick.high_is_exact), (Some(100 * MIB), true));
    assert_eq!(tick.now, own.read().unwrap());
}

/// Allocates at the bottom of `depth` nested calls.
#[inline(never)]
fn at_depth(pool: &MemoryPool, depth: u64) -> Allocation {
    if depth == 0 { pool.malloc(512) } else { Ok(std::hint::black_box(at_depth(pool, depth - 1))) }.unwrap()
}

#[test]
fn holders_come_with_their_stacks_as_far_as_an_answer_has_room() {
    let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
    let server = serve(&pool, &folder.path().join("live.sock"), true);
    let large = pool.malloc(9 * MIB).unwrap();
    let _small = [(); 3].map(|()| pool.malloc(MIB).unwrap());
    let mut connection = Connection::open(server.path()).unwrap();
    assert!(connection.hello().collects_holders);
    // Wait until all stacks are resolved.
    let mut held = |n: usize| {
        let start = Instant::now();
        loop {
            // A busy machine may be late.
            let holders = connection.look(n).map(|look| look.holders.unwrap());
            match holders {
                Ok(holders) if holders.iter().all(|holder| holder.stack.is_some()) => return holders,
                looked => assert!(start.elapsed() < LONG, "{looked:?}"),
            }
        }
    };
    let holders = held(10);
    assert_eq!(holders.iter().map(|h| (h.bytes / MIB, h.count)).collect::<Vec<_>>(), [(9, 1), (3, 3)]);
    let stack = holders[0].stack.as_ref().unwrap();
    assert!(stack.iter().any(|frame| frame.contains("live.rs:")), "{stack:?}");
    assert_eq!((held(1).len(), held(0).len()), (1, 0));
    drop(large);
    assert_eq!(held(10).len(), 1);

    // Each at a different depth: the text of all stacks exceeds the maximum size of a response.
    let _deep: Vec<Allocation> = (300..400).map(|depth| at_depth(&pool, depth)).collect();
    let holders = held(usize::MAX);
    assert!(holders.len() > 5 && holders.len() < 101, "{}", holders.len());
    assert_eq!(holders[0].bytes, 3 * MIB);
}

#[test]
fn questions_that_make_no_sense_are_answered() {
    let (_pool, server, _folder) = served();
    let asked = [
        &b"\n"[..],
        b"hello\n",
        b"{}\n",
        b"{\"ask\":\"free_cache\"}\n",
        b"{\"ask\":\"tick\",\"holders\":-1}\n",
        b"{\"ask\":\"tick\",\"holders\":1e99}\n",
        b"\xff\x00\xfe\n",
        b"[[[[[[[[[[[[\n",
        b"{\"ask\":\"tick\"}\r\n",
    ]
    .concat();
    let answers = ask(server.path(), &asked, 9);
    for answer in &answers[..8] {
        let said = answer["error"].as_str().unwrap();
        assert!(said.starts_with("invalid request: ") && said.ends_with(r#""holders":10}"#), "{said}");
    }
    assert!(answers[8]["now"]["allocated_bytes"].is_u64(), "{}", answers[8]);
    assert!(answers[8]["holders"].is_null());

    // A request without an end.
    let answers = ask(server.path(), &[b'{'; 5000], usize::MAX);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0]["error"], "a request has at most 4096 bytes");
}

#[test]
fn connections_are_few_and_places_come_free() {
    let (_pool, server, _folder) = served();
    let mut open: Vec<Connection> = (0..16).map(|_| Connection::open(server.path()).unwrap()).collect();
    let refused = Connection::open(server.path()).unwrap_err();
    let name = server.path().display();
    assert_eq!(refused.to_string(), format!("{name}: 16 connections are open; close one"));
    open.pop();
    let start = Instant::now();
    while let Err(e) = Connection::open(server.path()) {
        assert!(start.elapsed() < LONG, "{e}");
    }
}

/// They would block other clients forever; connections with requests stay.
#[test]
fn connections_that_never_ask_make_room() {
    let (_pool, server, _folder) = served();
    let mut watching = Connection::open(server.path()).unwrap();
    let mut silent: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(server.path()).unwrap()).collect();
    // Invalid text is not a request.
    for stream in &mut silent[90..] {
        stream.write_all(b"nonsense\n").ok();
    }
    let mut others: Vec<Connection> = (0..15).map(|_| Connection::open(server.path()).unwrap()).collect();
    watching.look(0).unwrap();
    for other in &mut others {
        other.look(0).unwrap();
    }
    let refused = Connection::open(server.path()).unwrap_err();
    assert!(refused.to_string().ends_with("16 connections are open; close one"), "{refused}");
}

/// A client that never reads is disconnected; in the meantime others get responses.
#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let (_pool, server, _folder) = served();
    let mut stuck = UnixStream::connect(server.path()).unwrap();
    stuck.set_nonblocking(true).unwrap();
    let start = Instant::now();
    // Until the server accepts no more.
    while start.elapsed() < LONG {
        match stuck.write(&b"{\"ask\":\"tick\"}\n".repeat(100)) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
            written => drop(written.unwrap()),
        }
    }
    let mut other = Connection::open(server.path()).unwrap();
    let mut looks = 0;
    loop {
        other.look(0).unwrap();
        looks += 1;
        match stuck.write(b"x") {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => break,
            _ => assert!(start.elapsed() < LONG, "the server keeps the client"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(looks > 1);
}

/// The server's clients are connected and send no request, so it would wait without a limit.
#[test]
fn dropping_the_server_ends_it() {
    let (pool, folder) = (pool(), tempfile::tempdir().unwrap());
    let path = folder.path().join("live.sock");
    let source = PoolSource::new(&pool, 0).unwrap();
    let title = Some("a test".to_owned());
    let options = LiveOptions { path: Some(path.clone()), title, ..LiveOptions::default() };
    let server = LiveServer::start(Arc::clone(&source) as _, options).unwrap();
    let mut connection = Connection::open(&path).unwrap();
    let _idle = UnixStream::connect(&path).unwrap();
    connection.look(0).unwrap();
    assert!(Arc::strong_count(&source) > 1);
    drop(server);
    assert!(!path.exists());
    // The server's thread releases the source when it ends; a busy machine may be late.
    let start = Instant::now();
    while Arc::strong_count(&source) > 1 {
        assert!(start.elapsed() < LONG, "the thread still runs");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(
        connection.look(0),
        Err(SourceError::Gone(format!("a test (process {})", std::process::id())))
    );
    assert!(matches!(Connection::open(&path), Err(SourceError::Gone(_))));
}

#[test]
fn a_path_that_is_taken() {
    let (pool, server, folder) = served();
    let start = |path: &Path| {
        let options = LiveOptions { path: Some(path.to_owned()), ..LiveOptions::default() };
        LiveServer::start(PoolSource::new(&pool, 0).unwrap(), options)
    };
    let file = folder.path().join("file");
    fs::write(&file, "precious").unwrap();
    for path in [server.path(), &file] {
        assert!(matches!(start(path), Err(LiveError::Taken(taken)) if taken == path));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert!(Connection::open(server.path()).is_ok());

    // No process listens there any more.
    let dead = folder.path().join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    let again = start(&dead).unwrap();
    assert!(Connection::open(&dead).is_ok());
    // The path names another file when the server ends.
    fs::remove_file(&dead).unwrap();
    fs::write(&dead, "another's").unwrap();
    drop(again);
    assert!(dead.exists());

    let long = folder.path().join("x".repeat(200));
    let said = start(&long).err().unwrap().to_string();
    assert!(said.starts_with(&format!("{}: ", long.display())), "{said}");
}

/// Sends `answers` in turn, whatever the requests are; then sends nothing.
fn pretend(folder: &TempDir, answers: Vec<Vec<u8>>) -> PathBuf {
    let path = folder.path().join("pretend.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for answer in answers {
            let _ = stream.read(&mut [0; 100]);
            // The client may have disconnected.
            stream.write_all(&answer).ok();
        }
        // Until the client has disconnected.
        stream.read_to_end(&mut Vec::new()).ok();
    });
    path
}

const HELLO: &[u8] =
    b"{\"vramscope_live\":1,\"pid\":1,\"title\":\"it\",\"source_name\":\"s\",\"collects_holders\":false}\n";

#[test]
fn answers_that_make_no_sense() {
    let said = |answers: &[&[u8]]| {
        let folder = tempfile::tempdir().unwrap();
        let path = pretend(&folder, answers.iter().map(|a| a.to_vec()).collect());
        let error = Connection::open(&path).and_then(|mut c| c.look(0)).unwrap_err().to_string();
        error.replace(&path.display().to_string(), "PATH")
    };
    let another = [HELLO[..18].to_vec(), HELLO[18..].to_vec()].concat();
    let another = String::from_utf8(another).unwrap().replace("live\":1", "live\":2");
    assert_eq!(said(&[another.as_bytes()]), "PATH: uses protocol version 2; this program supports version 1");
    assert_eq!(said(&[b"HTTP/1.1 400\r\n"]), "PATH: invalid response: expected value at line 1 column 1");
    assert_eq!(said(&[HELLO, b"{\"error\":\"out of order\"}\n"]), "it (process 1): out of order");
    assert_eq!(said(&[HELLO, b"{\"error\":\"\",\"gone\":true}\n"]), "it (process 1) is gone");
    assert_eq!(said(&[HELLO, &[b'7'; 2 << 20]]), "it (process 1): its response is larger than 1 MiB");
    assert_eq!(said(&[HELLO, b"no end"]), "it (process 1): no response within 2 s");
}

/// Occasional single bytes must not keep the reader waiting forever.
#[test]
fn an_answer_that_drips() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drip.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        while stream.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let said = Connection::open(&path).unwrap_err().to_string();
    assert!(said.ends_with("no response within 2 s"), "{said}");
}

/// The program accepts no connection, and its backlog fills up.
#[test]
fn a_program_that_accepts_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("still.sock");
    let listener = UnixListener::bind(&path).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let _waiting = UnixStream::connect(&path).unwrap();
    for _ in 0..2 {
        let said = Connection::open(&path).unwrap_err().to_string();
        assert!(said.ends_with("no response within 2 s"), "{said}");
    }
}

#[test]
fn a_late_answer_loses_no_highest_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let look = |now: u32, high: u32| {
        format!(
            "{{\"time_us\":1,\"now\":{{\"allocated_bytes\":{now}}},\"high\":{{\"allocated_bytes\":{high}}},\"high_is_exact\":true}}\n"
        )
    };
    let (go, gone) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = BufReader::new(stream.try_clone().unwrap()).lines();
        asked.next();
        stream.write_all(HELLO).unwrap();
        asked.next();
        // The client gives up in the meantime.
        gone.recv().unwrap();
        stream.write_all(look(1, 9).as_bytes()).unwrap();
        asked.next();
        stream.write_all(look(2, 5).as_bytes()).unwrap();
    });
    let mut connection = Connection::open(&path).unwrap();
    assert!(connection.look(0).is_err());
    go.send(()).unwrap();
    let tick = connection.look(0).unwrap().tick;
    assert_eq!((tick.now.allocated, tick.high.allocated, tick.high_is_exact), (Some(2), Some(9), true));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_requests_do_not_break_the_server(bytes in prop::collection::vec(any::<u8>(), 0..12_000)) {
        let (_pool, server, _folder) = served();
        let mut stream = UnixStream::connect(server.path()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // It may have closed the connection before reading everything.
        stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write)).ok();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer: Value = serde_json::from_str(&line).unwrap();
            prop_assert!(answer["error"].is_string());
        }
        let hello = ask(server.path(), b"{\"ask\":\"hello\"}\n", 1);
        prop_assert_eq!(&hello[0]["title"], "a test");
    }

    #[test]
    fn a_random_response_is_an_error_or_a_sample(hello: bool, mut bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        bytes.push(b'\n');
        let folder = tempfile::tempdir().unwrap();
        let answers = if hello { vec![HELLO.to_vec(), bytes] } else { vec![bytes] };
        let path = pretend(&folder, answers);
        let looked = Connection::open(&path).and_then(|mut connection| connection.look(10));
        prop_assert!(matches!(looked, Err(SourceError::Answer { .. })), "{looked:?}");
    }
}

/// The role of a child process; set only by its parent.
const ROLE: &str = "VRAMSCOPE_TEST_LIVE";

/// The child process: separate, because the environment determines its sockets. Without a role it does nothing.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let pool = pool();
    let start = || LiveServer::start(PoolSource::new(&pool, 0).unwrap(), LiveOptions::default()).unwrap();
    match role.as_str() {
        "serve" => {
            let _kept = pool.malloc(MIB).unwrap();
            let _server = start();
            std::thread::sleep(LONG);
        }
        "two" => {
            let [a, b] = std::thread::scope(|s| [s.spawn(start), s.spawn(start)].map(|t| t.join().unwrap()));
            let folder = live::directory().unwrap();
            let pid = std::process::id();
            let expected = [format!("{pid}-2.sock"), format!("{pid}.sock")].map(|name| folder.join(name));
            assert_eq!(live::sockets().unwrap(), expected);
            let mut paths = [a.path().to_owned(), b.path().to_owned()];
            paths.sort();
            assert_eq!(paths, expected);
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!([&folder, &paths[0], &paths[1]].map(|path| mode(path)), [0o700, 0o600, 0o600]);
            let found = live::discover().unwrap();
            assert_eq!(found.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&paths[0], &paths[1]]);
            let program = std::env::current_exe().unwrap();
            assert_eq!(found[0].1.hello().title, program.file_name().unwrap().to_str().unwrap());
            let others = live::discover_except(&[paths[0].clone()].into()).unwrap();
            assert_eq!(others.iter().map(|(path, _)| path).collect::<Vec<_>>(), [&paths[1]]);
            drop(a);
            assert_eq!(live::discover().unwrap().len(), 1);
            drop(b);
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        }
        "discover" => {
            let dead = live::sockets().unwrap();
            assert_eq!(dead.len(), 1);
            assert!(live::discover().unwrap().is_empty());
            assert!(!dead[0].exists());
        }
        "refused" => {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(live::directory().unwrap(), mode).unwrap();
            for error in [live::directory().err(), live::sockets().err(), live::discover().err()] {
                assert!(matches!(error, Some(LiveError::OpenFolder { mode: 0o755, .. })));
            }
        }
        "taken" => {
            let server = start();
            let found = live::discover().unwrap();
            assert_eq!(found.iter().map(|(path, _)| path.as_path()).collect::<Vec<_>>(), [server.path()]);
            assert_eq!(live::directory().unwrap(), server.path().parent().unwrap());
        }
        role => panic!("{role}"),
    }
}

/// Starts this program again, with `folder` for its sockets.
fn spawn(role: &str, folder: &Path, runtime: bool) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["live::child", "--exact"])
        .env(ROLE, role)
        .env_remove("XDG_RUNTIME_DIR")
        .stdout(Stdio::null());
    command.env(if runtime { "XDG_RUNTIME_DIR" } else { "TMPDIR" }, folder).spawn().unwrap()
}

#[test]
fn a_killed_program_is_gone_and_its_socket_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = spawn("serve", folder.path(), true);
    let path = folder.path().join(format!("vramscope/{}.sock", child.id()));
    let start = Instant::now();
    let source = loop {
        match RemoteSource::connect(&path) {
            Ok(source) => break source,
            Err(e) => assert!(start.elapsed() < LONG, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut ticker = Arc::clone(&source).ticker();
    assert_eq!(ticker.tick().unwrap().now.allocated, Some(MIB));
    child.kill().unwrap();
    child.wait().unwrap();
    let gone = |error| matches!(error, Some(SourceError::Gone(_)));
    assert!(gone(ticker.tick().err()) && gone(ticker.tick().err()));
    assert!(gone(source.read().err()));
    assert!(gone(source.ticker().tick().err()));
    assert!(path.exists());
    assert!(spawn("discover", folder.path(), true).wait().unwrap().success());
}

/// Another user creates the folder first, and one that resembles its substitute, with a socket in it.
#[test]
fn another_user_cannot_hide_a_users_programs() {
    let folder = tempfile::tempdir().unwrap();
    let user = rustix::process::geteuid().as_raw();
    for name in [format!("vramscope-{user}"), format!("vramscope-{user}-0123456789abcdef")] {
        let taken = folder.path().join(name);
        fs::create_dir(&taken).unwrap();
        fs::set_permissions(&taken, fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(taken.join("1.sock"), "").unwrap();
        if std::os::unix::fs::chown(&taken, Some(65534), Some(65534)).is_err() {
            return vramscope_testing::skip("root", "a folder of another user's takes root");
        }
    }
    assert!(spawn("taken", folder.path(), false).wait().unwrap().success());
}

#[test]
fn two_servers_of_one_program_have_two_sockets() {
    for runtime in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        assert!(spawn("two", folder.path(), runtime).wait().unwrap().success());
    }
}

#[test]
fn a_folder_that_is_open_to_others_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(spawn("refused", folder.path(), true).wait().unwrap().success());
}
