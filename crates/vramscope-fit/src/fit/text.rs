//! The text of the results.

use std::fmt::Write as _;

use vramscope_analysis::Fit;
use vramscope_report::bytes;

use super::runner::{Outcome, Runner};
use super::search::{Found, Row};
use super::vary::Varied;

pub(crate) fn text(runner: &Runner<'_>, found: &Found) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(out)?;
    headline(&mut out, runner, found)?;
    if let Some(repeat) = found.repeat.as_ref().filter(|_| found.is_random()) {
        writeln!(
            out,
            "The program is not deterministic: a second unchanged run needs {}. Smaller differences between runs may be chance.",
            needs(repeat)
        )?;
    }
    if let Some(varied) = &found.varied {
        curve(&mut out, varied)?;
    }
    if !found.baseline.fits() {
        changes(&mut out, runner, found)?;
    }
    if let Some(folder) = &runner.args.recordings {
        writeln!(
            out,
            "\nRecordings of the runs: {}. The view Steps lays them over each other: vramscope view {}/*.pickle",
            folder.display(),
            folder.display()
        )?;
    }
    if found.is_stopped {
        writeln!(out, "\nStopped: not all changes were measured.")?;
    }
    writeln!(out, "\nThe CUDA context is modeled: at most {}.", bytes(*runner.card.context.end()))?;
    Ok(out)
}

fn headline(out: &mut String, runner: &Runner<'_>, found: &Found) -> std::fmt::Result {
    let gpu = runner.args.on.gpu.name;
    let budget = bytes(runner.card.total);
    let place = match runner.args.budget {
        Some(_) => format!("in the budget of {budget} on {gpu}"),
        None => format!("on {gpu} ({budget})"),
    };
    let needs = needs(&found.baseline);
    let unchanged = match &found.varied {
        Some(varied) => format!("With {}={}, the program", varied.name, varied.high),
        None => "The program".to_owned(),
    };
    if !found.baseline.is_certain() {
        return writeln!(
            out,
            "It is unknown whether {} fits {place}: it needs at least {needs}. Peak without contexts: {}.",
            lower(&unchanged),
            found.baseline.certainty.text()
        );
    }
    match found.baseline.fit {
        Fit::Fits => writeln!(out, "{unchanged} fits {place}: it needs {needs}."),
        Fit::Barely => {
            writeln!(out, "{unchanged} barely fits {place}: with the largest CUDA context it needs {needs}.")
        }
        Fit::DoesNotFit => writeln!(out, "{unchanged} does not fit {place}: it needs {needs}."),
    }
}

fn needs(outcome: &Outcome) -> String {
    let more = if outcome.is_lower_bound { "more than " } else { "" };
    format!("{more}{}", bytes(outcome.peak_device))
}

/// A sentence with a small first letter.
fn lower(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// The peak of PyTorch's allocated bytes.
fn allocated(outcome: &Outcome) -> String {
    if outcome.peak_allocated == 0 { "unknown".to_owned() } else { bytes(outcome.peak_allocated) }
}

/// The measured numbers.
fn curve(out: &mut String, varied: &Varied) -> std::fmt::Result {
    let Varied { name, low, high, largest, points, stopped_by } = varied;
    writeln!(out)?;
    if varied.is_ignored() {
        writeln!(out, "The program ignores {name}: its peaks are the same for all measured numbers.")?;
    } else if let Some(reason) = stopped_by {
        writeln!(out, "The search for the largest {name} stopped: {reason}.")?;
    } else if let Some(largest) = largest {
        writeln!(out, "The largest {name} that fits is {largest}, of {low} to {high}.")?;
    } else {
        writeln!(out, "No {name} from {low} to {high} fits.")?;
    }
    if let Some((smaller, larger)) = varied.contradiction() {
        writeln!(
            out,
            "The memory does not grow with {name}: compare {smaller} and {larger}. The search assumes that it grows, so a larger number may fit."
        )?;
    }
    writeln!(out)?;
    let width = name.len().max(8);
    writeln!(out, "  {name:>width$}  {:>12}  {:>12}", "needs", "allocated")?;
    for (value, outcome) in points {
        let (device, allocated) = (bytes(outcome.peak_device), allocated(outcome));
        writeln!(out, "  {value:>width$}  {device:>12}  {allocated:>12}  {}", outcome.verdict())?;
    }
    Ok(())
}

fn changes(out: &mut String, runner: &Runner<'_>, found: &Found) -> std::fmt::Result {
    let (fitting, others): (Vec<&Row>, Vec<&Row>) = found.rows.iter().partition(|row| row.outcome.fits());
    if fitting.is_empty() {
        writeln!(out, "\nNo measured change makes it fit.")?;
    } else {
        let fits = if found.fits() { "It fits" } else { "As far as the runs show, it fits" };
        writeln!(
            out,
            "\n{fits} with any of these changes, the cheapest first. Each line is a run of the changed program:\n"
        )?;
        table(out, runner, found, &fitting, "left")?;
        fitting.iter().try_for_each(|row| lines(out, found, row))?;
        if fitting.iter().any(|row| names_model(found, row)) {
            let class = found.facts.model.as_ref().map_or("", |model| &model.class);
            writeln!(
                out,
                "\n`model` is the {class} with the optimizer's parameters. The lines belong before the first training step."
            )?;
        }
    }
    if !others.is_empty() {
        writeln!(out, "\nIt does not fit with these:\n")?;
        table(out, runner, found, &others, "missing")?;
    }
    if !found.dropped.is_empty() {
        writeln!(out, "\nNot measured, or without effect:\n")?;
        for dropped in &found.dropped {
            writeln!(out, "  {}: {}", dropped.name, dropped.reason)?;
        }
    }
    Ok(())
}

fn table(
    out: &mut String,
    runner: &Runner<'_>,
    found: &Found,
    rows: &[&Row],
    distance: &str,
) -> std::fmt::Result {
    let names: Vec<String> = rows.iter().map(|row| row.name(found.varied.as_ref())).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    writeln!(out, "  {:>12}  {:>12}  {:>12}  {:width$}  cost", "needs", distance, "allocated", "change")?;
    for (row, name) in rows.iter().zip(&names) {
        let left = u64::try_from(row.outcome.left(runner.card.total).unsigned_abs()).unwrap_or(u64::MAX);
        let [device, left] = [row.outcome.peak_device, left].map(bytes);
        let allocated = allocated(&row.outcome);
        writeln!(out, "  {device:>12}  {left:>12}  {allocated:>12}  {name:width$}  {}", row.cost.text)?;
    }
    Ok(())
}

/// The lines that make a change.
fn lines(out: &mut String, found: &Found, row: &Row) -> std::fmt::Result {
    let of: Vec<String> = row.changes.iter().flat_map(|change| change.lines(&found.facts)).collect();
    if of.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}:\n", row.name(found.varied.as_ref()))?;
    of.iter().try_for_each(|line| writeln!(out, "    {line}"))
}

fn names_model(found: &Found, row: &Row) -> bool {
    let lines = row.changes.iter().flat_map(|change| change.lines(&found.facts));
    lines.into_iter().any(|line| line.contains("model"))
}
