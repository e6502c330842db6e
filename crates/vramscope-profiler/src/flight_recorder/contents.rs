//! The contents of a bundle.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use vramscope_allocator::MemoryPool;
use vramscope_analysis::{Frames, Options, Summary};
use vramscope_report::{Advice, Answers, TextOptions, report, write_json};
use vramscope_trace::Notices;
use vramscope_trace::formats::{self, Compression, Format, Recording};

use super::capture::Metadata;
use super::{FlightRecorderOptions, SNAPSHOT};
use crate::source::ProcessMemory;
use crate::tracker::LogFormat;

/// The files of a bundle, generated before the first write; an error replaces a file that could not be generated.
pub(super) struct Contents {
    /// The small files by name, the most important first.
    pub(super) texts: Vec<(&'static str, io::Result<Vec<u8>>)>,
    /// The pool and its last events, and their size as a pickle, in bytes.
    pub(super) snapshot: io::Result<(Recording, u64)>,
}

impl Contents {
    pub(super) fn of(pool: &MemoryPool, options: &FlightRecorderOptions, metadata: &Metadata) -> Self {
        let most = options.max_total_bytes;
        let text = |write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let mut out = Bounded { out: Vec::new(), room: most };
            write(&mut out).map(|()| out.out)
        };
        let recording = pool.snapshot().map_err(io::Error::other).map(|trace| Recording {
            trace,
            format: Format::Pickle { protocol: 4 },
            compression: Compression::None,
            notices: Notices::default(),
        });
        let mut texts = vec![
            ("metadata.json", text(&|out| write_json(out, metadata))),
            ("environment.json", text(&|out| write_json(out, &Environment::of(pool)))),
            (
                "report.txt",
                match &recording {
                    Ok(recording) => text(&|out| write_report(recording, out)),
                    Err(e) => Err(io::Error::other(e.to_string())),
                },
            ),
        ];
        if let Some(tracker) = &options.tracker {
            texts.push(("log.jsonl", text(&|out| tracker.export_events(LogFormat::JsonLines, out))));
        }
        let snapshot = recording.and_then(|recording| {
            let mut out = Bounded { out: io::sink(), room: most };
            formats::write_pickle(&recording.trace, &mut out)?;
            Ok((recording, most - out.room))
        });
        Self { texts, snapshot }
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
        advice: ADVICE,
    };
    let text = report(&answers, TextOptions { width: 120, top: 10, full_stacks: false });
    // A file has no colors.
    write!(out, "{}", anstream::adapter::strip_str(&text))
}

impl Environment {
    fn of(pool: &MemoryPool) -> Self {
        let program = std::env::current_exe().ok().map(|path| path.display().to_string());
        let devices = pool.devices().iter().map(|device| {
            let info = device.memory_info().ok();
            DeviceFacts {
                device: device.device_id(),
                used_bytes: info.map(|info| info.used()),
                total_bytes: info.map(|info| info.total),
            }
        });
        let value = |name| Some((name, std::env::var_os(name)?.to_string_lossy().into_owned()));
        Self {
            vramscope: env!("CARGO_PKG_VERSION"),
            pid: std::process::id(),
            program,
            system: std::env::consts::OS,
            architecture: std::env::consts::ARCH,
            cpu_bytes: ProcessMemory::of_this().and_then(|process| process.resident()).ok(),
            devices: devices.collect(),
            variables: VARIABLES.into_iter().filter_map(value).collect(),
        }
    }
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
struct Environment {
    vramscope: &'static str,
    pid: u32,
    program: Option<String>,
    system: &'static str,
    architecture: &'static str,
    cpu_bytes: Option<u64>,
    devices: Vec<DeviceFacts>,
    /// The environment variables in [`VARIABLES`] that are set.
    variables: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct DeviceFacts {
    device: i32,
    used_bytes: Option<u64>,
    total_bytes: Option<u64>,
}

/// Environment variables that change how memory is allocated, and those in which launchers store the rank of a process.
const VARIABLES: [&str; 14] = [
    "CUDA_VISIBLE_DEVICES",
    "CUPY_GPU_MEMORY_LIMIT",
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "RANK",
    "SLURM_JOB_ID",
    "SLURM_PROCID",
    "TORCHELASTIC_RUN_ID",
    "WORLD_SIZE",
];
