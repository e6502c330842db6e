//! Devices that the operating system gives: the host's memory, a GPU's through its driver.

#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod process;

#[cfg(feature = "cuda")]
pub use cuda::CudaDevice;
pub use host::HostDevice;
pub use process::Process;
