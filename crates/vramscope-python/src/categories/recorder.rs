//! Passes notes to the library of a recorder in this process, which writes them to the log (`vramscope-recorder/library/notes.rs`).
#![allow(unsafe_code, reason = "functions of the recorder's library, which ctypes finds")]

/// `vramscope_recorder_module`: a module's number and its path.
type Module = extern "C" fn(u32, *const u8, usize);
/// `vramscope_recorder_place`: a thread, a module and a phase.
type Place = extern "C" fn(u32, u32, u8);
/// `vramscope_recorder_role`: an address, a role and the owner's module.
type RoleOf = extern "C" fn(u64, u8, u32);

/// The system's number of this thread, which the recorder's events have.
#[cfg(target_os = "linux")]
pub(crate) fn own_thread() -> u32 {
    // SAFETY: a call without arguments, which cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// The library's functions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recorder {
    module: Module,
    place: Place,
    role: RoleOf,
}

impl Recorder {
    /// The functions at these addresses, in the order of the fields. `None` if one is null.
    pub(crate) fn at(addresses: [usize; 3]) -> Option<Self> {
        if addresses.contains(&0) {
            return None;
        }
        let [module, place, role] = addresses;
        // SAFETY: `python/vramscope/torch/_notes.py` passes the addresses of these functions. The library is never unloaded.
        unsafe {
            Some(Self {
                module: std::mem::transmute::<usize, Module>(module),
                place: std::mem::transmute::<usize, Place>(place),
                role: std::mem::transmute::<usize, RoleOf>(role),
            })
        }
    }

    /// Names a module.
    pub(crate) fn module(&self, module: u32, path: &str) {
        (self.module)(module, path.as_ptr(), path.len());
    }

    /// A thread is in this module and phase from now on.
    pub(crate) fn place(&self, thread: u32, module: u32, phase: u8) {
        (self.place)(thread, module, phase);
    }

    /// The memory at this address has this role.
    pub(crate) fn role(&self, address: u64, role: u8, owner: u32) {
        (self.role)(address, role, owner);
    }
}
