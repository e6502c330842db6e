//! What stood out: times at which much more was in use than usual.

use vramscope_trace::samples::{Look, Quantity, Series};

/// A time at which more was in use than usual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spike {
    /// Of what.
    pub quantity: Quantity,
    /// The most that was in use, in bytes.
    pub bytes: u64,
    /// What nineteen of twenty samples stay within, in bytes.
    pub usual: u64,
    /// When it began, when most was in use, and when it was over, in microseconds since the Unix epoch.
    pub from_us: i64,
    /// See `from_us`.
    pub time_us: i64,
    /// See `from_us`.
    pub to_us: i64,
    /// It lasts until the end of the log, so that nobody knows whether it passes.
    pub is_last: bool,
    /// The phase of the program then, where the log says it.
    pub phase: Option<String>,
}

/// Fewer looks have no usual.
const FEWEST_LOOKS: usize = 40;

/// Looks of a hundred that are usual.
const USUAL: usize = 95;

/// The part of what is usual by which a spike stands out.
const LEAST_PART: u64 = 10;

/// Less is not said.
const LEAST: u64 = 1 << 20;

/// Spikes of what the log is about, and of what lies outside of the pool, highest above the usual first.
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
