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

/// Whether the system reports that less than a twentieth of its memory is available. Other systems than Linux do not report it.
fn is_memory_short() -> bool {
    let Ok(text) = fs::read_to_string("/proc/meminfo") else { return false };
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let (total, available) = (kilobytes("MemTotal:"), kilobytes("MemAvailable:"));
    total.zip(available).is_some_and(|(total, available)| available < total / 20)
}
