//! One line of JSON for each event.

use std::io::Write;
use std::sync::Mutex;

use serde::Serialize;

use super::{AllocPostprocess, Free, MallocPostprocess, MemoryHook};
use vramscope_basics::lock;

/// Prints every event after it happened, as CuPy's `DebugPrintHook` does:
///
/// ```text
/// {"hook":"alloc","device_id":0,"mem_size":512,"mem_ptr":150496608256}
/// {"hook":"malloc","device_id":0,"size":24,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x1"}
/// {"hook":"free","device_id":0,"mem_size":512,"mem_ptr":150496608256,"pmem_id":"0x1"}
/// ```
///
/// Each line is written in one piece, so lines of several threads do not mix. After a write error the hook stops printing;
/// [`error`](Self::error) returns that error.
pub struct DebugPrintHook<W> {
    output: Mutex<Output<W>>,
    flush: bool,
}

struct Output<W> {
    file: W,
    error: Option<std::io::Error>,
}

impl DebugPrintHook<std::io::Stdout> {
    /// Prints to standard output.
    pub fn stdout() -> Self {
        Self::new(std::io::stdout())
    }
}

impl<W: Write + Send> DebugPrintHook<W> {
    /// Prints to `file` and flushes it after each line.
    pub fn new(file: W) -> Self {
        Self { output: Mutex::new(Output { file, error: None }), flush: true }
    }

    /// Like [`new`](Self::new), but never flushes.
    pub fn without_flush(file: W) -> Self {
        Self { flush: false, ..Self::new(file) }
    }

    /// Returns the error that stopped the output, if any.
    pub fn error(&self) -> Option<std::io::ErrorKind> {
        lock(&self.output).error.as_ref().map(std::io::Error::kind)
    }

    /// Returns the writer.
    pub fn into_inner(self) -> W {
        self.output.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).file
    }

    fn print(&self, line: &Line) {
        let mut output = lock(&self.output);
        if output.error.is_some() {
            return;
        }
        let written = serde_json::to_vec(line).map_err(std::io::Error::from).and_then(|mut text| {
            text.push(b'\n');
            output.file.write_all(&text)?;
            if self.flush { output.file.flush() } else { Ok(()) }
        });
        output.error = written.err();
    }
}

/// The keys in CuPy's order.
#[derive(Serialize)]
struct Line {
    hook: &'static str,
    device_id: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    mem_size: u64,
    mem_ptr: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pmem_id: Option<String>,
}

impl<W: Write + Send> MemoryHook for DebugPrintHook<W> {
    fn name(&self) -> &str {
        "DebugPrintHook"
    }

    fn alloc_postprocess(&self, e: &AllocPostprocess) {
        let (device_id, mem_size, mem_ptr) = (e.device_id, e.mem_size, e.mem_ptr);
        self.print(&Line { hook: "alloc", device_id, size: None, mem_size, mem_ptr, pmem_id: None });
    }

    fn malloc_postprocess(&self, e: &MallocPostprocess) {
        let pmem_id = Some(format!("{:#x}", e.pmem_id));
        let (device_id, mem_size, mem_ptr) = (e.device_id, e.mem_size, e.mem_ptr);
        self.print(&Line { hook: "malloc", device_id, size: Some(e.size), mem_size, mem_ptr, pmem_id });
    }

    fn free_postprocess(&self, e: &Free) {
        let pmem_id = Some(format!("{:#x}", e.pmem_id));
        let (device_id, mem_size, mem_ptr) = (e.device_id, e.mem_size, e.mem_ptr);
        self.print(&Line { hook: "free", device_id, size: None, mem_size, mem_ptr, pmem_id });
    }
}
