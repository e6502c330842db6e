//! Messages on standard input and output, one a line, bounded in length and number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

/// The longest line that is taken, in bytes; a longer one is passed over.
const LONGEST_LINE: usize = 1 << 20;

/// Bytes of answers that may wait for the client to read them, about. While there are more, no question is read.
const MOST_UNREAD: usize = 32 << 20;

/// What an answer takes beside its text, in bytes, about.
const ANSWER: usize = 1 << 10;

/// The SDK's transport, which reads no further where nobody takes the answers, and passes over what comes before the first
/// request.
pub(super) struct Lines<R: AsyncRead, W: AsyncWrite> {
    lines: AsyncRwTransport<RoleServer, R, W>,
    has_begun: bool,
    unread: Arc<Unread>,
    most_unread: usize,
}

/// Answers that are not written yet.
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
        // A permit of `notify_one` is kept, so that none is missed between the look and the wait.
        while self.unread.bytes.load(Ordering::Relaxed) > self.most_unread {
            self.unread.fewer.notified().await;
        }
        loop {
            let message = self.lines.receive().await?;
            self.has_begun |= matches!(message, JsonRpcMessage::Request(_));
            // The SDK ends where anything but a request comes first.
            if self.has_begun {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}

/// About how many bytes a message takes. Answers of tools are the large ones, and have their JSON as a text, too.
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
    fn a_client_that_reads_nothing_is_not_read_from() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            // Little fits between the two.
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
            // Now it reads.
            let mut answers = BufReader::new(read).lines();
            for _ in 0..20 {
                assert!(answers.next_line().await.unwrap().is_some());
            }
            assert!(lines.receive().await.is_some());
        });
    }
}
