//! The recordings of a run's processes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use serde::Deserialize;
use vramscope_basics::gpus::Gpu;
use vramscope_files::{Dir, Target, with_first, with_suffix};
use vramscope_phantom::cubin_runs;
use vramscope_recorder::{IMPORTS, free};

use super::changes::{CHANGES, Facts};

/// A file that Python imports at startup; it turns on PyTorch's history.
const RECORDER: &str = include_str!("sitecustomize.py");

/// Shares the history with programs that also use it.
const HISTORY: &str = include_str!("history.py");

/// Support for programs that wait for values or check them.
const VALUES: &str = include_str!("values.py");

/// Computes small known values on the host.
const FOLLOW: &str = include_str!("follow.py");

/// Makes choices by measured time.
const CHOICES: &str = include_str!("choices.py");

/// Support for programs of several processes; the recorder imports it.
const RANKS: &str = include_str!("ranks.py");

/// A process with a recording.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) file: PathBuf,
    pub(crate) facts: ProcessFacts,
}

impl Recorded {
    /// Id of the process, before the recording is moved to the user's place.
    pub(crate) fn process(&self) -> Option<u32> {
        self.file.file_stem()?.to_str()?.parse().ok()
    }

    /// The machine's device number for a device number of the process.
    pub(crate) fn gpu(&self, device: i64) -> i64 {
        let of = usize::try_from(device).ok().and_then(|device| self.facts.devices.get(device));
        of.map_or(device, |of| of.gpu)
    }
}

/// The facts that the recorder writes about a process.
#[derive(Debug, Deserialize)]
pub(crate) struct ProcessFacts {
    /// The PyTorch release.
    pub(crate) torch: String,
    /// The process's rank, if it was started as one of several.
    pub(crate) rank: Option<u64>,
    /// The architectures of PyTorch's kernels, as `sm_90` or, for PTX, `compute_90`.
    architectures: Vec<String>,
    /// PyTorch's counters, by device.
    pub(crate) devices: Vec<Counters>,
    /// Facts about its model and the changes of `vramscope fit`.
    #[serde(default)]
    pub(crate) changes: Option<Facts>,
    /// What the follower of values found.
    #[serde(default)]
    pub(crate) values: Option<FollowedValues>,
    /// The choices by measured time.
    #[serde(default)]
    pub(crate) choices: Vec<MadeChoice>,
    /// Whether the process wrote this at its end; else it was written at the first out-of-memory failure, and more followed.
    #[serde(default = "yes")]
    pub(crate) is_complete: bool,
    /// Whether a request for memory failed until then.
    #[serde(default)]
    pub(crate) ran_out: bool,
    /// Whether the history reached `--max-entries`, so that older events may be missing.
    #[serde(default)]
    pub(crate) may_have_dropped: bool,
}

fn yes() -> bool {
    true
}

impl ProcessFacts {
    /// Whether PyTorch's kernels run on a GPU: machine code runs on later GPUs of its major version, PTX on all later ones.
    fn has_kernels(&self, gpu: &Gpu) -> bool {
        let runs = |architecture: &String| {
            let (kind, number) = architecture.split_once('_')?;
            let made_for: u32 = number.trim_end_matches(char::is_alphabetic).parse().ok()?;
            let is_ptx = kind == "compute";
            Some(cubin_runs(made_for, gpu.capability) || (is_ptx && made_for <= gpu.capability))
        };
        // Unknown architectures count as running.
        self.architectures.is_empty() || self.architectures.iter().any(|name| runs(name).unwrap_or(true))
    }
}

/// A choice by measured time, such as the configuration of a kernel.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct MadeChoice {
    /// The line of the program.
    pub(crate) line: Option<String>,
    /// The candidates, as `kernels with max-autotune`.
    pub(crate) kind: String,
}

/// The reads of values that a process did not know, while its values were followed.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct FollowedValues {
    /// Reads of values that kernels would have computed.
    pub(crate) unknown: Vec<FollowedRead>,
    /// Reads of values that were assumed: choices among unknown values, and random numbers.
    pub(crate) assumed: Vec<FollowedRead>,
    /// Operators whose results have sizes that follow from unknown or assumed values, and single assumed values.
    pub(crate) selections: u64,
}

/// The reads of one line.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FollowedRead {
    /// The line that read.
    pub(crate) line: Option<String>,
    /// The line that computed or chose the values.
    pub(crate) computed_at: Option<String>,
    /// The operator there, as `aten::topk`.
    pub(crate) operator: Option<String>,
    pub(crate) reads: u64,
}

impl FollowedRead {
    /// Reads by a line of values that were not followed.
    pub(crate) fn at(line: String, reads: u64) -> Self {
        Self { line: Some(line), computed_at: None, operator: None, reads }
    }

    /// The read in words; `None` without a line.
    pub(crate) fn text(&self) -> Option<String> {
        let line = self.line.as_ref()?;
        let operator = self.operator.as_ref().map_or_else(String::new, |name| format!(" with {name}"));
        Some(match (&self.computed_at, &self.operator) {
            (Some(at), Some(name)) if at == line => format!("{line} reads the result of {name}"),
            (Some(at), _) => format!("{line} reads what {at} computed{operator}"),
            (None, _) => format!("{line} reads computed values"),
        })
    }
}

/// PyTorch's counters of a device, for the whole process.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Counters {
    /// The device's number in the machine, which may differ from the program's number because of CUDA_VISIBLE_DEVICES.
    pub(crate) gpu: i64,
    pub(crate) peak_allocated_bytes: u64,
    pub(crate) peak_reserved_bytes: u64,
    pub(crate) num_alloc_retries: u64,
    pub(crate) num_ooms: u64,
}

/// Whether the kernels of all processes run on a GPU.
pub(crate) fn has_kernels(recordings: &[Recorded], gpu: &Gpu) -> bool {
    recordings.iter().all(|recorded| recorded.facts.has_kernels(gpu))
}

/// Writes the recorder into `folder`, and returns the environment variables for Python programs. The recorder keeps the newest
/// `max_entries` events, or all.
pub(crate) fn prepare(
    folder: &Path,
    max_entries: Option<u64>,
) -> anyhow::Result<Vec<(&'static str, OsString)>> {
    let failed = "the phantom's folder";
    let all = Dir::open_no_follow(folder).context(failed)?;
    let python = all.new_subdir("python".as_ref(), 0o700).context(failed)?;
    all.new_subdir("recordings".as_ref(), 0o700).context(failed)?;
    for (name, text) in [
        IMPORTS,
        ("sitecustomize.py", RECORDER),
        ("vramscope_history.py", HISTORY),
        ("vramscope_values.py", VALUES),
        ("vramscope_follow.py", FOLLOW),
        ("vramscope_choices.py", CHOICES),
        ("vramscope_ranks.py", RANKS),
        CHANGES,
    ] {
        python.write_new(name.as_ref(), text.as_bytes()).context(failed)?;
    }
    let [python, recordings] = ["python", "recordings"].map(|name| folder.join(name));
    let mut environment =
        vec![("PYTHONPATH", with_first(&python, "PYTHONPATH")), ("VRAMSCOPE_RECORDINGS", recordings.into())];
    // Without a limit the variable is empty, so that one of the caller's environment has no effect.
    let entries = max_entries.map_or_else(String::new, |entries| entries.to_string());
    environment.push(("VRAMSCOPE_RECORDINGS_ENTRIES", entries.into()));
    Ok(environment)
}

/// The recordings in `folder`, sorted by rank and then by start order of the processes.
pub(crate) fn collect(folder: &Path) -> anyhow::Result<Vec<Recorded>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder.join("recordings")).context("the phantom's folder")? {
        let file = entry?.path();
        let facts = file.with_extension("json");
        if file.extension() != Some(OsStr::new("pickle")) || !facts.exists() {
            continue;
        }
        let facts =
            serde_json::from_slice(&fs::read(&facts)?).with_context(|| facts.display().to_string())?;
        let number = file.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok()).unwrap_or(0);
        all.push((number, Recorded { file, facts }));
    }
    all.sort_by_key(|(number, recorded)| (recorded.facts.rank, *number));
    Ok(all.into_iter().map(|(_, recorded)| recorded).collect())
}

/// Copies the recordings to the user's place: one recording to `out`, several next to it, named by rank or number. A file that exists is
/// kept unless `replaces` is set; the recording then gets a further number.
pub(crate) fn keep(recordings: &mut [Recorded], out: &Path, replaces: bool) -> anyhow::Result<()> {
    let several = recordings.len() > 1;
    for (i, recorded) in recordings.iter_mut().enumerate() {
        let name = match recorded.facts.rank {
            _ if !several => out.to_owned(),
            Some(rank) => with_suffix(out, &format!("-rank{rank}")),
            None => with_suffix(out, &format!("-{}", i + 1)),
        };
        let name = if replaces { name } else { free(&name) };
        let mut from = fs::File::open(&recorded.file).with_context(|| recorded.file.display().to_string())?;
        let kept = Target::open(&name).and_then(|kept| {
            io::copy(&mut from, &mut kept.file())?;
            kept.finish()
        });
        let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        kept.map_err(|error| match error.kind() {
            io::ErrorKind::IsADirectory => anyhow!("is a directory; name a file in it"),
            io::ErrorKind::NotFound => anyhow!("the directory {} does not exist", folder.display()),
            _ => error.into(),
        })
        .with_context(|| name.display().to_string())?;
        recorded.file = name;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use vramscope_basics::gpus::GPUS;

    use super::*;

    #[test]
    fn kernels_run_on_cards_of_their_major_version_and_ptx_on_later_ones() {
        let runs_on = |architectures: &[&str], name: &str| {
            let architectures = architectures.iter().map(|&name| name.to_owned()).collect();
            let facts = ProcessFacts {
                torch: String::new(),
                rank: None,
                architectures,
                devices: Vec::new(),
                is_complete: true,
                ran_out: false,
                may_have_dropped: false,
                changes: None,
                values: None,
                choices: Vec::new(),
            };
            facts.has_kernels(GPUS.iter().find(|gpu| gpu.name == name).unwrap())
        };
        assert!(runs_on(&["sm_80", "sm_90a"], "rtx4090") && runs_on(&["sm_80", "sm_90a"], "h100-80gb"));
        assert!(!runs_on(&["sm_80", "sm_90"], "v100-16gb") && !runs_on(&["sm_80", "sm_90"], "rtx5090"));
        assert!(runs_on(&["sm_80", "compute_90"], "rtx5090") && !runs_on(&["compute_90"], "rtx4090"));
        assert!(!runs_on(&["sm_80", "sm_86"], "orin-nano") && runs_on(&["sm_87"], "orin-nano"));
        assert!(runs_on(&[], "v100-16gb"));
    }
}
