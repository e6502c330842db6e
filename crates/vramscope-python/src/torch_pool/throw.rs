//! PyTorch's C++ exceptions. An allocator reports a failure by throwing one, so PyTorch raises `torch.OutOfMemoryError` as for its own.
#![allow(unsafe_code, reason = "constructs and throws objects of C++")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// `c10::SourceLocation`.
#[repr(C)]
struct SourceLocation {
    function: *const c_char,
    file: *const c_char,
    line: u32,
}

/// `std::string` of libstdc++, with its text on the heap. In the older interface of libstdc++, it is the pointer alone, and the text
/// follows its [`OldStringHeader`].
#[repr(C)]
struct CxxString {
    data: *mut u8,
    size: usize,
    capacity: usize,
    _unused: usize,
}

/// The numbers before the text of a `std::string` of the older interface (`_Rep_base`). One owner counts as 0.
#[repr(C)]
struct OldStringHeader {
    size: usize,
    capacity: usize,
    other_owners: c_int,
}

/// The first words of a virtual table: the complete destructor, then the deleting one.
type Destructor = unsafe extern "C" fn(*mut c_void);

/// `c10::Error::Error(c10::SourceLocation, std::string)`.
type NewError = unsafe extern "C-unwind" fn(*mut c_void, SourceLocation, *mut CxxString);
type OperatorNew = unsafe extern "C-unwind" fn(usize) -> *mut c_void;
type AllocateException = unsafe extern "C" fn(usize) -> *mut c_void;
type Throw = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, Destructor) -> !;

/// The functions and types of a loaded PyTorch that throw its exceptions.
#[derive(Debug, Clone, Copy)]
struct Exceptions {
    new_error: NewError,
    /// Whether this PyTorch has the older `std::string`, as releases before 2.7 (`_GLIBCXX_USE_CXX11_ABI=0`).
    has_old_strings: bool,
    operator_new: OperatorNew,
    allocate: AllocateException,
    throw: Throw,
    /// `typeid(c10::Error)`: RuntimeError in Python.
    error: usize,
    /// `typeid(c10::OutOfMemoryError)`: `torch.OutOfMemoryError`.
    out_of_memory: usize,
}

static EXCEPTIONS: OnceLock<Exceptions> = OnceLock::new();

/// An upper bound of the size of `c10::Error`: 120 bytes in PyTorch 2.11.
const SIZE_OF_ERROR: usize = 1024;

/// A kind of exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `torch.OutOfMemoryError`.
    OutOfMemory,
    /// `RuntimeError`.
    Runtime,
}

/// Looks up the exceptions of the loaded PyTorch. Returns the name of a missing symbol.
pub(super) fn prepare() -> Result<(), &'static str> {
    if EXCEPTIONS.get().is_none() {
        let found = look_up()?;
        EXCEPTIONS.get_or_init(|| found);
    }
    Ok(())
}

fn look_up() -> Result<Exceptions, &'static str> {
    let core = Library::loaded(c"libc10.so").ok_or("libc10.so")?;
    let cuda = Library::loaded(c"libc10_cuda.so").ok_or("libc10_cuda.so")?;
    let new_error =
        c"_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
    let old_new_error = core.symbol(c"_ZN3c105ErrorC1ENS_14SourceLocationESs").ok();
    let has_old_strings = old_new_error.is_some();
    let new_error = old_new_error.map_or_else(|| core.symbol(new_error), Ok)?;
    let operator_new = core.symbol(c"_Znwm")?;
    let allocate = core.symbol(c"__cxa_allocate_exception")?;
    let throw = core.symbol(c"__cxa_throw")?;
    // SAFETY: these names have these signatures: the first mangles it, the others are fixed by the C++ ABI. PyTorch is never unloaded.
    unsafe {
        Ok(Exceptions {
            new_error: std::mem::transmute::<*mut c_void, NewError>(new_error),
            has_old_strings,
            operator_new: std::mem::transmute::<*mut c_void, OperatorNew>(operator_new),
            allocate: std::mem::transmute::<*mut c_void, AllocateException>(allocate),
            throw: std::mem::transmute::<*mut c_void, Throw>(throw),
            error: core.symbol(c"_ZTIN3c105ErrorE")?.expose_provenance(),
            out_of_memory: cuda.symbol(c"_ZTIN3c1016OutOfMemoryErrorE")?.expose_provenance(),
        })
    }
}

/// A library that the process has loaded.
struct Library(*mut c_void);

impl Library {
    fn loaded(name: &CStr) -> Option<Self> {
        let flags: c_int = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: the name is a C string; the library is loaded already, so no initializer runs.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        (!handle.is_null()).then_some(Self(handle))
    }

    /// A symbol of the library or of those that it uses.
    fn symbol(&self, name: &'static CStr) -> Result<*mut c_void, &'static str> {
        // SAFETY: the handle is a loaded library's; the name is a C string.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() { Err(name.to_str().unwrap_or("a symbol")) } else { Ok(found) }
    }
}

/// Throws an exception with this text to the C++ code that called this library.
pub(super) fn throw(kind: Kind, text: &str) -> ! {
    let Some(exceptions) = EXCEPTIONS.get() else { std::process::abort() };
    let &Exceptions { new_error, has_old_strings, operator_new, allocate, throw, error, out_of_memory } =
        exceptions;
    let header = if has_old_strings { size_of::<OldStringHeader>() } else { 0 };
    let location = SourceLocation { function: c"use_pool".as_ptr(), file: c"vramscope".as_ptr(), line: 0 };
    let kind = match kind {
        Kind::OutOfMemory => out_of_memory,
        Kind::Runtime => error,
    };
    // SAFETY: the string has the layout of libstdc++, and its text is from `operator new`, of `capacity + 1` bytes with a 0 at the end,
    // behind its header if there is one; the constructor takes the text. `c10::OutOfMemoryError` adds nothing to `c10::Error`, so an
    // object of the base with its type is a valid exception. An object begins with the address of its virtual table, which begins with
    // the destructor.
    unsafe {
        let memory = operator_new(header + text.len() + 1);
        if has_old_strings {
            let (size, capacity) = (text.len(), text.len());
            memory.cast::<OldStringHeader>().write(OldStringHeader { size, capacity, other_owners: 0 });
        }
        let data = memory.cast::<u8>().add(header);
        std::ptr::copy_nonoverlapping(text.as_ptr(), data, text.len());
        data.add(text.len()).write(0);
        let mut string = CxxString { data, size: text.len(), capacity: text.len(), _unused: 0 };
        let object = allocate(SIZE_OF_ERROR);
        new_error(object, location, &mut string);
        let destructor = object.cast::<*const Destructor>().read().read();
        throw(object, std::ptr::with_exposed_provenance_mut(kind), destructor)
    }
}
