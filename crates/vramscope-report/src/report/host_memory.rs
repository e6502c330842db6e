//! The section about the host memory of the process.

use serde::Serialize;
use vramscope_analysis::{HostCourse, HostMemory, Summary};
use vramscope_basics::units::bytes;

use crate::text::page::Page;

/// The host memory of the recorded process over time, as Linux counts it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "HostMemory"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "HostMemory"))]
pub(crate) struct HostMemoryJson {
    /// The time of the first reading, in microseconds since the Unix epoch.
    from_time_us: i64,
    /// The time of the last reading, in microseconds since the Unix epoch.
    to_time_us: i64,
    /// Resident bytes of the process.
    resident: HostCourseJson,
    /// Of these, anonymous memory.
    anonymous: HostCourseJson,
    /// Of these, pages of mapped files.
    mapped_files: HostCourseJson,
    /// Of these, shared memory.
    shared: HostCourseJson,
    /// Bytes that the process pinned through the driver.
    pinned: HostCourseJson,
    /// The page cache of the cgroup of the process; null if it was not read.
    page_cache: Option<HostCourseJson>,
}

/// The course of a number of bytes.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "HostCourse"))]
#[cfg_attr(test, derive(ts_rs::TS), ts(rename = "HostCourse"))]
pub(crate) struct HostCourseJson {
    /// At the first reading.
    start_bytes: u64,
    peak_bytes: u64,
    /// At the last reading.
    end_bytes: u64,
    /// Growth in bytes per hour, from the median of the second quarter of the time to that of the last; null for less than ten minutes.
    bytes_per_hour: Option<i64>,
}

impl HostMemoryJson {
    pub(crate) fn of(of: &HostMemory) -> Self {
        let course = HostCourseJson::of;
        Self {
            from_time_us: of.time_us.0,
            to_time_us: of.time_us.1,
            resident: course(of.resident),
            anonymous: course(of.anonymous),
            mapped_files: course(of.files),
            shared: course(of.shared),
            pinned: course(of.pinned),
            page_cache: of.page_cache.map(course),
        }
    }
}

impl HostCourseJson {
    fn of(of: HostCourse) -> Self {
        let HostCourse { start, peak, end, per_hour } = of;
        Self { start_bytes: start, peak_bytes: peak, end_bytes: end, bytes_per_hour: per_hour }
    }
}

impl Page<'_> {
    pub(crate) fn host_memory(&mut self, s: &Summary) {
        let Some(host) = &s.host_memory else { return };
        let hours = host.time_us.1.saturating_sub(host.time_us.0) as f64 / 3.6e9;
        self.heading(&format!("Host memory of the process, {hours:.1} hours"));
        self.line(format!("  {:>11} {:>11} {:>11} {:>13}", "at first", "peak", "at last", "per hour"));
        let rows = [
            ("resident", Some(host.resident)),
            ("  anonymous", Some(host.anonymous)),
            ("  mapped files", Some(host.files)),
            ("  shared", Some(host.shared)),
            ("pinned by calls of the driver", Some(host.pinned).filter(|pinned| pinned.peak > 0)),
            ("page cache of the cgroup", host.page_cache),
        ];
        for (name, course) in rows.into_iter().filter_map(|(name, course)| Some((name, course?))) {
            let HostCourse { start, peak, end, per_hour } = course;
            let growth = per_hour.map_or_else(|| "-".to_owned(), growth);
            self.line(format!(
                "  {:>11} {:>11} {:>11} {growth:>13}  {name}",
                bytes(start),
                bytes(peak),
                bytes(end)
            ));
        }
        if host.resident.per_hour.is_none() {
            self.words(2, "Growth needs readings of ten minutes or more.");
        }
    }
}

/// Bytes per hour with a sign.
fn growth(per_hour: i64) -> String {
    let sign = if per_hour < 0 { '-' } else { '+' };
    format!("{sign}{}", bytes(per_hour.unsigned_abs()))
}
