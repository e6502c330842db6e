//! Damage is never a verdict: a check of a damaged input never says "kept" where the whole input breaks the budget.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "the table of the long test")]

mod bases;
mod damages;

use std::collections::BTreeMap;

use bases::Base;
use damages::{Damage, Random};
use vramscope_analysis::{BudgetStatus, ByteKind, Cancel, Measured};
use vramscope_session::{ADVICE, CheckRequest, Session};
use vramscope_trace::formats::Reader;

/// The names of the budgets, in the order of the verdicts.
const BUDGETS: [&str; 4] = ["max-peak", "max-reserved", "no-leaks", "no-oom"];

/// The verdict on each budget over all devices: exceeded on one, else unknown on one, else kept.
type Verdicts = [Verdict; 4];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Kept,
    Unknown,
    Broken,
}

/// Limits on the peaks of allocated and of reserved bytes.
type Limits = [u64; 2];

/// The verdicts and the peaks of an input; `None` if it cannot be read, or has nothing to check.
fn check(bytes: &[u8], limits: Limits) -> Option<(Verdicts, Limits)> {
    let recording = Reader::new(bytes).read().ok()?;
    let session = Session::once("damaged".to_owned(), recording, ADVICE);
    let request = CheckRequest {
        max_peak: Some(limits[0]),
        max_reserved: Some(limits[1]),
        no_leaks: true,
        no_oom: true,
        ..CheckRequest::default()
    };
    let answers = session.check(&request, None, &Cancel::default()).ok()?;
    let mut verdicts = [Verdict::Kept; 4];
    let mut peaks = [0; 2];
    for verdict in answers.devices.iter().flat_map(|device| &device.verdicts) {
        let budget = match &verdict.measured {
            Measured::Peak { kind: ByteKind::Allocated, peak, .. } => {
                peaks[0] = peaks[0].max(peak.peak.bytes);
                0
            }
            Measured::Peak { peak, .. } => {
                peaks[1] = peaks[1].max(peak.peak.bytes);
                1
            }
            Measured::Leaks(_) => 2,
            _ => 3,
        };
        let status = match verdict.status {
            BudgetStatus::Kept => Verdict::Kept,
            BudgetStatus::Unknown(_) => Verdict::Unknown,
            BudgetStatus::Exceeded => Verdict::Broken,
        };
        verdicts[budget] = verdicts[budget].max(status);
    }
    Some((verdicts, peaks))
}

/// Counts of damaged inputs.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    kept: usize,
    broken: usize,
    unknown: usize,
    error: usize,
    /// Inputs with a budget that is kept although the whole input breaks it.
    wrong: usize,
}

/// Damages each base in `cases` ways. Returns the counts by format, and a line for each wrong verdict.
fn measure(
    bases: &[Base],
    cases: usize,
    seed: u64,
) -> (BTreeMap<(&'static str, Damage), Counts>, Vec<String>) {
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for Base { format, name, bytes } in bases {
        let peaks = check(bytes, [u64::MAX; 2]).unwrap_or_else(|| panic!("{name} cannot be checked")).1;
        // Just below the peaks; a peak of 0 cannot be exceeded.
        let limits = peaks.map(|peak| peak.saturating_sub(1));
        let whole = check(bytes, limits).unwrap().0;
        assert!(peaks[0] == 0 || whole[0] == Verdict::Broken, "{name}: {whole:?}");
        let mut random = Random(seed ^ bytes.len() as u64);
        for case in 0..cases {
            let damage = Damage::ALL[case % Damage::ALL.len()];
            let (damaged, place) = damage.of(bytes, &mut random);
            if damaged == *bytes {
                continue;
            }
            let counts: &mut Counts = counts.entry((*format, damage)).or_default();
            let Some((verdicts, _)) = check(&damaged, limits) else {
                counts.error += 1;
                continue;
            };
            // As the exit code: broken before unknown before kept.
            match verdicts
                .iter()
                .zip(whole)
                .filter(|(_, whole)| *whole == Verdict::Broken)
                .map(|(v, _)| *v)
                .max()
            {
                Some(Verdict::Broken) => counts.broken += 1,
                Some(Verdict::Unknown) => counts.unknown += 1,
                Some(Verdict::Kept) | None => counts.kept += 1,
            }
            for ((verdict, whole), budget) in verdicts.into_iter().zip(whole).zip(BUDGETS) {
                if whole == Verdict::Broken && verdict == Verdict::Kept {
                    counts.wrong += 1;
                    wrong.push(format!("{format}, {name}, {damage:?}, {place}: {budget} is kept"));
                }
            }
        }
    }
    (counts, wrong)
}

/// Prints the counts of each format, and of each kind of damage.
fn print(counts: &BTreeMap<(&'static str, Damage), Counts>) {
    let mut rows: BTreeMap<String, Counts> = BTreeMap::new();
    for (&(format, damage), counts) in counts {
        for name in [format.to_owned(), format!("~ {damage:?}"), "~~ all".to_owned()] {
            let row = rows.entry(name).or_default();
            row.kept += counts.kept;
            row.broken += counts.broken;
            row.unknown += counts.unknown;
            row.error += counts.error;
            row.wrong += counts.wrong;
        }
    }
    println!(
        "{:<26} {:>6} {:>6} {:>7} {:>6} {:>6} {:>6}",
        "", "inputs", "broken", "unknown", "kept", "error", "wrong"
    );
    for (name, Counts { kept, broken, unknown, error, wrong }) in rows {
        let inputs = kept + broken + unknown + error;
        println!("{name:<26} {inputs:>6} {broken:>6} {unknown:>7} {kept:>6} {error:>6} {wrong:>6}");
    }
}

/// The counts of some inputs: the same in each run.
#[test]
fn damage_is_never_a_verdict() {
    let (counts, wrong) = measure(&bases::all(None), 30, 1);
    assert_eq!(wrong, Vec::<String>::new());
    let sum = |of: fn(&Counts) -> usize| counts.values().map(of).sum::<usize>();
    // What is still readable is read: most damaged tables and logs have a verdict.
    let (broken, unknown) = (sum(|c| c.broken), sum(|c| c.unknown));
    assert!(broken > 200 && unknown > 40, "{broken} broken, {unknown} unknown");
    let errors =
        |format| counts.iter().filter(|((of, _), _)| *of == format).map(|(_, c)| c.error).sum::<usize>();
    assert!(errors("RMM") + errors("msMemScope") < 10, "damage of a row refuses the whole table");
}

#[test]
#[ignore = "takes long: ./test --slow"]
fn thousands_of_damaged_inputs() {
    let bases = bases::all(vramscope_testing::recordings().as_deref());
    let cases = std::env::var("VRAMSCOPE_DAMAGED").ok().and_then(|n| n.parse().ok());
    let (counts, wrong) = measure(&bases, cases.unwrap_or(2400 / bases.len()), 1);
    print(&counts);
    wrong.iter().for_each(|line| println!("{line}"));
    assert_eq!(wrong.len(), 0);
}
