//! Buffers of collectives: frames of PyTorch that show an operation, and frames that look alike.

use serde_json::{Value, json};
use vramscope_analysis::{Collective, CollectiveUse, Frames, Options, Summary};
use vramscope_trace::PoolId;

use crate::{defaults, event, recording};

const MIB: u64 = 1 << 20;

const TORCH: &str = "/usr/lib/python3/site-packages/torch";

/// An allocation with these frames, innermost first: the file and the function of each.
fn allocated(address: u64, size: u64, stream: u64, frames: &[(&str, &str)]) -> Value {
    let frame = |&(file, name): &(&str, &str)| json!({"filename": file, "name": name, "line": 1});
    let mut of = event("alloc", address, size);
    of["stream"] = json!(stream);
    of["frames"] = frames.iter().map(frame).collect();
    of
}

fn collectives(events: Vec<Value>) -> Vec<CollectiveUse> {
    let trace = recording(events, Vec::new(), defaults());
    Summary::of(&trace, 0, &Frames::of(&trace), &Options::default()).collectives
}

/// The operation of an allocation with this stack; `None` if it is no buffer of a collective.
fn operation(frames: &[(&str, &str)]) -> Option<Collective> {
    collectives(vec![allocated(1 << 40, MIB, 0, frames)]).first().map(|of| of.operation)
}

#[test]
fn frames_of_pytorch_show_the_operation() {
    let at = |file: &str| format!("{TORCH}/{file}");
    let user = ("/home/user/train.py", "main");
    for (file, function, expected) in [
        ("distributed/distributed_c10d.py", "all_gather_object", Collective::AllGather),
        ("distributed/_functional_collectives.py", "reduce_scatter_tensor", Collective::ReduceScatter),
        ("distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_all_gather", Collective::AllGather),
        ("distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_reduce", Collective::ReduceScatter),
        ("distributed/fsdp/_flat_param.py", "_alloc_padded_unsharded_flat_param", Collective::AllGather),
        ("nn/parallel/distributed.py", "_ddp_init_helper", Collective::AllReduce),
        ("nn/parallel/distributed.py", "_pre_forward", Collective::AllReduce),
        ("distributed/utils.py", "_sync_params_and_buffers", Collective::Broadcast),
    ] {
        assert_eq!(operation(&[(&at(file), function), user]), Some(expected), "{file} {function}");
    }
    // The innermost operation decides, and frames that show none are passed over.
    let nested = [
        (&*at("_tensor.py"), "cat"),
        (&*at("distributed/distributed_c10d.py"), "_object_to_tensor"),
        (&*at("distributed/distributed_c10d.py"), "broadcast_object_list"),
        (&*at("distributed/distributed_c10d.py"), "all_gather_object"),
        user,
    ];
    assert_eq!(operation(&nested), Some(Collective::Broadcast));
    let native =
        [("", "c10d::Reducer::initialize_buckets(std::vector<std::vector<unsigned long> >&&)"), user];
    assert_eq!(operation(&native), Some(Collective::AllReduce));
}

#[test]
fn a_function_named_like_a_collective_is_no_collective() {
    let at = |file: &str| format!("{TORCH}/{file}");
    let user = ("/home/user/train.py", "main");
    for (file, function) in [
        ("/home/user/train.py".to_owned(), "all_gather_rows"),
        ("/home/user/collectives.py".to_owned(), "all_gather"),
        ("/home/user/mytorch/distributed/distributed_c10d.py".to_owned(), "all_gather"),
        (at("distributed/distributed_c10d.py"), "init_process_group"),
        (at("nn/parallel/distributed.py"), "forward"),
        (String::new(), "mine::c10d::ProcessGroupNCCL::allgather(int)"),
    ] {
        assert_eq!(operation(&[(&file, function), user]), None, "{file} {function}");
    }
    // The function that rebuilds the buckets also moves the inputs, by another function.
    let moved = [
        (&*at("distributed/utils.py"), "_recursive_to"),
        (&*at("nn/parallel/distributed.py"), "_pre_forward"),
        user,
    ];
    assert_eq!(operation(&moved), None);
}

#[test]
fn buffers_are_grouped_by_operation_and_stream() {
    let file = format!("{TORCH}/distributed/distributed_c10d.py");
    let of = |n: u64, size: u64, stream: u64, function: &str| {
        allocated((1 << 40) + n * (1 << 30), size, stream, &[(&file, function)])
    };
    let events = vec![
        of(0, 8 * MIB, 0, "all_gather"),
        event("free_requested", 1 << 40, 8 * MIB),
        event("free_completed", 1 << 40, 8 * MIB),
        of(1, 2 * MIB, 0, "all_gather"),
        of(2, 3 * MIB, 7, "all_gather"),
        of(3, 4 * MIB, 7, "reduce_scatter_tensor"),
        of(4, 4 * MIB, 7, "reduce_scatter_tensor"),
        allocated(1 << 50, 64 * MIB, 0, &[("/home/user/train.py", "main")]),
    ];
    let row = |of: &CollectiveUse| {
        (of.operation.name(), of.stream, of.bytes / MIB, of.blocks, of.peak / MIB, of.allocations)
    };
    let found = collectives(events);
    assert_eq!(
        found.iter().map(row).collect::<Vec<_>>(),
        [("reduce_scatter", 7, 8, 2, 8, 2), ("all_gather", 7, 3, 1, 3, 1), ("all_gather", 0, 2, 1, 8, 2)]
    );
    assert!(found.iter().all(|of| of.process_group_pool.is_none()));
}

#[test]
fn the_pool_of_a_process_group_shows_it() {
    let file = format!("{TORCH}/distributed/fsdp/_fully_shard/_fsdp_collectives.py");
    let from = ("", "c10d::ProcessGroupNCCL::allocateTensor(long, c10::TensorOptions)");
    let gather = [from, (&*file, "allocate"), (&*file, "foreach_all_gather")];
    let in_pool = |n: u64, pool: [u64; 2], frames: &[(&str, &str)]| {
        let address = (1 << 40) + n * (1 << 30);
        let mut reserved = event("segment_alloc", address, 2 * MIB);
        let mut of = allocated(address, MIB, 0, frames);
        reserved["pool_id"] = json!(pool);
        of["pool_id"] = json!(pool);
        [reserved, of]
    };
    let events = [
        in_pool(0, [0, 3], &gather),
        in_pool(1, [0, 3], &gather),
        in_pool(2, [0, 4], &gather[..1]),
        // A pool of the user, and the default pool, are no process group.
        in_pool(3, [0, 5], &gather[1..]),
        in_pool(4, [0, 0], &gather),
    ];
    let mut found: Vec<_> = collectives(events.concat())
        .iter()
        .map(|of| (of.process_group_pool, of.operation, of.blocks))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            (None, Collective::AllGather, 2),
            (Some(PoolId(0, 3)), Collective::AllGather, 2),
            (Some(PoolId(0, 4)), Collective::Unknown, 1),
        ]
    );
}
