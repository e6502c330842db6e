use super::*;
use crate::source::Tick;

const TOTAL: u64 = 1000;

/// One sample per second: hidden, allocated and reserved.
fn of(looks: &[(u64, u64, u64)]) -> HiddenMemory {
    let sample = |(second, &(hidden, allocated, reserved)): (usize, &(u64, u64, u64))| {
        let now = Reading {
            allocated: Some(allocated),
            reserved: Some(reserved),
            device_used: Some(reserved + hidden),
            device_total: Some(TOTAL),
            ..Reading::default()
        };
        let tick = Tick { now, high: now, high_is_exact: false };
        Sample { time_us: second as i64 * 1_000_000, tick, missed: 0 }
    };
    let samples: Vec<Sample> = looks.iter().enumerate().map(sample).collect();
    HiddenMemory::of(&samples, HiddenOptions::default())
}

fn hidden(values: &[u64]) -> HiddenMemory {
    of(&values.iter().map(|&hidden| (hidden, 100, 100)).collect::<Vec<_>>())
}

#[test]
fn a_constant_difference_is_constant_hidden_memory() {
    let found = hidden(&[80; 10]);
    assert_eq!((found.constant_bytes, found.highest_bytes, found.samples), (80, 80, 10));
    let [one] = &found.findings[..] else { panic!("{found:?}") };
    assert_eq!((one.kind, one.severity), (HiddenKind::Constant, HiddenSeverity::Info));
    // Less than 5 % of the device or too few samples give no finding.
    assert_eq!(hidden(&[49; 10]).findings, []);
    assert_eq!(hidden(&[500, 500]).findings, []);
    assert_eq!(HiddenMemory::of(&[], HiddenOptions::default()), HiddenMemory::default());
}

/// The numbers of gpumemprof's formulas, computed by hand.
#[test]
fn a_short_rise_is_a_spike() {
    let mut values = [0; 10];
    values[3] = 600;
    let found = hidden(&values);
    let [one] = &found.findings[..] else { panic!("{found:?}") };
    let HiddenKind::Spike { samples, deviations, time_us } = one.kind else { panic!("{one:?}") };
    assert_eq!((samples, time_us), (1, 3_000_000));
    // (600 - 60) / sqrt((540^2 + 9 * 60^2) / 9)
    assert!((deviations - 2.846).abs() < 0.001, "{deviations}");
    assert_eq!(one.severity, HiddenSeverity::Warning);
    assert!((one.confidence - 0.474).abs() < 0.001, "{}", one.confidence);
    // One spike in a hundred samples is far above the mean.
    let mut values = [0; 100];
    values[50] = 600;
    assert_eq!(hidden(&values).findings[0].severity, HiddenSeverity::Critical);
}

#[test]
fn a_steady_rise_is_a_drift() {
    let found = hidden(&[10, 20, 30, 40, 50, 60, 70]);
    let [one] = &found.findings[..] else { panic!("{found:?}") };
    let HiddenKind::Drift { bytes_per_second, r_squared } = one.kind else { panic!("{one:?}") };
    assert!((bytes_per_second - 10.0).abs() < 1e-9 && (r_squared - 1.0).abs() < 1e-9, "{one:?}");
    assert_eq!(one.severity, HiddenSeverity::Critical);
    // Falling values are not a drift, and neither are four samples.
    assert_eq!(hidden(&[70, 60, 50, 40, 30, 20, 10]).findings, []);
    assert_eq!(hidden(&[20, 40, 60, 80]).findings, []);
    // Seven samples with an R squared of 0.69.
    let found = hidden(&[0, 20, 0, 40, 80, 40, 80]);
    let HiddenKind::Drift { r_squared, .. } = found.findings[0].kind else { panic!("{found:?}") };
    assert!((0.6..0.85).contains(&r_squared), "{r_squared}");
    assert_eq!(found.findings[0].severity, HiddenSeverity::Warning);
}

#[test]
fn reserved_bytes_that_are_not_allocated_are_fragmentation() {
    let found = of(&[(60, 60, 100), (60, 40, 100), (60, 80, 100)]);
    let [frag, constant] = &found.findings[..] else { panic!("{found:?}") };
    let HiddenKind::Fragmentation { average_ratio, highest_ratio } = frag.kind else { panic!("{frag:?}") };
    assert!((average_ratio - 0.4).abs() < 1e-9 && (highest_ratio - 0.6).abs() < 1e-9, "{frag:?}");
    assert_eq!(constant.kind, HiddenKind::Constant);
    // Without hidden memory there is no finding.
    assert_eq!(of(&[(0, 40, 100); 5]).findings, []);
}

#[test]
fn samples_that_do_not_know_are_passed_over() {
    let now = Reading { reserved: Some(1), device_used: Some(900), ..Reading::default() };
    let sample = Sample { time_us: 0, tick: Tick { now, high: now, high_is_exact: false }, missed: 0 };
    assert_eq!(HiddenMemory::of(&[sample; 9], HiddenOptions::default()), HiddenMemory::default());
    // Samples at one time have no line.
    let now = Reading { device_total: Some(1000), ..now };
    let looks = (0..9).map(|i| {
        let now = Reading { device_used: Some(900 + i), ..now };
        Sample { time_us: 7, tick: Tick { now, high: now, high_is_exact: false }, missed: 0 }
    });
    let found = HiddenMemory::of(&looks.collect::<Vec<_>>(), HiddenOptions::default());
    assert!(found.findings.iter().all(|f| !matches!(f.kind, HiddenKind::Drift { .. })), "{found:?}");
}
