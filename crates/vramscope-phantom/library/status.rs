//! Why a call did not succeed, and the number that each library has for it.

use std::ffi::c_int;

/// Why a call did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// An argument means nothing here, such as a null pointer.
    InvalidValue,
    /// No device memory is left.
    OutOfMemory,
    /// There is no device at all.
    NoDevice,
    /// There is no such device.
    InvalidDevice,
    /// A handle is none that was given out.
    InvalidHandle,
    /// Nobody set it up.
    NotInitialized,
    /// There is no such name.
    NotFound,
    /// What is asked about has not happened yet.
    NotReady,
    /// A kernel has no code for the device.
    NoKernelImage,
    /// The phantom does not do this.
    NotSupported,
    /// The caller's buffer is too small.
    InsufficientSize,
    /// The stream is not being captured as it would have to be.
    IllegalState,
    /// While a stream is captured the host cannot wait for it.
    Capturing,
}

pub(crate) type Answer = Result<(), Refusal>;

/// The libraries that the phantom answers for.
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
    /// The number for a refusal, by the library's own header.
    pub(crate) fn code(self, refusal: Refusal) -> c_int {
        use Refusal::*;
        match self {
            // cuda.h and driver_types.h share these.
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
