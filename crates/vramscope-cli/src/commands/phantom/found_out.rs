//! Whether the program fits on the card that was asked for, and on which others, out of as many runs as that takes.

use anyhow::Context as _;
use vramscope::analysis::{Capacity, Fit, on_device};
use vramscope::phantom::AskedAt;

use super::attempt::{Attempt, UNLIMITED};
use super::card::Card;
use super::cards::{self, OnCard};
use crate::args::PhantomRunArgs;
use crate::say::say;

/// What was found out of the card that the user asked for, and of others.
pub(crate) struct FoundOut {
    /// Whether it fits on the card that was asked for.
    pub(crate) fit: Fit,
    /// Listed cards by their memory: all with --sweep-gpus, else the smallest that it fits on, or none; `None` where nothing is known
    /// of other cards.
    pub(crate) cards: Option<Vec<OnCard>>,
    /// Bytes of a card that it needs, with the smallest context and with the largest, by the run without a limit, where there was one.
    pub(crate) needed: Option<(u64, u64)>,
    /// Settings with which it fits where it does not.
    pub(crate) remedy: Option<String>,
    /// Where the program asked how much memory a GPU has or has free.
    pub(crate) asked_memory_at: Vec<AskedAt>,
}

impl FoundOut {
    /// `first` is the run on the card that was asked for, without a limit with --sweep-gpus.
    pub(crate) fn of(args: &PhantomRunArgs, card: &Card, first: &Attempt) -> anyhow::Result<Self> {
        if first.asked_memory() { by_running(args, card, first, first) } else { by_replay(args, card, first) }
    }
}

/// Of a program that sizes itself by the card: it runs on each candidate. It asked in the run `asking`.
fn by_running(
    args: &PhantomRunArgs,
    card: &Card,
    first: &Attempt,
    asking: &Attempt,
) -> anyhow::Result<FoundOut> {
    let on_asked = if args.sweep_gpus {
        say("note: it asked how much memory there is: it runs on the cards themselves");
        cards::ran_on(&Attempt::new(args, args.gpu, card.total)?, card)?
    } else {
        cards::ran_on(first, card)?
    };
    let cards = if args.once {
        None
    } else {
        say("note: it asked how much memory there is: it runs on candidates for the smallest card");
        let known = if cards::is_as_listed(args, card) { vec![on_asked] } else { Vec::new() };
        let mut cards = cards::all_by_running(args, known, first)?;
        if !args.sweep_gpus {
            cards.retain(|on| on.peak_reserved.is_some());
        }
        Some(cards)
    };
    Ok(FoundOut {
        fit: on_asked.fit.unwrap_or(if args.sweep_gpus { Fit::DoesNotFit } else { Fit::Fits }),
        cards,
        needed: None,
        remedy: None,
        asked_memory_at: asking.machine.asked_memory_at.clone(),
    })
}

/// Of a program that does not: one run without a limit says what it needs on every card of its compute capability.
fn by_replay(args: &PhantomRunArgs, card: &Card, first: &Attempt) -> anyhow::Result<FoundOut> {
    if args.sweep_gpus {
        let on = on_device(first.demands(), card.total, first.overhead(card)).context("replay")?;
        let has_room = |bytes: &u64| card.total >= first.peak_allocated() + bytes;
        let (low, high) = first.overhead(card).into_inner();
        let fit = match on.fit {
            _ if !has_room(&low) => Fit::DoesNotFit,
            Fit::Fits if !has_room(&high) => Fit::Barely,
            fit => fit,
        };
        let cards = cards::all_by_replay(args, first)?;
        return Ok(FoundOut {
            fit,
            cards: Some(cards),
            needed: None,
            remedy: None,
            asked_memory_at: Vec::new(),
        });
    }
    let ran_out = first.ran_out();
    let second = if ran_out && !args.once {
        say("note: it ran out of memory: it runs once more, without a limit, to learn what it needs");
        Some(Attempt::new(args, args.gpu, UNLIMITED)?)
    } else {
        None
    };
    if let Some(second) = second.as_ref().filter(|second| second.asked_memory()) {
        // It came to ask only where it was not stopped before.
        return by_running(args, card, first, second);
    }
    let free = second.as_ref().or(Some(first).filter(|_| !ran_out));
    let smallest = match free {
        Some(free) => Some(cards::smallest_by_replay(args, free, second.is_some())?),
        None => None,
    };
    let remedy = match &second {
        Some(free) => remedy(card, free)?,
        None => None,
    };
    let needed = second.as_ref().map(|free| {
        let overhead = free.overhead(card);
        (free.peak_reserved() + overhead.start(), free.peak_reserved() + overhead.end())
    });
    let cards = smallest.map(|smallest| smallest.into_iter().collect());
    Ok(FoundOut { fit: first.fit(card)?, cards, needed, remedy, asked_memory_at: Vec::new() })
}

/// Settings under which everything fits on the card, where one and the same do.
fn remedy(card: &Card, free: &Attempt) -> anyhow::Result<Option<String>> {
    let capacity = Capacity { total: card.total, overhead: *free.overhead(card).end() };
    let fullest = free.demands().max_by_key(|demand| demand.peak_reserved);
    fullest.map_or(Ok(None), |demand| demand.remedy(capacity)).context("replay")
}
