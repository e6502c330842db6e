//! The host memory of a recorded process, from the files of Linux.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use vramscope_trace::HostReading;

/// Time between two readings. One takes some tens of microseconds of the recorder's thread, and no time of the process.
const INTERVAL: Duration = Duration::from_secs(1);

/// A reading is written if the resident memory or the page cache changed by this many bytes since the last one that was.
const CHANGE: u64 = 1 << 20;

/// A reading is written after this time in any case.
const AT_LEAST_EVERY: Duration = Duration::from_secs(60);

/// Reads the host memory of one process.
#[derive(Debug)]
pub(crate) struct HostMemory {
    status: PathBuf,
    /// `memory.stat` of its cgroup.
    cgroup: Option<PathBuf>,
    read: Option<Instant>,
    written: Option<(Instant, HostReading)>,
}

impl HostMemory {
    pub(crate) fn of(process: u32) -> Self {
        let cgroup = fs::read_to_string(format!("/proc/{process}/cgroup")).ok();
        let cgroup = cgroup.and_then(|text| memory_stat(&text)).filter(|path| path.exists());
        Self { status: format!("/proc/{process}/status").into(), cgroup, read: None, written: None }
    }

    /// Returns a reading if it is due and differs from the last one that was returned.
    pub(crate) fn due(&mut self) -> Option<HostReading> {
        if self.read.is_some_and(|read| read.elapsed() < INTERVAL) {
            return None;
        }
        let now = Instant::now();
        self.read = Some(now);
        let page_cache =
            self.cgroup.as_ref().and_then(|path| field(&fs::read_to_string(path).ok()?, "file "));
        let time_us = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.as_micros() as i64;
        let reading = reading(&fs::read_to_string(&self.status).ok()?, page_cache, time_us)?;
        let is_new = self.written.is_none_or(|(written, last)| {
            let cache = |r: &HostReading| r.page_cache.unwrap_or(0);
            now - written >= AT_LEAST_EVERY
                || reading.resident().abs_diff(last.resident()) >= CHANGE
                || cache(&reading).abs_diff(cache(&last)) >= CHANGE
        });
        is_new.then(|| {
            self.written = Some((now, reading));
            reading
        })
    }
}

/// Returns the path of `memory.stat` of a process, by its `/proc/PID/cgroup`. Version 2 has one line, `0::/path`.
fn memory_stat(cgroup: &str) -> Option<PathBuf> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(PathBuf::from("/sys/fs/cgroup").join(path).join("memory.stat"))
}

/// Returns a reading from `/proc/PID/status`; `None` for a process that has ended, whose file has no such lines.
fn reading(status: &str, page_cache: Option<u64>, time_us: i64) -> Option<HostReading> {
    let kib = |name| field(status, name).map(|kib| kib.saturating_mul(1024));
    Some(HostReading {
        time_us,
        anonymous: kib("RssAnon:")?,
        files: kib("RssFile:")?,
        shared: kib("RssShmem:")?,
        page_cache,
    })
}

/// Returns the number of the line that begins with `name`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_linux() {
        let status = "Name:\tpython\nVmRSS:\t    5000 kB\nRssAnon:\t    1000 kB\nRssFile:\t    3900 kB\nRssShmem:\t     100 kB\n";
        let read = reading(status, Some(7), 42).unwrap();
        assert_eq!(
            read,
            HostReading {
                time_us: 42,
                anonymous: 1000 << 10,
                files: 3900 << 10,
                shared: 100 << 10,
                page_cache: Some(7)
            }
        );
        assert_eq!(read.resident(), 5000 << 10);
        // A process that has ended.
        assert_eq!(reading("Name:\tpython\nState:\tZ (zombie)\n", None, 42), None);
        assert_eq!(field("anon 5\nfile 4096\nfile_mapped 6\n", "file "), Some(4096));
        let of = |text| memory_stat(text).map(|path| path.display().to_string());
        assert_eq!(of("0::/a/b\n").as_deref(), Some("/sys/fs/cgroup/a/b/memory.stat"));
        assert_eq!(of("0::/\n").as_deref(), Some("/sys/fs/cgroup/memory.stat"));
        assert_eq!(of("5:memory:/a\n"), None);
    }

    #[test]
    fn a_reading_is_due_at_once_and_not_twice() {
        let mut host = HostMemory::of(std::process::id());
        let first = host.due();
        assert_eq!(first.is_some(), cfg!(target_os = "linux"));
        assert!(first.is_none_or(|first| first.resident() > 0));
        assert_eq!(host.due(), None);
    }
}
