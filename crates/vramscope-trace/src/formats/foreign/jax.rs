//! JAX's profile of live memory (`jax.profiler.save_device_memory_profile`): a pprof profile of one instant, without a history.
//!
//! A sample has the live buffers of one stack on one device, or compiled programs. They become blocks of the end state, at addresses of
//! their own order, because the profile has none. Reserved bytes are unknown and equal to allocated bytes.

use std::collections::BTreeMap;
use std::io::Read as _;

use hashbrown::HashMap;

use super::super::window::Window;
use super::super::{Contents, DEVICES, Format, FormatReader};
use super::Builder;
use crate::devices::{DeviceKind, OtherAllocator};
use crate::end_state::{Block, BlockState, Segment};
use crate::error::{ReadError, TableFull};
use crate::formats::start::other_file;
use crate::ids::{FrameId, StackId, StringId};
use crate::stacks::{Frame, FxNode};
use crate::trace::DeviceTrace;

/// The reader of JAX's profiles.
#[derive(Debug)]
pub(in crate::formats) struct Jax;

/// A sample with more buffers than this becomes one block.
const MOST_BLOCKS: u64 = 4096;

/// Maximum number of frames of a stack; the innermost remain.
const DEEPEST: usize = 1024;

impl FormatReader for Jax {
    /// A profile begins with the types of its values, which are short messages.
    fn takes(&self, start: &[u8]) -> bool {
        matches!(start, [b'\n', 1..=8, 8, ..])
    }

    fn read(&self, mut stream: Window<'_>) -> Result<Contents, ReadError> {
        let most = stream.most_memory();
        let mut bytes = Vec::new();
        (&mut stream).take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(ReadError::Memory { most });
        }
        let profile = Profile::parse(&bytes).ok_or_else(|| ReadError::Damaged {
            offset: bytes.len() as u64,
            what: "a pprof profile with an invalid message".to_owned(),
        })?;
        profile.contents(Builder::new(most), &bytes)
    }
}

/// A field of a message.
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

/// Returns the fields of a message in protobuf's encoding; `None` if it is invalid.
fn fields(mut message: &[u8], mut each: impl FnMut(u64, Field<'_>) -> Option<()>) -> Option<()> {
    while !message.is_empty() {
        let key = varint(&mut message)?;
        match key & 7 {
            0 => each(key >> 3, Field::Number(varint(&mut message)?))?,
            2 => {
                let length = usize::try_from(varint(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                each(key >> 3, Field::Bytes(bytes))?;
            }
            1 => message = message.get(8..)?,
            5 => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift < 64 {
            number |= u64::from(byte & 0x7f) << shift;
        }
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Appends the numbers of a repeated field, packed or not.
fn numbers(field: Field<'_>, out: &mut Vec<u64>) -> Option<()> {
    match field {
        Field::Number(number) => out.push(number),
        Field::Bytes(mut bytes) => {
            while !bytes.is_empty() {
                out.push(varint(&mut bytes)?);
            }
        }
    }
    Some(())
}

/// Returns the numbers of the fields 1 to `N` of a message; 0 where a field is absent.
fn plain<const N: usize>(message: &[u8]) -> Option<[u64; N]> {
    let mut out = [0; N];
    fields(message, |number, field| {
        if let (Field::Number(value), Some(at)) = (field, number.checked_sub(1))
            && let Some(slot) = out.get_mut(at as usize)
        {
            *slot = value;
        }
        Some(())
    })?;
    Some(out)
}

/// The parts of a profile that matter here. Texts are indexes into the table of strings.
#[derive(Default)]
struct Profile<'b> {
    strings: Vec<&'b [u8]>,
    /// Name and unit of each value.
    types: Vec<[u64; 2]>,
    samples: Vec<&'b [u8]>,
    /// Name and file by id.
    functions: HashMap<u64, [u64; 2]>,
    /// Function and line of each frame by id, innermost first.
    locations: HashMap<u64, Vec<[u64; 2]>>,
}

impl<'b> Profile<'b> {
    fn parse(bytes: &'b [u8]) -> Option<Self> {
        let mut this = Self::default();
        let mut rest = bytes;
        while !rest.is_empty() {
            let key = varint(&mut rest)?;
            let message = match key & 7 {
                0 => {
                    varint(&mut rest)?;
                    continue;
                }
                2 => {
                    let length = usize::try_from(varint(&mut rest)?).ok()?;
                    let (message, after) = rest.split_at_checked(length)?;
                    rest = after;
                    message
                }
                _ => return None,
            };
            match key >> 3 {
                1 => this.types.push(plain(message)?),
                2 => this.samples.push(message),
                4 => this.location(message)?,
                5 => {
                    let [id, name, _, file] = plain(message)?;
                    this.functions.insert(id, [name, file]);
                }
                6 => this.strings.push(message),
                _ => {}
            }
        }
        Some(this)
    }

    fn location(&mut self, message: &[u8]) -> Option<()> {
        let (mut id, mut lines) = (0, Vec::new());
        fields(message, |number, field| {
            match (number, field) {
                (1, Field::Number(number)) => id = number,
                (4, Field::Bytes(line)) => lines.push(plain(line)?),
                _ => {}
            }
            Some(())
        })?;
        self.locations.insert(id, lines);
        Some(())
    }

    /// Returns a text, or no bytes if there is none.
    fn text(&self, index: u64) -> &'b [u8] {
        usize::try_from(index).ok().and_then(|i| self.strings.get(i)).copied().unwrap_or_default()
    }

    /// Returns the position of a value in the samples.
    fn value(&self, name: &str) -> Option<usize> {
        self.types.iter().position(|&[of, _]| self.text(of) == name.as_bytes())
    }

    fn contents(&self, mut builder: Builder, bytes: &[u8]) -> Result<Contents, ReadError> {
        let (Some(count), Some(space)) = (self.value("allocations"), self.value("space")) else {
            return Err(other_file(bytes));
        };
        let damaged = |what: &str| ReadError::Damaged { offset: bytes.len() as u64, what: what.to_owned() };
        let most_blocks = (bytes.len() as u64 / 8).max(1 << 16);
        let mut blocks: BTreeMap<i64, Vec<Block>> = BTreeMap::new();
        let (mut numbers_of, mut made) = (HashMap::new(), 0u64);
        let mut shared = Shared::of(self);
        for (i, sample) in self.samples.iter().enumerate() {
            let (mut locations, mut values, mut labels) = (Vec::new(), Vec::new(), Vec::new());
            fields(sample, |number, field| {
                match (number, field) {
                    (1, field) => numbers(field, &mut locations)?,
                    (2, field) => numbers(field, &mut values)?,
                    (3, Field::Bytes(label)) => labels.push(plain::<2>(label)?),
                    _ => {}
                }
                Some(())
            })
            .ok_or_else(|| damaged("a sample with an invalid message"))?;
            let label = |name: &str| labels.iter().find(|l| self.text(l[0]) == name.as_bytes()).map(|l| l[1]);
            let of_type = |at: usize| values.get(at).copied().unwrap_or(0);
            let (count, bytes_of_all) = (of_type(count).max(1), of_type(space));
            if bytes_of_all == 0 {
                continue;
            }
            let device = match label("device") {
                None => 0,
                Some(name) => {
                    let number = || device_number(&String::from_utf8_lossy(self.text(name)), &mut numbers_of);
                    *shared.devices.entry(name).or_insert_with(number)
                }
            };
            if !DEVICES.contains(&device) {
                return Err(damaged("more devices than any machine has"));
            }
            let stack = shared.stack(locations, &mut builder)?;
            let kind = label("kind").map(|kind| shared.text(kind, &mut builder)).transpose()?;
            // The sizes of single buffers are unknown; their mean is not.
            let count = if count > MOST_BLOCKS || made + count > most_blocks { 1 } else { count };
            made += count;
            let list = blocks.entry(device).or_default();
            for i in 0..count {
                let size = bytes_of_all / count + if i == 0 { bytes_of_all % count } else { 0 };
                if size > 0 {
                    list.push(Block {
                        address: 0,
                        size,
                        requested_size: size,
                        state: BlockState::ActiveAllocated,
                        stack,
                        forward_frames: None,
                        user_metadata: kind,
                    });
                }
            }
            if i.is_multiple_of(256) {
                builder.check_memory(made as usize * 2 * size_of::<Block>(), bytes.len() as u64)?;
            }
        }
        let mut devices = Vec::new();
        for (device, mut list) in blocks {
            let start = 1u64 << 40;
            let mut address = start;
            for block in &mut list {
                block.address = address;
                address =
                    address.checked_add(block.size).ok_or_else(|| damaged("sizes beyond any device"))?;
            }
            let mut of_device = DeviceTrace { device, ..DeviceTrace::default() };
            of_device.push_segment(Segment::new(start, address - start), list);
            devices.push(of_device);
        }
        let mut contents = builder.finish(OtherAllocator::Jax, DeviceKind::Cuda, Format::Jax);
        contents.trace.devices = devices;
        Ok(contents)
    }
}

/// The parts that samples share, each interned once: a sample of a few bytes may have a thousand lines of functions with long names.
struct Shared<'p, 'b> {
    profile: &'p Profile<'b>,
    /// By index into the table of strings.
    texts: HashMap<u64, StringId>,
    devices: HashMap<u64, i64>,
    /// The frames of each location.
    frames: HashMap<u64, Vec<FrameId>>,
    /// By the locations of a sample.
    stacks: HashMap<Vec<u64>, Option<StackId>>,
}

impl<'p, 'b> Shared<'p, 'b> {
    fn of(profile: &'p Profile<'b>) -> Self {
        Self {
            profile,
            texts: HashMap::new(),
            devices: HashMap::new(),
            frames: HashMap::new(),
            stacks: HashMap::new(),
        }
    }

    fn text(&mut self, index: u64, builder: &mut Builder) -> Result<StringId, TableFull> {
        if let Some(&id) = self.texts.get(&index) {
            return Ok(id);
        }
        let id = builder.string(&String::from_utf8_lossy(self.profile.text(index)))?;
        self.texts.insert(index, id);
        Ok(id)
    }

    /// Interns the frames of a location, which has these lines.
    fn read_location(&mut self, id: u64, lines: &[[u64; 2]], builder: &mut Builder) -> Result<(), TableFull> {
        let mut frames = Vec::with_capacity(lines.len().min(DEEPEST));
        for [function, line] in lines.iter().take(DEEPEST) {
            let [name, file] = self.profile.functions.get(function).copied().unwrap_or_default();
            let (name, filename) = (self.text(name, builder)?, self.text(file, builder)?);
            let line = u32::try_from(*line).unwrap_or(0);
            let frame = Frame { name, filename, line, fx: FxNode::default() };
            frames.push(builder.trace.frames.intern(frame)?);
        }
        self.frames.insert(id, frames);
        Ok(())
    }

    /// Returns the stack of a sample with these locations, innermost first.
    fn stack(&mut self, locations: Vec<u64>, builder: &mut Builder) -> Result<Option<StackId>, TableFull> {
        if let Some(&stack) = self.stacks.get(&locations) {
            return Ok(stack);
        }
        let mut frames = Vec::new();
        for &id in &locations {
            let Some(lines) = self.profile.locations.get(&id) else { continue };
            if !self.frames.contains_key(&id) {
                self.read_location(id, lines, builder)?;
            }
            let of_location = &self.frames[&id];
            frames.extend_from_slice(&of_location[..of_location.len().min(DEEPEST - frames.len())]);
        }
        let stack = if frames.is_empty() { None } else { Some(builder.stack(&frames)?) };
        self.stacks.insert(locations, stack);
        Ok(stack)
    }
}

/// Returns the number of a device: the digits at the end of its name, such as `TFRT_CPU_0`, unless another device has them.
fn device_number(name: &str, known: &mut HashMap<String, i64>) -> i64 {
    if let Some(&number) = known.get(name) {
        return number;
    }
    let digits = name.trim_end_matches(|c: char| !c.is_ascii_digit());
    let prefix = digits.trim_end_matches(|c: char| c.is_ascii_digit());
    let named = digits[prefix.len()..].parse::<i64>().ok().filter(|number| DEVICES.contains(number));
    let is_free = |number: &i64| !known.values().any(|used| used == number);
    let number = named.filter(is_free).or_else(|| (0..DEVICES.end).find(is_free)).unwrap_or(DEVICES.end);
    known.insert(name.to_owned(), number);
    number
}

#[cfg(test)]
mod tests;
