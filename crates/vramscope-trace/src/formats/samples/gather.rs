//! Collects the rows of a log, in bounded memory.

use hashbrown::HashMap;

use super::row::Row;
use crate::samples::{
    Call, LogDamage, LogEnd, LogEvent, LogEventKind, Quantity, Sample, SampleForm, SampleLog, Series, Values,
};

/// Maximum number of looks over all devices. At the limit, every two consecutive looks are merged.
const MOST_LOOKS: usize = 1 << 16;

/// Maximum number of distinct devices and ranks.
const MOST_SERIES: usize = 1024;

/// Collects rows into a log.
pub(super) struct Gather {
    log: SampleLog,
    places: HashMap<(Option<i64>, Option<i64>), SeriesPosition>,
    looks: usize,
    /// Number of samples per look.
    together: u64,
    /// Whether a row was marked as a sample. Logs of gpumemprof have no such rows; there, every row with bytes in use is a sample.
    has_samples: bool,
    last_time: i64,
    rows: u64,
}

/// Position of a device's series, and the counters of its previous sample.
struct SeriesPosition {
    series: usize,
    ooms: Option<u64>,
    retries: Option<u64>,
}

impl Gather {
    pub(super) fn new(form: SampleForm) -> Self {
        let log = SampleLog {
            form,
            source: None,
            collector: None,
            series: Vec::new(),
            events: Vec::new(),
            more_events: 0,
            calls: Vec::new(),
            ended: None,
            damage: LogDamage::default(),
        };
        let places = HashMap::new();
        Self { log, places, looks: 0, together: 1, has_samples: false, last_time: i64::MIN, rows: 0 }
    }

    /// Returns the number of rows so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the next row; `None` is an unreadable row.
    pub(super) fn push(&mut self, row: Option<Row>) {
        self.rows += 1;
        let Some((time_us, mut row)) = row.and_then(|row| Some((row.time_us?, row))) else {
            self.log.damage.bad_rows += 1;
            self.log.damage.first_bad_row.get_or_insert(self.rows);
            return;
        };
        if std::mem::replace(&mut self.last_time, time_us) > time_us {
            self.log.damage.unordered += 1;
        }
        if !row.collector.is_empty() && self.log.collector.is_none() {
            self.log.collector = Some(std::mem::take(&mut row.collector));
        }
        let kind = match row.event.as_str() {
            "sample" | "" => {
                if !std::mem::replace(&mut self.has_samples, true) {
                    // Discard the values of events before the first sample.
                    self.log.series.clear();
                    self.places.clear();
                    self.looks = 0;
                }
                return self.sample(time_us, row);
            }
            "start" => {
                self.log.ended = None;
                if self.log.source.is_none() && self.log.collector.is_none() {
                    self.log.source = Some(row.message.clone());
                }
                None
            }
            "stop" => {
                self.log.ended.get_or_insert(LogEnd::Stopped);
                None
            }
            "gone" => {
                self.log.ended = Some(LogEnd::Gone);
                Some(LogEventKind::Gone)
            }
            "alert" | "warning" | "critical" => Some(LogEventKind::Alert),
            "cleared" => Some(LogEventKind::Cleared),
            "oom" => Some(LogEventKind::OutOfMemory),
            "error" if row.is_out_of_memory => Some(LogEventKind::OutOfMemory),
            "error" => Some(LogEventKind::Error),
            "retry" => Some(LogEventKind::Retry),
            "cleanup" => Some(LogEventKind::Cleanup),
            _ => None,
        };
        if let Some(kind) = kind {
            let Row { device, rank, message, .. } = &row;
            let event = LogEvent { time_us, device: *device, rank: *rank, kind, message: message.clone() };
            if self.log.events.len() < SampleLog::MOST_EVENTS {
                self.log.events.push(event);
            } else {
                self.log.more_events += 1;
            }
        }
        if !self.has_samples && row.now.get(Quantity::Allocated).is_some() && row.event != "error" {
            self.sample(time_us, row);
        }
    }

    fn sample(&mut self, time_us: i64, mut row: Row) {
        let known = (row.device, row.rank);
        if row.now == Values::default() {
            return;
        }
        if !self.places.contains_key(&known) {
            if self.places.len() >= MOST_SERIES {
                self.log.damage.left_out += 1;
                return;
            }
            self.places.insert(
                known,
                SeriesPosition { series: self.log.series.len(), ooms: row.ooms, retries: row.retries },
            );
            self.log.series.push(Series::new(row.device, row.rank));
        }
        let Some(place) = self.places.get_mut(&known) else { return };
        let Some(series) = self.log.series.get_mut(place.series) else { return };
        let rose = |before: &mut Option<u64>, now: Option<u64>| {
            let rise = now.zip(*before).map_or(0, |(now, before)| now.saturating_sub(before));
            *before = now.or(*before);
            rise
        };
        series.failed_requests = series.failed_requests.saturating_add(rose(&mut place.ooms, row.ooms));
        series.retries = series.retries.saturating_add(rose(&mut place.retries, row.retries));
        if !knows_the_driver(self.log.collector.as_deref()) {
            row.now.set(Quantity::DeviceUsed, None);
        }
        let before = series.looks.len();
        let Row { now, high, high_is_exact, device_total, device_source, missed, phases, .. } = row;
        let sample =
            Sample { time_us, now, high, high_is_exact, device_total, device_source, missed, phases };
        series.push(sample, self.together);
        self.looks += series.looks.len() - before;
        if self.looks > MOST_LOOKS {
            self.together *= 2;
            self.log.series.iter_mut().for_each(Series::halve);
            self.looks = self.log.series.iter().map(|series| series.looks.len()).sum();
        }
    }

    /// Adds a result of a profiled function.
    pub(super) fn call(&mut self, name: String, peak: Option<u64>, kept: i64) {
        let calls = &mut self.log.calls;
        let place = calls.iter().rposition(|call| call.name == name).or_else(|| {
            (calls.len() < SampleLog::MOST_CALLS).then(|| {
                calls.push(Call { name, ..Call::default() });
                calls.len() - 1
            })
        });
        if let Some(call) = place.and_then(|place| calls.get_mut(place)) {
            call.calls += 1;
            call.peak = call.peak.max(peak);
            call.kept = call.kept.saturating_add(kept);
        }
    }

    /// Returns the log. `cut_off` is whether it ends within a row.
    pub(super) fn finish(mut self, cut_off: bool) -> SampleLog {
        self.log.damage.cut_off = cut_off;
        self.log.series.sort_by_key(|series| (series.rank, series.device));
        self.log.calls.sort_by_key(|call| std::cmp::Reverse(call.peak));
        self.log
    }
}

/// Whether the log's device use comes from the driver. gpumemprof and stormlog write the use of the process's pool under that name.
fn knows_the_driver(collector: Option<&str>) -> bool {
    collector.is_none_or(|collector| collector.starts_with("vramscope"))
}
