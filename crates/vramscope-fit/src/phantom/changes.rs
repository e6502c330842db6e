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
    /// Peak of the process's memory of the host.
    #[serde(default)]
    pub(crate) host_bytes: u64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Model {
    pub(crate) class: String,
    /// Number of parameters of each data type.
    pub(crate) dtypes: BTreeMap<String, u64>,
    /// Whether a configuration of transformers turns on a cache of keys and values.
    pub(crate) uses_cache: bool,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Optimizer {
    pub(crate) class: String,
    pub(crate) foreach: Option<bool>,
    pub(crate) fused: Option<bool>,
}

/// The forward pass until the first step of an optimizer.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Forward {
    /// The path of the module that the program calls; empty for the model itself.
    pub(crate) path: String,
    /// Floating-point operations of each module that was called, by its path.
    pub(crate) flops: BTreeMap<String, u64>,
    pub(crate) total_flops: u64,
    /// The modules in lists and sequences that the first pass called once, in the order of their ends.
    pub(crate) modules: Vec<ModuleCall>,
    /// Bytes that the first pass saved for the backward pass, without parameters.
    pub(crate) saved_bytes: u64,
    /// Bytes of trainable parameters that the first pass used.
    pub(crate) parameter_bytes: u64,
}

/// The call of a module. The two numbers of an array count from the start of the pass to the start and to the end of the call.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct ModuleCall {
    pub(crate) path: String,
    /// Bytes saved for the backward pass.
    pub(crate) saved_bytes: [u64; 2],
    /// Bytes of trainable parameters of modules whose call has ended.
    pub(crate) parameter_bytes: [u64; 2],
    /// Bytes of the call's inputs on the GPU.
    pub(crate) input_bytes: u64,
}
