//! The records in a ring. The body of each is a list of words; numbers of fields below are indices in it.
//!
//! This file is part of two crates, like `ring.rs`.

/// A stack: its id, then its sites, innermost first.
pub(crate) const STACK: u8 = 1;
/// A position in Python code: the site, the line, the sizes of the name and the file name in bytes, and both texts.
pub(crate) const SITE: u8 = 2;
/// A report of PyTorch's allocator, with the fields of [`memory`].
pub(crate) const TORCH: u8 = 3;
/// A request that PyTorch's allocator could not serve: time, device, stack, size, and free bytes of
/// the device.
pub(crate) const TORCH_OOM: u8 = 4;
/// A call of the driver or the runtime, with the fields of [`call`].
pub(crate) const CALL: u8 = 5;
/// The object that has a call site: the return address, the size of its path in bytes, and the path.
pub(crate) const OBJECT: u8 = 6;

/// A loaded object with native frames: its first address, its end, the difference between its addresses in memory and in its file, the size
/// of its path in bytes, and the path.
pub(crate) const MODULE: u8 = 7;
/// The driver's count of a device's memory: time, device, free bytes and total bytes.
pub(crate) const READING: u8 = 8;

/// A call of a function that the library does not follow: the size of its name in bytes, and the name.
pub(crate) const NOT_FOLLOWED: u8 = 9;

/// How the process is recorded: the sizes of a name and a text in bytes, and both.
pub(crate) const FACT: u8 = 10;

// Notes of the Python package.
/// The path of a module: its number, the size of the path in bytes, and the path.
pub(crate) const MODULE_PATH: u8 = 20;
/// The module and phase of a thread: the system's number of the thread, the number of the module (0 for none), and the phase.
pub(crate) const NOTED_PLACE: u8 = 21;
/// The role of memory: its address, the role, and the number of the module that it belongs to (0 for none).
pub(crate) const NOTED_ROLE: u8 = 22;
/// The tensor in memory: its address, the size of its description in bytes, and the description.
pub(crate) const NOTED_TENSOR: u8 = 24;
/// One end of a region: time, device, whether it ends, the size of its name in bytes, and the name.
pub(crate) const REGION: u8 = 23;
/// Accesses of device memory by one launch, library call or copy: flags of [`access`], then addresses.
pub(crate) const ACCESS: u8 = 32;

/// Flags of [`ACCESS`]. The phantom's library has the same numbers.
#[allow(dead_code, reason = "the library passes them on")]
pub(crate) mod access {
    /// The parameters of the launch are unknown.
    pub(crate) const UNKNOWN: u64 = 1;
    /// A copy from the host: the first two words are its address and its size in bytes, all others are addresses in its contents.
    pub(crate) const FROM_HOST: u64 = 2;
    /// A copy on a device, a memset or a message: the contents of the memory are not addresses that it follows.
    pub(crate) const PLAIN: u64 = 4;
    /// Further addresses of the launch before this record.
    pub(crate) const CONTINUED: u64 = 1 << 63;
}

/// Copies a text into words, as far as it fits. Returns its size in bytes and in words.
pub(crate) fn text_words(text: &[u8], words: &mut [u64]) -> (usize, usize) {
    let text = &text[..text.len().min(8 * words.len())];
    for (word, bytes) in words.iter_mut().zip(text.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    (text.len(), text.len().div_ceil(8))
}

/// Marks a site as a position in Python code. Native sites are return addresses, which never have this bit.
pub(crate) const PYTHON: u64 = 1 << 63;

/// Fields of [`TORCH`].
pub(crate) mod memory {
    /// Microseconds since the Unix epoch.
    pub(crate) const TIME: usize = 0;
    /// The device's number.
    pub(crate) const DEVICE: usize = 1;
    /// Address of the block.
    pub(crate) const ADDRESS: usize = 2;
    /// Bytes of the block: positive for an allocation, negative for a free (two's complement).
    pub(crate) const SIZE: usize = 3;
    /// Id of the stack; 0 for none.
    pub(crate) const STACK: usize = 4;
    /// The system's number of the thread, if the program passes notes; otherwise 0.
    pub(crate) const THREAD: usize = 5;
    /// Number of fields.
    pub(crate) const FIELDS: usize = 6;
}

/// Fields of [`CALL`].
pub(crate) mod call {
    /// Microseconds since the Unix epoch.
    pub(crate) const TIME: usize = 0;
    /// The device's number; [`UNKNOWN_DEVICE`] if the call does not say it.
    pub(crate) const DEVICE: usize = 1;
    /// What happened: a number of [`Kind`](super::Kind).
    pub(crate) const KIND: usize = 2;
    /// Address, or a handle of physical memory.
    pub(crate) const ADDRESS: usize = 3;
    /// Size in bytes, if the call says it; otherwise 0.
    pub(crate) const SIZE: usize = 4;
    /// For [`Kind::Map`](super::Kind::Map): the handle of the physical memory. For kinds of graphs: the graph.
    pub(crate) const HANDLE: usize = 5;
    /// Return address in the code that called.
    pub(crate) const CALLER: usize = 6;
    /// Id of the stack; 0 for none.
    pub(crate) const STACK: usize = 7;
    /// Number of fields.
    pub(crate) const FIELDS: usize = 8;

    /// The call does not say its device.
    pub(crate) const UNKNOWN_DEVICE: u64 = u64::MAX;
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a call of the driver or the runtime did.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Kind { $($(#[$doc])* $name,)* }

        impl Kind {
            #[allow(dead_code, reason = "the library only writes records")]
            pub(crate) fn of(number: u64) -> Option<Self> {
                [$(Self::$name),*].into_iter().find(|&kind| kind as u64 == number)
            }
        }
    };
}

kinds! {
    /// Device memory: `cudaMalloc`, `cuMemAlloc`, pitched memory.
    Malloc,
    /// Free of device or managed memory: `cudaFree`, `cuMemFree`.
    Free,
    /// Device memory in a stream's order: `cudaMallocAsync`, `cuMemAllocAsync`, from any pool.
    MallocAsync,
    /// Free in a stream's order.
    FreeAsync,
    /// Managed memory.
    Managed,
    /// Pinned host memory.
    Host,
    /// Free of pinned host memory.
    HostFree,
    /// Host memory that became pinned: `cudaHostRegister`.
    Register,
    /// Host memory that is not pinned any more.
    Unregister,
    /// Physical device memory: `cuMemCreate`.
    Create,
    /// Physical memory that its handle does not hold any more: `cuMemRelease`.
    Release,
    /// Physical memory mapped at an address: `cuMemMap`.
    Map,
    /// Addresses unmapped: `cuMemUnmap`.
    Unmap,
    /// An array, of unknown size: the size is as many bytes as its elements have.
    Array,
    /// Free of an array.
    ArrayFree,
    /// Memory of another process, opened at an address: `cuIpcOpenMemHandle`.
    IpcOpen,
    /// Memory of another process, closed.
    IpcClose,
    /// A handle of another process's physical memory, whose size the call does not say: `cuMemImportFromShareableHandle`.
    Import,
    /// An allocation that became a node of a graph.
    GraphNode,
    /// A graph that was instantiated: the address is that of the executable.
    GraphInstantiate,
    /// The end of a graph.
    GraphDestroy,
    /// The end of an executable graph.
    GraphExecDestroy,
    /// The memory of a device that the driver keeps for graphs: the size is the sum.
    GraphMemory,
    /// A device lost its last context, and with it the memory of its contexts: `cudaDeviceReset`, `cuCtxDestroy`.
    Reset,
    /// A free that was recorded failed. The handle is the kind of the free.
    FreeFailed,
    /// One more reference to physical memory, which its handle holds: `cuMemRetainAllocationHandle`.
    Retain,
}

impl Kind {
    /// Whether the driver changes the device's memory during the call. Memory in a stream's order is legal in a capture, and comes from a
    /// pool.
    #[allow(dead_code, reason = "only the library uses it")]
    pub(crate) fn is_of_device(self) -> bool {
        let others = [
            Self::MallocAsync,
            Self::FreeAsync,
            Self::Host,
            Self::HostFree,
            Self::Register,
            Self::Unregister,
            Self::IpcOpen,
            Self::IpcClose,
            Self::Import,
            Self::GraphNode,
            Self::GraphInstantiate,
            Self::GraphDestroy,
            Self::GraphExecDestroy,
            Self::FreeFailed,
            Self::Retain,
        ];
        !others.contains(&self)
    }
}
