//! The Python stack of the calling thread, read from the interpreter's own structures.
//!
//! PyTorch releases Python's global lock around its operations, so most allocations come from threads that do not hold it, and waiting for
//! it could stop the program. A thread's frames change only while that thread runs Python code. So this thread may read its own frames
//! without the lock, as long as it only reads: it takes no references, creates no objects and calls no function that does.
//!
//! The structures are those of the releases in `layout.rs`. Other releases have no Python frames here.

mod layout;

use std::ffi::{CStr, c_int, c_ulong};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use vramscope_bare::python::{Object, function};

use crate::captured::Captured;
use crate::next;
use crate::process::Inside;
use crate::record::{PYTHON, SITE};
use crate::written::Written;
use layout::{Code, Layout};

/// The interpreter of this process.
struct Python {
    layout: &'static Layout,
    /// `PyGILState_GetThisThreadState`: the state of this thread, null if Python does not know it. Only reads a thread-local value.
    state: extern "C" fn() -> Object,
    /// `PyCode_Addr2Line`: the line at a position of a code object. Only reads its line table.
    line: extern "C" fn(Object, c_int) -> c_int,
}

/// The interpreter, once it was looked for.
static FOUND: AtomicPtr<Python> = AtomicPtr::new(std::ptr::null_mut());
/// [`NOT_YET`], or whether there is one.
static LOOKED: AtomicU8 = AtomicU8::new(NOT_YET);
const NOT_YET: u8 = 0;
const NONE: u8 = 1;
const SOME: u8 = 2;

fn python() -> Option<&'static Python> {
    match LOOKED.load(Ordering::Acquire) {
        SOME => {}
        NONE => return None,
        _ => {
            let found = Python::of_this_process();
            let looked = if found.is_some() { SOME } else { NONE };
            if let Some(python) = found {
                // Never freed: another thread may look at the same time, and use its own.
                FOUND.store(Box::into_raw(Box::new(python)), Ordering::Release);
            }
            LOOKED.store(looked, Ordering::Release);
        }
    }
    // SAFETY: null, or a value that is never freed.
    unsafe { FOUND.load(Ordering::Acquire).as_ref() }
}

impl Python {
    fn of_this_process() -> Option<Self> {
        let look_up = |name: &CStr| next::look_up(std::ptr::null_mut(), name.as_ptr());
        // SAFETY: `Py_Version` is a constant of this type since Python 3.11.
        let version = *unsafe { look_up(c"Py_Version").cast::<c_ulong>().as_ref() }?;
        // SAFETY: the functions have these signatures in every release with a layout.
        unsafe {
            Some(Self {
                layout: Layout::of(version)?,
                state: function(look_up, c"PyGILState_GetThisThreadState")?,
                line: function(look_up, c"PyCode_Addr2Line")?,
            })
        }
    }

    /// Writes the names of a site.
    #[cold]
    #[inline(never)]
    fn write_site(&self, inside: &Inside, site: u64, code: Code<'_>, position: i32) -> bool {
        let mut texts = [0_u8; 2 * TEXT];
        let name = code.copy_name(&mut texts[..TEXT]);
        let path_at = name.next_multiple_of(8);
        let path = code.copy_path(&mut texts[path_at..path_at + TEXT]);
        let mut body = [0_u64; 4 + 2 * TEXT / 8];
        body[..4].copy_from_slice(&[
            site,
            (self.line)(code.address(), position).max(0) as u64,
            name as u64,
            path as u64,
        ]);
        let words = (path_at + path).div_ceil(8);
        for (word, bytes) in body[4..4 + words].iter_mut().zip(texts.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        inside.write(SITE, &body[..4 + words])
    }
}

/// Sites whose names the ring has.
static SITES: Written<{ 1 << 16 }> = Written::new();

/// Maximum size of a name or a path, in bytes. Longer ones are cut.
const TEXT: usize = 2048;

/// Adds the running Python functions of this thread, innermost first.
pub(crate) fn capture(stack: &mut Captured) {
    walk(|_, site, _, _| stack.push(site));
}

/// Writes the names of the sites of [`capture`] that the ring does not have.
#[cold]
#[inline(never)]
pub(crate) fn name_sites(inside: &Inside) {
    walk(|python, site, code, position| {
        if !SITES.has(site) && python.write_site(inside, site, code, position) {
            SITES.add(site);
        }
        true
    });
}

/// Calls `visit` with the site, the code and the position of each running Python function of this thread, innermost first, until it
/// returns false.
#[inline(always)]
fn walk(mut visit: impl FnMut(&Python, u64, Code<'_>, i32) -> bool) {
    let Some(python) = python() else { return };
    let state = (python.state)();
    if state.is_null() {
        return;
    }
    // SAFETY: the state is this thread's, of a release with this layout.
    unsafe {
        python
            .layout
            .frames(state, |code, position| visit(python, code.site(position) | PYTHON, code, position));
    }
}
