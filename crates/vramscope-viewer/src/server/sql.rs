//! The SQL console. The program that serves the page brings the SQL engine, because this crate has none.

use std::fmt::Debug;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use vramscope_analysis::Cancel;
use vramscope_session::Session;

use super::AppState;
use super::open_file::CancelOnDrop;
use crate::ViewError;
use crate::protocol::{SqlAnswer, SqlQuery, SqlTable, SqlTables};

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
            open.push((position, Arc::clone(&file.recording().await?.session)));
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
