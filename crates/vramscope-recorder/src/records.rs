//! The records of a ring as plain data.

use crate::record::{
    ACCESS, CALL, FACT, Kind, MODULE, MODULE_PATH, NOT_FOLLOWED, NOTED_PLACE, NOTED_ROLE, NOTED_TENSOR,
    OBJECT, READING, REGION, SITE, STACK, TORCH, TORCH_OOM, call, memory,
};

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// A stack: its id and its sites, innermost first.
    Stack(u64, &'a [u64]),
    /// A position in Python code.
    Site { site: u64, line: u32, name: String, path: String },
    /// An allocation or a free of PyTorch.
    Torch(TorchEvent),
    /// A request that PyTorch's allocator could not serve.
    TorchOom { time_us: i64, device: i64, stack: u64, size: u64, free: u64 },
    /// A call of the driver or the runtime.
    Call(Call),
    /// The object that has a call site.
    Object { caller: u64, path: String },
    /// A loaded object with native frames. `base` is the difference between its addresses in memory and in its file.
    Module { start: u64, end: u64, base: u64, path: String },
    /// The driver's count of a device's memory.
    Reading { time_us: i64, device: i64, free: u64, total: u64 },
    /// The path of a module of the program's model.
    ModulePath { module: u64, path: String },
    /// The module and phase of a thread.
    Place { thread: u64, module: u64, phase: u64 },
    /// The role of memory, and the module that it belongs to.
    Role { address: u64, role: u64, module: u64 },
    /// The description of the tensor in memory.
    Tensor { address: u64, description: String },
    /// One end of a region. The device is -1 if it is unknown.
    Region { time_us: i64, device: i64, is_end: bool, name: String },
    /// Accesses by one launch: flags, and addresses.
    Access(u64, &'a [u64]),
    /// A call of a function that the library does not follow.
    NotFollowed(String),
    /// How the process is recorded: a name and a text.
    Fact(String, String),
}

/// An allocation or a free of PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TorchEvent {
    pub(crate) time_us: i64,
    pub(crate) device: i64,
    pub(crate) address: u64,
    /// Bytes of the block; negative for a free.
    pub(crate) size: i64,
    pub(crate) stack: u64,
    /// The system's number of the thread; 0 if it is unknown.
    pub(crate) thread: u64,
}

/// A call of the driver or the runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) time_us: i64,
    /// `None` if the call does not say its device.
    pub(crate) device: Option<i64>,
    pub(crate) kind: Kind,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) handle: u64,
    pub(crate) caller: u64,
    pub(crate) stack: u64,
}

impl<'a> Record<'a> {
    /// The record of this kind and body. `None` for a record that the library does not write.
    pub(crate) fn of(kind: u8, body: &'a [u64]) -> Option<Self> {
        Some(match kind {
            STACK => {
                let (&id, sites) = body.split_first()?;
                Self::Stack(id, sites)
            }
            SITE => {
                let (&[site, line, name, path], texts) = body.split_first_chunk()?;
                let name_words = usize::try_from(name).ok()?.div_ceil(8);
                let (of_name, of_path) = texts.split_at_checked(name_words)?;
                let line = u32::try_from(line).unwrap_or(0);
                Self::Site { site, line, name: text(of_name, name)?, path: text(of_path, path)? }
            }
            TORCH => {
                let body: &[u64; memory::FIELDS] = body.try_into().ok()?;
                Self::Torch(TorchEvent {
                    time_us: body[memory::TIME] as i64,
                    device: i64::try_from(body[memory::DEVICE]).ok()?,
                    address: body[memory::ADDRESS],
                    size: body[memory::SIZE] as i64,
                    stack: body[memory::STACK],
                    thread: body[memory::THREAD],
                })
            }
            TORCH_OOM => {
                let &[time, device, stack, size, free] = body else { return None };
                Self::TorchOom {
                    time_us: time as i64,
                    device: i64::try_from(device).ok()?,
                    stack,
                    size,
                    free,
                }
            }
            CALL => {
                let body: &[u64; call::FIELDS] = body.try_into().ok()?;
                Self::Call(Call {
                    time_us: body[call::TIME] as i64,
                    device: i64::try_from(body[call::DEVICE]).ok(),
                    kind: Kind::of(body[call::KIND])?,
                    address: body[call::ADDRESS],
                    size: body[call::SIZE],
                    handle: body[call::HANDLE],
                    caller: body[call::CALLER],
                    stack: body[call::STACK],
                })
            }
            OBJECT => {
                let (&[caller, size], words) = body.split_first_chunk()?;
                Self::Object { caller, path: text(words, size)? }
            }
            MODULE => {
                let (&[start, end, base, size], words) = body.split_first_chunk()?;
                Self::Module { start, end, base, path: text(words, size)? }
            }
            READING => {
                let &[time, device, free, total] = body else { return None };
                Self::Reading { time_us: time as i64, device: i64::try_from(device).ok()?, free, total }
            }
            MODULE_PATH => {
                let (&[module, size], words) = body.split_first_chunk()?;
                Self::ModulePath { module, path: text(words, size)? }
            }
            NOTED_PLACE => {
                let &[thread, module, phase] = body else { return None };
                Self::Place { thread, module, phase }
            }
            NOTED_ROLE => {
                let &[address, role, module] = body else { return None };
                Self::Role { address, role, module }
            }
            NOTED_TENSOR => {
                let (&[address, size], words) = body.split_first_chunk()?;
                Self::Tensor { address, description: text(words, size)? }
            }
            REGION => {
                let (&[time, device, is_end, size], words) = body.split_first_chunk()?;
                let device = i64::try_from(device).unwrap_or(-1);
                Self::Region { time_us: time as i64, device, is_end: is_end != 0, name: text(words, size)? }
            }
            ACCESS => {
                let (&flags, addresses) = body.split_first()?;
                Self::Access(flags, addresses)
            }
            NOT_FOLLOWED => {
                let (&size, words) = body.split_first()?;
                Self::NotFollowed(text(words, size)?)
            }
            FACT => {
                let (&[name, size], texts) = body.split_first_chunk()?;
                let (of_name, of_text) = texts.split_at_checked(usize::try_from(name).ok()?.div_ceil(8))?;
                Self::Fact(text(of_name, name)?, text(of_text, size)?)
            }
            _ => return None,
        })
    }
}

/// The text of this size in bytes at the start of these words.
fn text(words: &[u64], size: u64) -> Option<String> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let bytes = bytes.get(..usize::try_from(size).ok()?)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}
