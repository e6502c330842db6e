//! The native part of the Python package `vramscope`, imported as `vramscope._native`.
//!
//! Python code only provides the interface (`python/vramscope`). Reading, counting and drawing happen here, on top of the
//! facade `vramscope`.

mod answers;
mod arguments;
mod call_tree;
mod command;
mod error;
mod event_log;
mod explain;
mod files;
mod line_profile;
#[cfg(unix)]
mod live;
mod open_recording;
mod pool_history;
mod profiler;
mod purposes;
mod reading;
mod recording;
mod size;
mod stacks;
mod table;
mod virtual_pool;
mod work;

use pyo3::prelude::*;

/// The exports that `python/vramscope` imports; `python/vramscope/_native.pyi` has their types.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::command::{main, names_another_format};
    #[pymodule_export]
    use super::error::{OutOfMemoryError, ReadError, VramscopeError};
    #[pymodule_export]
    use super::explain::explain_out_of_memory;
    #[pymodule_export]
    use super::files::OutputFile;
    #[pymodule_export]
    use super::line_profile::LineProfile;
    #[cfg(unix)]
    #[pymodule_export]
    use super::live::LiveServer;
    #[pymodule_export]
    use super::pool_history::PoolHistory;
    #[pymodule_export]
    use super::profiler::{
        check_saved_results, hidden_memory, keeps_growing, nvml_devices, out_of_memory_words,
    };
    #[pymodule_export]
    use super::purposes::Purposes;
    #[pymodule_export]
    use super::recording::{Recording, read};
    #[pymodule_export]
    use super::size::parse_bytes;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::virtual_pool::{VirtualDevice, VirtualPool};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
