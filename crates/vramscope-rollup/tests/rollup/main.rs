//! A cluster and clients that are not vramscope: they send any plan of DataFusion.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ballista::prelude::SessionContextExt as _;
use datafusion::prelude::{CsvReadOptions, SessionContext};
use vramscope_rollup::{Executor, run_scheduler};

/// A free port, and a free one behind it.
fn free() -> SocketAddr {
    loop {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, first.port().saturating_add(1))).is_ok() {
            return first;
        }
    }
}

fn wait_for(address: SocketAddr) {
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{address} does not answer");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a cluster of one executor, which ends with this process.
fn cluster() -> String {
    let (scheduler, listen) = (free(), free());
    thread::spawn(move || run_scheduler(scheduler, "127.0.0.1"));
    wait_for(scheduler);
    let executor =
        Executor { scheduler: scheduler.to_string(), listen, external_host: None, cores: 1, work_dir: None };
    thread::spawn(move || executor.run());
    wait_for(listen);
    format!("df://{scheduler}")
}

async fn outcome(context: &SessionContext, sql: &str) -> Result<String, String> {
    let frame = context.sql(sql).await.map_err(|e| e.strip_backtrace())?;
    let rows = frame.collect().await.map_err(|e| e.strip_backtrace())?;
    Ok(datafusion::arrow::util::pretty::pretty_format_batches(&rows).unwrap().to_string())
}

#[test]
fn an_executor_opens_no_files_but_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("secret.csv"), "word\nsecret\n").unwrap();
    let url = cluster();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = SessionContext::remote(&url).await.unwrap();
        assert!(outcome(&context, "SELECT 1 + 1").await.unwrap().contains(" 2 "));
        // The client reads the types of the columns itself.
        context.register_csv("secret", path("secret.csv"), CsvReadOptions::new()).await.unwrap();
        let refused = outcome(&context, "SELECT word FROM secret").await.unwrap_err();
        assert!(refused.contains("queries read only recordings, not file:///"), "{refused}");
        let copy = format!("COPY (SELECT 1) TO '{}'", path("out.csv"));
        let refused = outcome(&context, &copy).await.unwrap_err();
        assert!(refused.contains("queries read only recordings, not file:///"), "{refused}");
    });
    assert!(!Path::new(&path("out.csv")).exists());
    runtime.shutdown_background();
}
