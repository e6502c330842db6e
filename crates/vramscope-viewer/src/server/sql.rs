//! The SQL console. The program that serves the page brings the SQL engine, because this crate has none.

use std::fmt::Debug;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vramscope_analysis::Cancel;
use vramscope_session::Session;

use crate::ViewError;
use crate::server::AppState;
use crate::server::open_file::CancelOnDrop;

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

/// Answers SQL queries over recordings.
pub trait SqlEngine: Debug + Send + Sync {
    /// Returns the tables.
    fn tables(&self) -> Vec<SqlTable>;

    /// Answers a query. `open` has the open recordings, each with its position in the page. Ends soon after it is cancelled.
    fn answer(&self, sql: &str, open: Vec<(usize, Arc<Session>)>, cancel: &Cancel) -> SqlAnswer;
}

/// The maximum length of a request in bytes.
pub(super) const LONGEST_SQL: usize = 64 << 10;

pub(super) async fn tables(State(AppState { library, .. }): State<AppState>) -> Response {
    let tables = match &library.sql {
        Ok(engine) => SqlTables { missing: None, tables: engine.tables() },
        Err(why) => SqlTables { missing: Some(why.clone()), tables: Vec::new() },
    };
    Json(tables).into_response()
}

/// Answers a query. Closing the connection cancels it.
pub(super) async fn answer(
    State(AppState { library, querying, .. }): State<AppState>,
    asked: Bytes,
) -> Result<Response, ViewError> {
    let SqlQuery { sql } = serde_json::from_slice(&asked)
        .map_err(|e| ViewError::Question(format!("invalid SQL request: {e}")))?;
    let engine = library.sql.clone().map_err(ViewError::Question)?;
    let mut open = Vec::new();
    for (position, file) in library.all().await.into_iter().enumerate() {
        if let Some(file) = file {
            open.push((position, Arc::clone(file.recording().await?.session())));
        }
    }
    let cancel = Cancel::default();
    let _cancel_on_drop = CancelOnDrop(cancel.clone());
    // Acquiring fails only if the semaphore is closed, which never happens. A query keeps its place until it has ended.
    let place = querying.acquire_owned().await.ok();
    let answered = tokio::task::spawn_blocking(move || {
        let _place = place;
        engine.answer(&sql, open, &cancel)
    });
    Ok(Json(answered.await.map_err(|_| ViewError::Failed)?).into_response())
}
