//! The native stack of the calling thread: return addresses, found by the unwind tables of the loaded objects.
//!
//! The rule for an address is looked up once, and kept in a table of fixed size. A frame of a known address takes some nanoseconds.

mod objects;
mod rules;
mod tables;

use std::cell::Cell;

use crate::captured::Captured;
use crate::process::Inside;
use rules::{RULES, Rule};

/// The registers that a rule needs, in one frame.
#[derive(Debug, Clone, Copy)]
struct Registers {
    ip: u64,
    sp: u64,
    bp: u64,
}

thread_local! {
    /// The end of this thread's stack; 0 if it is not known yet.
    static STACK_END: Cell<u64> = const { Cell::new(0) };
}

/// Adds the return addresses of this thread, innermost first. The first ones are in this library.
#[inline(never)]
pub(crate) fn capture(inside: &Inside, stack: &mut Captured) {
    let (ip, sp, bp): (u64, u64, u64);
    // SAFETY: reads three registers and writes none but the outputs.
    unsafe {
        std::arch::asm!(
            "lea {ip}, [rip]", "mov {sp}, rsp", "mov {bp}, rbp",
            ip = out(reg) ip, sp = out(reg) sp, bp = out(reg) bp,
            options(nomem, nostack, preserves_flags),
        );
    }
    let Some(end) = stack_end(sp) else { return };
    let mut registers = Registers { ip, sp, bp };
    // The first address is the next instruction, not a return address.
    let mut lookup = ip;
    loop {
        let rule = match RULES.get(lookup) {
            Some(rule) => rule,
            None => {
                let rule = objects::rule(inside, lookup);
                RULES.add(lookup, rule);
                rule
            }
        };
        let Some(caller) = step(rule, registers, end) else { return };
        // A stack grows downwards: its callers are above.
        if caller.sp <= registers.sp || caller.ip == 0 || !stack.push(caller.ip) {
            return;
        }
        registers = caller;
        lookup = caller.ip - 1;
    }
}

/// The registers of the calling frame. `None` at the end of the stack, and where the rule does not apply.
#[inline]
fn step(rule: Rule, of: Registers, end: u64) -> Option<Registers> {
    let read = |address: u64| {
        // SAFETY: `word` reads only between this frame's stack pointer and the end of the thread's stack, which is mapped.
        (address >= of.sp && address.is_multiple_of(8) && address < end.saturating_sub(7))
            .then(|| unsafe { word(address) })
    };
    let base = if rule.is_from_bp() { of.bp } else { of.sp };
    let mut frame = base.wrapping_add_signed(rule.offset()?.into());
    if rule.is_indirect() {
        frame = read(frame)?;
    }
    let ip = read(frame.wrapping_sub(8))?;
    let bp = match rule.bp_offset() {
        Some(_) if rule.is_indirect() => read(of.bp)?,
        Some(offset) => read(frame.wrapping_add_signed(offset.into()))?,
        None => of.bp,
    };
    Some(Registers { ip, sp: frame, bp })
}

/// Reads a word of the stack.
///
/// # Safety
/// The address is aligned, and in the used part of this thread's stack.
#[inline]
unsafe fn word(address: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::with_exposed_provenance::<u64>(address as usize).read_volatile() }
}

/// The end of the stack that has `sp`. `None` for a stack whose bounds are unknown, such as that of a coroutine or of a signal handler.
fn stack_end(sp: u64) -> Option<u64> {
    let mut end = STACK_END.try_with(Cell::get).ok()?;
    if end == 0 {
        let (low, high) = objects::stack()?;
        if !(low..high).contains(&sp) {
            return None;
        }
        end = high;
        STACK_END.set(end);
    }
    // No stack is larger than this.
    (sp < end && end - sp < 1 << 30).then_some(end)
}
