//! Runs the unit tests of modules that need no interpreter. The library takes Python's functions from the interpreter that loads it, so
//! `cargo test` cannot run its own.

#![allow(dead_code, reason = "other modules of the library use these")]

#[path = "../src/categories"]
mod categories {
    mod head;
    mod steps;
    mod threads;

    /// In place of the module that holds Python objects.
    mod modules {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub(crate) struct ModuleId(u32);

        impl ModuleId {
            pub(crate) const NONE: Self = Self(0);
        }
    }

    /// In place of the module that calls the recorder's library.
    mod recorder {
        use std::sync::atomic::{AtomicU32, Ordering};

        /// A new number: each thread asks once.
        pub(crate) fn own_thread() -> u32 {
            static THREADS: AtomicU32 = AtomicU32::new(1);
            THREADS.fetch_add(1, Ordering::Relaxed)
        }
    }
}

#[path = "../src/torch_pool"]
mod torch_pool {
    mod order;
}
