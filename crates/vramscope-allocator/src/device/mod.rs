//! Devices of the operating system: host memory, and GPUs through the CUDA driver.

#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod process;

#[cfg(feature = "cuda")]
pub use cuda::CudaDevice;
pub use host::HostDevice;
pub use process::Process;
