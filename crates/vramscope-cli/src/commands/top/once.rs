//! One sample as JSON.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Serialize;
use vramscope::profiler::live::{Connection, Hello, LiveResponse, discover_except};
use vramscope::profiler::{NvmlDevice, SourceError, nvml_devices};

use super::HOLDERS;

/// Limit on the time for resolving stacks.
const PATIENCE: Duration = Duration::from_secs(30);

/// The output of `vramscope top --json`; `docs/json.md` describes the keys.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Top"))]
pub(crate) struct TopJson {
    /// The GPUs according to NVML; null if it cannot be asked.
    gpus: Option<Vec<NvmlDevice>>,
    /// The reason why `gpus` is null.
    gpus_error: Option<String>,
    programs: Vec<ProgramJson>,
}

/// A program, and its sample unless that failed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "TopProgram"))]
struct ProgramJson {
    socket: String,
    #[serde(flatten)]
    hello: Hello,
    #[serde(flatten)]
    look: Option<LiveResponse>,
    /// The reason why the sample failed.
    error: Option<String>,
}

/// Samples all programs and GPUs, after the given interval.
pub(super) fn look(
    mut programs: Vec<(PathBuf, Connection)>,
    interval: Option<Duration>,
) -> anyhow::Result<TopJson> {
    let named: BTreeSet<PathBuf> = programs.iter().map(|(path, _)| path.clone()).collect();
    programs.extend(discover_except(&named)?);
    if let Some(interval) = interval {
        std::thread::sleep(interval);
    }
    let programs = programs.into_iter().filter_map(|(path, mut connection)| {
        let (look, error) = match look_at(&mut connection) {
            Ok(look) => (Some(look), None),
            // The program ended meanwhile.
            Err(SourceError::Gone(_)) => return None,
            Err(e) => (None, Some(e.to_string())),
        };
        Some(ProgramJson {
            socket: path.display().to_string(),
            hello: connection.hello().clone(),
            look,
            error,
        })
    });
    let (programs, gpus) = (programs.collect(), nvml_devices());
    let gpus_error = gpus.as_ref().err().map(ToString::to_string);
    Ok(TopJson { gpus: gpus.ok(), gpus_error, programs })
}

/// Requests one sample, and waits until the stacks of its holders are resolved.
fn look_at(connection: &mut Connection) -> Result<LiveResponse, SourceError> {
    let mut look = connection.look(HOLDERS)?;
    let until = Instant::now() + PATIENCE;
    while look.holders.iter().flatten().any(|holder| holder.stack.is_none()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
        match connection.look(HOLDERS) {
            Ok(later) => look.holders = later.holders,
            // Keeps the last answer.
            Err(_) => break,
        }
    }
    Ok(look)
}
