//! Buffers of collectives: allocations that PyTorch makes to exchange data between processes.
//!
//! A frame of PyTorch in the stack of an allocation shows the operation. The innermost such frame decides, by its file and its function:
//! a function of the user with the name of a collective shows nothing.
//!
//! PyTorch's history does not record process groups. One case shows them: `c10d::ProcessGroupNCCL::allocateTensor` allocates from a
//! private pool that each process group creates for itself (`memPool_` of that class).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vramscope_trace::{FrameId, PoolId, StackId, Trace};

use super::private_pools::peak;
use crate::history::{History, Moment, RecordedAllocation};
use crate::stacks::{Code, Frames};

/// An operation that exchanges data between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Collective {
    /// Every process receives the data of all.
    AllGather,
    /// Every process receives its part of the reduced data.
    ReduceScatter,
    /// Every process receives the reduced data. The buckets of `DistributedDataParallel` are of this kind.
    AllReduce,
    /// Every process sends a part to every other.
    AllToAll,
    /// Every process receives the data of one.
    Broadcast,
    /// One process receives the data of all.
    Gather,
    /// Every process receives its part of the data of one.
    Scatter,
    /// One process receives the reduced data.
    Reduce,
    /// One process sends to another.
    PointToPoint,
    /// All processes wait for each other.
    Barrier,
    /// The buffer is of a process group, and no frame shows the operation.
    Unknown,
}

impl Collective {
    /// Returns the name, as PyTorch names the operation: `all_gather`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllReduce => "all_reduce",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Reduce => "reduce",
            Self::PointToPoint => "point_to_point",
            Self::Barrier => "barrier",
            Self::Unknown => "unknown",
        }
    }
}

/// Buffers of one operation on one stream, of one process group where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveUse {
    /// The operation.
    pub operation: Collective,
    /// The private pool of the process group; `None` if the recording does not show the process group.
    pub process_group_pool: Option<PoolId>,
    /// The stream on which the buffers were allocated.
    pub stream: u64,
    /// Bytes at the moment of the summary.
    pub bytes: u64,
    /// Number of buffers at that moment.
    pub blocks: usize,
    /// The most bytes at one moment of the run.
    pub peak: u64,
    /// Number of allocations of the whole run.
    pub allocations: usize,
    /// The frame that shows the operation, of the largest buffer at that moment, or of the whole run if there is none at that moment.
    pub frame: FrameId,
    /// The stack of that buffer.
    pub stack: StackId,
}

/// Which frames of a Python function show its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    /// Any frame of the stack.
    Anywhere,
    /// Only the innermost Python frame: the function also does other work.
    Innermost,
}

/// Python functions of PyTorch that allocate buffers: the operation, the file and the functions.
const PYTHON: &[(Collective, &str, Where, &[&str])] = &[
    (
        Collective::AllGather,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &[
            "all_gather",
            "all_gather_into_tensor",
            "all_gather_coalesced",
            "all_gather_object",
            "_all_gather_base",
        ],
    ),
    (
        Collective::ReduceScatter,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["reduce_scatter", "reduce_scatter_tensor", "_reduce_scatter_base"],
    ),
    (
        Collective::AllReduce,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["all_reduce", "all_reduce_coalesced"],
    ),
    (
        Collective::AllToAll,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["all_to_all", "all_to_all_single"],
    ),
    (
        Collective::Broadcast,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["broadcast", "broadcast_object_list"],
    ),
    (
        Collective::Gather,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["gather", "gather_object"],
    ),
    (
        Collective::Scatter,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["scatter", "scatter_object_list"],
    ),
    (Collective::Reduce, "torch/distributed/distributed_c10d.py", Where::Anywhere, &["reduce"]),
    (
        Collective::PointToPoint,
        "torch/distributed/distributed_c10d.py",
        Where::Anywhere,
        &["send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list"],
    ),
    (Collective::Barrier, "torch/distributed/distributed_c10d.py", Where::Anywhere, &["barrier"]),
    (
        Collective::AllGather,
        "torch/distributed/_functional_collectives.py",
        Where::Anywhere,
        &[
            "all_gather_tensor",
            "all_gather_tensor_autograd",
            "all_gather_into_tensor_coalesced",
            "reduce_scatter_tensor_backward",
        ],
    ),
    (
        Collective::ReduceScatter,
        "torch/distributed/_functional_collectives.py",
        Where::Anywhere,
        &[
            "reduce_scatter_tensor",
            "reduce_scatter_tensor_autograd",
            "reduce_scatter_tensor_coalesced",
            "all_gather_into_tensor_backward",
        ],
    ),
    (
        Collective::AllReduce,
        "torch/distributed/_functional_collectives.py",
        Where::Anywhere,
        &["all_reduce", "all_reduce_coalesced", "all_reduce_backward"],
    ),
    (
        Collective::AllToAll,
        "torch/distributed/_functional_collectives.py",
        Where::Anywhere,
        &["all_to_all_single", "all_to_all_single_autograd", "all_to_all_single_backward", "permute_tensor"],
    ),
    (Collective::Broadcast, "torch/distributed/_functional_collectives.py", Where::Anywhere, &["broadcast"]),
    // `fully_shard`, also known as FSDP2.
    (
        Collective::AllGather,
        "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py",
        Where::Anywhere,
        &["foreach_all_gather", "foreach_all_gather_copy_out"],
    ),
    (
        Collective::ReduceScatter,
        "torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py",
        Where::Anywhere,
        &["foreach_reduce"],
    ),
    (
        Collective::AllGather,
        "torch/distributed/fsdp/_fully_shard/_fsdp_param.py",
        Where::Anywhere,
        &["init_all_gather_outputs", "alloc_all_gather_outputs", "all_gather_inputs"],
    ),
    // `FullyShardedDataParallel`, also known as FSDP1.
    (
        Collective::AllGather,
        "torch/distributed/fsdp/_flat_param.py",
        Where::Anywhere,
        &["_alloc_padded_unsharded_flat_param", "_all_gather_flat_param"],
    ),
    (
        Collective::ReduceScatter,
        "torch/distributed/fsdp/_runtime_utils.py",
        Where::Anywhere,
        &["_get_reduce_scatter_tensors", "_reduce_grad"],
    ),
    // `DistributedDataParallel`.
    (Collective::AllReduce, "torch/nn/parallel/distributed.py", Where::Anywhere, &["_ddp_init_helper"]),
    // It calls `Reducer._rebuild_buckets`, and moves the inputs.
    (Collective::AllReduce, "torch/nn/parallel/distributed.py", Where::Innermost, &["_pre_forward"]),
    (
        Collective::Broadcast,
        "torch/nn/parallel/distributed.py",
        Where::Anywhere,
        &["_distributed_broadcast_coalesced"],
    ),
    (
        Collective::Broadcast,
        "torch/distributed/utils.py",
        Where::Anywhere,
        &["_sync_module_states", "_sync_params_and_buffers"],
    ),
];

/// Functions of C++: what precedes the name, the operation and the names.
const NATIVE: &[(&str, Collective, &[&str])] = &[
    (
        "c10d::ProcessGroupNCCL::",
        Collective::AllGather,
        &["allgather", "_allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced"],
    ),
    (
        "c10d::ProcessGroupNCCL::",
        Collective::ReduceScatter,
        &["reduce_scatter", "_reduce_scatter_base", "reduce_scatter_tensor_coalesced"],
    ),
    (
        "c10d::ProcessGroupNCCL::",
        Collective::AllReduce,
        &["allreduce", "allreduce_sparse", "allreduce_coalesced"],
    ),
    ("c10d::ProcessGroupNCCL::", Collective::AllToAll, &["alltoall", "alltoall_base"]),
    ("c10d::ProcessGroupNCCL::", Collective::Broadcast, &["broadcast", "_broadcast_oop"]),
    ("c10d::ProcessGroupNCCL::", Collective::Gather, &["gather"]),
    ("c10d::ProcessGroupNCCL::", Collective::Scatter, &["scatter"]),
    ("c10d::ProcessGroupNCCL::", Collective::Reduce, &["reduce", "_reduce_oop"]),
    ("c10d::ProcessGroupNCCL::", Collective::PointToPoint, &["send", "recv"]),
    ("c10d::ProcessGroupNCCL::", Collective::Barrier, &["barrier"]),
    ("c10d::Reducer::", Collective::AllReduce, &["initialize_buckets", "rebuild_buckets"]),
    ("c10d::", Collective::AllReduce, &["all_reduce", "all_reduce_coalesced"]),
    (
        "c10d::",
        Collective::AllGather,
        &["all_gather_into_tensor", "all_gather_into_tensor_coalesced", "allocate_all_gather_output"],
    ),
    (
        "c10d::",
        Collective::ReduceScatter,
        &["reduce_scatter_tensor", "reduce_scatter_tensor_coalesced", "allocate_reduce_scatter_output"],
    ),
    ("c10d::", Collective::AllToAll, &["all_to_all_single"]),
    ("c10d::", Collective::Broadcast, &["broadcast", "broadcast_coalesced"]),
];

/// The function that allocates from the pool of a process group.
const OF_PROCESS_GROUP: (&str, &str) = ("c10d::ProcessGroupNCCL::", "allocateTensor");

/// What the name of a function shows, whatever its file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Name {
    /// The operation of a function of C++.
    native: Option<Collective>,
    /// Whether it is [`OF_PROCESS_GROUP`].
    is_of_group: bool,
    /// Whether a function of [`PYTHON`] has this name.
    is_python: bool,
}

impl Name {
    fn of(name: &str) -> Self {
        let has = |prefix: &str, names: &[&str]| {
            let starts = name.match_indices(prefix).map(|(at, _)| at);
            // In the name of a template, the return type comes first.
            let whole =
                |&at: &usize| at == 0 || matches!(name.as_bytes().get(at - 1), Some(b' ' | b'&' | b'*'));
            starts.filter(whole).any(|at| {
                let function = name.get(at + prefix.len()..).unwrap_or_default();
                let end = function.find(['(', '<', '[', ':', ' ']).unwrap_or(function.len());
                function.get(..end).is_some_and(|function| names.contains(&function))
            })
        };
        if !name.contains("c10d::") {
            let is_python = PYTHON.iter().any(|(.., functions)| functions.contains(&name));
            return Self { is_python, ..Self::default() };
        }
        let native = NATIVE.iter().find(|(prefix, _, names)| has(prefix, names));
        let (prefix, function) = OF_PROCESS_GROUP;
        Self {
            native: native.map(|&(_, operation, _)| operation),
            is_of_group: has(prefix, &[function]),
            is_python: false,
        }
    }
}

/// Whether a path ends with these folders and this file, with separators of any system.
fn is_file(path: &str, file: &str) -> bool {
    let same = |byte: u8| if byte == b'\\' { b'/' } else { byte };
    let Some((folders, end)) =
        path.len().checked_sub(file.len()).and_then(|at| path.as_bytes().split_at_checked(at))
    else {
        return false;
    };
    end.iter().copied().map(same).eq(file.bytes()) && folders.last().is_none_or(|&byte| same(byte) == b'/')
}

/// What the stack of a buffer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    operation: Collective,
    /// The frame that shows the operation.
    frame: FrameId,
    /// Whether a process group allocated the buffer from its own pool.
    is_of_group: bool,
}

/// Returns what each stack shows; `None` for the stacks of other allocations.
fn of_stacks(trace: &Trace, frames: &Frames) -> Vec<Option<Shown>> {
    let mut names: Vec<Option<Name>> = vec![None; trace.strings.len()];
    let of_frame = |id: FrameId| -> (Option<(Collective, Where)>, bool) {
        let frame = trace.frames.get(id);
        let name = *names[frame.name.index()].get_or_insert_with(|| Name::of(trace.strings.get(frame.name)));
        if frames.code(id) == Code::Native {
            return (name.native.map(|operation| (operation, Where::Anywhere)), name.is_of_group);
        }
        if !name.is_python {
            return (None, false);
        }
        let (function, path) = (trace.strings.get(frame.name), trace.strings.get(frame.filename));
        let row = PYTHON.iter().find(|(_, file, _, names)| names.contains(&function) && is_file(path, file));
        (row.map(|&(operation, _, place, _)| (operation, place)), false)
    };
    let of_frames: Vec<_> = trace.frames.iter().map(|(id, _)| id).map(of_frame).collect();
    let of_stack = |stack: &[FrameId]| {
        let (mut operation, mut group, mut in_python) = (None, None, false);
        for &frame in stack {
            let (shows, is_of_group) = of_frames[frame.index()];
            if is_of_group {
                group.get_or_insert(frame);
            }
            let shows = shows.filter(|&(_, place)| place == Where::Anywhere || !in_python);
            in_python |= frames.code(frame) != Code::Native;
            if let Some((shown, _)) = shows {
                operation.get_or_insert((shown, frame));
            }
        }
        let (operation, frame) = operation.or_else(|| Some((Collective::Unknown, group?)))?;
        Some(Shown { operation, frame, is_of_group: group.is_some() })
    };
    trace.stacks.iter().map(|(_, stack)| of_stack(stack)).collect()
}

/// Returns the buffers of collectives at `moment`, most bytes first; those that are not live there are included with 0 bytes. `pool_of`
/// returns the pool of an allocation, by its index.
pub(crate) fn collectives(
    history: &History,
    frames: &Frames,
    moment: Moment,
    pool_of: impl Fn(usize) -> Option<PoolId>,
) -> Vec<CollectiveUse> {
    let stacks = of_stacks(history.trace(), frames);
    type Key = (Collective, Option<PoolId>, u64);
    type Buffer<'h> = (&'h RecordedAllocation, StackId, Shown);
    let mut groups: BTreeMap<Key, Vec<Buffer<'_>>> = BTreeMap::new();
    for (id, a) in history.allocations.iter().enumerate() {
        let Some((stack, shown)) = a.stack.and_then(|stack| Some((stack, stacks[stack.index()]?))) else {
            continue;
        };
        let is_private = |pool: &PoolId| shown.is_of_group && *pool != PoolId::default();
        let key = (shown.operation, pool_of(id).filter(is_private), a.stream);
        groups.entry(key).or_default().push((a, stack, shown));
    }
    let of = |((operation, process_group_pool, stream), inside): (Key, Vec<Buffer<'_>>)| {
        let live = |a: &RecordedAllocation| a.is_allocated_at(moment);
        let largest = inside.iter().max_by_key(|(a, ..)| (live(a), a.size, Reverse(a.from)));
        let &(_, stack, Shown { frame, .. }) = largest?;
        let allocations: Vec<&RecordedAllocation> = inside.iter().map(|&(a, ..)| a).collect();
        let here = || allocations.iter().filter(|a| live(a));
        Some(CollectiveUse {
            operation,
            process_group_pool,
            stream,
            bytes: here().map(|a| a.size).sum(),
            blocks: here().count(),
            peak: peak(&allocations).0,
            allocations: allocations.len(),
            frame,
            stack,
        })
    };
    let mut found: Vec<CollectiveUse> = groups.into_iter().filter_map(of).collect();
    found.sort_by_key(|of| (Reverse(of.bytes), Reverse(of.peak)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_c10d_shows_its_operation() {
        for (name, expected) in [
            (
                "c10d::ProcessGroupNCCL::_allgather_base(at::Tensor&, at::Tensor&)",
                Some(Collective::AllGather),
            ),
            (
                "c10d::ProcessGroupNCCL::reduce_scatter(std::vector<at::Tensor>&)",
                Some(Collective::ReduceScatter),
            ),
            ("c10d::ProcessGroupNCCL::reduce(std::vector<at::Tensor>&)", Some(Collective::Reduce)),
            ("c10d::Reducer::initialize_buckets(std::vector<int>)", Some(Collective::AllReduce)),
            ("c10d::all_to_all_single(at::Tensor const&)", Some(Collective::AllToAll)),
            (
                "c10::intrusive_ptr<c10d::Work> c10d::ProcessGroupNCCL::send<int>(int)",
                Some(Collective::PointToPoint),
            ),
            ("c10d::ProcessGroupNCCL::allocateTensor(long, c10::TensorOptions)", None),
            ("c10d::ProcessGroupNCCL::reducer(int)", None),
            ("mine::c10d::ProcessGroupNCCL::send(int)", None),
            ("use(c10d::ProcessGroupNCCL::send)", None),
            ("all_gather_rows", None),
        ] {
            assert_eq!(Name::of(name).native, expected, "{name}");
        }
    }

    #[test]
    fn a_file_is_recognized_by_all_its_folders() {
        let file = "torch/distributed/utils.py";
        for (path, expected) in [
            ("/usr/lib/site-packages/torch/distributed/utils.py", true),
            ("C:\\python\\torch\\distributed\\utils.py", true),
            ("torch/distributed/utils.py", true),
            ("/home/user/mytorch/distributed/utils.py", false),
            ("/home/user/distributed/utils.py", false),
            ("", false),
        ] {
            assert_eq!(is_file(path, file), expected, "{path}");
        }
    }
}
