//! A pair of values, one for each of two recordings.

/// A pair of values, one for each of two recordings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Both<T> {
    /// The value for the first recording.
    pub a: T,
    /// The value for the second recording.
    pub b: T,
}

impl<T> Both<T> {
    /// Applies `of` to each value.
    pub fn map<R>(&self, of: impl Fn(&T) -> R) -> Both<R> {
        Both { a: of(&self.a), b: of(&self.b) }
    }

    /// Returns the value for one side.
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// Returns the value for one side as a mutable reference.
    pub(crate) fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }
}

impl<T: PartialEq> Both<T> {
    /// Whether the two values are equal.
    pub fn is_same(&self) -> bool {
        self.a == self.b
    }
}

impl Both<bool> {
    /// Returns the only side that is true.
    pub(crate) fn only(&self) -> Option<Side> {
        match (self.a, self.b) {
            (true, false) => Some(Side::A),
            (false, true) => Some(Side::B),
            _ => None,
        }
    }
}

impl Both<u64> {
    /// The second value minus the first.
    pub fn difference(&self) -> i64 {
        self.b.wrapping_sub(self.a).cast_signed()
    }
}

/// One of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The first recording.
    A,
    /// The second recording.
    B,
}

impl Side {
    /// Both sides, in order.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The opposite side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}
