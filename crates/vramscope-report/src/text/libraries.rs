//! The section about memory beside PyTorch's allocator, by the library that took it.

use vramscope_analysis::{DeviceUse, HolderKey, LibraryUse, Summary};
use vramscope_trace::DriverMemory;

use super::page::{DIM, Page};
use crate::shown::Shown;
use vramscope_basics::units::{bytes, counted, duration};

/// What a kind of memory is called in a sentence.
fn kind(memory: DriverMemory) -> &'static str {
    match memory {
        DriverMemory::Device => "cudaMalloc",
        DriverMemory::Async => "cudaMallocAsync",
        DriverMemory::Physical => "cuMemCreate",
        DriverMemory::Managed => "managed",
        DriverMemory::Graph => "CUDA graphs",
        DriverMemory::GraphNode => "node",
        DriverMemory::Array => "array",
        DriverMemory::Imported => "imported",
        DriverMemory::Pinned => "pinned",
        DriverMemory::Registered => "registered",
    }
}

impl Page<'_> {
    /// Device memory of each library, beside PyTorch's reserved bytes, and host memory that the process pinned.
    pub(super) fn libraries(&mut self, s: &Summary) {
        let Some(uses) = &s.libraries else { return };
        let (uses, others): (Vec<&LibraryUse>, Vec<&LibraryUse>) =
            uses.iter().partition(|u| u.memory.is_own());
        let (host, others_of_device): (Vec<&LibraryUse>, Vec<&LibraryUse>) =
            others.into_iter().partition(|u| u.memory.is_host());
        let (nodes, imported): (Vec<&LibraryUse>, Vec<&LibraryUse>) =
            others_of_device.into_iter().partition(|u| u.memory == DriverMemory::GraphNode);
        let others: u64 = uses.iter().map(|u| u.bytes).fold(0, u64::saturating_add);
        let reserved = s.counters.reserved;
        self.heading(&format!(
            "Device memory of the process at this moment: {}",
            bytes(reserved.saturating_add(others))
        ));
        self.line(format!("  {:>11}  PyTorch's allocator (reserved)", bytes(reserved)));
        self.library_rows(&uses);
        self.rest(s.device_use.as_ref());
        if !nodes.is_empty() {
            self.heading("Allocations of CUDA graphs at this moment");
            self.library_rows(&nodes);
            self.words(2, "They share the memory of CUDA graphs above, which the driver takes when a graph is launched.");
        }
        if !imported.is_empty() {
            self.heading("Memory of other processes that the process uses at this moment");
            self.library_rows(&imported);
        }
        if !host.is_empty() {
            self.heading("Pinned host memory of the process at this moment");
            self.library_rows(&host);
        }
    }

    /// The row of the memory that the driver counts, and that nothing above explains.
    fn rest(&mut self, device_use: Option<&DeviceUse>) {
        let Some((DeviceUse { age_us, first, .. }, here)) = device_use.and_then(|u| Some((u, u.here?)))
        else {
            self.words(2, "Contexts and kernels are not included: the driver's count was not recorded before this moment.");
            return;
        };
        let rest = here.rest();
        self.line(format!(
            "  {:>11}  contexts, kernels and other processes",
            bytes(rest.max(0).unsigned_abs())
        ));
        let (used, total) = (bytes(here.used), bytes(here.total));
        let mut text = match age_us {
            ..1_000_000 => format!("Measured: the driver says that {used} of {total} are in use."),
            age_us => format!(
                "Measured {} before: the driver said that {used} of {total} were in use.",
                duration(*age_us)
            ),
        };
        if rest < 0 {
            let less = bytes(rest.unsigned_abs());
            text += &format!(" That is {less} less than the sum: managed memory counts wherever it is.");
        } else if first.rest() != rest {
            text +=
                &format!(" At the first measurement, it was {}.", bytes(first.rest().max(0).unsigned_abs()));
        }
        self.words(15, &text);
    }

    /// Rows of libraries: bytes, library, and the stack of its largest allocation.
    fn library_rows(&mut self, uses: &[&LibraryUse]) {
        for u in uses {
            let library = Shown::of(self.names.trace.strings.get(u.library));
            let mut notes = vec![kind(u.memory).to_owned(), counted(u.count, "allocation")];
            if u.peak > u.bytes {
                notes.push(format!("at most {}", bytes(u.peak)));
            }
            let line = u
                .stack
                .map(|stack| format!(", {}", self.names.key(&HolderKey::Stack(stack))))
                .unwrap_or_default();
            self.line(format!("  {:>11}  {library}{line}  {DIM}{}{DIM:#}", bytes(u.bytes), notes.join(", ")));
        }
    }
}
