use super::*;

fn watched(above: f64, until: f64, seconds: u64) -> WatchedThreshold {
    let threshold = Threshold {
        until,
        min_interval: Duration::from_secs(seconds),
        ..Threshold::new(AlertQuantity::DevicePercent, Severity::Warning, above)
    };
    WatchedThreshold::new(threshold)
}

/// Returns the changes for values that are a second apart.
fn changes(watched: &mut WatchedThreshold, values: &[f64]) -> Vec<(usize, AlertChange)> {
    let seen = values.iter().enumerate();
    seen.filter_map(|(i, &v)| watched.update(v, Duration::from_secs(i as u64)).map(|c| (i, c))).collect()
}

#[test]
fn one_crossing_is_one_alert_however_long_it_lasts() {
    let values = [10.0, 81.0, 82.0, 79.0, 81.0, 95.0, 73.0, 81.0, 70.0, 60.0, 81.0];
    assert_eq!(
        changes(&mut watched(80.0, 72.0, 0), &values),
        [(1, AlertChange::Raised), (8, AlertChange::Cleared), (10, AlertChange::Raised)]
    );
}

#[test]
fn an_alert_too_soon_after_the_last_waits_until_there_is_reason_still() {
    let values = [81.0, 70.0, 81.0, 70.0, 70.0, 81.0, 81.0];
    assert_eq!(
        changes(&mut watched(80.0, 72.0, 6), &values),
        [(0, AlertChange::Raised), (1, AlertChange::Cleared), (6, AlertChange::Raised)]
    );
}

#[test]
fn without_hysteresis_a_value_at_the_threshold_alerts_once() {
    assert_eq!(changes(&mut watched(80.0, 80.0, 0), &[80.0, 81.0, 80.0, 80.5]), [(0, AlertChange::Raised)]);
    assert_eq!(changes(&mut watched(80.0, 72.0, 0), &[f64::NAN, f64::NAN]), []);
}

#[test]
fn growth_is_of_what_stays() {
    let minute = |of: &dyn Fn(u64) -> u64| {
        let mut growth = GrowthRate::new(Duration::from_secs(60));
        (0..=600).filter_map(|i| growth.update(Duration::from_millis(i * 100), of(i))).last()
    };
    let mib = 1u64 << 20;
    // Steps of a second that use up to 100 MiB and leave nothing.
    assert_eq!(minute(&|i| 500 * mib + i % 10 * 10 * mib), Some(0.0));
    // The same, but each step leaves 1 MiB.
    let left = minute(&|i| 500 * mib + i % 10 * 10 * mib + i / 10 * mib).unwrap();
    assert!((55.0..65.0).contains(&(left / mib as f64)), "{left}");
    // Memory that is allocated once.
    assert_eq!(minute(&|i| if i < 450 { 0 } else { 300 * mib }), Some(0.0));
    // Half a window is not enough.
    let mut growth = GrowthRate::new(Duration::from_secs(60));
    assert_eq!((0..300).filter_map(|i| growth.update(Duration::from_millis(i * 100), 0)).count(), 0);
}

#[test]
fn the_growth_window_keeps_few_samples() {
    let mut growth = GrowthRate::new(Duration::from_secs(60));
    for i in 0..600_000 {
        growth.update(Duration::from_micros(i * 100), 0);
    }
    assert!(growth.seen.len() <= MOST_LOOKS as usize + 2, "{}", growth.seen.len());
}
