//! Device management.

use std::error::Error;
use std::io::Write;
use std::sync::Arc;

use vramscope::prelude::*;
use vramscope::profiler::DeviceSpec;

pub(crate) fn run(out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    // Two devices of addresses without memory; `CudaDevice::open` opens GPUs.
    let gpus: Vec<Arc<dyn allocator::Device>> =
        (0..2).map(|_| Arc::new(VirtualDevice::with_capacity(24 << 30)) as _).collect();
    let pool = MemoryPool::new(&Policy::cupy(), gpus)?;

    for profiler in [
        GpuMemoryProfiler::on_pool(&pool, "cuda:1")?,
        GpuMemoryProfiler::on_pool(&pool, 1)?,
        GpuMemoryProfiler::on_pool(&pool, "cuda")?,
        GpuMemoryProfiler::on_pool(&pool, DeviceSpec::Current)?,
    ] {
        writeln!(out, "{}: {}", profiler.source().device(), profiler.source().name)?;
    }
    for wrong in ["cuda:2", "cpu"] {
        if let Err(error) = GpuMemoryProfiler::on_pool(&pool, wrong) {
            writeln!(out, "{error}")?;
        }
    }
    Ok(())
}
