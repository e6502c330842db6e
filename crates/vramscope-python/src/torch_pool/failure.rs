//! Why a call failed.

use super::throw::Kind;

/// Why a call failed, for PyTorch to raise.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) text: String,
}

impl Failure {
    pub(super) fn other(text: impl std::fmt::Display) -> Self {
        Self { kind: Kind::Runtime, text: format!("vramscope's pool: {text}") }
    }

    pub(super) fn no_pool() -> Self {
        Self::other("PyTorch has not initialized CUDA yet; call torch.cuda.init() first")
    }
}
