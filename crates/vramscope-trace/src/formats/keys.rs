//! The names in snapshots, with fixed ids. The assembler's string table begins with them, so a key is recognized by its id.

macro_rules! keys {
    ($($name:ident = $text:literal),+ $(,)?) => {
        /// All known keys, by id.
        pub(super) const KEYS: &[&str] = &[$($text),+];
        keys!(@number 0usize; $($name)+);
    };
    (@number $n:expr; $name:ident $($rest:ident)*) => {
        pub(super) const $name: usize = $n;
        keys!(@number $n + 1usize; $($rest)*);
    };
    (@number $n:expr;) => {};
}

keys! {
    // Trace entries
    ACTION = "action",
    ADDR = "addr",
    DEVICE_FREE = "device_free",
    SIZE = "size",
    STREAM = "stream",
    TIME_US = "time_us",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    INTERNAL_METADATA = "internal_metadata",
    POOL_ID = "pool_id",
    CATEGORY = "category",
    // Only Paddle
    OP_NAME = "op_name",
    FRAMES = "frames",
    FORWARD_FRAMES = "forward_frames",
    // Frames
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    FX_NODE_OP = "fx_node_op",
    FX_NODE_NAME = "fx_node_name",
    FX_NODE_TARGET = "fx_node_target",
    FX_ORIGINAL_TRACE = "fx_original_trace",
    // Segments
    DEVICE = "device",
    ADDRESS = "address",
    TOTAL_SIZE = "total_size",
    ALLOCATED_SIZE = "allocated_size",
    ACTIVE_SIZE = "active_size",
    REQUESTED_SIZE = "requested_size",
    SEGMENT_TYPE = "segment_type",
    SEGMENT_POOL_ID = "segment_pool_id",
    IS_EXPANDABLE = "is_expandable",
    BLOCKS = "blocks",
    // Blocks
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    CPP_FRAMES = "cpp_frames",
    // Annotations
    STAGE = "stage",
    // Settings: the keys that identify their dictionary
    CONF = "PYTORCH_CUDA_ALLOC_CONF",
    CONF_HIP = "PYTORCH_HIP_ALLOC_CONF",
    CONF_ANY = "PYTORCH_ALLOC_CONF",
    CONF_NPU = "PYTORCH_NPU_ALLOC_CONF",
    MAX_SPLIT_SIZE = "max_split_size",
    EXPANDABLE_SEGMENTS = "expandable_segments",
    // Snapshot
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    TRACE_ALLOC_OVERFLOWED = "trace_alloc_overflowed",
    TRACE_ALLOC_MAX_ENTRIES = "trace_alloc_max_entries",
    DEVICE_TOTAL_BYTES = "device_total_bytes",
    START_BLOCKS = "start_blocks",
    MISSING_EVENTS = "missing_events",
    ENDS_EARLY = "ends_early",
}
