//! The exceptions of the package.

use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use vramscope::session::SessionError;

create_exception!(vramscope, VramscopeError, PyException, "Base class of all exceptions of vramscope.");
create_exception!(
    vramscope,
    ReadError,
    VramscopeError,
    "A recording cannot be read. The message names the fault and its byte offset."
);
create_exception!(
    vramscope,
    OutOfMemoryError,
    VramscopeError,
    "A simulated pool or device has no room for a request. The message is CuPy's."
);

/// Why a recording did not answer.
pub(crate) enum Failed {
    /// The request failed.
    Request(SessionError),
    /// Something else failed.
    Other(String),
}

impl Failed {
    /// The exception: ValueError for invalid arguments, else VramscopeError. `name` is the recording's.
    pub(crate) fn raised(self, name: &str) -> PyErr {
        match self {
            Self::Request(error @ (SessionError::Argument(_) | SessionError::Missing(_))) => {
                PyValueError::new_err(error.about(name))
            }
            Self::Request(error) => VramscopeError::new_err(error.about(name)),
            Self::Other(why) => VramscopeError::new_err(format!("{name}: {why}")),
        }
    }
}

impl From<SessionError> for Failed {
    fn from(error: SessionError) -> Self {
        Self::Request(error)
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}
