//! The sections' workload: a training step of a small model. It allocates realistically and computes nothing.

use std::error::Error;

use vramscope::prelude::*;
use vramscope::report;

/// Bytes of `Linear(1000, 1000)`, and of its output for one row of a batch.
const WEIGHT: u64 = 4 * 1000 * 1000;
const ROW: u64 = 4 * 1000;

/// A pool under PyTorch's rules, with 1 GiB of host memory. With a `CudaDevice` it would use a GPU.
pub(crate) fn pool() -> Result<MemoryPool, Box<dyn Error>> {
    pool_of(1 << 30)
}

pub(crate) fn pool_of(capacity: u64) -> Result<MemoryPool, Box<dyn Error>> {
    let policy = Policy::torch(&TorchSettings::default(), TorchRelease::new(2, 11));
    Ok(MemoryPool::on_host(policy, capacity)?)
}

/// A sequence of linear layers.
pub(crate) struct Model {
    pool: MemoryPool,
    weights: Vec<Allocation>,
}

impl Model {
    pub(crate) fn new(pool: &MemoryPool, layers: usize) -> Result<Self, AllocError> {
        let weights = (0..layers).map(|_| pool.malloc(WEIGHT)).collect::<Result<_, _>>()?;
        Ok(Self { pool: pool.clone(), weights })
    }

    /// Runs a step on a batch of `rows`. Returns the loss.
    pub(crate) fn train_step(&self, rows: u64) -> Result<Allocation, AllocError> {
        let outputs = self.forward(rows)?;
        let loss = self.pool.malloc(4)?;
        self.backward(outputs)?;
        Ok(loss)
    }

    /// Returns the output of each layer, which backward needs.
    pub(crate) fn forward(&self, rows: u64) -> Result<Vec<Allocation>, AllocError> {
        self.weights.iter().map(|_| self.pool.malloc(rows * ROW)).collect()
    }

    /// Applies and frees each gradient, together with the output of its layer.
    pub(crate) fn backward(&self, mut outputs: Vec<Allocation>) -> Result<(), AllocError> {
        while let Some(output) = outputs.pop() {
            let gradient = self.pool.malloc(WEIGHT)?;
            drop((gradient, output));
        }
        Ok(())
    }
}

/// Formats bytes, such as `3.81 MiB`. Sources may not know every number; a pool does.
pub(crate) fn bytes(n: Option<u64>) -> String {
    n.map_or_else(|| "unknown".to_owned(), report::bytes)
}

/// Waits for a sample that began after this call.
pub(crate) fn wait_for_look(tracker: &MemoryTracker) {
    let seen = tracker.statistics().samples;
    while tracker.statistics().samples < seen + 2 {
        std::thread::yield_now();
    }
}
