//! Runs every query on a log of samples and checks the invariants of all such logs.

use vramscope::analysis::SamplesSummary;
use vramscope::report::{SampleAnswers, SamplesJson, TextOptions, samples_report, write_json};
use vramscope::trace::formats::Compression;
use vramscope::trace::samples::{Quantity, SampleLog};

/// Runs every query on `log`.
pub(crate) fn ask(log: &SampleLog) {
    let devices: Vec<SamplesSummary> =
        log.series.iter().map(|series| SamplesSummary::of(log, series)).collect();
    for (s, series) in devices.iter().zip(&log.series) {
        let samples: u64 = series.looks.iter().map(|look| look.samples).sum();
        assert_eq!(samples, s.samples, "each sample is in one look");
        for range in &s.quantities {
            assert!(range.lowest <= range.highest.bytes, "{range:?}");
        }
        for growing in &s.growing {
            assert!(growing.floor.is_sorted() && growing.bytes() > 0, "{growing:?}");
        }
        for spike in &s.spikes {
            assert!(spike.bytes > spike.usual, "{spike:?}");
        }
        let highest = |quantity| s.quantity(quantity).map(|range| range.highest.bytes);
        if let (Some(pool), Some(reserved)) = (s.pool, highest(Quantity::Reserved)) {
            assert!(pool.never_in_use <= reserved, "{pool:?}");
        }
    }
    let answers = SampleAnswers { file: "fuzz", log, compression: Compression::None, devices };
    samples_report(&answers, TextOptions { width: 100, top: 10, full_stacks: false });
    let mut out = Vec::new();
    write_json(&mut out, &SamplesJson::new(&answers, None)).expect("writing into memory cannot fail");
    serde_json::from_slice::<serde::de::IgnoredAny>(&out).expect("valid JSON");
}
