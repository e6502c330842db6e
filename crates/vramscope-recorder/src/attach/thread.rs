//! A thread of another process: where it can be interrupted for a call, and the call.

use std::fs;
use std::io;
use std::ops::Range;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::memory::Memory;

/// Event of a stop that the debugger asked for (`PTRACE_EVENT_STOP`).
const STOP: i32 = 128;
/// Time within which a thread that is asked to stop does so.
const STOPS_WITHIN: Duration = Duration::from_millis(200);
/// Bytes below the stack pointer that a function may use.
const RED_ZONE: u64 = 128;
/// Bytes of a stack that are searched for the frame of a signal.
const SEARCHED: u64 = 1 << 16;
/// The selector of 64-bit code.
const CODE_64: u64 = 0x33;
/// Bytes of the instruction of a system call.
const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];
/// Numbers of calls that wait for others, and that neither the loader nor an allocator of memory makes while it holds a lock: read, poll,
/// select, pause, nanosleep, accept, recvfrom, recvmsg, wait4, msgrcv, rt_sigtimedwait, rt_sigsuspend, io_getevents, clock_nanosleep,
/// epoll_wait, waitid, pselect6, ppoll, epoll_pwait, accept4, recvmmsg, epoll_pwait2.
const WAITS: [u64; 22] =
    [0, 7, 23, 34, 35, 43, 45, 47, 61, 70, 128, 130, 208, 230, 232, 247, 270, 271, 281, 288, 299, 441];
const FUTEX: u64 = 202;
/// The operation on a futex of condition variables, semaphores and joins. Locks use another one.
const WAITS_FOR_BITS: u64 = 9;
/// Call that goes on with an interrupted one.
const RESTART: u64 = 219;
/// Results of an interrupted call that is made again, and of one that goes on.
const AGAIN: std::ops::RangeInclusive<i64> = -514..=-512;
const GOES_ON: i64 = -516;

/// Whether a call with this number and these first two arguments waits for others.
fn waits(call: u64, operation: u64) -> bool {
    WAITS.contains(&call) || call == FUTEX && operation & 0x7f == WAITS_FOR_BITS
}

/// The loader's locks and code, and the code of the C library and other allocators, of a process.
#[derive(Debug)]
pub(super) struct Places {
    /// Addresses at which the loader has locks that a thread can take several times.
    pub(super) locks: Vec<u64>,
    /// Code of the loader, which makes calls of its own.
    pub(super) loader: Vec<Range<u64>>,
    /// Code that may run while it holds a lock.
    pub(super) with_locks: Vec<Range<u64>>,
    /// All code of objects.
    pub(super) code: Vec<Range<u64>>,
    /// Where a signal handler returns to.
    pub(super) returns_of_handlers: Vec<u64>,
}

/// Whether a thread waits in a call in which it can be interrupted, as far as the system shows it without stopping the thread.
pub(super) fn seems_to_wait(process: u32, thread: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall")).unwrap_or_default();
    let mut words = text.split(' ');
    let call = words.next().and_then(|call| call.parse().ok());
    let operation = words.nth(1).and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    call.is_some_and(|call| waits(call, operation.unwrap_or(0)))
}

/// The threads of a process.
pub(super) fn threads(process: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A thread that this thread debugs. If this thread or process ends, the system lets the other one go on.
#[derive(Debug)]
pub(super) struct Debugged {
    pid: Pid,
    /// Whether it is stopped.
    since: Option<Instant>,
    /// Longest time for which it was stopped.
    pub(super) stopped: Duration,
}

/// Why a thread does not stop for a call.
#[derive(Debug)]
pub(super) enum NoStop {
    /// It ended, or another debugger has it.
    Gone(Errno),
    /// The whole process is stopped, as by Ctrl-Z.
    Job,
    /// It does not stop in time.
    Late,
}

impl Debugged {
    pub(super) fn begin(thread: u32) -> Result<Self, Errno> {
        let pid = Pid::from_raw(i32::try_from(thread).map_err(|_| Errno::ESRCH)?);
        ptrace::seize(pid, ptrace::Options::empty())?;
        Ok(Self { pid, since: None, stopped: Duration::ZERO })
    }

    pub(super) fn is(&self, thread: u32) -> bool {
        self.pid.as_raw() as u32 == thread
    }

    /// Stops the thread. Its signals reach it meanwhile.
    pub(super) fn stop(&mut self) -> Result<(), NoStop> {
        let begin = Instant::now();
        ptrace::interrupt(self.pid).map_err(NoStop::Gone)?;
        while begin.elapsed() < STOPS_WITHIN {
            match self.changed().map_err(NoStop::Gone)? {
                WaitStatus::PtraceEvent(_, Signal::SIGTRAP, STOP) => {
                    self.since = Some(begin);
                    return Ok(());
                }
                WaitStatus::PtraceEvent(_, _, STOP) => {
                    self.since = Some(begin);
                    return Err(NoStop::Job);
                }
                WaitStatus::Stopped(pid, signal) => ptrace::cont(pid, signal).map_err(NoStop::Gone)?,
                WaitStatus::StillAlive => std::thread::sleep(Duration::from_micros(20)),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Err(NoStop::Gone(Errno::ESRCH)),
                _ => {}
            }
        }
        Err(NoStop::Late)
    }

    /// Lets a thread go on that did not stop in time, once it does. Returns whether it did.
    pub(super) fn has_ended_late(&mut self) -> bool {
        match self.changed() {
            Ok(WaitStatus::StillAlive) => false,
            Ok(_) => {
                self.end();
                true
            }
            Err(_) => true,
        }
    }

    fn changed(&self) -> Result<WaitStatus, Errno> {
        waitpid(self.pid, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG))
    }

    /// Passes the thread's signals on while it runs.
    pub(super) fn pass_signals(&self) {
        if let Ok(WaitStatus::Stopped(pid, signal)) = self.changed() {
            // It has ended otherwise.
            ptrace::cont(pid, signal).ok();
        }
    }

    /// Address of the next instruction of the stopped thread.
    pub(super) fn next_instruction(&self) -> Result<u64, Errno> {
        ptrace::getregs(self.pid).map(|registers| registers.rip)
    }

    /// Lets a stopped thread go on, without its debugger.
    pub(super) fn end(&mut self) {
        self.goes_on();
        // It has ended otherwise.
        ptrace::detach(self.pid, None).ok();
    }

    fn goes_on(&mut self) {
        if let Some(since) = self.since.take() {
            self.stopped = self.stopped.max(since.elapsed());
        }
    }

    /// Whether the stopped thread can make a call now: it is neither in the loader nor in an allocator of memory, and holds no lock of
    /// the loader.
    pub(super) fn is_free(&self, memory: &Memory, places: &Places) -> io::Result<bool> {
        let r = ptrace::getregs(self.pid)?;
        let is_in = |ranges: &[Range<u64>]| ranges.iter().any(|range| range.contains(&r.rip));
        if r.cs != CODE_64 || is_in(&places.loader) {
            return Ok(false);
        }
        let is_free = if (r.orig_rax as i64) < 0 {
            is_in(&places.code) && !is_in(&places.with_locks)
        } else {
            let before = memory.read(r.rip - SYSTEM_CALL.len() as u64, SYSTEM_CALL.len())?;
            waits(r.orig_rax, r.rsi) && before == SYSTEM_CALL
        };
        if !is_free {
            return Ok(false);
        }
        for &lock in &places.locks {
            // The lock, the count, and the thread that holds it.
            let words = (memory.word(lock)?, memory.word(lock + 8)?);
            if words.0 as u32 != 0 && words.1 as u32 == self.pid.as_raw() as u32 {
                return Ok(false);
            }
        }
        // A handler of a signal may have interrupted an allocator.
        let stack = (1..=SEARCHED / 4096).rev().find_map(|pages| {
            let end = (r.rsp & !4095) + pages * 4096;
            memory.read(r.rsp, (end - r.rsp) as usize).ok()
        });
        let stack = stack.unwrap_or_default();
        let mut words =
            stack.chunks_exact(8).map(|word| u64::from_le_bytes(*word.first_chunk().unwrap_or(&[0; 8])));
        Ok(!words.any(|word| places.returns_of_handlers.contains(&word)))
    }

    /// Lets the stopped thread run the code at `entry`, which returns to where the thread is now. All that the thread needs for this is
    /// in its registers and its stack, so it does not need this process any longer.
    pub(super) fn call(&mut self, memory: &Memory, entry: u64) -> io::Result<()> {
        let mut r = ptrace::getregs(self.pid)?;
        if r.orig_rax as i64 >= 0 {
            // The system would do the same if the thread went on without a call.
            let back = SYSTEM_CALL.len() as u64;
            match r.rax as i64 {
                result if AGAIN.contains(&result) => (r.rax, r.rip) = (r.orig_rax, r.rip - back),
                GOES_ON => (r.rax, r.rip) = (RESTART, r.rip - back),
                _ => {}
            }
            r.orig_rax = u64::MAX;
        }
        let at = r.rsp - RED_ZONE - 8;
        memory.write(at, &r.rip.to_le_bytes())?;
        (r.rsp, r.rip) = (at, entry);
        ptrace::setregs(self.pid, r)?;
        self.goes_on();
        Ok(ptrace::cont(self.pid, None)?)
    }
}
