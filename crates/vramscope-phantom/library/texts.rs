//! Error texts of the libraries.

use std::ffi::{c_char, c_int};

use crate::out::Out;
use crate::status::{Answer, Refusal};

/// Errors of the runtime and the driver: code, the runtime's name, the driver's name, and the text for both.
const ERRORS: &[(c_int, &str, &str, &str)] = &[
    (0, "cudaSuccess\0", "CUDA_SUCCESS\0", "no error\0"),
    (1, "cudaErrorInvalidValue\0", "CUDA_ERROR_INVALID_VALUE\0", "invalid argument\0"),
    (2, "cudaErrorMemoryAllocation\0", "CUDA_ERROR_OUT_OF_MEMORY\0", "out of memory\0"),
    (3, "cudaErrorInitializationError\0", "CUDA_ERROR_NOT_INITIALIZED\0", "initialization error\0"),
    (100, "cudaErrorNoDevice\0", "CUDA_ERROR_NO_DEVICE\0", "no CUDA-capable device is detected\0"),
    (101, "cudaErrorInvalidDevice\0", "CUDA_ERROR_INVALID_DEVICE\0", "invalid device ordinal\0"),
    (
        209,
        "cudaErrorNoKernelImageForDevice\0",
        "CUDA_ERROR_NO_BINARY_FOR_GPU\0",
        "no kernel image is available for execution on the device\0",
    ),
    (400, "cudaErrorInvalidResourceHandle\0", "CUDA_ERROR_INVALID_HANDLE\0", "invalid resource handle\0"),
    (
        401,
        "cudaErrorIllegalState\0",
        "CUDA_ERROR_ILLEGAL_STATE\0",
        "the operation cannot be performed in the present state\0",
    ),
    (500, "cudaErrorSymbolNotFound\0", "CUDA_ERROR_NOT_FOUND\0", "named symbol not found\0"),
    (600, "cudaErrorNotReady\0", "CUDA_ERROR_NOT_READY\0", "device not ready\0"),
    (801, "cudaErrorNotSupported\0", "CUDA_ERROR_NOT_SUPPORTED\0", "operation not supported\0"),
    (
        900,
        "cudaErrorStreamCaptureUnsupported\0",
        "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED\0",
        "operation not permitted when stream is capturing\0",
    ),
];

fn error(code: c_int) -> Option<&'static (c_int, &'static str, &'static str, &'static str)> {
    ERRORS.iter().find(|error| error.0 == code)
}

fn pointer(text: &'static str) -> *const c_char {
    text.as_ptr().cast()
}

pub(crate) fn error_name(code: c_int) -> *const c_char {
    pointer(error(code).map_or("cudaErrorUnknown\0", |error| error.1))
}

pub(crate) fn error_string(code: c_int) -> *const c_char {
    pointer(error(code).map_or("unknown error\0", |error| error.3))
}

pub(crate) fn driver_error_name(code: c_int, out: Out<*const c_char>) -> Answer {
    out.set(pointer(error(code).ok_or(Refusal::InvalidValue)?.2))
}

pub(crate) fn driver_error_string(code: c_int, out: Out<*const c_char>) -> Answer {
    out.set(pointer(error(code).ok_or(Refusal::InvalidValue)?.3))
}

/// The text of a status code, for the other libraries.
pub(crate) fn status_string(code: c_int) -> *const c_char {
    pointer(match code {
        0 => "success\0",
        _ => "refused by the phantom GPU\0",
    })
}

/// `ncclGetLastError`: no text.
pub(crate) fn no_words(_communicator: usize) -> *const c_char {
    pointer("\0")
}

/// NVML's error texts.
pub(crate) fn nvml_string(code: c_int) -> *const c_char {
    pointer(match code {
        0 => "The operation was successful\0",
        1 => "NVML was not first initialized with nvmlInit()\0",
        2 => "A supplied argument is invalid\0",
        3 => "The requested operation is not available on target device\0",
        6 => "A query to find an object was unsuccessful\0",
        7 => "An input argument is not large enough\0",
        _ => "An internal driver error occurred\0",
    })
}
