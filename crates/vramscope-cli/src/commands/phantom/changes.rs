//! The changes of `vramscope fit` in the program, and the facts that they collect.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Applies changes to a Python program; the recorder imports it.
pub(crate) const CHANGES: (&str, &str) = ("vramscope_changes.py", include_str!("changes.py"));

/// The environment variable with the changes, as JSON.
pub(crate) const VARIABLE: &str = "VRAMSCOPE_CHANGES";

/// The facts of one process.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Facts {
    /// The outermost module with most of the first optimizer's parameters.
    pub(crate) model: Option<Model>,
    pub(crate) optimizers: Vec<Optimizer>,
    /// Steps of all optimizers.
    pub(crate) steps: u64,
    /// The changes that took effect.
    pub(crate) applied: Vec<String>,
    /// Bytes copied to host memory by `save_on_cpu` in the whole run.
    pub(crate) offloaded_bytes: u64,
    /// The forward pass, if it was inspected.
    pub(crate) forward: Option<Forward>,
    /// Whether bitsandbytes is installed.
    pub(crate) has_bitsandbytes: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Model {
    pub(crate) class: String,
    /// Number of parameters.
    pub(crate) parameters: u64,
    /// Number of parameters of each data type.
    pub(crate) dtypes: BTreeMap<String, u64>,
    pub(crate) blocks: Option<Blocks>,
    /// Whether a configuration of transformers turns on a cache of keys and values.
    pub(crate) uses_cache: bool,
}

/// The repeated blocks of a model: modules of one class.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Blocks {
    pub(crate) class: String,
    /// The paths of the blocks in the model, in the model's order.
    pub(crate) paths: Vec<String>,
    /// The number of parameters of each block.
    pub(crate) parameters: Vec<u64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Optimizer {
    pub(crate) class: String,
    pub(crate) foreach: Option<bool>,
    pub(crate) fused: Option<bool>,
}

/// The forward pass until the first step of an optimizer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Forward {
    /// The path of the module that the program calls; empty for the model itself.
    pub(crate) path: String,
    /// Floating-point operations of each module that was called, by its path.
    pub(crate) flops: BTreeMap<String, u64>,
    pub(crate) total_flops: u64,
}
