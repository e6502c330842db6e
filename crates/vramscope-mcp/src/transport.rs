//! Messages on standard input and output, one per line, bounded in length and number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

/// Limit on the length of an input line in bytes; longer lines are skipped.
const LONGEST_LINE: usize = 1 << 20;

/// Approximate limit on the bytes of answers that the client has not read. Above it, no further requests are read.
const MOST_UNREAD: usize = 32 << 20;

/// Approximate bytes of an answer in addition to its text.
const ANSWER: usize = 1 << 10;

/// Wraps the SDK's transport: stops reading while too many answers are unread, and skips messages before the first request.
pub(super) struct Lines<R: AsyncRead, W: AsyncWrite> {
    lines: AsyncRwTransport<RoleServer, R, W>,
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
        let lines = AsyncRwTransport::new_server(read, write).with_max_line_length(LONGEST_LINE);
        Self { lines, has_begun: false, unread: Arc::default(), most_unread: MOST_UNREAD }
    }
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer>
    for Lines<R, W>
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let bytes = weight(&message);
        self.unread.bytes.fetch_add(bytes, Ordering::Relaxed);
        let unread = Arc::clone(&self.unread);
        let sent = self.lines.send(message);
        async move {
            let sent = sent.await;
            unread.bytes.fetch_sub(bytes, Ordering::Relaxed);
            unread.fewer.notify_one();
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        // `notify_one` stores a permit, so a notification between the check and the wait is not lost.
        while self.unread.bytes.load(Ordering::Relaxed) > self.most_unread {
            self.unread.fewer.notified().await;
        }
        loop {
            let message = self.lines.receive().await?;
            self.has_begun |= matches!(message, JsonRpcMessage::Request(_));
            // The SDK would end the connection if the first message is not a request.
            if self.has_begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
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
