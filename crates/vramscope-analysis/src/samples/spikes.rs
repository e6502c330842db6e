//! Spikes: times at which much more memory was in use than usual.

use vramscope_trace::samples::{Look, Quantity, Series};

/// A time at which more memory was in use than usual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spike {
    /// The quantity.
    pub quantity: Quantity,
    /// The peak of the spike, in bytes.
    pub bytes: u64,
    /// The usual level, in bytes: 95% of the samples are at or below it.
    pub usual: u64,
    /// The start, the peak and the end of the spike, in microseconds since the Unix epoch.
    pub from_us: i64,
    /// See `from_us`.
    pub time_us: i64,
    /// See `from_us`.
    pub to_us: i64,
    /// Whether the spike lasts until the end of the log, so that it is unknown whether it passes.
    pub is_last: bool,
    /// The phase of the program at the peak, if the log contains it.
    pub phase: Option<String>,
}

/// The smallest number of looks that defines a usual level.
const FEWEST_LOOKS: usize = 40;

/// The percentage of looks that are usual.
const USUAL: usize = 95;

/// A spike exceeds the usual level by at least one part in this many.
const LEAST_PART: u64 = 10;

/// The smallest spike in bytes that is reported.
const LEAST: u64 = 1 << 20;

/// Returns the spikes of the main quantity and of memory outside the pool, highest above the usual level first.
pub(super) fn spikes(series: &Series, main: Quantity) -> Vec<Spike> {
    let mut all = of(series, main);
    if main != Quantity::Hidden {
        all.extend(of(series, Quantity::Hidden));
    }
    all.sort_by_key(|spike| (std::cmp::Reverse(spike.bytes - spike.usual), spike.from_us));
    all
}

fn of(series: &Series, quantity: Quantity) -> Vec<Spike> {
    let high = |look: &Look| look.highest.get(quantity);
    let looks: Vec<(&Look, u64)> = series.looks.iter().filter_map(|look| Some((look, high(look)?))).collect();
    if looks.len() < FEWEST_LOOKS {
        return Vec::new();
    }
    let mut highs: Vec<u64> = looks.iter().map(|&(_, high)| high).collect();
    let usual = *highs.select_nth_unstable(looks.len() * USUAL / 100).1;
    let stands_out = |high: u64| high.saturating_sub(usual) >= (usual / LEAST_PART).max(LEAST);
    let mut spikes: Vec<Spike> = Vec::new();
    let mut is_open = false;
    for (place, &(look, bytes)) in looks.iter().enumerate() {
        let was_open = std::mem::replace(&mut is_open, stands_out(bytes));
        if !is_open {
            continue;
        }
        let here = Spike {
            quantity,
            bytes,
            usual,
            from_us: look.from_us,
            time_us: look.from_us,
            to_us: look.to_us,
            is_last: place + 1 == looks.len(),
            phase: look.phase.and_then(|phase| series.phases.get(phase as usize)).map(|p| p.path.clone()),
        };
        match spikes.last_mut().filter(|_| was_open) {
            Some(spike) => {
                let from_us = spike.from_us;
                if bytes > spike.bytes {
                    *spike = Spike { from_us, ..here };
                }
                (spike.to_us, spike.is_last) = (look.to_us, place + 1 == looks.len());
            }
            None => spikes.push(here),
        }
    }
    spikes
}
