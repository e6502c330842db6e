//! Messages on standard input and output, one per line, bounded in length and number.
//!
//! The SDK's own transport leaves a line that is not JSON unanswered, and its other errors lack the `id` of JSON-RPC 2.0.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::model::{ErrorData, JsonRpcMessage};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex, Notify};

/// Limit on the length of an input line in bytes.
const LONGEST_LINE: usize = 1 << 20;

/// Approximate limit on the bytes of answers that the client has not read. Above it, no further requests are read.
const MOST_UNREAD: usize = 32 << 20;

/// Approximate bytes of an answer in addition to its text.
const ANSWER: usize = 1 << 10;

/// The transport: stops reading while too many answers are unread, answers lines that are not messages, and skips messages before the
/// first request.
pub(super) struct Lines<R, W> {
    read: BufReader<R>,
    /// The received part of the next line, or the start of a line that is too long.
    line: Vec<u8>,
    write: Arc<Mutex<W>>,
    has_begun: bool,
    unread: Arc<Unread>,
    most_unread: usize,
}

/// Answers that are not yet written.
#[derive(Default)]
struct Unread {
    bytes: AtomicUsize,
    fewer: Notify,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new((read, write): (R, W)) -> Self {
        Self {
            read: BufReader::new(read),
            line: Vec::new(),
            write: Arc::new(Mutex::new(write)),
            has_begun: false,
            unread: Arc::default(),
            most_unread: MOST_UNREAD,
        }
    }

    /// Reads a line, at most one byte more of it than [`LONGEST_LINE`]. `None` if the input has ended. Dropping the future loses no bytes.
    async fn next_line(&mut self) -> Option<Vec<u8>> {
        loop {
            let part = self.read.fill_buf().await.ok().filter(|part| !part.is_empty())?;
            let end = part.iter().position(|&byte| byte == b'\n');
            let length = end.unwrap_or(part.len());
            let room = (LONGEST_LINE + 1).saturating_sub(self.line.len());
            self.line.extend_from_slice(&part[..length.min(room)]);
            self.read.consume(length + usize::from(end.is_some()));
            if end.is_some() {
                return Some(std::mem::take(&mut self.line));
            }
        }
    }

    /// Writes a line after those before it. `bytes` are unread until then.
    fn write<M: Serialize>(
        &self,
        message: &M,
        bytes: usize,
    ) -> impl Future<Output = io::Result<()>> + Send + use<R, W, M> {
        self.unread.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (write, unread) = (Arc::clone(&self.write), Arc::clone(&self.unread));
        let line = serde_json::to_vec(message);
        async move {
            let written = async {
                let mut line = line?;
                line.push(b'\n');
                let mut write = write.lock().await;
                write.write_all(&line).await?;
                write.flush().await
            };
            let written = written.await;
            unread.bytes.fetch_sub(bytes, Ordering::Relaxed);
            unread.fewer.notify_one();
            written
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer>
    for Lines<R, W>
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.write(&message, weight(&message))
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            // `notify_one` stores a permit, so a notification between the check and the wait is not lost.
            while self.unread.bytes.load(Ordering::Relaxed) > self.most_unread {
                self.unread.fewer.notified().await;
            }
            match parsed(&self.next_line().await?) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    self.has_begun |= matches!(message, JsonRpcMessage::Request(_));
                    // The SDK would end the connection if the first message is not a request.
                    if self.has_begun {
                        return Some(message);
                    }
                }
                Err((id, error)) => {
                    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                    // A separate task: the SDK drops the future of this function whenever it has something to send.
                    tokio::spawn(self.write(&answer, ANSWER));
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.write.lock().await.shutdown().await
    }
}

/// Parses a line. `None` is an empty line, or a message that has no answer. The error has the `id` of its answer: null if the request's is
/// unknown.
fn parsed(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, (Value, ErrorData)> {
    if line.len() > LONGEST_LINE {
        let text = format!("the message is longer than {LONGEST_LINE} bytes");
        return Err((Value::Null, ErrorData::invalid_request(text, None)));
    }
    // JSON may begin with a byte order mark (RFC 8259, section 8.1).
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(line)
        .map_err(|e| (Value::Null, ErrorData::parse_error(format!("the line is not JSON: {e}"), None)))?;
    let has = |key: &str| value.get(key).is_some();
    let id = value.get("id").filter(|id| id.is_string() || id.is_i64()).cloned().unwrap_or_default();
    // Notifications and answers have no answer.
    let is_answered = if has("method") { has("id") } else { !has("result") && !has("error") };
    match serde_json::from_value(value) {
        Ok(message) => Ok(Some(message)),
        Err(_) if !is_answered => Ok(None),
        Err(_) => {
            let text = "the message is not a request of JSON-RPC 2.0 (batches are not supported)";
            Err((id, ErrorData::invalid_request(text, None)))
        }
    }
}

/// Approximate bytes of a message. Only answers of tools are large; they contain their JSON again as text.
fn weight(message: &TxJsonRpcMessage<RoleServer>) -> usize {
    use rmcp::model::ServerResult::CallToolResult;

    let JsonRpcMessage::Response(response) = message else { return ANSWER };
    let CallToolResult(result) = &response.result else { return ANSWER };
    let texts = result.content.iter().filter_map(|content| content.as_text());
    ANSWER + 4 * texts.map(|text| text.text.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rmcp::model::{EmptyResult, RequestId, ServerResult};
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};

    use super::*;

    const PING: &[u8] = b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ping\"}\n";

    #[test]
    fn a_client_that_does_not_read_responses_is_not_read() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // A small buffer between the two.
            let (ours, theirs) = tokio::io::duplex(256);
            let mut lines = Lines { most_unread: 2 * ANSWER, ..Lines::new(tokio::io::split(ours)) };
            let (read, mut write) = tokio::io::split(theirs);
            write.write_all(PING).await.unwrap();
            assert!(lines.receive().await.is_some());
            for id in 0..20 {
                let answer = ServerResult::EmptyResult(EmptyResult {});
                tokio::spawn(
                    lines.send(TxJsonRpcMessage::<RoleServer>::response(answer, RequestId::Number(id))),
                );
            }
            write.write_all(PING).await.unwrap();
            let soon = Duration::from_millis(50);
            assert!(tokio::time::timeout(soon, lines.receive()).await.is_err());
            // The client now reads.
            let mut answers = BufReader::new(read).lines();
            for _ in 0..20 {
                assert!(answers.next_line().await.unwrap().is_some());
            }
            assert!(lines.receive().await.is_some());
        });
    }
}
