//! Values of requests, parsed from text: the same for options of the command, arguments of tools and Python, and queries of the page.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use vramscope_analysis::{By, Growth, Plan, PlanSource, When};
use vramscope_basics::gpus::{self, Gpu};
use vramscope_basics::units::parse_bytes;
use vramscope_trace::{Category, Phase};

/// Upper bound for sizes, in bytes; no device is larger.
const LARGEST: u64 = 1 << 50;

/// Parses a size in bytes, as [`parse_bytes`] does.
///
/// # Errors
/// The text is not a size, or the size is more than 1 PiB.
pub fn size(text: &str) -> Result<u64, String> {
    match parse_bytes(text) {
        Ok(size) if size > LARGEST => Err("more than 1 PiB".to_owned()),
        Ok(size) => Ok(size),
        Err(why) => Err(why.to_string()),
    }
}

/// Upper bound of percentages: a larger one would not limit anything.
const MOST_PERCENT: f64 = 1e6;

/// Parses `5%` or `2.5%`.
///
/// # Errors
/// The text is not a percentage, or it is more than a million.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let known = number.filter(|percent| (0.0..=MOST_PERCENT).contains(percent));
    known.ok_or_else(|| format!("expected a percentage, as 5% or 2.5%, from 0% to {MOST_PERCENT}%"))
}

/// Parses `64MiB`, a number of bytes, or `5%` of the baseline.
///
/// # Errors
/// The text is neither.
pub fn growth(text: &str) -> Result<Growth, String> {
    if !text.ends_with('%') {
        return size(text).map(Growth::Bytes).map_err(|e| format!("{e}; or give a percentage, as 5%"));
    }
    percent(text).map(Growth::Percent)
}

/// Parses seconds: at least 0.001, and at most a day.
///
/// # Errors
/// The text is not a number in this range.
pub fn seconds(text: &str) -> Result<Duration, String> {
    seconds_from(Duration::from_millis(1), text)
}

/// As [`seconds`], at least `least`.
///
/// # Errors
/// The text is not a number in this range.
pub fn seconds_from(least: Duration, text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let sensible = least..=Duration::from_hours(24);
    let wrong = || format!("expected {} to 86400 seconds", least.as_secs_f64());
    seconds.filter(|s| sensible.contains(s)).ok_or_else(wrong)
}

/// Parses a limit on a category, as `activation=20GiB`.
///
/// # Errors
/// The text has another form, or an unknown category.
pub fn category_limit(text: &str) -> Result<(Category, u64), String> {
    let known = || Category::ALL.map(Category::name).join(", ");
    let (name, limit) = text.split_once('=').ok_or("expected CATEGORY=SIZE, as activation=20GiB")?;
    let category =
        Category::named(name).ok_or_else(|| format!("unknown category; use one of {}", known()))?;
    Ok((category, size(limit)?))
}

/// The grouping with this name.
///
/// # Errors
/// The name is unknown. The message lists the known names.
pub fn by(name: &str) -> Result<By, String> {
    By::ALL.into_iter().find(|by| by.name() == name).ok_or_else(|| {
        let name: String = name.chars().take(40).collect();
        format!("cannot group by {name:?}; use one of {}", By::ALL.map(By::name).join(", "))
    })
}

/// The GPU with this name.
///
/// # Errors
/// The name is unknown. The message lists the known names.
pub fn gpu(name: &str) -> Result<&'static Gpu, String> {
    gpus::find(name).ok_or_else(|| {
        let names: Vec<&str> = gpus::GPUS.iter().map(|gpu| gpu.name).collect();
        format!("unknown GPU; use one of {}", names.join(", "))
    })
}

/// The moment of a request, or a range of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The state at one moment.
    State(When),
    /// The events from the first to the last, both included; without a last one, to the end.
    Events(usize, Option<usize>),
    /// The events of a step, counted from 1, or of its phase.
    Step(usize, Option<Phase>),
}

/// The end of a recording in a request.
const END: &str = "end";

/// Parses the index of an event, or `end`.
///
/// # Errors
/// The text is neither.
pub fn when(text: &str) -> Result<When, String> {
    match text.trim() {
        END => Ok(When::End),
        text => text.parse().map(When::After).map_err(|_| "expected an event index, or `end`".to_owned()),
    }
}

impl FromStr for At {
    type Err = String;

    /// Parses `1200`, `end`, `10..99`, `10..end`, `step:2` or `backward:2`.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((part, number)) = text.split_once(':') {
            return step(part.trim(), number.trim());
        }
        let parse = |text| {
            when(text).map_err(|_| {
                "expected an event index, `end`, a range as 10..99, or a part of a step as backward:2"
                    .to_owned()
            })
        };
        let Some((first, last)) = text.split_once("..") else { return Ok(Self::State(parse(text)?)) };
        match (parse(first)?, parse(last)?) {
            (When::After(first), When::After(last)) if last < first => {
                Err(format!("event {last} is before event {first}: the range is empty"))
            }
            (When::After(first), When::After(last)) => Ok(Self::Events(first, Some(last))),
            (When::After(first), When::End) => Ok(Self::Events(first, None)),
            (When::End, _) => Err("a range begins with an event index, as 10..99".to_owned()),
        }
    }
}

/// Parses a step or a phase of it, as `step:2` or `backward:2`.
fn step(part: &str, number: &str) -> Result<At, String> {
    let phase = match part {
        "step" => None,
        part => Some(Phase::ALL.into_iter().find(|phase| phase.name() == part).ok_or_else(|| {
            format!("unknown part of a step; use one of step, {}", Phase::ALL.map(Phase::name).join(", "))
        })?),
    };
    match number.parse() {
        Ok(number @ 1..) => Ok(At::Step(number, phase)),
        _ => Err(format!("expected the number of a step, from 1, as {part}:2")),
    }
}

/// The word for a plan of the recording itself.
const AUTO: &str = "auto";

/// Limit on the size of a plan's file, in bytes.
const LARGEST_PLAN: u64 = 256 << 20;

/// Reads the plan in a file, or takes `auto`: a plan of the recording itself.
///
/// # Errors
/// The file cannot be read, is too large, or has no valid plan.
pub fn plan(text: &str) -> Result<PlanSource, String> {
    if text == AUTO {
        return Ok(PlanSource::Recording { share_streams: false });
    }
    let mut read = Vec::new();
    let file = File::open(text).map_err(|e| format!("cannot read the plan: {e}"))?;
    file.take(LARGEST_PLAN + 1).read_to_end(&mut read).map_err(|e| format!("cannot read the plan: {e}"))?;
    if read.len() as u64 > LARGEST_PLAN {
        return Err(format!("the plan has more than {LARGEST_PLAN} bytes"));
    }
    let plan: Plan = serde_json::from_slice(&read)
        .map_err(|e| format!("not a plan of `vramscope plan`: {e}; make a new one with `vramscope plan`"))?;
    Ok(PlanSource::Given(Arc::new(plan)))
}

/// Takes `auto`. Requests in JSON read no files.
fn plan_in_json(text: &str) -> Result<PlanSource, String> {
    if text == AUTO {
        return Ok(PlanSource::Recording { share_streams: false });
    }
    Err("only \"auto\"; a plan in a file is read by the command and by Python".to_owned())
}

/// Values of one setting, to be compared: `KEY=A..B` doubles integers and adds 0.1 to fractions, `KEY=A,B,C` lists values.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// The key in `PYTORCH_CUDA_ALLOC_CONF`.
    pub key: String,
    /// The values.
    pub values: Vec<String>,
}

/// Limit on the number of values of a range.
const MOST_VALUES: usize = 64;

impl FromStr for Sweep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, values) = text.split_once('=').ok_or("expected KEY=A..B or KEY=A,B,C")?;
        let values = match values.split_once("..") {
            None if values.contains('[') => vec![values.to_owned()],
            None => {
                let mut seen = std::collections::BTreeSet::new();
                values.split(',').map(|v| v.trim().to_owned()).filter(|v| seen.insert(v.clone())).collect()
            }
            Some((from, to)) => range(from.trim(), to.trim())?,
        };
        Ok(Self { key: key.trim().to_owned(), values })
    }
}

/// The values from `from` to `to`: integers doubled, fractions in steps of 0.1.
fn range(from: &str, to: &str) -> Result<Vec<String>, String> {
    let backwards = || format!("{from} is not below {to}");
    if let (Ok(first), Ok(last)) = (from.parse::<u64>(), to.parse::<u64>()) {
        if first >= last {
            return Err(backwards());
        }
        let doubled = std::iter::successors(Some(first.max(1)), |n| n.checked_mul(2));
        let mut values: Vec<u64> = doubled.take_while(|&n| n < last).collect();
        values.push(last);
        return Ok(values.iter().map(u64::to_string).collect());
    }
    let hundredths = |s: &str| {
        s.parse::<f64>().ok().filter(|x| (0.0..=1e6).contains(x)).map(|x| (x * 100.0).round() as u64)
    };
    let (Some(first), Some(last)) = (hundredths(from), hundredths(to)) else {
        return Err(format!("{from}..{to} is not a range of numbers; list values as A,B,C"));
    };
    if first >= last {
        return Err(backwards());
    }
    let values: Vec<u64> = (first..last).step_by(10).chain([last]).take(MOST_VALUES + 1).collect();
    if values.len() > MOST_VALUES {
        return Err(format!("{from}..{to} has more than {MOST_VALUES} values in steps of 0.1"));
    }
    Ok(values.iter().map(|n| format!("{}", *n as f64 / 100.0)).collect())
}

/// Limit on the length in bytes of a regular expression in JSON, because its automaton grows with it.
const LONGEST_REGEX: usize = 1000;

/// Parses a regular expression of a request.
///
/// # Errors
/// It is invalid. The message has one line.
pub fn filter(text: &str) -> Result<Regex, String> {
    if text.len() > LONGEST_REGEX {
        return Err(format!("{} bytes exceed the limit of {LONGEST_REGEX}", text.len()));
    }
    // The library's message has several lines that show the place; the last line is the reason.
    Regex::new(text).map_err(|e| {
        let reason = e.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("invalid regular expression: {reason}")
    })
}

/// A value in JSON: a text, or a whole number where the text would be one.
struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 0, or a text")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(number.to_string())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(number.to_string())
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(text.to_owned())
    }
}

/// A number or a text in JSON, not yet parsed.
#[derive(Deserialize)]
struct Raw(#[serde(deserialize_with = "raw")] String);

fn raw<'de, D: Deserializer<'de>>(json: D) -> Result<String, D::Error> {
    json.deserialize_any(NumberOrText)
}

/// Defines functions for `deserialize_with`: each parses a value with another function of this module.
macro_rules! in_json {
    ($($(#[$docs:meta])* $access:vis $name:ident: $value:ty = $parse:expr;)*) => {$(
        $(#[$docs])*
        $access fn $name<'de, D: Deserializer<'de>>(json: D) -> Result<Option<$value>, D::Error> {
            let raw = Option::<Raw>::deserialize(json)?;
            raw.map(|Raw(text)| ($parse)(&*text)).transpose().map_err(de::Error::custom)
        }
    )*};
}

in_json! {
    /// Deserializes a [`size`], given as a number or a text.
    ///
    /// # Errors
    /// The value is neither, or is not valid.
    pub in_json_size: u64 = size;
    pub(crate) in_json_at: At = str::parse::<At>;
    pub(crate) in_json_by: By = by;
    pub(crate) in_json_filter: Regex = filter;
    pub(crate) in_json_gpu: &'static Gpu = gpu;
    pub(crate) in_json_growth: Growth = growth;
    pub(crate) in_json_plan: PlanSource = plan_in_json;
    pub(crate) in_json_release: vramscope_trace::TorchRelease = str::parse::<vramscope_trace::TorchRelease>;
    /// Deserializes [`seconds`], given as a number or a text.
    ///
    /// # Errors
    /// The value is neither, or is not valid.
    pub in_json_seconds: Duration = seconds;
    pub(crate) in_json_sweep: Sweep = str::parse::<Sweep>;
    pub(crate) in_json_when: When = when;
}

/// A moment in JSON that must be given.
pub(crate) fn in_json_given_when<'de, D: Deserializer<'de>>(json: D) -> Result<When, D::Error> {
    in_json_when(json)?.ok_or_else(|| de::Error::custom("expected an event index, or \"end\""))
}

/// Limits on categories in JSON: a list of texts, as `["activation=20GiB"]`.
pub(crate) fn in_json_limits<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<(Category, u64)>, D::Error> {
    let texts = Vec::<String>::deserialize(json)?;
    texts.iter().map(|text| category_limit(text)).collect::<Result<_, _>>().map_err(de::Error::custom)
}

/// Values of options on the command line.
#[cfg(feature = "command")]
pub mod command {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    use vramscope_analysis::By;
    use vramscope_basics::gpus::Gpu;

    /// Parses one of the values of `all`, by its name.
    pub fn one_of<T: Copy + Send + Sync + 'static>(
        all: &'static [T],
        name: fn(T) -> &'static str,
    ) -> impl TypedValueParser<Value = T> {
        let names: Vec<&'static str> = all.iter().map(|&value| name(value)).collect();
        PossibleValuesParser::new(names).try_map(move |chosen| {
            all.iter().copied().find(|&value| name(value) == chosen).ok_or("unknown value")
        })
    }

    /// Parses the name of a grouping.
    pub fn by() -> impl TypedValueParser<Value = By> {
        one_of(&By::ALL, By::name)
    }

    /// Parses the name of a GPU.
    ///
    /// # Errors
    /// The name is unknown. The message lists the known names, and has several lines.
    pub fn gpu(name: &str) -> Result<&'static Gpu, String> {
        super::gpu(name).map_err(|known| format!("{}; for other GPUs, use --capacity", in_lines(&known)))
    }

    /// Breaks a list of names into lines of eight.
    pub fn in_lines(list: &str) -> String {
        let names: Vec<&str> = list.split(", ").collect();
        let lines: Vec<String> = names.chunks(8).map(|line| line.join(", ")).collect();
        lines.join(",\n  ")
    }
}

/// JSON schemas of values.
#[cfg(feature = "schema")]
pub(crate) mod schema {
    use schemars::{Schema, SchemaGenerator, json_schema};
    use vramscope_analysis::By;

    pub(crate) fn by(_: &mut SchemaGenerator) -> Schema {
        let names = By::ALL.map(|by| Some(by.name())).into_iter().chain([None]);
        json_schema!({ "type": ["string", "null"], "enum": names.collect::<Vec<_>>() })
    }

    /// An event index or `end`, and null if it is optional.
    pub(crate) fn when(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0 })
    }

    /// A whole number, or a text such as `24GiB` or `10..99`.
    pub(crate) fn number_or_text(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string", "null"], "minimum": 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_groupings_and_events_are_parsed() {
        assert_eq!(size("24GiB"), Ok(24 << 30));
        assert_eq!(size("2PiB"), Err("more than 1 PiB".to_owned()));
        assert_eq!(by("line"), Ok(By::Line));
        assert!(by("colour").unwrap_err().starts_with("cannot group by \"colour\"; use one of stack, line"));
        assert_eq!("10..99".parse(), Ok(At::Events(10, Some(99))));
        assert_eq!("10..end".parse(), Ok(At::Events(10, None)));
        assert_eq!("7".parse(), Ok(At::State(When::After(7))));
        assert_eq!(" end".parse(), Ok(At::State(When::End)));
        assert_eq!("step:2".parse(), Ok(At::Step(2, None)));
        assert_eq!("zero_grad:300".parse(), Ok(At::Step(300, Some(Phase::ZeroGrad))));
        assert!("sideways:2".parse::<At>().unwrap_err().contains("use one of step, forward, backward"));
        assert!("backward:0".parse::<At>().unwrap_err().contains("from 1, as backward:2"));
        assert!("end..9".parse::<At>().unwrap_err().contains("begins with an event index"));
        assert_eq!(when("the end"), Err("expected an event index, or `end`".to_owned()));
        assert!("9..3".parse::<At>().unwrap_err().contains("the range is empty"));
        assert!(gpu("nothing").unwrap_err().starts_with("unknown GPU; use one of "));
    }
}
