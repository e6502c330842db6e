//! The extremes of what a phantom GPU cannot know: more runs of the program, whose peaks are compared.

use super::attempt::{Attempt, UNLIMITED};
use super::certainty::{About, Effect, Reason};
use super::request::{GpuSpeed, Routing, RunRequest, Values};
use crate::control::Control;

/// The result of a run of the program with something else that a phantom GPU cannot know.
#[derive(Debug, Clone)]
pub(crate) struct Extreme {
    about: About,
    /// What the runs differ in, in words, as `the program reads computed values (train.py:12)`.
    unknown: String,
    /// The peak of the program's memory on one GPU, without contexts, in bytes.
    pub(crate) peak: u64,
    /// Why the run may not show the whole peak.
    cut_off: Option<String>,
}

impl Extreme {
    fn of(attempt: &Attempt, about: About, unknown: String) -> Self {
        Self { about, unknown, peak: attempt.peak(), cut_off: attempt.cut_off() }
    }

    /// The same beside the run of a changed program, whose peak is `to` bytes instead of `from`.
    pub(crate) fn shifted(&self, from: u64, to: u64) -> Self {
        Self { peak: (self.peak + to).saturating_sub(from), ..self.clone() }
    }

    /// The reason that follows from this run beside one with a peak of `peak` bytes.
    pub(crate) fn reason(&self, peak: u64) -> Reason {
        let (effect, text) = match &self.cut_off {
            Some(why) => (Effect::Unbounded, format!("{}, and in a second run {why}", self.unknown)),
            None if self.peak == peak => (Effect::None, self.unknown.clone()),
            None => (Effect::Range, self.unknown.clone()),
        };
        Reason { about: self.about, text, effect }
    }
}

/// Why the peak depends on when the GPU has done its work.
pub(crate) const CROSSING: &str = "memory that several streams use is freed when the GPU is done with it";

/// Runs the extremes of what `first` could not know. Returns the run whose numbers count, with its request and the extremes. `again` runs
/// the program on GPUs with this memory, without its output.
///
/// # Errors
/// The program cannot be started, or its recording cannot be read.
pub(crate) fn explore(
    args: &RunRequest,
    first: Attempt,
    control: &dyn Control,
    again: impl Fn(&RunRequest, u64) -> anyhow::Result<Attempt>,
) -> anyhow::Result<(RunRequest, Attempt)> {
    let (main_args, mut main) = of_values(args, first, control, &again)?;
    if args.once || main.failed() {
        return Ok((main_args, main));
    }
    if args.on.gpu_speed.is_none() && main.machine.counts.crosses_streams {
        control.say("note: the program uses memory on several streams: running it on a GPU that has done its work only when the program waits for it");
        let mut late = main_args.clone();
        late.on.gpu_speed = Some(GpuSpeed::Late);
        let attempt = again(&late, unlimited(&main))?;
        main.extremes.push(Extreme::of(&attempt, About::Time, CROSSING.to_owned()));
    }
    if let Some(choices) = main.choices() {
        control.say("note: libraries choose by measured time: running the program with their last candidates instead of the first");
        let mut last = main_args.clone();
        last.on.takes_last = true;
        let attempt = again(&last, unlimited(&main))?;
        main.extremes.push(Extreme::of(&attempt, About::Choices, choices));
    }
    Ok((main_args, main))
}

/// The memory of GPUs that show the whole peak of the program, in bytes.
fn unlimited(run: &Attempt) -> u64 {
    if run.asked_memory() { run.total() } else { UNLIMITED }
}

/// As [`explore`], for values.
fn of_values(
    args: &RunRequest,
    first: Attempt,
    control: &dyn Control,
    again: impl Fn(&RunRequest, u64) -> anyhow::Result<Attempt>,
) -> anyhow::Result<(RunRequest, Attempt)> {
    if args.once || args.on.routing.is_some() || !first.reads_values() {
        return Ok((args.clone(), first));
    }
    let unlimited = unlimited(&first);
    let run = |routing, values, total| {
        let mut args = args.clone();
        args.on.routing = Some(routing);
        args.on.values = values;
        let attempt = again(&args, total)?;
        anyhow::Ok((args, attempt))
    };
    let other = match args.on.values {
        Values::Zeros => Values::Random(1),
        Values::Random(_) => Values::Zeros,
    };
    control.say("note: the program read values that no kernel computed: running it again, with known values computed on the host");
    // Of a program without PyTorch, this run is only an extreme.
    let total = if first.ran_out() || first.recordings.is_empty() { unlimited } else { first.total() };
    let (followed_args, mut followed) = run(Routing::Balanced, other, total)?;
    let extreme = |of: &Attempt, unknown: &Attempt| Extreme::of(of, About::Values, unknown.values_read());
    if followed.followed().next().is_none() && !followed.failed() {
        // Not a program with PyTorch.
        let extremes = vec![extreme(&followed, &first)];
        return Ok((args.clone(), first.beside(extremes)));
    }
    if followed.failed() {
        control.say("note: that run failed: running it again with zeros for unknown values");
        let (zeros_args, zeros) = run(Routing::Balanced, args.on.values, total)?;
        let (main_args, main) = if zeros.failed() { (args.clone(), first) } else { (zeros_args, zeros) };
        let extremes = vec![extreme(&followed, &main)];
        return Ok((main_args, main.beside(extremes)));
    }
    if followed.followed().any(|values| values.selections > 0) {
        control.say(
            "note: sizes depend on such values: running it with the extremes, nothing and all in one place",
        );
        for routing in [Routing::Nothing, Routing::One] {
            let (_, attempt) = run(routing, args.on.values, unlimited)?;
            followed.extremes.push(extreme(&attempt, &followed));
        }
    } else if followed.reads_values() {
        let extremes = if !first.failed() && !first.ran_out() && first.peak() == followed.peak() {
            vec![extreme(&first, &followed)]
        } else {
            control.say("note: the peaks differ: running it with zeros for unknown values");
            vec![extreme(&run(Routing::Balanced, args.on.values, unlimited)?.1, &followed)]
        };
        followed.extremes = extremes;
    }
    Ok((followed_args, followed))
}
