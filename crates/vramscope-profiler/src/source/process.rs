//! The host memory of a process.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::{MemorySource, PolledTicker, Reading, SourceError, SourceInfo, Ticker};

/// Reads the resident memory of one process from the system.
#[derive(Debug)]
pub struct ProcessMemory {
    statm: File,
    page_size: u64,
}

impl ProcessMemory {
    /// Opens this process.
    ///
    /// # Errors
    /// The system is not Linux, or `/proc` cannot be read.
    pub fn of_this() -> io::Result<Self> {
        Self::open("/proc/self/statm")
    }

    /// Opens process `pid`. The value keeps referring to this process, even if its id is reused after it ended.
    ///
    /// # Errors
    /// There is no such process, or the system does not report its memory.
    pub fn of(pid: u32) -> io::Result<Self> {
        Self::open(&format!("/proc/{pid}/statm"))
    }

    #[cfg(target_os = "linux")]
    fn open(path: &str) -> io::Result<Self> {
        let statm = File::open(path)?;
        let process = Self { statm, page_size: rustix::param::page_size() as u64 };
        process.resident()?;
        Ok(process)
    }

    #[cfg(not(target_os = "linux"))]
    fn open(_: &str) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "host memory is available only on Linux"))
    }

    /// Returns the bytes resident in memory (`RssAnon` + `RssFile` + `RssShmem` of `/proc/PID/status`).
    ///
    /// # Errors
    /// The process has ended.
    #[cfg(target_os = "linux")]
    pub fn resident(&self) -> io::Result<u64> {
        use std::os::unix::fs::FileExt as _;

        let mut buffer = [0; 128];
        let n = self.statm.read_at(&mut buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..n]).unwrap_or_default();
        let pages: Option<u64> = text.split_whitespace().nth(1).and_then(|field| field.parse().ok());
        // A process that has ended but was not reaped has no memory left.
        match pages {
            Some(pages) if pages > 0 => Ok(pages.saturating_mul(self.page_size)),
            _ => Err(io::Error::new(io::ErrorKind::NotFound, "the process has ended")),
        }
    }

    /// Returns the bytes resident in memory, which are available only on Linux.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(target_os = "linux"))]
    pub fn resident(&self) -> io::Result<u64> {
        let _ = (&self.statm, self.page_size);
        Err(io::Error::new(io::ErrorKind::Unsupported, "host memory is available only on Linux"))
    }
}

/// `ESRCH`: Linux's error for a process that has ended while its file is open.
const NO_SUCH_PROCESS: i32 = 3;

/// The resident host memory of a process. It provides only `cpu`.
pub struct HostSource {
    process: ProcessMemory,
    of_this: bool,
    info: SourceInfo,
}

impl HostSource {
    /// Reads this process.
    ///
    /// # Errors
    /// The system does not report its memory.
    pub fn of_this() -> io::Result<Arc<Self>> {
        Ok(Self::named(ProcessMemory::of_this()?, true, "host memory of this process".to_owned()))
    }

    /// Reads process `pid`.
    ///
    /// # Errors
    /// There is no such process, or the system does not report its memory.
    pub fn of(pid: u32) -> io::Result<Arc<Self>> {
        Ok(Self::named(ProcessMemory::of(pid)?, pid == std::process::id(), format!("process {pid}")))
    }

    fn named(process: ProcessMemory, of_this: bool, name: String) -> Arc<Self> {
        Arc::new(Self { process, of_this, info: SourceInfo { name, device_id: None } })
    }
}

impl MemorySource for HostSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let cpu = self.process.resident().map_err(|e| match (e.kind(), e.raw_os_error()) {
            (io::ErrorKind::NotFound, _) | (_, Some(NO_SUCH_PROCESS)) => {
                SourceError::Gone(self.info.name.clone())
            }
            _ => SourceError::Answer { source_name: self.info.name.clone(), why: e.to_string() },
        })?;
        Ok(Reading { cpu: Some(cpu), ..Reading::default() })
    }

    fn is_of_this_process(&self) -> bool {
        self.of_this
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(PolledTicker(self))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_resident() {
        let process = ProcessMemory::of_this().unwrap();
        let before = process.resident().unwrap();
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let more = process.resident().unwrap().saturating_sub(before);
        assert!(more >= 60 << 20, "{more} more bytes for {}", touched.len());
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let source = HostSource::of(child.id()).unwrap();
        assert!(source.read().unwrap().cpu.unwrap() > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(source.read(), Err(SourceError::Gone(format!("process {}", child.id()))));
        assert!(HostSource::of(child.id()).is_err());
    }
}
