//! [`Limits`]: of the time and the memory of a running query.

use std::fs;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout};
use vramscope_analysis::Cancel;

use crate::error::QueryError;

/// Stack of each thread in bytes. DataFusion plans the longest statements recursively. Only the used part takes memory.
const STACK: usize = 128 << 20;

/// Interval at which the limits of a running query are checked.
const CHECKED_EVERY: Duration = Duration::from_millis(50);

/// Returns the threads of a query.
pub(crate) fn threads() -> io::Result<Runtime> {
    Builder::new_multi_thread().enable_all().thread_stack_size(STACK).build()
}

/// Limits of a running query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    /// The maximum duration, and its end; `None` is unlimited.
    pub(crate) time: Option<(Duration, Instant)>,
    pub(crate) cancel: Cancel,
}

impl Limits {
    /// Runs a part of a query as a task. Fails if the query is cancelled, takes too long, or if the machine has almost no memory left.
    pub(crate) async fn within<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, QueryError>> + Send + 'static,
    ) -> Result<T, QueryError> {
        // A long computation does not delay the checks below.
        let mut work = tokio::spawn(work);
        loop {
            if let Ok(done) = timeout(CHECKED_EVERY, &mut work).await {
                return done.unwrap_or_else(|e| Err(QueryError::failed(e.to_string())));
            }
            if self.cancel.is_cancelled() {
                return Err(QueryError::failed("the query was cancelled".to_owned()));
            }
            if let Some((time, _)) = self.time.filter(|(_, end)| Instant::now() >= *end) {
                let seconds = time.as_secs_f64();
                let text = format!("the query took longer than {seconds} s; `vramscope query` has no limit");
                return Err(QueryError::failed(text));
            }
            if is_memory_short() {
                let text = "the query was stopped because the machine has less than 5% of its memory left";
                return Err(QueryError::failed(text.to_owned()));
            }
        }
    }
}

/// Whether the system reports that little memory is available. Only Linux reports it.
fn is_memory_short() -> bool {
    fs::read_to_string("/proc/meminfo").is_ok_and(|told| is_short(&told))
}

/// Whether less than a twentieth of the memory in a `/proc/meminfo` is available.
fn is_short(told: &str) -> bool {
    let kilobytes = |name: &str| {
        let line = told.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    kilobytes("MemTotal:").zip(kilobytes("MemAvailable:")).is_some_and(|(all, left)| left < all / 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_short_below_a_twentieth() {
        let told = |left: u64| {
            format!(
                "MemTotal:       1000000 kB\nMemFree:         1 kB\nMemAvailable:   {left} kB\nHugePages_Total: 0\n"
            )
        };
        assert!(is_short(&told(49_999)) && !is_short(&told(50_000)));
        assert!(!is_short("") && !is_short("MemTotal: x kB"));
        #[cfg(target_os = "linux")]
        assert!(fs::read_to_string("/proc/meminfo").unwrap().contains("\nMemAvailable:"));
    }

    #[test]
    fn a_part_that_panics_is_an_error() {
        let part = async { panic!("this is a test of a part that panics") };
        let ended: Result<(), _> = threads().unwrap().block_on(Limits::default().within(part));
        assert!(ended.unwrap_err().to_string().contains("panicked"));
    }
}
