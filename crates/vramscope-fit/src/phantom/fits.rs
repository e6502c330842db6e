//! Determines whether the program fits on the chosen GPU, and on which others, with as few runs as possible.

use anyhow::Context as _;
use vramscope_analysis::{Capacity, Fit, fit_on_device};
use vramscope_phantom::AskedAt;

use super::attempt::{Attempt, UNLIMITED};
use super::cards::{self, OnCard};
use super::certainty::Certainty;
use super::chosen_gpu::Card;
use super::request::RunRequest;
use crate::control::Control;

/// The results for the chosen GPU and for others.
pub(crate) struct FoundOut {
    /// Whether the program fits on the chosen GPU; `None` if that is unknown, because it needs at least as much as it showed.
    pub(crate) fit: Option<Fit>,
    /// How certain the peak of its memory is.
    pub(crate) certainty: Certainty,
    /// Listed GPUs sorted by memory: all with --sweep-gpus, else only the smallest that fits, if any; `None` if nothing is known about
    /// other GPUs.
    pub(crate) cards: Option<Vec<OnCard>>,
    /// Bytes that a GPU needs, with the smallest and the largest context, from the run without a limit; `None` without such a run.
    pub(crate) needed: Option<(u64, u64)>,
    /// Settings that make the program fit, if it does not fit.
    pub(crate) remedy: Option<String>,
    /// Lines that queried the total or free memory of a GPU.
    pub(crate) asked_memory_at: Vec<AskedAt>,
}

impl FoundOut {
    /// Whether the program fits on the chosen GPU, also with the upper end of its range.
    pub(crate) fn fits(&self) -> bool {
        self.fit == Some(Fit::Fits)
    }

    /// `first` is the run on the chosen GPU, without a limit if --sweep-gpus is given.
    pub(crate) fn of(
        args: &RunRequest,
        card: &Card,
        first: &Attempt,
        control: &dyn Control,
    ) -> anyhow::Result<Self> {
        if first.asked_memory() {
            by_running(args, card, first, first, control)
        } else {
            by_replay(args, card, first, control)
        }
    }
}

/// For a program that depends on the GPU's memory: runs it on each candidate. `asking` is the run that queried the memory.
fn by_running(
    args: &RunRequest,
    card: &Card,
    first: &Attempt,
    asking: &Attempt,
    control: &dyn Control,
) -> anyhow::Result<FoundOut> {
    let own;
    let on_asked = if args.sweep_gpus {
        control.say("note: the program queried the GPU's memory: running it on each GPU");
        own = first.again(args, args.on.gpu, card.total, control)?;
        &own
    } else {
        first
    };
    let certainty = Certainty::of(on_asked);
    let on_asked = cards::ran_on(on_asked, card)?;
    let cards = if args.once {
        None
    } else {
        control
            .say("note: the program queried the GPU's memory: running it on candidates for the smallest GPU");
        let known = if cards::is_as_listed(args, card) { vec![on_asked] } else { Vec::new() };
        let mut cards = cards::all_by_running(args, known, first, control)?;
        if !args.sweep_gpus {
            cards.retain(|on| on.peak_reserved.is_some());
        }
        Some(cards)
    };
    Ok(FoundOut {
        fit: on_asked.fit,
        certainty,
        cards,
        needed: None,
        remedy: None,
        asked_memory_at: asking.machine.asked_memory_at.clone(),
    })
}

/// For other programs: one run without a limit determines the need on every GPU of its compute capability.
fn by_replay(
    args: &RunRequest,
    card: &Card,
    first: &Attempt,
    control: &dyn Control,
) -> anyhow::Result<FoundOut> {
    if args.sweep_gpus {
        let on = fit_on_device(first.demands(), card.total, first.overhead(card)).context("replay")?;
        let has_room = |bytes: &u64| card.total >= first.peak_allocated() + bytes;
        let (low, high) = first.overhead(card).into_inner();
        let fit = match on.fit {
            _ if !has_room(&low) => Fit::DoesNotFit,
            Fit::Fits if !has_room(&high) => Fit::Barely,
            fit => fit,
        };
        let cards = cards::all_by_replay(args, first, control)?;
        let certainty = Certainty::of(first);
        return Ok(FoundOut {
            fit: certainty.fit(fit),
            certainty,
            cards: Some(cards),
            needed: None,
            remedy: None,
            asked_memory_at: Vec::new(),
        });
    }
    let ran_out = first.ran_out();
    let second = if ran_out && !args.once {
        control
            .say("note: the program ran out of memory: running it again without a limit, to find its need");
        Some(first.again(args, args.on.gpu, UNLIMITED, control)?)
    } else {
        None
    };
    if let Some(second) = second.as_ref().filter(|second| second.asked_memory()) {
        // The first run stopped before the query.
        return by_running(args, card, first, second, control);
    }
    let shown = second.as_ref().unwrap_or(first);
    let certainty = Certainty::of(shown);
    let smallest = match certainty.high_bytes() {
        Some(_) => Some(cards::smallest_by_replay(args, shown, second.is_some(), control)?),
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
    let fit = first.fit(card)?;
    let fit = certainty.fit(fit);
    Ok(FoundOut { fit, certainty, cards, needed, remedy, asked_memory_at: Vec::new() })
}

/// Settings that make all processes fit on the GPU, if there are any.
fn remedy(card: &Card, free: &Attempt) -> anyhow::Result<Option<String>> {
    let capacity = Capacity { total: card.total, overhead: *free.overhead(card).end() };
    let fullest = free.demands().max_by_key(|demand| demand.peak_reserved);
    fullest.map_or(Ok(None), |demand| demand.remedy(capacity)).context("replay")
}
