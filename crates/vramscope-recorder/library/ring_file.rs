//! The file of a ring.
//!
//! It is in memory (`/dev/shm`) if there is room, with a symbolic link in the folder of the run's rings. A file on a disk costs more: the
//! system writes it to the disk again and again, and after each time the first access to each page is a fault of several microseconds.

use std::ffi::c_void;
use std::fs::{File, OpenOptions, remove_file};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::Path;

use vramscope_bare::sys;

/// First part of a file's name in memory. The rest is the path of the link, with a colon for each slash.
const MEMORY: &str = "/dev/shm/vramscope";

/// Creates the file `name` of a ring in `folder`, with `bytes` bytes of zeros, and maps it. `None` if there is no room.
pub(crate) fn create(folder: &Path, name: &str, bytes: usize) -> Option<*mut c_void> {
    let path = folder.join(name);
    // The name has the whole path, by which `vramscope dump` finds the run.
    let in_memory = format!("{MEMORY}{}", path.to_string_lossy().replace('/', ":"));
    let file = match new_file(in_memory.as_ref(), bytes) {
        Some(file) if symlink(&in_memory, &path).is_ok() => file,
        file => {
            if file.is_some() {
                remove_file(in_memory).ok();
            }
            new_file(&path, bytes)?
        }
    };
    // SAFETY: a new shared mapping of the file, where the system finds room.
    let words = unsafe {
        let protection = sys::PROT_READ | sys::PROT_WRITE;
        sys::mmap(std::ptr::null_mut(), bytes, protection, sys::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if words as isize == -1 {
        return None;
    }
    // SAFETY: the mapping has this many bytes. An error (Linux before 5.14) changes nothing: each page is then mapped when it is used.
    unsafe { sys::madvise(words, bytes, sys::MADV_POPULATE_WRITE) };
    Some(words)
}

/// A new file with room for all of its bytes: a write to a mapped file without room ends the process.
fn new_file(path: &Path, bytes: usize) -> Option<File> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path).ok()?;
    // SAFETY: takes numbers only.
    if unsafe { sys::posix_fallocate(file.as_raw_fd(), 0, bytes as i64) } == 0 {
        return Some(file);
    }
    remove_file(path).ok();
    None
}
