//! Allocations in groups.
//!
//! - `amount`: bytes, requested bytes and number of some allocations.
//! - `keys`: the groupings, the groups, and their keys.
//! - `properties`: properties of allocations beyond the history itself.
//! - `grouping`: the group of each allocation.
//! - `holders`: groups of allocations, at a moment and among any.
//! - `interval_totals`: bytes allocated, freed, temporary and retained in an interval, by group.
//! - `call_tree`: live memory as a tree of the user's calls.
//! - `libraries`: memory beside PyTorch's allocator, by library.
//! - `device_use`: the driver's count of a device's memory, and what the recording explains of it.
//! - `collectives`: buffers of collectives, by operation, stream and process group.
//! - `captures`: what each capture of a CUDA graph added to its pool.
//! - `host_memory`: the host memory of the process over time.
//! - `private_pools`: memory that serves only the requests of one pool.
//! - `serving`: the memory of a program with a KV cache, in parts.
//! - `layers`: live memory as a tree of the model's modules.

mod amount;
mod call_paths;
mod call_tree;
mod captures;
mod collectives;
mod device_use;
mod grouping;
mod holders;
mod host_memory;
mod interval_totals;
mod keys;
mod layers;
mod libraries;
mod private_pools;
mod properties;
mod serving;

pub use amount::Amount;
pub use call_paths::{CallPath, Calls, CallsOf, NO_GROUP, NodeKind, NodeSet, Paths, Transform, Transforms};
pub(crate) use call_tree::call_tree;
pub use call_tree::{CallTree, ComparedNode, Node, compared_call_tree};
pub use captures::GraphCapture;
pub(crate) use captures::graph_pools;
pub(crate) use collectives::collectives;
pub use collectives::{Collective, CollectiveUse};
pub use device_use::{DeviceUse, MeasuredUse};
pub(crate) use grouping::Grouping;
pub(crate) use holders::{by_line, holders_without_stacks};
pub use holders::{holders_among, holders_at};
pub use host_memory::{HostCourse, HostMemory};
pub use interval_totals::{
    IntervalGroup, IntervalGroupChange, IntervalGroups, IntervalTotals, interval_group_changes,
    interval_groups,
};
pub use keys::{By, Holder, HolderKey, frame_key, stack_key};
pub use layers::Layer;
pub(crate) use layers::layers;
pub use libraries::{LibraryUse, libraries};
pub use private_pools::PrivatePoolUse;
pub(crate) use private_pools::{pools_of, private_pools};
pub(crate) use properties::KnownProperties;
pub use properties::{AllocationProperties, NoProperties};
pub use serving::ServingMemory;
pub(crate) use serving::serving_memory;
