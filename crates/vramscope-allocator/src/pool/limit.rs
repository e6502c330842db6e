//! Limits as text, and CuPy's environment variable for them.

use std::env;

use thiserror::Error;

use vramscope_engine::DeviceError;

/// A limit on reserved bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// No limit except the device's size.
    None,
    /// At most this many reserved bytes.
    Bytes(u64),
    /// This fraction of the device's memory, between 0 and 1.
    Fraction(f64),
}

/// The reason why a limit was not set. The messages are CuPy's.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum LimitError {
    /// The fraction is not between 0 and 1.
    #[error("memory limit fraction out of range: {0}")]
    Fraction(f64),
    /// The text is neither a number of bytes nor a percentage.
    #[error("memory limit `{0}` is neither a number of bytes nor a percentage such as 50%")]
    Text(String),
    /// The environment variable is not a valid limit.
    #[error("CUPY_GPU_MEMORY_LIMIT: {0}")]
    Variable(#[source] Box<LimitError>),
    /// The device cannot report its size.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl Limit {
    /// The environment variable that limits CuPy's pools.
    pub const VARIABLE: &str = "CUPY_GPU_MEMORY_LIMIT";

    /// Parses the value of [`CUPY_GPU_MEMORY_LIMIT`](Self::VARIABLE); `None` if the variable is not set.
    ///
    /// # Errors
    /// [`LimitError::Variable`] if the value is not a valid limit. An empty value is not valid.
    pub fn from_env() -> Result<Option<Self>, LimitError> {
        let parse = |text: std::ffi::OsString| {
            text.to_string_lossy().parse().map_err(|e| LimitError::Variable(Box::new(e)))
        };
        env::var_os(Self::VARIABLE).map(parse).transpose()
    }
}

impl std::str::FromStr for Limit {
    type Err = LimitError;

    /// Parses a number of bytes, or a percentage of the device: the format of CuPy's `CUPY_GPU_MEMORY_LIMIT`.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let wrong = || LimitError::Text(text.to_owned());
        match text.trim().strip_suffix('%') {
            Some(percent) => {
                let fraction = percent.trim().parse::<f64>().map_err(|_| wrong())? / 100.0;
                if (0.0..=1.0).contains(&fraction) {
                    Ok(Self::Fraction(fraction))
                } else {
                    Err(LimitError::Fraction(fraction))
                }
            }
            None => text.trim().parse().map(Self::Bytes).map_err(|_| wrong()),
        }
    }
}
