//! The GPUs that have profiles.

use std::fmt::Write as _;

use serde::Serialize;
use vramscope_basics::gpus::{self, Gpu, NEWEST_CUDA};
use vramscope_report::bytes;

/// A GPU that has a profile.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListedGpu {
    name: &'static str,
    driver_name: &'static str,
    total_bytes: u64,
    compute_capability: String,
    multiprocessors: u32,
    context_low_bytes: u64,
    context_high_bytes: u64,
    /// Public out-of-memory messages that show the context of this GPU; if empty, it is estimated from those of other GPUs.
    context_messages: Vec<&'static str>,
}

impl ListedGpu {
    fn of(gpu: &'static Gpu) -> Self {
        let (context_low_bytes, context_high_bytes) = gpu.context_bytes(NEWEST_CUDA).into_inner();
        Self {
            name: gpu.name,
            driver_name: gpu.full,
            total_bytes: gpu.total_bytes,
            compute_capability: format!("{}.{}", gpu.capability / 10, gpu.capability % 10),
            multiprocessors: gpu.multiprocessors,
            context_low_bytes,
            context_high_bytes,
            context_messages: gpu.context_messages().map(|message| message.source).collect(),
        }
    }
}

/// All GPUs that have profiles, by their memory.
pub fn listed_gpus() -> Vec<ListedGpu> {
    gpus::by_size().into_iter().map(ListedGpu::of).collect()
}

/// The list as a table.
pub fn list_text(cards: &[ListedGpu]) -> String {
    let mut text = format!(
        "{:<24}{:>12}  {:<8}{:>5}{:>13}  {}\n",
        "GPU", "memory", "compute", "SMs", "context, MiB", "driver name"
    );
    for card in cards {
        let ListedGpu { name, driver_name, total_bytes, compute_capability, multiprocessors, .. } = card;
        let memory = bytes(*total_bytes);
        let estimated = if card.context_messages.is_empty() { "~" } else { "" };
        let context =
            format!("{estimated}{}-{}", card.context_low_bytes >> 20, card.context_high_bytes >> 20);
        let _ = writeln!(
            text,
            "{name:<24}{memory:>12}  {compute_capability:<8}{multiprocessors:>5}{context:>13}  {driver_name}"
        );
    }
    text.push_str("\ncontext: memory of a CUDA context, with few and with many kernels; ~ estimated, because no message shows it for this GPU\n");
    text
}
