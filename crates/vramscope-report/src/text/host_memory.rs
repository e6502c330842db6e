//! The section about the host memory of the process.

use vramscope_analysis::{HostCourse, Summary};
use vramscope_basics::units::bytes;

use super::page::Page;

impl Page<'_> {
    pub(super) fn host_memory(&mut self, s: &Summary) {
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
