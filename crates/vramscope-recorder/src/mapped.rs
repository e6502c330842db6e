//! A mapped ring of another process.
#![allow(unsafe_code, reason = "memory that another process writes")]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::ring::{AT_MAGIC, AT_VERSION, MAGIC, Ring, VERSION};

/// A ring's file in this process's memory.
#[derive(Debug)]
pub(crate) struct MappedRing {
    start: *mut c_void,
    words: usize,
}

// SAFETY: the mapping belongs to this value alone, and everything in it is atomic.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// Maps a file. `None` if its writer has not finished the header yet.
    ///
    /// # Errors
    /// The file cannot be mapped, or is no ring of this version.
    pub(crate) fn open(file: &File) -> io::Result<Option<Self>> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            return Ok(None);
        }
        // SAFETY: a new mapping, where the system finds room.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0)?
        };
        let this = Self { start, words: bytes / size_of::<u64>() };
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not the ring of a recorded process");
        let ring = this.ring().ok_or_else(invalid)?;
        let [magic, version] =
            [AT_MAGIC, AT_VERSION].map(|at| ring.header(at).load(std::sync::atomic::Ordering::Acquire));
        match (magic, version) {
            (0, _) => Ok(None),
            (MAGIC, VERSION) => Ok(Some(this)),
            _ => Err(invalid()),
        }
    }

    /// The ring; `None` if the file has a size that no ring has.
    pub(crate) fn ring(&self) -> Option<Ring<'_>> {
        // SAFETY: the mapping has this many words and lives as long as `self`. Both processes only use atomic operations on it. A writer
        // that shortened its file would end this process by a signal; the library never does.
        Ring::new(unsafe { std::slice::from_raw_parts(self.start.cast::<AtomicU64>(), self.words) })
    }
}

impl Drop for MappedRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `open`, and no reference to it is left.
        unsafe { munmap(self.start, self.words * size_of::<u64>()) }.ok();
    }
}
