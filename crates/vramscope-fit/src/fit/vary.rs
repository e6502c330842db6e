//! The largest number that fits, of a number in the program's arguments.

use anyhow::bail;

use super::bisect::{next, runs};
use super::runner::{Outcome, Ran, Runner};
use crate::fit::request::FitRequest;
use crate::fit::request::Vary;

/// The measured numbers.
#[derive(Debug)]
pub(crate) struct Varied {
    pub(crate) name: String,
    pub(crate) low: u64,
    /// The wanted number.
    pub(crate) high: u64,
    /// The largest number that fits; `None` if none was found.
    pub(crate) largest: Option<u64>,
    /// The measured numbers in increasing order.
    pub(crate) points: Vec<(u64, Outcome)>,
    /// Why the search ended early.
    pub(crate) stopped_by: Option<String>,
}

impl Varied {
    fn new(vary: &Vary, top: &Outcome) -> Self {
        Self {
            name: vary.name.clone(),
            low: vary.low,
            high: vary.high,
            largest: top.fits().then_some(vary.high),
            points: vec![(vary.high, top.clone())],
            stopped_by: None,
        }
    }

    /// The outcome of a measured number.
    pub(crate) fn outcome(&self, value: u64) -> Option<&Outcome> {
        self.points.iter().find(|(at, _)| *at == value).map(|(_, outcome)| outcome)
    }

    /// Whether all measured numbers have the same peaks, so that the program ignores the number.
    pub(crate) fn is_ignored(&self) -> bool {
        let peaks = |outcome: &Outcome| (outcome.peak_allocated, outcome.peak_device);
        self.points.len() > 1 && self.points.windows(2).all(|pair| peaks(&pair[0].1) == peaks(&pair[1].1))
    }

    /// The first pair of numbers of which the larger needs less memory, or fits although the smaller does not.
    pub(crate) fn contradiction(&self) -> Option<(u64, u64)> {
        let contradicts = |pair: &&[(u64, Outcome)]| {
            let [(_, smaller), (_, larger)] = pair else { return false };
            let peak = |outcome: &Outcome| match outcome.peak_allocated {
                0 => outcome.peak_device,
                allocated => allocated,
            };
            peak(larger) < peak(smaller) || (larger.fits() && !smaller.fits())
        };
        self.points.windows(2).find(contradicts).map(|pair| (pair[0].0, pair[1].0))
    }

    /// Whether the number is a batch size, by its name.
    pub(crate) fn is_batch_size(&self) -> bool {
        let name = self.name.to_lowercase();
        name.contains("batch") || name == "bs"
    }

    /// Numbers that divide the wanted one and may fit, from the largest.
    pub(crate) fn divisors(&self) -> Vec<u64> {
        let most = self.largest.unwrap_or(0);
        (self.low.max(1)..=most).rev().filter(|part| self.high.is_multiple_of(*part)).collect()
    }

    fn put(&mut self, value: u64, outcome: Outcome) {
        let at = self.points.partition_point(|(before, _)| *before < value);
        self.points.insert(at, (value, outcome));
    }
}

/// Checks that the number has a place in the program's arguments or environment.
pub(crate) fn check(args: &FitRequest) -> anyhow::Result<()> {
    let Some(vary) = &args.vary else { return Ok(()) };
    let place = format!("{{{}}}", vary.name);
    let in_command = args.command.iter().any(|part| part.to_string_lossy().contains(&place));
    if !in_command && !args.env.iter().any(|(_, value)| value.contains(&place)) {
        bail!(
            "--vary: neither the program's arguments nor --env contain {place}; write it where the number belongs, as `--{} '{place}'`",
            vary.name
        );
    }
    Ok(())
}

/// Finds the largest number that fits. `top` is the outcome of the wanted number.
pub(crate) fn search(runner: &Runner<'_>, vary: &Vary, top: &Outcome) -> anyhow::Result<Varied> {
    let mut varied = Varied::new(vary, top);
    if vary.low == vary.high {
        return Ok(varied);
    }
    if top.fits() {
        // A second point shows whether the program uses the number.
        let _ = measure(runner, &mut varied, vary.low)?;
        return Ok(varied);
    }
    let mut fitting = vary.low;
    if !measure(runner, &mut varied, fitting)? || varied.is_ignored() {
        return Ok(varied);
    }
    let mut other = vary.high;
    let mut left = runs(other - fitting);
    let peak = |varied: &Varied, number| {
        let measured = varied.outcome(number).filter(|outcome| !outcome.is_lower_bound);
        (number, measured.map(|outcome| outcome.peak_device))
    };
    let limit = runner.card.total;
    while let Some(number) = next(peak(&varied, fitting), peak(&varied, other), limit, left) {
        let fits = measure(runner, &mut varied, number)?;
        if varied.outcome(number).is_none() {
            break;
        }
        *if fits { &mut fitting } else { &mut other } = number;
        left = left.saturating_sub(1);
    }
    varied.largest = Some(fitting);
    Ok(varied)
}

/// Measures a number, and returns whether it fits. If the run gives no numbers, it is not measured, and the search ends.
fn measure(runner: &Runner<'_>, varied: &mut Varied, value: u64) -> anyhow::Result<bool> {
    match runner.run(&format!("{}={value}", varied.name), &[], Some(value))? {
        Ran::Ended(outcome) => {
            let fits = outcome.fits();
            varied.put(value, *outcome);
            return Ok(fits);
        }
        Ran::Failed(reason) => {
            varied.stopped_by = Some(format!("the program failed with {}={value}: {reason}", varied.name));
        }
        Ran::Stopped => {}
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use vramscope_analysis::Fit;

    use super::*;
    use crate::phantom::certainty::Certainty;

    fn outcome(peak: u64, fits: bool) -> Outcome {
        Outcome {
            fit: if fits { Fit::Fits } else { Fit::DoesNotFit },
            peak_allocated: peak,
            peak_reserved: peak,
            peak_device: peak,
            certainty: Certainty::certain(peak),
            is_lower_bound: false,
            conf: None,
            processes: 1,
            recordings: Vec::new(),
            facts: crate::phantom::changes::Facts::default(),
        }
    }

    fn varied(points: &[(u64, u64, bool)]) -> Varied {
        let vary: Vary = "batch=1..64".parse().unwrap();
        let mut varied = Varied::new(&vary, &outcome(640, false));
        points.iter().for_each(|&(value, peak, fits)| varied.put(value, outcome(peak, fits)));
        varied
    }

    #[test]
    fn a_range_is_read() {
        assert_eq!("n=3..=9".parse::<Vary>(), Ok(Vary { name: "n".to_owned(), low: 3, high: 9 }));
        for wrong in
            ["", "batch", "batch=", "batch=1", "=1..2", "batch=a..2", "batch=3..2", "{b}=1..2", "b=-1..2"]
        {
            assert!(wrong.parse::<Vary>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn contradictions_and_ignored_numbers_are_found() {
        let grows = varied(&[(32, 320, false), (16, 160, true)]);
        assert_eq!(grows.points.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [16, 32, 64]);
        assert!(grows.contradiction().is_none() && !grows.is_ignored());
        assert_eq!(varied(&[(32, 700, false)]).contradiction(), Some((32, 64)));
        assert_eq!(varied(&[(8, 80, false), (16, 160, true)]).contradiction(), Some((8, 16)));
        assert!(varied(&[(1, 640, false)]).is_ignored() && !varied(&[]).is_ignored());
    }

    #[test]
    fn accumulated_batches_divide_the_wanted_one() {
        let mut varied = varied(&[]);
        assert!(varied.is_batch_size() && varied.divisors().is_empty());
        varied.largest = Some(20);
        assert_eq!(varied.divisors(), [16, 8, 4, 2, 1]);
    }
}
