//! Finds quantities that keep growing: the rule for leaks, applied to a log's samples instead of a recording's events.
//!
//! A log is divided into windows with equal numbers of looks. The floor of a quantity in a window is its minimum in that window
//! and all later ones. So memory that comes and goes with each step does not count, and neither does memory that is allocated
//! once.

use vramscope_trace::samples::{Look, Quantity, Series};

use super::elapsed;
use crate::findings::{WINDOWS, falls_back, keeps_growing, rises};

/// A quantity whose floor keeps rising.
#[derive(Debug, Clone, PartialEq)]
pub struct Growing {
    /// The quantity.
    pub quantity: Quantity,
    /// The floor in each tenth of the log, in bytes.
    pub floor: [u64; WINDOWS],
    /// Number of tenths in which the floor rose.
    pub rises: usize,
    /// How fast the floor rose, after the first tenth.
    pub bytes_per_hour: f64,
    /// Whether allocated bytes rise and fall again and again, so that the growth is not only the beginning of a run.
    pub repeats: bool,
    /// When the device will be full if the growth continues, in microseconds after the last sample.
    pub full_in_us: Option<u64>,
}

impl Growing {
    /// Returns by how many bytes the floor rose, after the first tenth.
    pub fn bytes(&self) -> u64 {
        self.floor[WINDOWS - 1].saturating_sub(self.floor[1])
    }
}

/// The smallest number of looks that allows a conclusion.
const FEWEST_LOOKS: usize = 3 * WINDOWS;

/// The smallest growth in bytes that is reported.
const LEAST_GROWTH: u64 = 1 << 20;

/// Host memory of a process is never quite constant; it must grow by at least one part in this many.
const LEAST_PART_OF_HOST: u64 = 50;

/// Returns the growing quantities, most bytes first. Growth that follows from other growth is left out: a pool's reserved bytes,
/// if its allocated bytes grow too, even for a moment.
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

/// Returns by how many bytes the peak over the whole log exceeds the peak of its first fifth.
fn rise_of_highest(series: &Series, quantity: Quantity) -> Option<u64> {
    let early = &series.looks[..series.looks.len() * 2 / WINDOWS];
    let highest = early.iter().filter_map(|look| look.highest.get(quantity)).max()?;
    Some(series.highest(quantity)?.bytes.saturating_sub(highest))
}

/// Returns the free bytes of the device at the end.
fn free(series: &Series) -> Option<u64> {
    series.device_total?.checked_sub(series.last().get(Quantity::DeviceUsed)?)
}

/// Whether the main quantity falls back again and again, after the first tenth of the log.
fn repeats(series: &Series) -> bool {
    let main = super::main(series);
    let looks = &series.looks[series.looks.len() / WINDOWS..];
    // A pool reports its peak between two samples, which shows how far it fell.
    let both = |look: &Look| [look.highest.get(main), look.last.get(main)];
    falls_back(looks.iter().flat_map(both).flatten())
}
