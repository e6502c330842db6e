//! The native part of the Python package `vramscope`, imported as `vramscope._native`.
//!
//! Python code only provides the interface (`python/vramscope`). Reading, counting and drawing happen here, on top of the
//! facade `vramscope`.
//!
//! # Modules
//! Recordings:
//!
//! - `recording` is `vramscope.Recording`; `open_recording` has the file and derived data, each computed once. Answers are those of
//!   `--json`, converted to Python by `answers` without importing Python modules.
//! - `work`: long work runs on a thread without the interpreter's lock, and Ctrl-C ends it. `table`: the columns of `vramscope-export`'s
//!   `arrow.rs`, passed by address. `live`: the source of `vramscope.serve`. `phantom`: runs on phantom GPUs, and the search for changes.
//!
//! The profiler, whose rules are those of `vramscope::profiler`: `profiler` finds leaks by function and classifies memory outside the pool,
//! `alerts` has the state of alerts, and `call_totals` the sums of calls. Python reads the allocators.
//!
//! PyTorch:
//!
//! ```text
//!   python/vramscope/torch/_record.py: the active recording      _run.py: recording of a process (vramscope run)
//!         |                    |                       |
//!    _hooks.py          PyTorch's snapshot       explain.rs: an out of memory in 14 lines (report/text/brief.rs)
//!         |                    |
//!   categories/mod.rs: hooks   |
//!         |                    |
//!      log.rs  -- clock.rs --> join.rs: matches notes about an address with its allocation at that time
//!      steps.rs: when hooks rest ----> examples.rs: infers a step without hooks from an observed step
//! ```
//!
//! - Every hook is native, records a few numbers and never raises. Lookups happen when the recording is written.
//! - `torch_pool`: vramscope's pool as PyTorch's allocator. The only parts that PyTorch calls without Python.
//! - `_saved_tensors.py` and `_history.py` share PyTorch's single instances with the program: ours step aside and remove nothing.
//! - `threads`: the position of each thread in the program. `backward`: the module whose node runs, from the module's last node.
//!
//! CuPy:
//!
//! ```text
//!   line_profile.rs     pool_history.rs      virtual_pool.rs: the engine with CuPy's rules
//!         |                   |
//!         |             event_log.rs: a log, written four times a second
//!         |                   |
//!         +-- call_tree.rs ---+    stacks as a tree
//!                  |
//!             stacks.rs: the functions on this thread
//! ```
//!
//! - `stacks` keeps code objects and positions, not frames: a frame keeps every array in its local variables alive.
//! - `call_tree` compares a stack with the previous one, looks up differences by address, and asks Python for names only for new lines.
//!   It holds no lock while Python code may run, because the garbage collector may call a hook.
//! - `line_profile` counts at the stacks of the allocator's `LineProfileHook`, which makes the report.
//! - `pool_history` wraps both ends of CuPy's pool. Each block has an object that dies with it, on any thread.
//! - `arguments`: parses arguments of the package's functions.
//! - `command`: the `vramscope` command in the package.
//! - `error`: the exceptions of the package.
//! - `event_log`: a recording that is written during the run.
//! - `explain`: explains why a program ran out of memory, from the recording that it just wrote, or from the text of an error.
//! - `files`: output files for the package's Python code (`python/vramscope/_files.py`).
//! - `flight_recorder`: bundles of the Python profiler, written by `vramscope-profiler`.
//! - `line_profile`: memory by source line, for the `LineProfileHook`s of `vramscope.cupy` and `vramscope.torch`.
//! - `categories`: records the category of each allocation of a PyTorch program, with hooks.
//! - `reading`: reads recordings that the user names.
//! - `size`: parses and formats sizes as the command does.
//! - `virtual_pool`: CuPy's pool without CuPy and without a GPU.

mod alerts;
mod answers;
mod arguments;
mod call_totals;
mod call_tree;
mod categories;
mod command;
mod error;
mod event_log;
mod explain;
mod files;
mod flight_recorder;
mod line_profile;
#[cfg(unix)]
mod live;
mod open_recording;
#[cfg(unix)]
mod phantom;
mod pool_history;
mod profiler;
mod reading;
mod recording;
mod size;
mod stacks;
mod table;
#[cfg(target_os = "linux")]
mod torch_pool;
mod virtual_pool;
mod work;

use pyo3::prelude::*;

/// The exports that `python/vramscope` imports; `python/vramscope/_native.pyi` has their types.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::alerts::Alerts;
    #[pymodule_export]
    use super::call_totals::CallTotals;
    #[pymodule_export]
    use super::categories::Purposes;
    #[pymodule_export]
    use super::command::{main, names_another_format};
    #[pymodule_export]
    use super::error::{OutOfMemoryError, ReadError, VramscopeError};
    #[pymodule_export]
    use super::explain::{explain_out_of_memory, explain_text};
    #[pymodule_export]
    use super::files::{OutputFile, append_operators};
    #[pymodule_export]
    use super::flight_recorder::BundleFolder;
    #[pymodule_export]
    use super::line_profile::LineProfile;
    #[cfg(unix)]
    #[pymodule_export]
    use super::live::LiveServer;
    #[cfg(unix)]
    #[pymodule_export]
    use super::phantom::{fit, phantom_run};
    #[pymodule_export]
    use super::pool_history::PoolHistory;
    #[pymodule_export]
    use super::profiler::{
        FunctionLeaks, check_saved_results, function_table, hidden_memory, host_device_memory, nvml_devices,
        out_of_memory_words, resident_memory,
    };
    #[pymodule_export]
    use super::recording::{Recording, read};
    #[pymodule_export]
    use super::size::{format_bytes, parse_bytes};
    #[pymodule_export]
    use super::table::Table;
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use super::torch_pool::{CupyPool, TorchPool, TorchPoolPart};
    #[pymodule_export]
    use super::virtual_pool::{VirtualDevice, VirtualPool};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
