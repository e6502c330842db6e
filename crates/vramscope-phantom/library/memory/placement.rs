//! The addresses of memory of `cudaMalloc` and `cuMemAlloc`.
//!
//! PyTorch's allocator takes the free block with the lowest address among blocks of the same size, so the addresses decide which block it
//! splits. On Linux, NVIDIA's driver reserves addresses in chunks of a multiple of 32 MiB, each below the one before it if there is room.
//! It first looks for room in the newest chunk. Recordings from an H200 (driver 580.159.04) show this: with these rules, the blocks of 22
//! programs are the same, and with rising addresses those of 18. Recordings of other cards on Linux have the chunks too. On Windows,
//! addresses rise without gaps, as [`ADDRESSES`] can ask for.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::PIECE;
use super::space::Space;

/// The environment variable that asks for rising addresses without gaps, if it is `rising`.
const ADDRESSES: &str = "VRAMSCOPE_PHANTOM_ADDRESSES";

/// Chunks have a multiple of this size, in bytes, and begin at a multiple of it.
const CHUNK: u64 = 32 << 20;

/// The chunks of a device.
#[derive(Default)]
pub(super) struct Chunks {
    /// By their first address.
    all: BTreeMap<u64, Chunk>,
    /// The first addresses of chunks with free addresses, by the chunk's number.
    with_room: BTreeMap<u64, u64>,
    /// Number of chunks so far.
    count: u64,
}

struct Chunk {
    number: u64,
    bytes: u64,
    free: Space,
}

impl Chunks {
    /// Takes whole pieces of addresses, from a chunk or from `space`.
    pub(super) fn take(&mut self, space: &mut Space, size: u64) -> Option<u64> {
        if rise() {
            return space.take(size, PIECE);
        }
        for (&number, &start) in self.with_room.iter().rev() {
            let Some(chunk) = self.all.get_mut(&start) else { continue };
            if let Some(address) = chunk.free.take(size, PIECE) {
                if chunk.free.is_empty() {
                    self.with_room.remove(&number);
                }
                return Some(address);
            }
        }
        let bytes = size.checked_next_multiple_of(CHUNK)?;
        let start = space.take_highest(bytes, CHUNK)?;
        let (number, mut free) = (self.count, Space::new(start, bytes));
        self.count += 1;
        free.take(size, PIECE);
        if !free.is_empty() {
            self.with_room.insert(number, start);
        }
        self.all.insert(start, Chunk { number, bytes, free });
        Some(start)
    }

    /// Returns addresses that were taken. A chunk of which nothing is used any more goes back to `space`.
    pub(super) fn give_back(&mut self, space: &mut Space, address: u64, size: u64) {
        let Some((&start, chunk)) = self.all.range_mut(..=address).next_back() else {
            return space.give_back(address, size);
        };
        chunk.free.give_back(address, size);
        let (number, bytes) = (chunk.number, chunk.bytes);
        if chunk.free.has_all(start, bytes) {
            self.all.remove(&start);
            self.with_room.remove(&number);
            space.give_back(start, bytes);
        } else {
            self.with_room.insert(number, start);
        }
    }
}

/// Whether addresses rise without gaps.
fn rise() -> bool {
    static RISE: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os(ADDRESSES).is_some_and(|order| order == "rising"));
    *RISE
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// The first allocations of a program on an H200, in MiB: sizes, and distances to the address of the first.
    #[test]
    fn addresses_are_in_the_order_of_the_driver() {
        let mut space = Space::new(0, 4096 * MIB);
        let mut chunks = Chunks::default();
        let recorded = [
            (160, -160),
            (2, 56),
            (224, -384),
            (96, -480),
            (80, -576),
            (224, -800),
            (28, -832),
            (28, -864),
            (112, -992),
            (64, -1056),
            (2, -880),
        ];
        let first = chunks.take(&mut space, 56 * MIB).unwrap();
        for (size, distance) in recorded {
            let address = chunks.take(&mut space, size * MIB).unwrap();
            assert_eq!(address.wrapping_sub(first) as i64, distance * MIB as i64, "{size} MiB");
        }
    }

    #[test]
    fn a_chunk_goes_back_with_its_last_allocation() {
        let mut space = Space::new(0, 96 * MIB);
        let mut chunks = Chunks::default();
        let mut take = |chunks: &mut Chunks, size| chunks.take(&mut space, size * MIB);
        assert_eq!(
            [20, 6, 32, 6, 30].map(|size| take(&mut chunks, size)),
            [64, 84, 32, 90, 0].map(|at| Some(at * MIB))
        );
        assert_eq!(take(&mut chunks, 4), None);
        for (address, size) in [(84, 6), (32, 32)] {
            chunks.give_back(&mut space, address * MIB, size * MIB);
        }
        assert_eq!(chunks.take(&mut space, 4 * MIB), Some(84 * MIB));
        for (address, size) in [(64, 20), (84, 4), (90, 6), (0, 30)] {
            chunks.give_back(&mut space, address * MIB, size * MIB);
        }
        assert!(space.has_all(0, 96 * MIB) && chunks.all.is_empty() && chunks.with_room.is_empty());
    }
}
