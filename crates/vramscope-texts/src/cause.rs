//! The cause of an error, as far as its numbers and words show it.

use serde::Serialize;

use crate::error::{CauseKind, TextError};

/// A cause and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Why the request failed.
    pub kind: CauseKind,
    /// Bytes that the device lacked for the request; `None` if the text does not show them.
    pub lacking_bytes: Option<u64>,
    /// `shown` if it follows from the numbers, `likely` or `possible`.
    pub certainty: &'static str,
}

impl Cause {
    /// The name in JSON.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.kind {
            CauseKind::Size => "size",
            CauseKind::Fragmentation => "fragmentation",
            CauseKind::Others => "others",
            CauseKind::Limit => "limit",
            CauseKind::Pages => "pages",
            CauseKind::Host => "host",
            CauseKind::AddressSpace => "address_space",
            CauseKind::Unknown => "unknown",
        }
    }
}

/// Below this, memory of other processes is not what fills a device: contexts of a desktop or of the same program.
const LEAST_OTHERS: u64 = 640 << 20;

impl TextError {
    /// The cause as far as the error shows it.
    #[must_use]
    pub fn cause(&self) -> Cause {
        let cause = |kind, lacking_bytes, certainty| Cause { kind, lacking_bytes, certainty };
        if let Some(kind) = self.says {
            return cause(kind, self.lacking(), "shown");
        }
        let Some(tried) = self.tried else { return cause(CauseKind::Unknown, None, "possible") };
        let needed = self.in_use().saturating_add(tried);
        if let Some(limit) = self.limit
            && self.free.is_none_or(|free| free >= tried)
            && needed > limit
        {
            return cause(CauseKind::Limit, Some(needed - limit), "shown");
        }
        let Some(free) = self.free else {
            // The total bounds what can be free.
            let most = self
                .total
                .map(|total| total.saturating_sub(self.process.or(self.reserved).unwrap_or_default()));
            let cache = self.cache();
            return match (most, cache) {
                (Some(most), Some(cache)) if most.saturating_add(cache) < tried => {
                    cause(CauseKind::Size, Some(tried - most), "shown")
                }
                _ => cause(CauseKind::Unknown, None, "possible"),
            };
        };
        if self.total.is_some_and(|total| tried > total) {
            return cause(CauseKind::Size, Some(tried.saturating_sub(free)), "shown");
        }
        // The numbers are of two different memories, as on an APU.
        if self.total.is_some_and(|total| free > total) {
            return cause(CauseKind::Unknown, None, "possible");
        }
        if free >= tried {
            return cause(CauseKind::Pages, None, "likely");
        }
        let lacking = tried - free;
        let Some(cache) = self.cache() else {
            let known = self.allocated.is_some() && self.limit.is_none() && self.total.is_some();
            let is_async = known && self.reserved.is_none() && self.private_pools.is_none();
            return if is_async
                && self.platform == "cuda"
                && self.process.is_none()
                && self.program == "pytorch"
            {
                cause(CauseKind::Size, Some(lacking), "likely")
            } else {
                cause(CauseKind::Unknown, Some(lacking), "possible")
            };
        };
        if cache >= lacking {
            return cause(CauseKind::Fragmentation, Some(lacking), "likely");
        }
        let own = self.process.or(self.reserved).unwrap_or_default();
        if self.others.is_some_and(|others| others >= LEAST_OTHERS && others >= lacking && others > own) {
            return cause(CauseKind::Others, Some(lacking), "likely");
        }
        cause(CauseKind::Size, Some(lacking), "shown")
    }

    /// The bytes that count against a limit.
    fn in_use(&self) -> u64 {
        let with_cache =
            self.allocated.map(|allocated| allocated.saturating_add(self.cached.unwrap_or_default()));
        let others = if self.platform == "mps" { self.others.unwrap_or_default() } else { 0 };
        self.reserved.or(with_cache).unwrap_or_default().saturating_add(others)
    }

    fn lacking(&self) -> Option<u64> {
        self.tried?.checked_sub(self.free?).filter(|&lacking| lacking > 0)
    }
}
