//! The same of each of two recordings.

/// The same of each of two recordings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Both<T> {
    /// Of the first recording.
    pub a: T,
    /// Of the second.
    pub b: T,
}

impl<T> Both<T> {
    /// Makes something of each.
    pub fn map<R>(&self, of: impl Fn(&T) -> R) -> Both<R> {
        Both { a: of(&self.a), b: of(&self.b) }
    }

    /// What belongs to one of the two.
    pub fn of(&self, side: Side) -> &T {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// What belongs to one of the two, to be changed.
    pub fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }
}

impl<T: PartialEq> Both<T> {
    /// Both are equal.
    pub fn is_same(&self) -> bool {
        self.a == self.b
    }
}

impl Both<u64> {
    /// The second minus the first.
    pub fn difference(&self) -> i64 {
        self.b.wrapping_sub(self.a).cast_signed()
    }
}

/// One of two recordings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// The first and the second.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}
