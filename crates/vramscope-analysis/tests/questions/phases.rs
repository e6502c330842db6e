//! Inferred phases, compared with those that the program's regions name.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use vramscope_analysis::{
    AllocationCategories, History, IntervalBytes, Moment, PhaseFrom, StepPhase, Steps, phase_totals,
};
use vramscope_testing::recordings;
use vramscope_trace::{Phase, Purpose, Trace, formats};

use crate::event;

fn steps(trace: &Arc<Trace>, position: usize) -> Steps {
    let history = History::of(trace, position);
    Steps::of(&history, &AllocationCategories::of(&history))
}

fn read(file: &Path) -> Arc<Trace> {
    formats::read(std::fs::File::open(file).unwrap()).unwrap().trace
}

/// The same recording without regions.
fn without_regions(trace: &Trace) -> Arc<Trace> {
    Arc::new(Trace { annotations: None, ..trace.clone() })
}

/// The phase of an event.
fn at(phases: &[StepPhase], event: usize) -> Option<Phase> {
    let found = phases.partition_point(|p| p.from.index() <= event).checked_sub(1)?;
    Some(phases[found]).filter(|p| event < p.to.index()).map(|p| p.phase)
}

/// Compares the inferred phase of each event in a region that has the name of a phase: the number of events in such a region, and of
/// those with another inferred phase or none.
fn compared(trace: &Arc<Trace>, position: usize) -> (usize, usize) {
    let told = steps(trace, position).phases;
    let inferred = steps(&without_regions(trace), position).phases;
    assert!(inferred.iter().all(|p| p.told_by.is_inferred()));
    let (mut all, mut wrong) = (0, 0);
    for phase in told.iter().filter(|p| p.told_by == PhaseFrom::Region) {
        for event in phase.from.index()..phase.to.index() {
            all += 1;
            wrong += usize::from(at(&inferred, event) != Some(phase.phase));
        }
    }
    (all, wrong)
}

#[test]
fn phases_inferred_from_stacks_are_those_of_regions() {
    let trace = read(Path::new("../../examples/training.pickle.zst"));
    let (all, wrong) = compared(&trace, 0);
    assert!(all > 3900 && wrong * 100 < all, "{wrong} of {all} events");
    let regions = steps(&trace, 0);
    assert_eq!(regions.steps.len(), 2);
    // The phases of a step neither overlap nor leave out many of its allocations.
    for (number, step) in regions.steps.iter().enumerate() {
        let phases: Vec<&StepPhase> = regions.phases_of(Some(number)).collect();
        assert!(phases.iter().is_sorted_by_key(|p| p.from));
        assert!(phases.array_windows().all(|[a, b]| a.to <= b.from));
        let allocated: u64 = phase_totals(phases.iter().copied()).iter().map(|t| t.allocated).sum();
        assert!(
            allocated <= step.bytes.allocated && allocated * 10 > step.bytes.allocated * 9,
            "{allocated} {step:?}"
        );
        assert!(phases.iter().all(|p| p.bytes.peak <= step.bytes.peak));
    }
}

#[test]
fn the_bytes_of_steps_and_phases_are_those_of_a_scan() {
    let trace = read(Path::new("../../examples/training.pickle.zst"));
    let history = History::of(&trace, 0);
    let allocated: Vec<u64> = history.walk().map(|(_, counters)| counters.allocated).collect();
    let scan = |from: Moment, to: Moment| {
        let peak = *allocated[from.index()..=to.index()].iter().max().unwrap();
        let first = (from.index()..).find(|&moment| allocated[moment] == peak).unwrap();
        let made: Vec<u64> =
            history.allocations.iter().filter(|a| from < a.from && a.from <= to).map(|a| a.size).collect();
        IntervalBytes {
            peak,
            peak_moment: Moment::from_index(first),
            allocated: made.iter().sum(),
            allocations: made.len() as u64,
            kept: allocated[to.index()] as i64 - allocated[from.index()] as i64,
        }
    };
    let found = steps(&trace, 0);
    assert!(found.steps.len() == 2 && found.phases.len() > 4);
    for step in &found.steps {
        assert_eq!(step.bytes, scan(step.from, step.to), "{step:?}");
    }
    for phase in &found.phases {
        assert_eq!(phase.bytes, scan(phase.from, phase.to), "{phase:?}");
    }
}

/// Prints the share of events in the wrong phase, for each recording with regions that name phases.
#[test]
fn phases_of_larger_recordings() {
    let Some(data) = recordings() else { return };
    let mut shares: Vec<(f64, String)> = Vec::new();
    for folder in ["phantom", "categories", "real"] {
        for file in std::fs::read_dir(data.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if !(name.ends_with(".pickle") || name.ends_with(".pickle.zst")) {
                continue;
            }
            let trace = read(&path);
            for position in 0..trace.devices.len() {
                let (all, wrong) = compared(&trace, position);
                if all > 0 {
                    shares.push((wrong as f64 / all as f64, format!("{name} ({all} events)")));
                }
            }
        }
    }
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (wrong, name) in &shares {
        eprintln!("{:6.2} % {name}", wrong * 100.0);
    }
    let mean = shares.iter().map(|s| s.0).sum::<f64>() / shares.len() as f64;
    eprintln!("{:6.2} % on average of {}", mean * 100.0, shares.len());
    assert!(shares.len() > 30 && mean < 0.02, "{mean}");
}

#[test]
fn phases_recorded_with_allocations_win() {
    let tagged = |n: u64, phase: Option<Phase>| {
        let mut alloc = event("alloc", n << 20, 512);
        alloc["user_metadata"] = json!(Purpose { phase, ..Purpose::default() }.to_string());
        alloc
    };
    let [forward, backward] = [Some(Phase::Forward), Some(Phase::Backward)];
    let events = vec![
        tagged(1, None),
        tagged(2, forward),
        tagged(3, forward),
        event("free_completed", 2 << 20, 512),
        tagged(4, backward),
        tagged(5, None),
        tagged(6, backward),
    ];
    let region = |stage: &str| json!({"stage": stage, "name": "optimizer", "device": 0, "time_us": 1});
    let snapshot = json!({"segments": [], "device_traces": [events],
        "external_annotations": [region("START"), region("END")]});
    let trace = formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    let found = steps(&trace, 0);
    let ranges: Vec<_> =
        found.phases.iter().map(|p| (p.phase, p.from.index(), p.to.index(), p.bytes.kept)).collect();
    let expected = [(Phase::Forward, 1, 4, 512), (Phase::Backward, 4, 5, 512), (Phase::Backward, 6, 7, 512)];
    assert_eq!(ranges, expected);
    assert!(found.phases.iter().all(|p| p.told_by == PhaseFrom::Recorded && p.step.is_none()));
    assert_eq!(found.phases[0].bytes.peak, 3 * 512);
}
