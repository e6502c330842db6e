//! [`ArenaKey`]: the pool and the stream of a block.

use vramscope_trace::PoolId;

/// The pool of the segments of a plan.
pub const PLANNED: PoolId = PoolId(u64::MAX, u64::MAX);

/// The pool and the stream of a block. A block only serves requests of its own pool and stream.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ArenaKey {
    /// The private pool, or `(0, 0)` for the default pool.
    pub pool: PoolId,
    /// The raw stream handle, or 0 for the default stream.
    pub stream: u64,
}

impl ArenaKey {
    /// Whether this is the default pool, whose cached blocks may be released at any time.
    pub fn is_default_pool(self) -> bool {
        self.pool == PoolId::default()
    }

    /// Hash for [`ArenaTable`](crate::table::ArenaTable), which ignores the lowest bits.
    pub(crate) fn hash(self) -> u64 {
        let mix = |a: u64, b: u64| (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        mix(mix(mix(self.pool.0, 1), self.pool.1), self.stream)
    }
}
