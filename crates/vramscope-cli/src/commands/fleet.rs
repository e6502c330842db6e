//! `vramscope fleet`

use anyhow::bail;
use vramscope::fleet::{
    Budgets, Candidate, Fleet, FleetAnswers, FleetJson, RankFile, Status, WorkOptions, fleet_junit,
    fleet_text, list, ranks, summaries,
};
use vramscope::report::counted;

use super::is_stream;
use crate::Found;
use crate::advice::ADVICE;
use crate::args::FleetArgs;
use crate::output::Output;
use crate::part;
use crate::progress::Progress;
use crate::say::say;

pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<Found> {
    if args.json && args.junit.as_deref().is_some_and(is_stream) {
        bail!("--json: standard output is that of --junit; name a file there");
    }
    let listing = list(&args.paths)?;
    let candidates: Vec<Candidate> = listing.files.iter().map(|(_, file)| file.clone()).collect();
    let found = ranks(&candidates, args.rank.as_ref())?;
    let files = found.files.into_iter().map(|(rank, at)| {
        let (path, file) = &listing.files[at];
        RankFile { rank, path: path.clone(), length: file.length }
    });
    let files: Vec<RankFile> = files.collect();
    let mut notes: Vec<String> = listing.notes.into_iter().chain(found.notes).collect();
    notes.iter().for_each(|note| say(&format!("note: {note}")));
    if !args.no_cache {
        part::watch_signals()?;
    }
    let options = WorkOptions {
        jobs: args.jobs.map_or(0, usize::from),
        cache: !args.no_cache,
        reading: args.reading.options(),
        advice: ADVICE,
    };
    let mut progress: Option<Progress> = None;
    let (rows, not_kept) = summaries(&files, &options, &mut |done, all| {
        progress.get_or_insert_with(|| Progress::new("reading", Some(all))).at(done);
    });
    progress.iter().for_each(Progress::done);
    not_kept.iter().for_each(|note| say(&format!("note: {note}")));
    notes.extend(not_kept);
    let fleet = Fleet::of(rows, args.capacity.or(args.gpu));
    let verdicts =
        Budgets { max_peak: args.max_peak, max_imbalance_percent: args.max_imbalance }.verdicts(&fleet);
    let paths: Vec<String> = args.paths.iter().map(|path| path.display().to_string()).collect();
    let answers =
        FleetAnswers { paths: &paths, rule: &found.rule, notes: &notes, fleet: &fleet, verdicts: &verdicts };
    write(args, &answers)?;
    if fleet.read_count == 0 {
        bail!("none of {} could be read", counted(fleet.rank_count as u64, "recording"));
    }
    let kept = verdicts.iter().all(|verdict| verdict.status == Status::Kept);
    Ok(if kept { Found::Nothing } else { Found::Something })
}

/// Writes the answers in the forms asked for.
fn write(args: &FleetArgs, answers: &FleetAnswers<'_>) -> anyhow::Result<()> {
    let junit_to = args.junit.as_deref();
    if let Some(path) = junit_to {
        Output::named(path)?.write_whole(fleet_junit(answers)?.as_bytes())?;
    }
    if args.json {
        super::print_json(&FleetJson::new(answers))
    } else if junit_to.is_some_and(is_stream) {
        Ok(())
    } else {
        super::print_text(&fleet_text(answers, super::width()))
    }
}
