//! `vramscope phantom list`

use std::fmt::Write as _;

use serde::Serialize;
use vramscope::gpus::{self, Gpu};
use vramscope::report::bytes;

use crate::args::PhantomListArgs;

#[derive(Serialize)]
struct Card {
    name: &'static str,
    driver_name: &'static str,
    total_bytes: u64,
    compute_capability: String,
    multiprocessors: u32,
}

impl Card {
    fn of(gpu: &'static Gpu) -> Self {
        Self {
            name: gpu.name,
            driver_name: gpu.full,
            total_bytes: gpu.total_bytes,
            compute_capability: format!("{}.{}", gpu.capability / 10, gpu.capability % 10),
            multiprocessors: gpu.multiprocessors,
        }
    }
}

pub(crate) fn run(args: &PhantomListArgs) -> anyhow::Result<()> {
    let cards: Vec<Card> = gpus::by_size().into_iter().map(Card::of).collect();
    if args.json {
        return crate::commands::print_json(&cards);
    }
    let mut text =
        format!("{:<24}{:>12}  {:<8}{:>5}  {}\n", "GPU", "memory", "compute", "SMs", "the driver's name");
    for card in cards {
        let Card { name, driver_name, total_bytes, compute_capability, multiprocessors } = card;
        let memory = bytes(total_bytes);
        writeln!(text, "{name:<24}{memory:>12}  {compute_capability:<8}{multiprocessors:>5}  {driver_name}")?;
    }
    crate::commands::print_text(&text)
}
