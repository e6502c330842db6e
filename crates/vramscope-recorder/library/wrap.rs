//! Functions that stand before functions of the driver and of the runtime.
//!
//! A program reaches a function in several ways: by linking, by `dlsym`, and through the driver's own lookup. Each way may lead to another
//! revision of it, such as the one for per-thread default streams. So each function of ours exists several times: each copy calls the one
//! real function that it was made for.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use vramscope_bare::sys;

use crate::captured::mixed;
use crate::next::{self, Next};
use crate::process::{Inside, look_for_objects, time_us};
use crate::reading::{self, current_device};
use crate::record::{CALL, Kind, OBJECT, call, text_words};
use crate::stack;
use crate::written::Written;

/// Number of copies of each function.
pub(crate) const COPIES: usize = 4;

/// A function that this library stands before.
#[derive(Debug)]
pub(crate) struct Wrapped {
    /// Its name, without suffixes for revisions and for per-thread streams.
    pub(crate) name: &'static str,
    /// The name under which programs link it.
    pub(crate) linked_name: &'static CStr,
    /// The real function of each copy; 0 if the copy is free.
    pub(crate) real: &'static [AtomicUsize; COPIES],
    /// The function that programs link. Its real function is that of the first copy.
    pub(crate) linked: extern "C" fn(),
    /// The copies, whose arguments are those of the real function.
    pub(crate) copies: [extern "C" fn(); COPIES],
}

impl Wrapped {
    /// The function of ours that stands before `real`. Returns `real` itself if all copies are taken.
    pub(crate) fn before(&self, real: usize) -> usize {
        // A library that looks up its own function may find ours.
        let is_ours = real == self.linked as usize || self.copies.iter().any(|&copy| copy as usize == real);
        if real == 0 || is_ours {
            return real;
        }
        for (place, &copy) in self.real.iter().zip(&self.copies) {
            match place.compare_exchange(0, real, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return copy as usize,
                Err(taken) if taken == real => return copy as usize,
                Err(_) => {}
            }
        }
        real
    }

    /// Keeps the first copy for the revision that programs link, before a lookup finds another one.
    pub(crate) fn keep_linked(&self) {
        self.real(0);
    }

    /// The copies in use, and the real function of each.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (usize, usize)> {
        let real = self.real.iter().map(|real| real.load(Ordering::Acquire));
        self.copies.iter().map(|&copy| copy as usize).zip(real).filter(|&(_, real)| real != 0)
    }

    /// The real function of a copy. A program that links the function calls the first copy without a lookup.
    pub(crate) fn real(&self, copy: usize) -> usize {
        let known = self.real[copy].load(Ordering::Acquire);
        if known != 0 {
            return known;
        }
        let found = next::find(self.linked_name);
        self.real[copy].store(found, Ordering::Release);
        found
    }
}

/// A status that the driver and the runtime share: `CUDA_ERROR_NOT_FOUND`, `cudaErrorSymbolNotFound`. Returned where the program calls a
/// function that no loaded library has, which cannot happen.
pub(crate) const NOT_FOUND: c_int = 500;

/// The driver ends with the process, and its memory too: `CUDA_ERROR_DEINITIALIZED`, `cudaErrorCudartUnloading`.
const UNLOADING: c_int = 4;

thread_local! {
    /// Whether this thread is inside a call that is recorded. What the runtime asks of the driver is the same memory again.
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// A call of the program's, while it runs.
pub(crate) struct Call<'s> {
    is_outermost: bool,
    caller: usize,
    /// The status of the real function, once it has returned.
    status: &'s Cell<c_int>,
    /// Bytes of device memory that the call took or returned, if it did either.
    changed: Cell<Option<u64>>,
}

impl<'s> Call<'s> {
    pub(crate) fn begin(caller: usize, status: &'s Cell<c_int>) -> Self {
        let is_outermost = IN_CALL.try_with(|inside| !inside.replace(true)).unwrap_or(false);
        Self { is_outermost, caller, status, changed: Cell::new(None) }
    }

    /// Whether the program made the call, not the runtime inside of another call.
    pub(crate) fn is_outermost(&self) -> bool {
        self.is_outermost
    }

    /// The call may take or return this many bytes of device memory, or an unknown number if it is 0. At its end, the driver's count is
    /// recorded.
    pub(crate) fn changes(&self, bytes: u64) {
        self.changed.set(Some(bytes));
    }

    /// The call created a context of a device, or it returned the one that exists.
    pub(crate) fn has_context(&self, device: c_int, context: usize) {
        if self.is_outermost {
            reading::first(device, context);
        }
    }

    /// Records an allocation whose address the real function wrote, if its status is success. Returns the status.
    pub(crate) fn allocated(&self, status: c_int, kind: Kind, address: *const u64, size: usize) -> c_int {
        if status == 0
            && let Some(address) = read(address)
        {
            self.record(kind, address, size as u64);
        }
        status
    }

    /// Records a free before it happens: afterwards, another thread may get the same address. If the real function fails, the memory stays.
    /// Returns the status.
    pub(crate) fn freed(&self, kind: Kind, address: u64, real: impl FnOnce() -> c_int) -> c_int {
        self.record(kind, address, 0);
        let status = real();
        if status != 0 && status != UNLOADING {
            self.record_with(Kind::FreeFailed, address, 0, None, kind as u64);
        }
        status
    }

    /// Records memory of another process that the call opened. The call does not say its size. Returns the status.
    pub(crate) fn opened(&self, status: c_int, address: *const u64) -> c_int {
        if status == 0
            && let Some(address) = read(address)
        {
            self.record(Kind::IpcOpen, address, size_at(address));
        }
        status
    }

    /// Records what the call did.
    pub(crate) fn record(&self, kind: Kind, address: u64, size: u64) {
        self.record_with(kind, address, size, None, 0);
    }

    /// Like [`record`](Self::record), with a device and a handle of physical memory.
    pub(crate) fn record_with(&self, kind: Kind, address: u64, size: u64, device: Option<u64>, handle: u64) {
        if !self.is_outermost {
            return;
        }
        if kind.is_of_device() {
            self.changes(size);
        }
        let Some(inside) = Inside::enter() else { return };
        let mut body = [0; call::FIELDS];
        body[call::TIME] = time_us();
        body[call::DEVICE] = device.or_else(current_device).unwrap_or(call::UNKNOWN_DEVICE);
        body[call::KIND] = kind as u64;
        body[call::ADDRESS] = address;
        body[call::SIZE] = size;
        body[call::HANDLE] = handle;
        body[call::CALLER] = self.caller as u64;
        // A call does not always say its size.
        let size = if size == 0 { stack::ANY_SIZE } else { size };
        body[call::STACK] = stack::capture(&inside, size);
        name_object(&inside, self.caller);
        inside.write(CALL, &body);
        look_for_objects(body[call::TIME]);
    }
}

/// Call sites whose object is in the ring.
static CALLERS: Written<1024> = Written::new();

/// Writes the path of the object that has a call site, once.
fn name_object(inside: &Inside, caller: usize) {
    let hash = mixed(0, caller as u64);
    if !CALLERS.has(hash) {
        write_object(inside, caller, hash);
    }
}

#[cold]
#[inline(never)]
fn write_object(inside: &Inside, caller: usize, hash: u64) {
    let mut body = [0_u64; 2 + MOST_PATH / 8];
    let (bytes, words) = text_words(sys::object_path(caller).to_bytes(), &mut body[2..]);
    (body[0], body[1]) = (caller as u64, bytes as u64);
    if inside.write(OBJECT, &body[..2 + words]) {
        CALLERS.add(hash);
    }
}

/// Longest path of an object, in bytes. Longer ones are cut.
const MOST_PATH: usize = 4096;

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if self.is_outermost {
            if let (0, Some(bytes)) = (self.status.get(), self.changed.get()) {
                reading::after(bytes);
            }
            IN_CALL.try_with(|inside| inside.set(false)).ok();
        }
    }
}

/// Reads a value that a successful call wrote.
pub(crate) fn read<T: Copy>(place: *const T) -> Option<T> {
    // SAFETY: the call succeeded, so the place is valid and has the value; a null place was not written.
    unsafe { place.as_ref() }.copied()
}

/// Size in bytes of the allocation at an address; 0 if the driver does not say.
fn size_at(address: u64) -> u64 {
    static RANGE: Next = Next::new(c"cuMemGetAddressRange_v2");
    let range = RANGE.address();
    let (mut start, mut size) = (0, 0);
    if range != 0 {
        // SAFETY: the function of this name has this signature.
        let range: extern "C" fn(*mut u64, *mut usize, u64) -> c_int = unsafe { std::mem::transmute(range) };
        range(&raw mut start, &raw mut size, address);
    }
    size as u64
}

/// `CUipcMemHandle` and `cudaIpcMemHandle_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IpcHandle([u8; 64]);

/// Defines functions that stand before others. For each: the name that programs link, the number of arguments in brackets, the arguments,
/// and what runs. `real` calls the real function and returns its status, `call` records.
///
/// Each function is called through a few instructions that pass the caller's return address as one more argument, so there are at most six
/// arguments, all of them integers or pointers. With eight arguments, that address is undefined, so such a function records no call.
macro_rules! wrapped {
    ($(
        $(#[$doc:meta])*
        $link:ident / $name:literal [$count:tt] ($($argument:ident: $type:ty),*) |$real:ident, $call:ident| $body:block
    )*) => {
        $(
            $(#[$doc])*
            #[allow(non_snake_case, reason = "the function's own name")]
            mod $link {
                #[allow(unused_imports, reason = "each function uses some")]
                use super::*;
                use std::cell::Cell;
                use std::ffi::{CStr, c_int};
                use std::sync::atomic::AtomicUsize;
                use $crate::wrap::{COPIES, Call, NOT_FOUND, Wrapped};

                static REAL: [AtomicUsize; COPIES] = [const { AtomicUsize::new(0) }; COPIES];

                pub(super) static ROW: Wrapped = Wrapped {
                    name: $name,
                    linked_name: match CStr::from_bytes_with_nul(concat!(stringify!($link), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                    real: &REAL,
                    linked,
                    copies: [copy::<0>, copy::<1>, copy::<2>, copy::<3>],
                };

                extern "C" fn body<const COPY: usize>($($argument: $type,)* caller: usize) -> c_int {
                    let address = ROW.real(COPY);
                    if address == 0 {
                        return NOT_FOUND;
                    }
                    // SAFETY: the real function of this name has these arguments.
                    let function: extern "C" fn($($type),*) -> c_int = unsafe { std::mem::transmute(address) };
                    let status = Cell::new(NOT_FOUND);
                    let $real = || {
                        status.set(function($($argument),*));
                        status.get()
                    };
                    #[allow(unused_variables, reason = "some functions record nothing")]
                    let $call = Call::begin(caller, &status);
                    $body
                }

                /// Passes the caller's return address as one more argument.
                #[unsafe(naked)]
                extern "C" fn copy<const COPY: usize>() {
                    std::arch::naked_asm!(caller_as_argument!($count), function = sym body::<COPY>)
                }

                #[unsafe(naked)]
                #[unsafe(export_name = stringify!($link))]
                extern "C" fn linked() {
                    std::arch::naked_asm!(caller_as_argument!($count), function = sym body::<0>)
                }
            }
        )*

        /// All functions of this file.
        pub(crate) static ROWS: &[&$crate::wrap::Wrapped] = &[$(&$link::ROW),*];
    };
}
pub(crate) use wrapped;

/// The instructions that put the return address into the register of the next argument, and go on in `function`.
#[cfg(target_arch = "x86_64")]
macro_rules! caller_as_argument {
    (0) => {
        "mov rdi, [rsp]\n jmp {function}"
    };
    (1) => {
        "mov rsi, [rsp]\n jmp {function}"
    };
    (2) => {
        "mov rdx, [rsp]\n jmp {function}"
    };
    (3) => {
        "mov rcx, [rsp]\n jmp {function}"
    };
    (4) => {
        "mov r8, [rsp]\n jmp {function}"
    };
    (5) => {
        "mov r9, [rsp]\n jmp {function}"
    };
    // The seventh argument is on the stack. Unwinding needs the place of the return address.
    (6) => {
        ".cfi_startproc\n push qword ptr [rsp]\n .cfi_adjust_cfa_offset 8\n call {function}\n add rsp, 8\n \
         .cfi_adjust_cfa_offset -8\n ret\n .cfi_endproc"
    };
    (8) => {
        "jmp {function}"
    };
    // An address, a handle of 64 bytes by value, and flags. The handle is on the stack.
    (ipc) => {
        "mov rdx, [rsp]\n jmp {function}"
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! caller_as_argument {
    (0) => {
        "mov x0, x30\n b {function}"
    };
    (1) => {
        "mov x1, x30\n b {function}"
    };
    (2) => {
        "mov x2, x30\n b {function}"
    };
    (3) => {
        "mov x3, x30\n b {function}"
    };
    (4) => {
        "mov x4, x30\n b {function}"
    };
    (5) => {
        "mov x5, x30\n b {function}"
    };
    (6) => {
        "mov x6, x30\n b {function}"
    };
    (8) => {
        "b {function}"
    };
    // An address, a handle of 64 bytes by value, and flags. The handle is passed by its address.
    (ipc) => {
        "mov x3, x30\n b {function}"
    };
}
pub(crate) use caller_as_argument;
