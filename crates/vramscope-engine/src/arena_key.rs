//! [`ArenaKey`]: the pool and the stream that memory belongs to.

use vramscope_trace::PoolId;

/// The pool and the stream that memory belongs to. A block is never used for another pool or stream than its own.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArenaKey {
    /// The private pool; `(0, 0)` is the default pool.
    pub pool: PoolId,
    /// The raw stream; 0 is the default stream.
    pub stream: u64,
}

impl ArenaKey {
    /// Whether it is in the default pool, whose cached blocks may be given back at any time.
    pub fn is_default_pool(self) -> bool {
        self.pool == PoolId::default()
    }

    /// A hash by which [`ArenaTable`](crate::table::ArenaTable) finds the arena; its lowest bits are not used there.
    pub(crate) fn hash(self) -> u64 {
        let mix = |a: u64, b: u64| (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        mix(mix(mix(self.pool.0, 1), self.pool.1), self.stream)
    }
}
