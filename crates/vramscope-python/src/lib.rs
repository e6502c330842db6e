//! The native part of the Python package `vramscope`, imported as `vramscope._native`.
//!
//! Python is only where Python is the interface (`python/vramscope`); what reads, counts and draws is here, and what
//! it stands on is the facade `vramscope`.

mod answers;
mod command;
mod error;
#[cfg(unix)]
mod live;
mod open_recording;
mod reading;
mod recording;
mod table;
mod work;

use pyo3::prelude::*;

/// What `python/vramscope` imports; `python/vramscope/_native.pyi` has its types.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::command::main;
    #[pymodule_export]
    use super::error::{ReadError, VramscopeError};
    #[cfg(unix)]
    #[pymodule_export]
    use super::live::LiveServer;
    #[pymodule_export]
    use super::recording::{Recording, read};
    #[pymodule_export]
    use super::table::Table;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
