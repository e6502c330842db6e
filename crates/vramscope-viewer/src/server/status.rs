//! Converts errors to HTTP responses.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use vramscope_session::SessionError;

use crate::ViewError;

impl IntoResponse for ViewError {
    fn into_response(self) -> Response {
        let status = match self {
            ViewError::NoFile(_) | ViewError::Request(SessionError::Missing(_)) => StatusCode::NOT_FOUND,
            ViewError::Question(_) | ViewError::Request(SessionError::Argument(_)) => StatusCode::BAD_REQUEST,
            ViewError::Unreadable { .. } | ViewError::NotRead(_) | ViewError::Request(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            ViewError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            ViewError::Stalled => StatusCode::REQUEST_TIMEOUT,
            ViewError::Json(_) | ViewError::Io(_) | ViewError::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(serde_json::json!({ "error": self.to_string() }))).into_response()
    }
}
