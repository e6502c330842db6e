//! [`QueryError`].

use std::io;

use datafusion::error::DataFusionError;
use thiserror::Error;

use crate::cluster::ClusterError;

/// Why a query failed.
#[derive(Debug, Error)]
pub enum QueryError {
    /// The query is invalid or not allowed, or its execution failed.
    #[error("{text}")]
    Sql {
        /// The reason, in one line.
        text: String,
        /// The line and the column of the wrong word, from 1, if they are known.
        at: Option<(u64, u64)>,
    },
    /// The cluster failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A thread could not be started.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        let text = error.strip_backtrace();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let line = lines.collect::<Vec<_>>().join(" ");
        let line = line.trim_start_matches("Error during planning: ");
        let text = match line.split_once(" not supported: ") {
            Some(("DDL" | "DML" | "Statement", what)) => {
                format!("only queries that read are allowed, not {what}")
            }
            // The parser's message is a Rust literal.
            _ => {
                match line.strip_prefix("SQL error: ParserError(\"").and_then(|rest| rest.strip_suffix("\")"))
                {
                    Some(message) => message.replace("\\\"", "\""),
                    None => line.to_owned(),
                }
            }
        };
        let span = error.diagnostic().and_then(|told| told.span);
        let at = span.map(|span| (span.start.line, span.start.column)).or_else(|| place_in(&text));
        Self::Sql { text, at }
    }
}

impl QueryError {
    /// An error without a position in the statement.
    pub(crate) fn failed(text: String) -> Self {
        Self::Sql { text, at: None }
    }
}

/// Returns the position in a message of the parser, which ends in `at Line: 1, Column: 8`.
fn place_in(text: &str) -> Option<(u64, u64)> {
    let (_, place) = text.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let digits = column.find(|c: char| !c.is_ascii_digit()).unwrap_or(column.len());
    Some((line.parse().ok()?, column[..digits].parse().ok()?))
}
