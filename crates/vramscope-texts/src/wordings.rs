//! The wordings of out-of-memory errors: a row for each program and kind of message. Patterns match text without whitespace, so that wrapped
//! lines match too; `#` stands for a size with its unit, `%` for a whole number.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use crate::error::{CauseKind, TextError};
use crate::lines::regex;

/// A number of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Tried,
    Total,
    Free,
    Process,
    /// Of each other process; their sum.
    Others,
    Allocated,
    Reserved,
    Cached,
    PrivatePools,
    Limit,
    Device,
    Expandable,
    AddressSpace,
}

use CauseKind as C;
use Field as F;

/// A kind of message.
struct Wording {
    program: &'static str,
    platform: &'static str,
    /// Where a message of this kind begins.
    anchor: &'static str,
    /// Its numbers, each from the anchor on.
    fields: &'static [(Field, &'static str)],
    /// What the words themselves say of the cause.
    says: Option<CauseKind>,
}

const fn wording(
    program: &'static str,
    platform: &'static str,
    anchor: &'static str,
    fields: &'static [(Field, &'static str)],
    says: Option<CauseKind>,
) -> Wording {
    Wording { program, platform, anchor, fields, says }
}

/// The numbers of PyTorch's allocators: CUDA of releases 1.0 to 2.15, ROCm, XPU, and the extensions for NPU and MLU.
const TORCH: &[(Field, &str)] = &[
    (F::Tried, r"(?i:triedtoallocate|Requestedsize:)#"),
    (F::Device, r"(?:GPU|NPU|MLU|XPU)%(?:;|hasatotalcapac)"),
    (F::Total, r"(?:#totalcapacity|totalcapaci?tyof#)"),
    (F::Free, r"(?:ofwhich#isfree|;#free)"),
    (F::Process, r"thisprocesshas#memoryinuse"),
    (F::Others, r"Process\d+has#memoryinuse"),
    (F::Allocated, r"(?:Oftheallocatedmemory#|#alreadyallocated)"),
    (F::PrivatePools, r"with#allocatedinprivatepools"),
    (F::Cached, r"(?:#isreservedby\w+butunallocated|#cached\))"),
    (F::Reserved, r"#reservedintotal"),
    (F::Limit, r"#allowed[;.]"),
    (F::Expandable, r"expandable_segmentsisenabled"),
    (F::AddressSpace, r"exceedstheexpandable-segmentreserve"),
];

/// All wordings; a more specific one comes first.
const WORDINGS: &[Wording] = &[
    wording(
        "pytorch",
        "cuda",
        r"Preemptivelyrejectingallocation",
        &[
            (F::Tried, r"requested#but"),
            (F::Reserved, r"total_allocated_memory\(#\)"),
            (F::Limit, r"memorylimit\(#="),
            (F::Total, r"=[\d.]+.of#\)"),
        ],
        Some(C::Limit),
    ),
    wording(
        "pytorch",
        "cuda",
        r"failedwithOOMondevice\d+whiletryingtoallocate.*?NVML_SUCCESS==rINTERNALASSERT",
        &[
            (F::Device, r"ondevice%"),
            (F::Tried, r"allocate%bytes"),
            (F::Free, r"free:%"),
            (F::Total, r"total:%"),
        ],
        None,
    ),
    wording("pytorch", "cuda", r"CUDAoutofmemory\.(?:Tried|Allocationwaspreemptively)", TORCH, None),
    wording("pytorch", "rocm", r"HIPoutofmemory\.Tried", TORCH, None),
    wording("pytorch", "xpu", r"(?:XPU|DPCPP)outofmemory\.Tried", TORCH, None),
    wording("pytorch", "npu", r"NPUoutofmemory\.(?:NPU\w*Allocatort|T)ried", TORCH, None),
    wording("pytorch", "mlu", r"(?:CNRT|MLU)outofmemory\.Tried", TORCH, None),
    wording(
        "pytorch",
        "cuda",
        r"Allocationondevice\d+wouldexceedallowedmemory",
        &[
            (F::Device, r"Allocationondevice%"),
            (F::Allocated, r"Currentlyallocated:#"),
            (F::Tried, r"Requested:#"),
            (F::Total, r"Devicelimit:#"),
            (F::Free, r"Free\(accordingtoCUDA\):#"),
            (F::Limit, r"PyTorchlimit\(setbyuser-suppliedmemoryfraction\):#"),
        ],
        None,
    ),
    wording(
        "pytorch",
        "cuda",
        r"Failedtoreserve\d+bytes.{0,20}ofvirtualaddressspace",
        &[(F::Tried, r"reserve%bytes"), (F::Device, r"ondevice%"), (F::Expandable, r"expandable")],
        Some(C::AddressSpace),
    ),
    wording(
        "pytorch",
        "mps",
        r"MPSbackendoutofmemory",
        &[
            (F::Allocated, r"MPSallocated:#"),
            (F::Others, r"otherallocations:#"),
            (F::Limit, r"maxallowed:#"),
            (F::Tried, r"Triedtoallocate#"),
        ],
        None,
    ),
    wording("pytorch", "mps", r"Invalidbuffersize:", &[(F::Tried, r"size:#")], Some(C::Limit)),
    wording(
        "pytorch",
        "host",
        r"DefaultCPUAllocator:(?:notenoughmemory|can'tallocatememory):youtriedtoallocate",
        &[(F::Tried, r"triedtoallocate#")],
        Some(C::Host),
    ),
    wording(
        "pytorch",
        "host",
        r"inpinmemorythreadfordevice\d+\..*?(?:CUDA|HIP)error:outofmemory",
        &[(F::Device, r"fordevice%")],
        Some(C::Host),
    ),
    wording("pytorch", "host", r"pin_memory=True.*?(?:CUDA|HIP)error:outofmemory", &[], Some(C::Host)),
    wording(
        "pytorch",
        "host",
        r"DataLoaderworker\(pid\(?s?\)?\d+.*?(?:iskilledbysignal|exitedunexpectedly)",
        &[],
        Some(C::Host),
    ),
    wording(
        "llama.cpp",
        "cuda",
        r"CUDAerror:outofmemorycurrentdevice:\d+,infunction",
        &[(F::Device, r"currentdevice:%")],
        None,
    ),
    wording("pytorch", "cuda", r"CUDA(?:driver)?error:outofmemory", &[], None),
    wording("pytorch", "rocm", r"HIP(?:driver)?error:outofmemory", &[], None),
    wording("pytorch", "cuda", r"CUBLAS_STATUS_ALLOC_FAILEDwhencalling", &[], None),
    wording("pytorch", "cuda", r"cuDNNerror:CUDNN_STATUS_ALLOC_FAILED", &[], None),
    wording("pytorch", "xpu", r"UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", &[], None),
    wording(
        "nccl",
        "cuda",
        r"(?:\[\d+\][^\[]{0,60})?NCCLWARNCudafailure(?:\d+)?'outofmemory'",
        &[(F::Device, r"^\[%\]"), (F::Tried, r"(?:callocasync|alloc|allocate)%bytes")],
        None,
    ),
    wording("nccl", "cuda", r"Cudafailure(?:\d+)?'outofmemory'", &[], None),
    wording(
        "jax",
        "tpu",
        r"Ranoutofmemoryinmemoryspacehbm",
        &[(F::Process, r"Used#of"), (F::Total, r"Used[\d.]+[KMGT]?of#")],
        Some(C::Size),
    ),
    wording(
        "jax",
        "cuda",
        r"RESOURCE_EXHAUSTED:(?:Outofmemory|Failedtoallocaterequest)",
        &[
            (F::Tried, r"(?:whiletryingtoallocate#|Outofmemoryallocating#|requestfor[\d.]+\w+\(#\))"),
            (F::Device, r"deviceordinal%"),
        ],
        None,
    ),
    wording(
        "cupy",
        "cuda",
        r"Outofmemoryallocating[\d,]+bytes",
        &[(F::Tried, r"allocating#"), (F::Allocated, r"allocatedsofar:#"), (F::Limit, r"limitsetto:#")],
        None,
    ),
    wording(
        "tensorflow",
        "host",
        r"couldnotallocatepinnedhostmemory|bytesonhost:CUDA_ERROR_OUT_OF_MEMORY",
        &[(F::Tried, r"ofsize:%")],
        Some(C::Host),
    ),
    wording(
        "tensorflow",
        "cuda",
        r"Allocator\(GPU_\d+_bfc\)ranoutofmemory",
        &[(F::Device, r"GPU_%_bfc"), (F::Tried, r"roundedto%\)")],
        None,
    ),
    wording("tensorflow", "cuda", r"Nextregionofsize\d+", &[(F::Reserved, r"ofsize%")], None),
    wording(
        "tensorflow",
        "cuda",
        r"Limit:\d+InUse:\d+MaxInUse",
        &[(F::Limit, r"Limit:%"), (F::Allocated, r"InUse:%")],
        None,
    ),
    wording("tensorflow", "cuda", r"OOMwhenallocatingtensor", &[(F::Device, r"device:GPU:%")], None),
    wording(
        "rmm",
        "cuda",
        r"(?i:maximumpoolsizeexceeded)",
        &[
            (F::Tried, r"failedtoallocate#"),
            (F::Reserved, r"current/max/trysize=#"),
            (F::Limit, r"current/max/trysize=[\d.]+[KMGT]iB,#"),
        ],
        Some(C::Limit),
    ),
    wording("rmm", "cuda", r"std::bad_alloc:(?:out_of_memory:)?CUDAerror", &[], None),
    wording(
        "llama.cpp",
        "cuda",
        r"ggml\w*:allocating[\d.]+MiBondevice\d+:cudaMallocfailed",
        &[(F::Tried, r"allocating#"), (F::Device, r"ondevice%")],
        None,
    ),
    wording(
        "llama.cpp",
        "vulkan",
        r"ggml_vulkan:Devicememoryallocationofsize\d+failed",
        &[(F::Tried, r"ofsize%")],
        None,
    ),
    wording(
        "vllm",
        "cuda",
        r"Freememoryondevice(?:cuda:\d+)?\(",
        &[
            (F::Device, r"devicecuda:%"),
            (F::Free, r"\(([\d.]+)/[\d.]+GiB\)"),
            (F::Total, r"\([\d.]+/#\)"),
            (F::Tried, r"utilization\([\d.]+,#\)"),
        ],
        Some(C::Others),
    ),
    wording("vllm", "cuda", r"Noavailablememoryforthecacheblocks", &[], Some(C::Limit)),
    wording(
        "vllm",
        "cuda",
        r"(?:total_gpu_memory\(.*?)?islargerthanthemaximumnumberoftokensthatcanbestored",
        &[(F::Total, r"total_gpu_memory\(#\)"), (F::Limit, r"utilization\([\d.]+\)=#")],
        Some(C::Limit),
    ),
    wording(
        "vllm",
        "cuda",
        r"Toserveatleastonerequest",
        &[(F::Tried, r"\(#KVcacheisneeded"), (F::Free, r"availableKVcachememory\(#\)")],
        Some(C::Limit),
    ),
    wording(
        "sglang",
        "cuda",
        r"Notenoughmemory\.Pleasetrytoincrease--mem-fraction-static",
        &[],
        Some(C::Limit),
    ),
    wording(
        "tensorrt-llm",
        "cuda",
        r"ExecutorcreationfailedduetoinsufficientGPUmemory",
        &[(F::Total, r"TotalGPUmemory\(GiB\):([\d.]+)"), (F::Free, r"creationattempt\(GiB\):([\d.]+)")],
        Some(C::Size),
    ),
    wording(
        "tensorrt-llm",
        "cuda",
        r"pagedKVcache:\d+\.Allocating\d+bytes.*?outofmemory",
        &[(F::Tried, r"Allocating#\.")],
        None,
    ),
    wording("tensorrt-llm", "cuda", r"CUDAruntimeerrorin.*?:outofmemory", &[], None),
    wording(
        "tensorrt",
        "cuda",
        r"(?:Requestedamountof)?GPUmemory\(\d+bytes\)couldnotbeallocated|Requestedamountofmemory\(\d+bytes\)couldnotbeallocated",
        &[(F::Tried, r"memory\(#\)")],
        None,
    ),
    wording(
        "onnxruntime",
        "unknown",
        r"BFCArena.*?Availablememoryof\d+issmallerthanrequestedbytesof\d+",
        &[(F::Free, r"memoryof%"), (F::Tried, r"bytesof%")],
        Some(C::Limit),
    ),
    wording(
        "onnxruntime",
        "unknown",
        r"Failedtoallocatememoryforrequestedbufferofsize\d+",
        &[(F::Tried, r"ofsize%")],
        None,
    ),
    wording("numba", "cuda", r"CUDA_ERROR_OUT_OF_MEMORY", &[], None),
    wording(
        "paddle",
        "cuda",
        r"OutofmemoryerroronGPU\d+",
        &[
            (F::Device, r"onGPU%"),
            (F::Tried, r"Cannotallocate#"),
            (F::Allocated, r"#memoryhasbeenallocated"),
            (F::Free, r"availablememoryisonly#"),
        ],
        None,
    ),
    wording(
        "cuda.jl",
        "cuda",
        r"OutofGPUmemorytryingtoallocate",
        &[
            (F::Tried, r"toallocate#"),
            (F::Total, r"\([\d.]+[KMGT]iB/#\)"),
            (F::Allocated, r"poolusage:#"),
            (F::Reserved, r"\(#reserved\)"),
        ],
        None,
    ),
    wording("mxnet", "cuda", r"(?:pooled_storage_manager|mxnet).{0,40}failed:outofmemory", &[], None),
    wording(
        "linux",
        "host",
        r"Outofmemory:Killedprocess\d+|Memorycgroupoutofmemory:Killedprocess\d+",
        &[(F::Process, r"anon-rss:#")],
        Some(C::Host),
    ),
    wording(
        "slurm",
        "host",
        r"(?:oom-killevent|oom_killevent|OutOfMemoryKill)|task\d+:OutOfMemory|exceeded(?:step|job)memorylimit",
        &[],
        Some(C::Host),
    ),
    wording(
        "numpy",
        "host",
        r"Unabletoallocate[\d.]+[KMGT]iBforanarray",
        &[(F::Tried, r"Unabletoallocate#")],
        Some(C::Host),
    ),
    wording(
        "ollama",
        "host",
        r"modelrequiresmoresystemmemory",
        &[(F::Tried, r"systemmemory\(#\)"), (F::Free, r"available\(#\)")],
        Some(C::Host),
    ),
    wording(
        "mlx",
        "mps",
        r"\[metal::malloc\]|kIOGPUCommandBufferCallbackErrorOutOfMemory",
        &[(F::Tried, r"allocate%bytes"), (F::Limit, r"(?:maximum|greaterthan).*?size(?:of|is)?%bytes")],
        None,
    ),
];

/// Words of messages that say themselves that nothing failed.
const NO_FAILURE: &[&str] = &[
    "thisisnotafailure",
    "failedwithOOM",
    "willberetried",
    "areretried",
    "skippingtactic",
    "Skippingtactic",
];

/// Words of failures that follow from another one.
const FOLLOWS: &[&str] = &[
    "ChildFailedError",
    "Connectionresetbypeer",
    "ConnectionResetError",
    "watchdoggotstuck",
    "Watchdogcaughtcollectiveoperationtimeout",
    "remoteprocessexited",
    "Sendingprocess",
];

const SIZE: &str = r"([-+]?\d[\d,.]*(?:bytes?|[kKMGTPE]i?B|[KMGTPE]|B)?)";

/// The compiled patterns of a wording.
struct Compiled {
    anchor: Regex,
    fields: Vec<(Field, Regex)>,
}

static COMPILED: LazyLock<Vec<Compiled>> = LazyLock::new(|| {
    let field = |&(field, pattern): &(Field, &str)| {
        let pattern = pattern.replace('#', SIZE).replace('%', r"(\d+)");
        Some((field, regex(&pattern)?))
    };
    let compiled = |of: &Wording| {
        Some(Compiled {
            anchor: regex(of.anchor)?,
            fields: of.fields.iter().map(field).collect::<Option<_>>()?,
        })
    };
    WORDINGS.iter().filter_map(compiled).collect()
});

/// A line with one of these may begin a message.
static ANCHORS: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"(?i)outofmemory|triedtoallocate|outofgpumemory|out_of_memory|out_of_device_memory|oomwhenallocating",
        r"ALLOC_FAILED|RESOURCE_EXHAUSTED|wouldexceedallowedmemory|inpinmemorythread|pin_memory=True|DataLoaderworker",
        r"cacheblocks|Freememoryondevice|maximumnumberoftokens|Toserveatleastone|mem-fraction-static|poolsizeexceeded",
        r"couldnotbeallocated|requestedbuffer|BFCArena|oom.killevent|OutOfMemory|Unabletoallocate|moresystemmemory|metal::malloc",
        r"virtualaddressspace|bad_alloc|Killedprocess|memorylimit|Preemptivelyrejecting|whiletryingtoallocate|Invalidbuffersize",
        r"Devicememoryallocation|outofmemorytryingtoallocate|Nextregionofsize|^Limit:|callocasync|insufficientGPUmemory|total_gpu_memory|pagedKVcache|pinnedhostmemory",
    ])
    .unwrap_or_default()
});

/// Whether a message may begin in this line.
pub(crate) fn is_anchor(line: &str) -> bool {
    ANCHORS.is_match(line)
}

/// Whether the line is about a failure that follows from another one.
pub(crate) fn follows(line: &str) -> bool {
    FOLLOWS.iter().any(|words| line.contains(words))
}

/// The errors in a message without whitespace.
pub(crate) fn parse(message: &str) -> Vec<TextError> {
    let fails = ["outofmemory.Tried", "NVML_SUCCESS==r"].iter().any(|words| message.contains(words));
    if !fails && NO_FAILURE.iter().any(|words| message.contains(words)) {
        return Vec::new();
    }
    let mut errors: Vec<(usize, TextError)> = Vec::new();
    for (wording, compiled) in WORDINGS.iter().zip(COMPILED.iter()) {
        let starts: Vec<usize> = compiled.anchor.find_iter(message).map(|found| found.start()).collect();
        for (number, &start) in starts.iter().enumerate() {
            // A more specific wording has the same place.
            if errors.iter().any(|&(known, _)| known.abs_diff(start) < 40) {
                continue;
            }
            let end = starts.get(number + 1).copied().unwrap_or(message.len());
            let error = read(wording, compiled, &message[start..end], message);
            errors.push((start, error));
        }
    }
    errors.sort_by_key(|&(start, _)| start);
    errors.into_iter().map(|(_, error)| error).collect()
}

fn read(wording: &Wording, compiled: &Compiled, text: &str, whole: &str) -> TextError {
    let (program, platform, says) = (wording.program, wording.platform, wording.says);
    let mut error = TextError { program, platform, says, ..TextError::default() };
    // Builds for ROCm keep words of CUDA.
    if platform == "cuda" && ["ROCm", "HIP_ERROR", "rocm"].iter().any(|word| whole.contains(word)) {
        error.platform = "rocm";
    }
    for (field, pattern) in &compiled.fields {
        // The ordinal of a device may come before.
        let text = if program == "jax" && *field == F::Device { whole } else { text };
        let all = pattern
            .captures_iter(text)
            .map(|found| found.iter().skip(1).flatten().next().map_or("", |value| value.as_str()).to_owned());
        let values: Vec<String> = all.collect();
        let Some(first) = values.first() else { continue };
        let size = size_of(first, if matches!(program, "vllm" | "tensorrt-llm") { "GiB" } else { "" });
        let number = first.parse().ok();
        match field {
            F::Tried => error.tried = size,
            F::Total => error.total = size,
            F::Free => error.free = size,
            F::Process => error.process = size,
            F::Others => {
                let sizes = values.iter().filter_map(|value| size_of(value, ""));
                error.others = Some(sizes.fold(0, u64::saturating_add));
            }
            F::Allocated => error.allocated = size,
            F::Reserved => error.reserved = size,
            F::Cached => error.cached = size,
            F::PrivatePools => error.private_pools = size,
            // Without a limit, some programs print the largest number.
            F::Limit => error.limit = size.filter(|&limit| limit < MOST_BYTES),
            F::Device => error.device = number,
            F::Expandable => error.expandable_segments = true,
            F::AddressSpace => {
                (error.says, error.expandable_segments) = (Some(CauseKind::AddressSpace), true);
            }
        }
    }
    // In a container, the driver names the process itself by the number that the host gives it.
    if program == "pytorch"
        && error.process.is_none()
        && let (Some(others), Some(total), Some(free)) = (error.others, error.total, error.free)
        && others.abs_diff(total.saturating_sub(free)) <= total / 500
        && error.allocated.is_some_and(|allocated| allocated <= others && allocated >= others / 2)
    {
        (error.process, error.others) = (Some(others), None);
    }
    error
}

/// No device has so many bytes.
const MOST_BYTES: u64 = 1 << 50;

/// A size in bytes: all units are powers of 1024, also `GB` and `G`.
fn size_of(text: &str, unit: &str) -> Option<u64> {
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, given) = text.split_at(digits);
    let number: f64 = number.replace(',', "").trim_end_matches('.').parse().ok()?;
    let unit = if given.is_empty() { unit } else { given };
    let power = match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
        Some('K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        Some('P') => 5,
        Some('E') => 6,
        _ => 0,
    };
    let bytes = number * 1024_f64.powi(power);
    (0.0..2e19).contains(&bytes).then_some(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_valid() {
        assert_eq!(COMPILED.len(), WORDINGS.len());
        assert_eq!(ANCHORS.len(), 6);
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        let of = |text| size_of(text, "");
        assert_eq!(of("2.00GiB"), Some(2 << 30));
        assert_eq!(of("8,589,934,592bytes"), Some(8 << 30));
        assert_eq!(of("0bytes"), Some(0));
        assert_eq!(of("31.25G"), Some(33_554_432_000));
        assert_eq!(of("-3.06GiB"), None);
        assert_eq!(of("x"), None);
    }
}
