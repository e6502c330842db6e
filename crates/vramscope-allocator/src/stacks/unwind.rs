//! Walks the calling thread's native stack: return addresses only, no symbols.
//!
//! On Linux x86-64 the walk follows the unwind tables of the loaded objects, with rules cached by address (`framehop`). A stack that was
//! seen before costs some nanoseconds per frame. The tables are copied when an object is first seen, under the loader's lock, so unloading
//! the object later is safe. On other systems the `backtrace` crate walks the stack, which is slower and finds the same frames.

/// The return address of a call on a stack.
pub(super) type Address = u64;

/// Maximum number of frames per stack; the innermost are kept. Useful stacks are shorter.
const MOST_FRAMES: usize = 512;

/// Calls `with` once with the return addresses of the calling thread, innermost first.
///
/// The first addresses lie in the profiler itself. The slice is empty if the stack cannot be walked, as in a thread that is ending.
pub(super) fn walk(with: impl FnMut(&[Address])) {
    imp::walk(with);
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[allow(unsafe_code, reason = "reads the registers and the stack")]
mod imp {
    use std::cell::RefCell;
    use std::ops::Range;
    use std::sync::{Arc, PoisonError, RwLock};

    use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
    use framehop::{FrameAddress, Unwinder as _};

    use super::{Address, MOST_FRAMES};
    use crate::stacks::objects::{self, Objects};
    use crate::stacks::table_memory::counted;

    type Unwinder = UnwinderX86_64<Vec<u8>>;

    /// The unwind tables of the objects that were loaded at its creation.
    struct Tables {
        unwinder: Unwinder,
        objects: Objects,
    }

    static TABLES: RwLock<Option<Arc<Tables>>> = RwLock::new(None);

    /// A rule cache has 509 slots, one for each address modulo 509, and programs have more call sites than that. So each address uses one
    /// of several caches.
    const CACHES: usize = 16;

    /// The state that a thread keeps between walks.
    struct Walker {
        tables: Arc<Tables>,
        caches: Vec<CacheX86_64>,
        stack: Range<u64>,
        addresses: Vec<Address>,
    }

    thread_local! {
        static WALKER: RefCell<Option<Walker>> = const { RefCell::new(None) };
    }

    pub(super) fn walk(mut with: impl FnMut(&[Address])) {
        let walked = WALKER.try_with(|walker| {
            // The walker is already borrowed if the profiler was called from inside itself.
            let Ok(mut walker) = walker.try_borrow_mut() else { return false };
            let walker = walker.get_or_insert_with(Walker::new);
            walker.walk();
            with(&walker.addresses);
            true
        });
        if walked != Ok(true) {
            with(&[]);
        }
    }

    impl Walker {
        fn new() -> Self {
            Self {
                tables: tables(None),
                caches: (0..CACHES).map(|_| CacheX86_64::new()).collect(),
                stack: objects::stack(),
                addresses: Vec::with_capacity(MOST_FRAMES),
            }
        }

        fn walk(&mut self) {
            self.walk_once();
            // An address lies outside every known object if another object was loaded after the tables were read.
            if self.addresses.iter().any(|&a| !self.tables.objects.contains(a))
                && self.tables.objects.changed()
            {
                self.tables = tables(Some(&self.tables));
                self.walk_once();
            }
        }

        #[inline(never)]
        fn walk_once(&mut self) {
            let (ip, sp, bp): (u64, u64, u64);
            // SAFETY: reads three registers and writes none but the outputs.
            unsafe {
                std::arch::asm!(
                    "lea {ip}, [rip]", "mov {sp}, rsp", "mov {bp}, rbp",
                    ip = out(reg) ip, sp = out(reg) sp, bp = out(reg) bp,
                    options(nomem, nostack, preserves_flags),
                );
            }
            // This is the stack of a coroutine or a signal handler. Its end is unknown, so it is not walked.
            if !self.stack.contains(&sp) {
                self.addresses.clear();
                return;
            }
            let stack = sp..self.stack.end;
            let mut read = |address: u64| read_stack(&stack, address);
            let mut registers = UnwindRegsX86_64::new(ip, sp, bp);
            let mut at = FrameAddress::InstructionPointer(ip);
            self.addresses.clear();
            while self.addresses.len() < MOST_FRAMES {
                let cache = (at.address().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize % CACHES;
                let cache = &mut self.caches[cache];
                let Ok(Some(caller)) =
                    self.tables.unwinder.unwind_frame(at, &mut registers, cache, &mut read)
                else {
                    break;
                };
                let Some(caller) = FrameAddress::from_return_address(caller) else { break };
                self.addresses.push(caller.address());
                at = caller;
            }
        }
    }

    /// Reads the word at `address` if it lies in the used part of the stack.
    #[inline]
    fn read_stack(stack: &Range<u64>, address: u64) -> Result<u64, ()> {
        if !address.is_multiple_of(8) || address < stack.start || address >= stack.end.saturating_sub(7) {
            return Err(());
        }
        // SAFETY: the address is aligned. It lies between the stack pointer of the caller, whose frame is alive during the walk, and the
        // upper end of this thread's stack; the range between the two is mapped.
        Ok(unsafe { std::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() })
    }

    /// Returns the tables of the currently loaded objects. Uses tables that another thread has read in the meantime, unless they are
    /// `stale`.
    fn tables(stale: Option<&Arc<Tables>>) -> Arc<Tables> {
        let newer = |held: &Option<Arc<Tables>>| {
            held.as_ref().filter(|held| stale.is_none_or(|stale| !Arc::ptr_eq(stale, held))).cloned()
        };
        if let Some(tables) = newer(&TABLES.read().unwrap_or_else(PoisonError::into_inner)) {
            return tables;
        }
        let mut held = TABLES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(tables) = newer(&held) {
            return tables;
        }
        let (objects, modules) = counted(objects::load);
        let mut unwinder = Unwinder::new();
        for module in modules {
            unwinder.add_module(module);
        }
        let tables = Arc::new(Tables { unwinder, objects });
        *held = Some(Arc::clone(&tables));
        tables
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod imp {
    use super::{Address, MOST_FRAMES};

    pub(super) fn walk(mut with: impl FnMut(&[Address])) {
        let mut addresses = Vec::with_capacity(64);
        backtrace::trace(|frame| {
            addresses.push(frame.ip() as Address);
            addresses.len() < MOST_FRAMES
        });
        with(&addresses);
    }
}
