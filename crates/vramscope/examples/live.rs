//! A training loop to watch: `cargo run -p vramscope --example live -- --seconds 60`
//!
//! Run `vramscope top` in another terminal. Each step peaks in its middle, too briefly for samples from outside, but the high-water mark
//! shows the peak.

use std::error::Error;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use vramscope::prelude::*;

const MIB: u64 = 1 << 20;

/// One training step. Activations accumulate in forward and are freed in backward, each after its gradient.
fn step(pool: &MemoryPool, batch: u64) -> Result<(), AllocError> {
    let mut activations = Vec::new();
    for layer in 1..=4 {
        activations.push(pool.malloc(layer * batch * MIB)?);
        std::thread::sleep(Duration::from_millis(20));
    }
    while let Some(activation) = activations.pop() {
        let _gradient = pool.malloc(activation.size())?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(unix)]
fn serve(pool: &MemoryPool) -> Result<impl Drop, Box<dyn Error>> {
    use vramscope::profiler::live::{LiveOptions, LiveServer};

    let title = Some("training".to_owned());
    let options = LiveOptions { collect_holders: true, title, ..LiveOptions::default() };
    let server = LiveServer::start(PoolSource::new(pool, 0)?, options)?;
    writeln!(io::stdout(), "serving at {}", server.path().display())?;
    Ok(server)
}

#[cfg(not(unix))]
fn serve(_: &MemoryPool) -> Result<(), Box<dyn Error>> {
    Err("watching a program is supported only on Unix".into())
}

/// Parses the value of `--seconds`.
fn seconds() -> Result<u64, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(60),
        ["--seconds", n] => Ok(n.parse()?),
        _ => Err("usage: live [--seconds N]".into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    run(Duration::from_secs(seconds()?))
}

fn run(duration: Duration) -> Result<(), Box<dyn Error>> {
    let end = Instant::now() + duration;
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
    let _server = serve(&pool)?;

    let _weights = pool.malloc(40 * MIB)?;
    let _moments = [pool.malloc(40 * MIB)?, pool.malloc(40 * MIB)?];
    // Each size for about a second.
    let batches = [1, 2, 4, 8, 4, 2].into_iter().flat_map(|batch| [batch; 8]);
    for batch in batches.cycle() {
        if Instant::now() >= end {
            break;
        }
        step(&pool, batch)?;
    }
    Ok(())
}

#[test]
#[cfg(unix)]
fn it_serves() -> Result<(), Box<dyn Error>> {
    run(Duration::from_millis(1))
}
