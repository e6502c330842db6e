//! Resolves the symbols of stacks on a separate thread, because that may take seconds the first time.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use hashbrown::HashMap;
use vramscope_allocator::CapturedStack;

use super::protocol::MOST_ANSWERED;
use crate::holders::{LiveStacks, StackTotal, in_words};
use crate::source::LiveHolder;
use vramscope_basics::lock;

/// Maximum time that a response waits for the symbols of its stacks.
const PROMPT: Duration = Duration::from_millis(100);

/// Maximum bytes of all stack texts in one response.
const MOST_TEXT: usize = MOST_ANSWERED / 2;

/// The stacks with the most live bytes of a source, with symbols.
pub(super) struct StackNames {
    live: LiveStacks,
    known: Arc<ResolvedStacks>,
    wanted: Sender<CapturedStack>,
}

#[derive(Default)]
struct ResolvedStacks {
    /// The frames of each stack as texts; `None` while they are being resolved.
    stacks: Mutex<HashMap<CapturedStack, Option<Vec<String>>>>,
    more: Condvar,
}

impl StackNames {
    pub(super) fn start(live: LiveStacks) -> io::Result<Self> {
        let (wanted, asked) = channel();
        let known = Arc::<ResolvedStacks>::default();
        let (stacks, told) = (live.stacks(), Arc::downgrade(&known));
        std::thread::Builder::new().name("vramscope-names".to_owned()).spawn(move || {
            for stack in asked {
                // The server may have ended, so the symbols are no longer needed.
                let Some(told) = told.upgrade() else { return };
                let words = in_words(&stacks, stack);
                lock(&told.stacks).insert(stack, Some(words));
                told.more.notify_all();
            }
        })?;
        Ok(Self { live, known, wanted })
    }

    /// Returns at most `top` stacks with the most bytes, as far as they fit into a response. Symbols that are not resolved after [`PROMPT`]
    /// are left out.
    pub(super) fn holders(&self, top: usize) -> Vec<LiveHolder> {
        let held = self.live.held(top);
        let mut stacks = lock(&self.known.stacks);
        for &stack in held.iter().filter_map(|(stack, _)| stack.as_ref()) {
            stacks.entry(stack).or_insert_with(|| {
                // The send cannot fail: the thread runs as long as this end of the channel exists.
                self.wanted.send(stack).ok();
                None
            });
        }
        let missing = |stacks: &mut HashMap<_, Option<_>>| {
            held.iter().any(|(stack, _)| stack.is_some_and(|stack| matches!(stacks.get(&stack), Some(None))))
        };
        let waited = self.known.more.wait_timeout_while(stacks, PROMPT, missing);
        let (stacks, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut room = MOST_TEXT;
        let holder = |&(stack, held): &(Option<CapturedStack>, StackTotal)| {
            let words = match &stack {
                Some(stack) => stacks.get(stack)?.as_deref(),
                None => Some(&[][..]),
            };
            room = room.checked_sub(words.iter().copied().flatten().map(String::len).sum())?;
            Some(LiveHolder { bytes: held.bytes, count: held.count, stack: words.map(<[_]>::to_vec) })
        };
        held.iter().map_while(holder).collect()
    }
}
