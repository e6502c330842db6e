//! The exceptions of the package.

use pyo3::create_exception;
use pyo3::exceptions::PyException;

create_exception!(vramscope, VramscopeError, PyException, "What every exception of vramscope is.");
create_exception!(
    vramscope,
    ReadError,
    VramscopeError,
    "A recording that cannot be read: what is wrong, and at which byte."
);
create_exception!(
    vramscope,
    OutOfMemoryError,
    VramscopeError,
    "A request that a simulated pool or device has no room for, in CuPy's words."
);
