//! What keeps growing: the rule of leaks, with a log's samples in place of a recording's events.
//!
//! A log is cut into windows of as many looks. The floor of a quantity in a window is the least that was in use there or in any
//! later window, so that what comes and goes with each step of a program does not count, nor what is made once.

use vramscope_trace::samples::{Look, Quantity, Series};

use super::elapsed;
use crate::leaks::{WINDOWS, falls_back, keeps_growing, rises};

/// A quantity whose floor keeps rising.
#[derive(Debug, Clone, PartialEq)]
pub struct Growing {
    /// Which.
    pub quantity: Quantity,
    /// The floor of each tenth of the log.
    pub floor: [u64; WINDOWS],
    /// In how many steps from one tenth to the next the floor rose.
    pub rises: usize,
    /// How fast the floor rose, after the first tenth.
    pub bytes_per_hour: f64,
    /// Allocated bytes rise and fall again and again: what grows is not only the beginning of a run.
    pub repeats: bool,
    /// When the device will be full if it goes on like that, in microseconds after the last sample.
    pub full_in_us: Option<u64>,
}

impl Growing {
    /// By how much the floor rose, after the first tenth.
    pub fn bytes(&self) -> u64 {
        self.floor[WINDOWS - 1].saturating_sub(self.floor[1])
    }
}

/// Fewer looks tell nothing.
const FEWEST_LOOKS: usize = 3 * WINDOWS;

/// Less is not said.
const LEAST_GROWTH: u64 = 1 << 20;

/// The part of a process's host memory that must grow: it is never quite still.
const LEAST_PART_OF_HOST: u64 = 50;

/// What keeps growing, most bytes first. What follows from something else is left out: the reserved bytes of a pool in which more is
/// allocated, be it for a moment.
pub(super) fn growing(series: &Series) -> Vec<Growing> {
    let known = |quantity| series.highest(quantity).is_some();
    let pool = [Quantity::Allocated, Quantity::Reserved, Quantity::Hidden, Quantity::Others];
    let driver = [Quantity::ProcessUsed, Quantity::Others];
    let device = [Quantity::DeviceUsed];
    let asked: &[Quantity] = match () {
        () if known(Quantity::Allocated) => &pool,
        () if known(Quantity::ProcessUsed) => &driver,
        () => &device,
    };
    let repeats = repeats(series);
    let of = |&quantity: &Quantity| of(series, quantity, repeats);
    let mut all: Vec<Growing> = asked.iter().chain([&Quantity::Cpu]).filter_map(of).collect();
    let allocated = rise_of_highest(series, Quantity::Allocated);
    all.retain(|g| {
        g.quantity != Quantity::Reserved || allocated.is_none_or(|a| g.bytes() > a.saturating_mul(2))
    });
    all.sort_by_key(|g| std::cmp::Reverse(g.bytes()));
    all
}

fn of(series: &Series, quantity: Quantity, repeats: bool) -> Option<Growing> {
    let known = |look: &&Look| look.lowest.get(quantity).is_some();
    let looks: Vec<&Look> = series.looks.iter().filter(known).collect();
    if looks.len() < FEWEST_LOOKS {
        return None;
    }
    let window = |n: usize| &looks[n * looks.len() / WINDOWS..(n + 1) * looks.len() / WINDOWS];
    let mut floor: [u64; WINDOWS] = std::array::from_fn(|n| {
        window(n).iter().filter_map(|look| look.lowest.get(quantity)).min().unwrap_or(u64::MAX)
    });
    for n in (0..WINDOWS - 1).rev() {
        floor[n] = floor[n].min(floor[n + 1]);
    }
    let least = match quantity {
        Quantity::Cpu => (floor[WINDOWS - 1] / LEAST_PART_OF_HOST).max(LEAST_GROWTH),
        _ => LEAST_GROWTH,
    };
    let start = |n: usize| window(n).first().map_or(0, |look| look.from_us);
    let between = elapsed(start(1), start(WINDOWS - 1));
    let rise = floor[WINDOWS - 1].saturating_sub(floor[1]);
    if !keeps_growing(&floor) || rise < least || between == 0 {
        return None;
    }
    let bytes_per_us = rise as f64 / between as f64;
    let free = if quantity == Quantity::Cpu { None } else { free(series) };
    Some(Growing {
        quantity,
        floor,
        rises: rises(&floor),
        bytes_per_hour: bytes_per_us * 3.6e9,
        repeats,
        full_in_us: free.map(|free| (free as f64 / bytes_per_us).round() as u64),
    })
}

/// By how much more was in use at most in the whole log than in its first fifth.
fn rise_of_highest(series: &Series, quantity: Quantity) -> Option<u64> {
    let early = &series.looks[..series.looks.len() * 2 / WINDOWS];
    let highest = early.iter().filter_map(|look| look.highest.get(quantity)).max()?;
    Some(series.highest(quantity)?.bytes.saturating_sub(highest))
}

/// What was free on the device in the end.
fn free(series: &Series) -> Option<u64> {
    series.device_total?.checked_sub(series.last().get(Quantity::DeviceUsed)?)
}

/// Whether allocated bytes (or what else is known) fall back again and again, after the first tenth of the log.
fn repeats(series: &Series) -> bool {
    let main = super::main(series);
    let looks = &series.looks[series.looks.len() / WINDOWS..];
    // A pool says how high it was between two samples, and so how far it fell.
    let both = |look: &Look| [look.highest.get(main), look.last.get(main)];
    falls_back(looks.iter().flat_map(both).flatten())
}
