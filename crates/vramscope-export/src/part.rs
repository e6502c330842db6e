//! [`Part`]: what the rows of one recording have in common in a dataset of many.

use crate::tables::{Column, Kind};

/// A recording in a dataset of many, which is partitioned by rank: what the other columns of its rows say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'p> {
    /// The host that it ran on, where it is known.
    pub host: Option<&'p str>,
    /// Its file.
    pub file: &'p str,
}

impl Part<'_> {
    /// The columns that stand before those of a table.
    pub const COLUMNS: [Column; 2] = [Column::maybe("host", Kind::Text), Column::always("file", Kind::Text)];
}
