//! Memory by function, in a small training loop: `cargo run -p vramscope --example function_profile`
//!
//! Prints the table of Chainer's `CupyMemoryProfileHook`, then the full table by phase.

use std::error::Error;
use std::io::{self, Write as _};
use std::sync::Arc;

use vramscope::allocator::hooks::function::{self, Unit};
use vramscope::prelude::*;

const KIB: u64 = 1 << 10;

/// One training step. A layer's output and its gradient are as large as its input.
fn step(pool: &MemoryPool, layers: &[hooks::Function], batch: u64) -> Result<(), AllocError> {
    let size = 64 * KIB * batch;
    let mut outputs = Vec::new();
    for layer in layers {
        outputs.push(layer.forward(|| match layer.name() {
            // Needs a workspace besides its output.
            "LinearFunction" => {
                let _workspace = pool.malloc(size / 2)?;
                pool.malloc(size)
            }
            "SoftmaxCrossEntropy" => pool.malloc(4 * batch),
            _ => pool.malloc(size),
        })?);
    }
    for layer in layers.iter().rev() {
        let _gradient = layer.backward(|| pool.malloc(size))?;
        drop(outputs.pop());
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = MemoryPool::on_host(Policy::cupy(), 1 << 30)?;
    let layers =
        ["LinearFunction", "ReLU", "LinearFunction", "ReLU", "SoftmaxCrossEntropy"].map(hooks::Function::new);
    let hook = Arc::new(CupyMemoryProfileHook::new());
    let guard = function::register(hook.clone())?;
    for i in 0..100 {
        step(&pool, &layers, 16 + i % 4)?;
    }
    drop(guard);

    let mut out = io::stdout().lock();
    hook.print_report(Unit::Auto, &mut out)?;
    writeln!(out)?;
    hook.print_full_report(Unit::AutoForeach, &mut out)?;
    Ok(())
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
