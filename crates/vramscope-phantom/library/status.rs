//! The reasons for which a call fails, and each library's status code for them.

use std::ffi::c_int;

/// Why a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// An argument is invalid, such as a null pointer.
    InvalidValue,
    /// No device memory is left.
    OutOfMemory,
    /// The machine has no device.
    NoDevice,
    /// The device does not exist.
    InvalidDevice,
    /// The handle is unknown.
    InvalidHandle,
    /// A required initialization is missing.
    NotInitialized,
    /// The name is unknown.
    NotFound,
    /// The result is not available yet.
    NotReady,
    /// A kernel has no code for the device.
    NoKernelImage,
    /// The phantom does not implement this call.
    NotSupported,
    /// The caller's buffer is too small.
    InsufficientSize,
    /// The stream's capture state does not permit the call.
    IllegalState,
    /// The host cannot wait for a stream during its capture.
    Capturing,
}

pub(crate) type Answer = Result<(), Refusal>;

/// The libraries that the phantom implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Library {
    Driver,
    Runtime,
    Nvml,
    Cublas,
    Cudnn,
    Cusolver,
    Cusparse,
    Cufft,
    Curand,
    Nccl,
    Cufile,
    Cupti,
    Nvshmem,
}

impl Library {
    /// The status code for a refusal, from the library's own header.
    pub(crate) fn code(self, refusal: Refusal) -> c_int {
        use Refusal::*;
        match self {
            // cuda.h and driver_types.h share these codes.
            Self::Driver | Self::Runtime => match refusal {
                InvalidValue | InsufficientSize => 1,
                OutOfMemory => 2,
                NotInitialized => 3,
                NoDevice => 100,
                InvalidDevice => 101,
                NoKernelImage => 209,
                InvalidHandle => 400,
                IllegalState => 401,
                NotFound => 500,
                NotReady => 600,
                NotSupported => 801,
                Capturing => 900,
            },
            Self::Nvml => match refusal {
                NotInitialized => 1,
                InvalidValue | InvalidDevice | NoDevice | InvalidHandle => 2,
                NotSupported | NoKernelImage => 3,
                NotFound => 6,
                InsufficientSize => 7,
                OutOfMemory => 20,
                IllegalState | Capturing | NotReady => 999,
            },
            Self::Cublas => match refusal {
                NotInitialized | InvalidHandle => 1,
                OutOfMemory => 3,
                InvalidValue | InvalidDevice | NoDevice | InsufficientSize | NotFound => 7,
                IllegalState | Capturing | NotReady => 14,
                NotSupported | NoKernelImage => 15,
            },
            Self::Cudnn => match refusal {
                NotInitialized => 1001,
                InvalidValue | InvalidDevice | NoDevice | InvalidHandle | InsufficientSize | NotFound => 2000,
                NotSupported | NoKernelImage => 3000,
                OutOfMemory | IllegalState | Capturing | NotReady => 4000,
            },
            Self::Cusolver => match refusal {
                NotInitialized | InvalidHandle => 1,
                OutOfMemory => 2,
                InvalidValue | InvalidDevice | NoDevice | InsufficientSize | NotFound => 3,
                IllegalState | Capturing | NotReady => 7,
                NotSupported | NoKernelImage => 9,
            },
            Self::Cusparse => match refusal {
                NotInitialized | InvalidHandle => 1,
                OutOfMemory => 2,
                InvalidValue | InvalidDevice | NoDevice | InsufficientSize | NotFound => 3,
                IllegalState | Capturing | NotReady => 7,
                NotSupported | NoKernelImage => 10,
            },
            Self::Cufft => match refusal {
                InvalidHandle => 1,
                OutOfMemory => 2,
                InvalidValue | InvalidDevice | NoDevice | InsufficientSize | NotFound => 4,
                NotInitialized | IllegalState | Capturing | NotReady => 7,
                NotSupported | NoKernelImage => 16,
            },
            Self::Curand => match refusal {
                NotInitialized | InvalidHandle => 101,
                OutOfMemory => 102,
                InvalidValue | InvalidDevice | NoDevice | InsufficientSize | NotFound => 104,
                NotSupported | NoKernelImage | IllegalState | Capturing | NotReady => 999,
            },
            Self::Nccl => match refusal {
                OutOfMemory | NotInitialized => 1,
                IllegalState | Capturing | NotReady => 3,
                InvalidValue | InvalidDevice | NoDevice | InvalidHandle | InsufficientSize | NotFound => 4,
                NotSupported | NoKernelImage => 5,
            },
            // cupti_result.h: not supported.
            Self::Cupti => 27,
            // cufile.h: not supported on this platform.
            Self::Cufile => 5007,
            // nvshmemx_error.h: not supported.
            Self::Nvshmem => 3,
        }
    }
}
