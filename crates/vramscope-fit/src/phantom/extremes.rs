//! The extremes of what a phantom GPU cannot know: more runs of the program, whose peaks are compared.

use super::attempt::{Attempt, UNLIMITED};
use super::request::{GpuSpeed, Routing, RunRequest, Values};
use super::unknowns::{About, CROSSING, Extreme};
use crate::control::Control;

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
        main.extremes.push(extreme_of(&attempt, About::Time, CROSSING.to_owned()));
    }
    if let Some(choices) = main.choices() {
        control.say("note: libraries choose by measured time: running the program with their last candidates instead of the first");
        let mut last = main_args.clone();
        last.on.takes_last = true;
        let attempt = again(&last, unlimited(&main))?;
        main.extremes.push(extreme_of(&attempt, About::Choices, choices));
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
    let extreme = |of: &Attempt, unknown: &Attempt| extreme_of(of, About::Values, unknown.values_read());
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

/// The result of a run as an extreme.
fn extreme_of(attempt: &Attempt, about: About, unknown: String) -> Extreme {
    Extreme { about, unknown, peak: attempt.peak(), cut_off: attempt.cut_off() }
}
