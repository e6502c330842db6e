//! [`Part`]: the common columns of one recording's rows in a dataset.

use crate::tables::{Column, ColumnKind};

/// A recording in a dataset that is partitioned by rank: the constant columns of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'p> {
    /// Its host, if known.
    pub host: Option<&'p str>,
    /// The file of the recording.
    pub file: &'p str,
}

impl Part<'_> {
    /// The columns in front of a table's columns.
    pub const COLUMNS: [Column; 2] =
        [Column::maybe("host", ColumnKind::Text), Column::always("file", ColumnKind::Text)];
}
