//! The request of a search. With the feature `command`, it is the options of the command.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::bail;
use serde::de::{self, Deserialize as _, Deserializer};
use vramscope_session::values;

use super::change::KEYS;
use crate::phantom::GpuRequest;

/// A search for changes with which a program fits.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[serde(default)]
pub struct FitRequest {
    /// The GPU.
    #[cfg_attr(feature = "command", command(flatten))]
    #[serde(flatten)]
    pub on: GpuRequest,
    /// Device memory that the program may use, with its CUDA context, as 22GiB [default: all of the GPU's]
    #[cfg_attr(feature = "command", arg(long, value_name = "SIZE", value_parser = values::size))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub budget: Option<u64>,
    /// Find the largest number that fits for {NAME} in the program's arguments; HIGH is the wanted number
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME=LOW..HIGH"))]
    pub vary: Option<Vary>,
    /// Set an environment variable of the program; the value may contain {NAME}
    #[cfg_attr(feature = "command", arg(long, value_name = "KEY=VALUE", value_parser = variable))]
    #[serde(deserialize_with = "variables_in_json")]
    pub env: Vec<(String, String)>,
    /// Measure only these changes and their combinations, as --only activation_checkpointing,allocator_conf
    #[cfg_attr(feature = "command", arg(long, value_name = "CHANGE", value_delimiter = ',', value_parser = KEYS))]
    pub only: Vec<String>,
    /// Also measure fully sharded data parallel over N cards, with the program's batch on each
    #[cfg_attr(feature = "command", arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..)))]
    pub cards: Option<u32>,
    /// Write the recording of each run into this directory, named by the change; a name that exists gets a number
    #[cfg_attr(feature = "command", arg(long, value_name = "DIR"))]
    pub recordings: Option<PathBuf>,
    /// Replace existing recordings
    #[cfg_attr(feature = "command", arg(long))]
    pub force: bool,
    /// Runs at the same time [default: one for each processor, as far as the host's memory suffices; 1 if the program has several processes]
    #[cfg_attr(feature = "command", arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64)))]
    pub jobs: Option<u8>,
    /// The program and its arguments
    #[cfg_attr(feature = "command", arg(last = true, required = true, value_name = "CMD"))]
    #[serde(skip)]
    pub command: Vec<OsString>,
}

impl FitRequest {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.on.check()?;
        if let Some(unknown) = self.only.iter().find(|key| !KEYS.contains(&key.as_str())) {
            bail!("there is no change {unknown:?}; use {}", KEYS.join(", "));
        }
        if self.cards.is_some_and(|cards| cards < 2) {
            bail!("a model is sharded over 2 cards or more");
        }
        Ok(())
    }
}

/// A number in the program's arguments that is varied.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Vary {
    /// The name, which is in braces in the program's arguments.
    pub name: String,
    /// The smallest number to measure.
    pub low: u64,
    /// The wanted number.
    pub high: u64,
}

impl TryFrom<String> for Vary {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for Vary {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("`{text}` is not NAME=LOW..HIGH, as batch=1..256");
        let (name, range) = text.split_once('=').ok_or_else(expected)?;
        let (low, high) = range.split_once("..").ok_or_else(expected)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| expected());
        let (low, high) = (number(low)?, number(high.strip_prefix('=').unwrap_or(high))?);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
        if !is_name {
            return Err(expected());
        }
        if low > high {
            return Err(format!("{low} is above {high}: give the smaller number first"));
        }
        Ok(Self { name: name.to_owned(), low, high })
    }
}

/// Parses an environment variable. The variables that phantom GPUs set are refused.
fn variable(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not KEY=VALUE"))?;
    if name.is_empty() {
        return Err(format!("`{text}` is not KEY=VALUE"));
    }
    if ["PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH"].contains(&name) {
        return Err(format!(
            "the phantom GPU sets {name}: set it before the command, as {name}=... vramscope fit"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn variables_in_json<'de, D: Deserializer<'de>>(json: D) -> Result<Vec<(String, String)>, D::Error> {
    let texts = Vec::<String>::deserialize(json)?;
    texts.iter().map(|text| variable(text)).collect::<Result<_, _>>().map_err(de::Error::custom)
}
