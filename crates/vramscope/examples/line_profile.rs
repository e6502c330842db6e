//! Memory by source line: `cargo run -p vramscope --example line_profile`
//!
//! The program of CuPy's `LineProfileHook` documentation: three requests on three lines.

use std::error::Error;
use std::io::{self, Write as _};
use std::sync::Arc;

use vramscope::allocator::hooks::line_profile::{LineReportOptions, Measure};
use vramscope::prelude::*;

#[inline(never)]
fn test(pool: &MemoryPool) -> Result<[Allocation; 3], AllocError> {
    let a = pool.malloc(1024)?;
    let b = pool.malloc(1024)?;
    let c = pool.malloc(2048)?;
    Ok([a, b, c])
}

#[inline(never)]
fn run_tests(pool: &MemoryPool) -> Result<(), AllocError> {
    let arrays = test(pool)?;
    drop(arrays);
    // The blocks are cached now, so nothing is acquired from the device.
    drop(test(pool)?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
    let hook = Arc::new(LineProfileHook::new());
    let guard = register(hook.clone())?;
    run_tests(&pool)?;
    drop(guard);

    let mut out = io::stdout().lock();
    writeln!(out, "CuPy's report, (used, acquired):\n")?;
    hook.print_report(&mut out)?;
    let by_line =
        LineReportOptions { depth_from_leaf: 1, sort: Some(Measure::Peak), ..LineReportOptions::default() };
    writeln!(out, "\nThe lines that allocate, by their peak:\n")?;
    hook.report(&by_line).write_full(&mut out)?;
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
