//! The request of a run on phantom GPUs. With the feature `command`, it is the options of the command.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use serde::de::{self, Deserialize as _, Deserializer};
use vramscope_basics::gpus::{self, GPUS, Gpu, NEWEST_CUDA};
use vramscope_session::values;

/// The GPUs of a run, at most.
const MOST_GPUS: u8 = 16;

/// The phantom GPUs, and how programs run on them.
#[derive(Debug, Clone, serde::Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[serde(default)]
pub struct GpuRequest {
    /// The GPU, by its name in `vramscope phantom list`
    #[cfg_attr(feature = "command", arg(long, value_name = "NAME", value_parser = phantom_gpu, default_value = "h100-80gb"))]
    #[serde(deserialize_with = "gpu_in_json")]
    pub gpu: &'static Gpu,
    /// Total memory of the GPU, as 24GiB [default: from the GPU's profile]
    #[cfg_attr(feature = "command", arg(long, value_name = "SIZE", value_parser = values::size))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub memory: Option<u64>,
    /// Device memory of a CUDA context [default: from the GPU's profile]
    #[cfg_attr(feature = "command", arg(long, value_name = "SIZE", value_parser = values::size))]
    #[serde(deserialize_with = "values::in_json_size")]
    pub context: Option<u64>,
    /// Number of GPUs
    #[cfg_attr(feature = "command", arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=i64::from(MOST_GPUS))))]
    pub gpus: u8,
    /// Stop each run of the program after this time with SIGTERM; the steps until then are enough
    #[cfg_attr(feature = "command", arg(long, value_name = "SECONDS", value_parser = values::seconds))]
    #[serde(deserialize_with = "values::in_json_seconds")]
    pub steps_timeout: Option<Duration>,
    /// Values that the program reads from GPU memory without copied data: zeros, or random numbers from a seed, as random=7
    #[cfg_attr(feature = "command", arg(long, value_name = "zeros|random[=SEED]", value_parser = values_of, default_value = "zeros"))]
    pub values: Values,
    /// Another cuDNN that tells the sizes of its workspaces, for programs whose own is older than 9.8: its libcudnn_graph.so.9, or the folder of that file
    #[cfg_attr(feature = "command", arg(long, value_name = "PATH"))]
    pub cudnn: Option<PathBuf>,
    /// Compute small known values on the host, and let choices by unknown values select all places in turn, the last place and no
    /// element of a mask, or one place and all elements [default: in further runs, if the program reads computed values]
    #[cfg_attr(feature = "command", arg(long, value_name = "balanced|nothing|one", value_parser = routing_of))]
    pub routing: Option<Routing>,
    /// When the GPU has done its work: at once, or only when the program waits for it [default: at once, and in a further run late, if
    /// PyTorch's allocator keeps freed memory for other streams]
    #[cfg_attr(feature = "command", arg(long, value_name = "instant|late", value_parser = speed_of))]
    pub gpu_speed: Option<GpuSpeed>,
    /// Whether choices by measured time take the other extreme: the last candidate instead of the first, and the plan of cuDNN with the
    /// largest workspace.
    #[cfg_attr(feature = "command", arg(skip))]
    #[serde(skip)]
    pub takes_last: bool,
}

impl Default for GpuRequest {
    fn default() -> Self {
        Self {
            gpu: gpus::find("h100-80gb").unwrap_or(&GPUS[0]),
            memory: None,
            context: None,
            gpus: 1,
            steps_timeout: None,
            values: Values::Zeros,
            cudnn: None,
            routing: None,
            gpu_speed: None,
            takes_last: false,
        }
    }
}

impl GpuRequest {
    /// Total memory of the GPU: from the request, or from the profile.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.memory.unwrap_or(self.gpu.total_bytes)
    }

    /// Memory of a context: from the request, or from the profile.
    pub(crate) fn context_bytes(&self, gpu: &Gpu) -> RangeInclusive<u64> {
        self.context.map_or_else(|| gpu.context_bytes(NEWEST_CUDA), |bytes| bytes..=bytes)
    }

    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if !(1..=MOST_GPUS).contains(&self.gpus) {
            bail!("{} GPUs: a run has 1 to {MOST_GPUS}", self.gpus);
        }
        if let Some(path) = self.cudnn.as_ref().filter(|path| !path.exists()) {
            bail!("--cudnn: {} does not exist", path.display());
        }
        Ok(())
    }
}

/// A run of a program on phantom GPUs.
#[derive(Debug, Clone, Default, serde::Deserialize)]
#[cfg_attr(feature = "command", derive(clap::Args))]
#[serde(default)]
pub struct RunRequest {
    /// The GPUs.
    #[cfg_attr(feature = "command", command(flatten))]
    #[serde(flatten)]
    pub on: GpuRequest,
    /// Run the program as one rank of N, given by --rank; the other ranks are simulated
    #[cfg_attr(feature = "command", arg(long, value_name = "N", requires = "rank", value_parser = clap::value_parser!(u32).range(1..)))]
    pub world_size: Option<u32>,
    /// The rank to run, counted from 0
    #[cfg_attr(feature = "command", arg(long, value_name = "R", requires = "world_size"))]
    pub rank: Option<u32>,
    /// Write the recording to this file, as a pickle, or as a log if its name ends in .vramscope; of several processes, each writes a separate file with `-rank3` or a number in its name. %t in the name stands for the time
    #[cfg_attr(feature = "command", arg(long, value_name = "OUT"))]
    pub record: Option<PathBuf>,
    /// Replace an existing recording
    #[cfg_attr(feature = "command", arg(long))]
    pub force: bool,
    /// Record which allocations kernels, libraries and copies access, in a log [default: run.vramscope; run-2.vramscope if it exists]
    #[cfg_attr(feature = "command", arg(long))]
    pub accesses: bool,
    /// Number of events to keep for each GPU; the newest are kept. If events are dropped, the verdict has only the GPU's counts [default: all]
    #[cfg_attr(feature = "command", arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..)))]
    pub max_entries: Option<u64>,
    /// Settings of PyTorch's allocator, in the syntax of PYTORCH_CUDA_ALLOC_CONF
    #[cfg_attr(feature = "command", arg(long, value_name = "CONF"))]
    pub conf: Option<String>,
    /// Do not store copies to a GPU above 64 KiB: they read as zeros and need no host memory
    #[cfg_attr(feature = "command", arg(long))]
    pub no_contents: bool,
    /// Also compare all GPUs; the exit code is for the GPU of --gpu
    #[cfg_attr(feature = "command", arg(long))]
    pub sweep_gpus: bool,
    /// Run the program once: neither without a memory limit after it ran out of memory, nor on other GPUs
    #[cfg_attr(feature = "command", arg(long, conflicts_with = "sweep_gpus"))]
    pub once: bool,
    /// Whether the program's standard output goes to standard error.
    #[cfg_attr(feature = "command", arg(skip))]
    pub stdout_to_stderr: bool,
    /// The program and its arguments
    #[cfg_attr(feature = "command", arg(last = true, required = true, value_name = "CMD"))]
    #[serde(skip)]
    pub command: Vec<OsString>,
}

impl RunRequest {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        self.on.check()?;
        match (self.world_size, self.rank) {
            (Some(world_size), Some(rank)) if rank >= world_size => {
                bail!("there is no rank {rank} among {world_size}: ranks count from 0")
            }
            (Some(_), None) | (None, Some(_)) => bail!("a rank and the number of ranks belong together"),
            _ if self.once && self.sweep_gpus => bail!("other GPUs need other runs than one"),
            _ => Ok(()),
        }
    }
}

/// Values that a program reads from memory that no kernel wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub enum Values {
    /// Zeros.
    Zeros,
    /// Random numbers from a seed.
    Random(u64),
}

impl TryFrom<String> for Values {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        values_of(&text)
    }
}

/// The choices by values that no kernel computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// All places in turn, and half of the elements of a mask.
    Balanced,
    /// The last place, and no element of a mask.
    Nothing,
    /// The first place, and all elements of a mask.
    One,
}

impl Routing {
    /// The name, in options and in the variable of the follower.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Balanced => "balanced",
            Self::Nothing => "nothing",
            Self::One => "one",
        }
    }
}

/// When a GPU has done its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuSpeed {
    /// At once.
    Instant,
    /// When the program waits for it, or 1,024 launches are queued.
    Late,
}

#[cfg(feature = "command")]
fn speed_of(text: &str) -> Result<GpuSpeed, String> {
    match text {
        "instant" => Ok(GpuSpeed::Instant),
        "late" => Ok(GpuSpeed::Late),
        _ => Err("expected instant or late".to_owned()),
    }
}

#[cfg(feature = "command")]
fn routing_of(text: &str) -> Result<Routing, String> {
    let all = [Routing::Balanced, Routing::Nothing, Routing::One];
    all.into_iter()
        .find(|routing| routing.name() == text)
        .ok_or_else(|| "expected balanced, nothing or one".to_owned())
}

fn values_of(text: &str) -> Result<Values, String> {
    match text.split_once('=') {
        None if text == "zeros" => Ok(Values::Zeros),
        None if text == "random" => Ok(Values::Random(0)),
        Some(("random", seed)) => {
            seed.parse().map(Values::Random).map_err(|_| format!("`{seed}` is not a seed, as 7"))
        }
        _ => Err("expected zeros, random or random=SEED".to_owned()),
    }
}

/// The profile of a GPU, for phantom GPUs.
#[cfg(feature = "command")]
fn phantom_gpu(name: &str) -> Result<&'static Gpu, String> {
    use vramscope_session::values::command::in_lines;
    values::gpu(name).map_err(|known| format!("{}; for other GPUs, also give --memory", in_lines(&known)))
}

fn gpu_in_json<'de, D: Deserializer<'de>>(json: D) -> Result<&'static Gpu, D::Error> {
    values::gpu(&String::deserialize(json)?).map_err(de::Error::custom)
}
