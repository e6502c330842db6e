//! Why a run or a search fails.

/// Why a run or a search fails: what is wrong, where, and what to do, in a sentence.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct FitError(#[from] anyhow::Error);
