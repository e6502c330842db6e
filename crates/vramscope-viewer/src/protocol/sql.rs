//! The SQL console.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A query of the SQL console.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SqlQuery {
    pub(crate) sql: String,
}

/// The tables of the SQL console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub(crate) struct SqlTables {
    /// Why no query can be answered; null if queries can be answered.
    pub(crate) missing: Option<String>,
    pub(crate) tables: Vec<SqlTable>,
}

/// A table of the SQL console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SqlTable {
    /// Its name.
    pub name: String,
    /// The names of its columns.
    pub columns: Vec<String>,
}

/// The result of a query, or the reason why there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SqlAnswer {
    /// The columns, each with a value for each row.
    pub columns: Vec<SqlColumn>,
    /// Whether rows were left out.
    pub is_cut: bool,
    /// The recordings that the query could read.
    pub files: Vec<SqlFile>,
    /// Notes, one line each.
    pub notes: Vec<String>,
    /// Why the query failed; null if it did not.
    pub error: Option<SqlError>,
}

/// A recording that a query could read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SqlFile {
    /// Its value in the column `rank`.
    pub rank: u64,
    /// Its value in the column `file`.
    pub name: String,
    /// Its position in the page.
    pub position: usize,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SqlColumn {
    /// Its name; several columns of a join may have the same.
    pub name: String,
    /// Whether its values are numbers. Whole numbers beyond 2^53, and numbers that JSON does not have, are texts.
    pub is_number: bool,
    /// The values by row.
    #[cfg_attr(test, ts(type = "(number | string | null)[]"))]
    pub values: Vec<Value>,
}

/// Why a query failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct SqlError {
    /// The reason in one line.
    pub text: String,
    /// The line and the column of the wrong word, from 1; null if they are not known.
    pub at: Option<(u64, u64)>,
}
