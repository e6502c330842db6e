//! The exceptions of the package.

use pyo3::create_exception;
use pyo3::exceptions::PyException;

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
