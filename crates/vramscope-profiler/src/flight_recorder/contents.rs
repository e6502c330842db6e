//! The contents of a bundle.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use vramscope_allocator::MemoryPool;
use vramscope_analysis::{Frames, Options, Summary};
use vramscope_report::{Advice, Answers, ROWS, TextOptions, report, write_json, write_json_line};
use vramscope_trace::Notices;
use vramscope_trace::formats::{self, Compression, Format, Recording};

use super::FlightRecorderOptions;
use crate::source::ProcessMemory;
use crate::tracker::LogFormat;

pub(super) const SNAPSHOT: &str = "snapshot.pickle";

/// The contents of the bundle of a program without a pool.
#[derive(Debug, Default)]
pub struct Bundle {
    /// The contents of `metadata.json`.
    pub metadata: BundleMetadata,
    /// The rows of `events.json`, oldest first.
    pub events: Vec<BundleEvent>,
    /// The program, for `environment.json`.
    pub program: ProgramFacts,
    /// A recording as a pickle: PyTorch's snapshot.
    pub snapshot: Option<Vec<u8>>,
}

/// The contents of `metadata.json`: gpumemprof's keys, as far as they apply.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BundleMetadata {
    /// The text in the error that indicates an out of memory; for a bundle on demand, the caller's reason.
    pub reason: String,
    /// The name of the exception's class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception_type: Option<String>,
    /// The module of the exception's class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exception_module: Option<String>,
    /// The error message; `None` for a bundle on demand.
    pub exception_message: Option<String>,
    /// The name of the innermost context.
    pub context: Option<String>,
    /// The name of the allocator's platform, such as `cuda`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The number of rows in `events.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub captured_event_count: Option<usize>,
    /// The metadata of all open contexts. For equal names, the innermost context's value applies.
    pub custom_metadata: BTreeMap<String, Value>,
}

/// A row of `events.json`: the columns of a tracker's log that have a value, in order.
#[derive(Debug)]
pub struct BundleEvent(pub Vec<(String, Value)>);

impl Serialize for BundleEvent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A program's own description of itself, for `environment.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgramFacts {
    /// The program's arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The system's name and version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// The versions of the interpreter and of libraries, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
}

/// The files of a bundle, generated before the first write; an error replaces a file that could not be generated.
pub(super) struct Contents {
    /// The small files by name, the most important first.
    pub(super) texts: Vec<(&'static str, io::Result<Vec<u8>>)>,
    /// `None` if nothing was recorded.
    pub(super) snapshot: Option<io::Result<Snapshot>>,
}

/// The contents of `snapshot.pickle`.
pub(super) enum Snapshot {
    /// A pool and its last events, and their size as a pickle, in bytes.
    Pool(Recording, u64),
    /// A pickle.
    Pickle(Vec<u8>),
}

impl Snapshot {
    /// The size of the file in bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Pool(_, bytes) => *bytes,
            Self::Pickle(pickle) => pickle.len() as u64,
        }
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Pool(recording, _) => formats::write_pickle(&recording.trace, out),
            Self::Pickle(pickle) => out.write_all(pickle),
        }
    }
}

impl Contents {
    /// The contents of a pool's bundle.
    pub(super) fn of_pool(
        pool: &MemoryPool,
        options: &FlightRecorderOptions,
        metadata: &BundleMetadata,
    ) -> Self {
        let most = options.max_total_bytes;
        let recording = pool.snapshot().map_err(io::Error::other).map(|trace| Recording {
            trace,
            format: Format::Pickle { protocol: 4 },
            compression: Compression::None,
            notices: Notices::default(),
            log: None,
        });
        let mut texts = facts(metadata, &Environment::of(devices(pool), &ProgramFacts::default()), most);
        texts.push(("report.txt", report_of(recording.as_ref(), most)));
        if let Some(tracker) = &options.tracker {
            texts.push((EVENTS, list(most, |out| tracker.export_events(LogFormat::JsonLines, out))));
        }
        let snapshot = recording.and_then(|recording| {
            let mut out = Bounded { out: io::sink(), room: most };
            formats::write_pickle(&recording.trace, &mut out)?;
            Ok(Snapshot::Pool(recording, most - out.room))
        });
        Self { texts, snapshot: Some(snapshot) }
    }

    /// The contents of the bundle of a program without a pool, with at most `most` bytes in a file.
    pub(super) fn of_program(bundle: Bundle, most: u64) -> Self {
        let Bundle { metadata, events, program, snapshot } = bundle;
        let mut texts = facts(&metadata, &Environment::of(Vec::new(), &program), most);
        if let Some(pickle) = &snapshot {
            let recording = formats::read(pickle.as_slice()).map_err(io::Error::other);
            texts.push(("report.txt", report_of(recording.as_ref(), most)));
        }
        texts.push((
            EVENTS,
            list(most, |out| events.iter().try_for_each(|row| write_json_line(&mut *out, row))),
        ));
        Self { texts, snapshot: snapshot.map(|pickle| Ok(Snapshot::Pickle(pickle))) }
    }
}

const EVENTS: &str = "events.json";

/// Generates a file of at most `most` bytes.
fn text(most: u64, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut out = Bounded { out: Vec::new(), room: most };
    write(&mut out).map(|()| out.out)
}

/// Generates a JSON list of at most `most` bytes from JSON Lines.
fn list(most: u64, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let lines = text(most, write)?;
    text(most, |out| {
        let mut before = "[\n";
        for line in lines.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
            out.write_all(before.as_bytes())?;
            out.write_all(line)?;
            before = ",\n";
        }
        out.write_all(if lines.is_empty() { b"[]\n" } else { b"\n]\n" })
    })
}

/// The files about the error and the process.
fn facts(
    metadata: &BundleMetadata,
    environment: &Environment<'_>,
    most: u64,
) -> Vec<(&'static str, io::Result<Vec<u8>>)> {
    vec![
        ("metadata.json", text(most, |out| write_json(out, metadata))),
        ("environment.json", text(most, |out| write_json(out, environment))),
    ]
}

fn report_of(recording: Result<&Recording, &io::Error>, most: u64) -> io::Result<Vec<u8>> {
    match recording {
        Ok(recording) => text(most, |out| write_report(recording, out)),
        Err(e) => Err(io::Error::other(e.to_string())),
    }
}

/// The report's advice names options of the command, because the snapshot is in the same folder as the report.
const ADVICE: Advice = Advice { any_moment: "`--at EVENT`", replay: "`vramscope replay`", ..Advice::LIBRARY };

/// Writes the text of `vramscope report` for a snapshot.
fn write_report(recording: &Recording, out: &mut dyn Write) -> io::Result<()> {
    let trace = &recording.trace;
    let frames = Frames::of(trace);
    let devices = (0..trace.devices.len()).map(|d| Summary::of(trace, d, &frames, &Options::default()));
    let answers = Answers {
        file: SNAPSHOT,
        recording,
        frames: &frames,
        devices: devices.collect(),
        by: None,
        at: None,
        top: None,
        advice: ADVICE,
    };
    let text = report(&answers, TextOptions { width: 120, top: ROWS, full_stacks: false });
    // A file has no colors.
    write!(out, "{}", anstream::adapter::strip_str(&text))
}

impl<'p> Environment<'p> {
    fn of(devices: Vec<DeviceFacts>, own: &'p ProgramFacts) -> Self {
        let program = std::env::current_exe().ok().map(|path| path.display().to_string());
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok().filter(|name| is_kept(name))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        Self {
            vramscope: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            program,
            cwd: std::env::current_dir().ok().map(|path| path.display().to_string()),
            own,
            system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            cpu_bytes: ProcessMemory::of_this().and_then(|process| process.resident()).ok(),
            devices,
            variables: variables.collect(),
        }
    }
}

fn devices(pool: &MemoryPool) -> Vec<DeviceFacts> {
    let facts = pool.devices().iter().map(|device| {
        let info = device.memory_info().ok();
        DeviceFacts {
            device: device.device_id(),
            used_bytes: info.map(|info| info.used()),
            total_bytes: info.map(|info| info.total),
        }
    });
    facts.collect()
}

pub(super) fn too_large() -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, "the bundle would be larger than max_total_bytes")
}

/// A writer that fails after `room` bytes.
pub(super) struct Bounded<W> {
    pub(super) out: W,
    pub(super) room: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() as u64 > self.room {
            return Err(too_large());
        }
        let written = self.out.write(bytes)?;
        self.room -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[derive(Serialize)]
struct Environment<'p> {
    vramscope: &'static str,
    pid: u32,
    program: Option<String>,
    cwd: Option<String>,
    #[serde(flatten)]
    own: &'p ProgramFacts,
    system: &'static str,
    architecture: &'static str,
    cpu_bytes: Option<u64>,
    devices: Vec<DeviceFacts>,
    variables: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct DeviceFacts {
    device: i32,
    used_bytes: Option<u64>,
    total_bytes: Option<u64>,
}

/// How the names of environment variables begin that change how memory is allocated, or in which launchers store facts about a process.
const PREFIXES: [&str; 11] = [
    "CUDA_",
    "CUPY_",
    "HIP_",
    "NCCL_",
    "NVIDIA_",
    "OMPI_COMM_",
    "PYTORCH_",
    "ROCR_",
    "SLURM_",
    "TORCH_",
    "TORCHELASTIC_",
];

/// The names of further such variables.
const NAMES: [&str; 8] = [
    "GROUP_RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
    "RANK",
    "WORLD_SIZE",
];

/// Whether a bundle contains the environment variable of this name. Others may be secret, and so is Slurm's token.
fn is_kept(name: &str) -> bool {
    let is_known = NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_known && name != "SLURM_JWT"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_launchers_and_allocators_are_kept() {
        for name in ["RANK", "PYTORCH_CUDA_ALLOC_CONF", "TORCHELASTIC_RUN_ID", "SLURM_PROCID", "NCCL_DEBUG"] {
            assert!(is_kept(name), "{name}");
        }
        for name in ["SLURM_JWT", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "RANKS", "PATH"] {
            assert!(!is_kept(name), "{name}");
        }
    }

    #[test]
    fn json_lines_become_a_json_list() {
        let of = |lines: &str| list(100, |out| out.write_all(lines.as_bytes())).unwrap();
        assert_eq!(of(""), b"[]\n");
        assert_eq!(of("1\n2\n"), b"[\n1,\n2\n]\n");
        assert!(list(3, |out| out.write_all(b"1\n")).is_err());
    }
}
