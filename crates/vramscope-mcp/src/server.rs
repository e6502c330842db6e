//! The protocol: dispatches calls of tools, limits their number, reports progress and handles cancellation.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, Implementation, JsonObject,
    ListPromptsResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, ServerConfig, Tool as Described,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use vramscope_report::Shown;

use super::bounded::Bounded;
use super::prompt;
use super::questions::{Desk, Tool};
use super::shown;
use super::tools::{self, INSTRUCTIONS};
use super::work::Work;

/// Limit on the calls that run in parallel: each uses several cores, and memory.
const AT_ONCE: usize = 2;

/// Limit on the accepted calls, including waiting ones.
const MOST_TAKEN: usize = 256;

/// Interval of progress notifications.
const TICK: Duration = Duration::from_millis(500);

/// Limit on the length of an error in bytes.
const LONGEST_ERROR: usize = 1000;

/// The server of one client.
pub(super) struct Server {
    desk: Arc<Desk>,
    tools: Vec<Described>,
    taken: Semaphore,
    workers: Arc<Semaphore>,
}

impl Server {
    pub(super) fn new(desk: Desk) -> Self {
        Self {
            desk: Arc::new(desk),
            tools: tools::all(),
            taken: Semaphore::new(MOST_TAKEN),
            workers: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Answers on a separate thread. Dropping the future cancels the call.
    async fn answer(&self, tool: Tool, arguments: JsonObject, work: &Work) -> Result<Bounded, String> {
        let Ok(_taken) = self.taken.try_acquire() else {
            return Err(format!("{MOST_TAKEN} calls are already waiting; try again after some are answered"));
        };
        let _unwanted = CancelOnDrop(work.clone());
        let Ok(worker) = Arc::clone(&self.workers).acquire_owned().await else {
            return Err("the server is shutting down".to_owned());
        };
        let (desk, work) = (Arc::clone(&self.desk), work.clone());
        let answer = tokio::task::spawn_blocking(move || {
            let answer = desk.ask(tool, arguments, &work);
            // A cancelled call runs until it checks for cancellation.
            drop(worker);
            answer
        });
        match answer.await {
            Ok(answer) => answer.map_err(|e| format!("{e:#}")),
            Err(_) => Err("internal error in vramscope; please report it with the recording".to_owned()),
        }
    }
}

/// Cancels a call when it is dropped.
struct CancelOnDrop(Work);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel().cancel();
    }
}

/// Sends progress notifications to a client that requested them, until the future is dropped. Progress is the amount done of the total;
/// for calls without an amount, the elapsed seconds.
async fn tell_progress(tool: Tool, context: &RequestContext<RoleServer>, work: &Work) -> Infallible {
    let Some(token) = context.meta.get_progress_token() else { return std::future::pending().await };
    let began = Instant::now();
    let mut last = 0.0;
    loop {
        tokio::time::sleep(TICK).await;
        let (done, total) = work.progress();
        let now = if done > 0 { done as f64 } else { began.elapsed().as_secs_f64() };
        if now <= last {
            continue;
        }
        last = now;
        let mut progress = ProgressNotificationParam::new(token.clone(), now).with_message(tool.name());
        progress.total = total.map(|total| total as f64);
        // A failed notification is ignored; the answer is sent separately.
        context.peer.notify_progress(progress).await.ok();
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_prompts().build())
            .with_server_info(
                Implementation::new("vramscope", env!("CARGO_PKG_VERSION")).with_title("vramscope"),
            )
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.clone()))
    }

    async fn call_tool(
        &self,
        asked: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = Tool::named(&asked.name) else {
            let name = shown(&asked.name);
            return Err(ErrorData::invalid_params(format!("unknown tool {name}"), None));
        };
        let work = Work::default();
        let answer = tokio::select! {
            answer = self.answer(tool, asked.arguments.unwrap_or_default(), &work) => answer,
            never = tell_progress(tool, &context, &work) => match never {},
            () = context.ct.cancelled() => Err("cancelled".to_owned()),
        };
        let result = match answer {
            Ok(Bounded { value, text }) => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = Some(value);
                result
            }
            Err(error) => {
                let line = Shown::at_most(&error, LONGEST_ERROR);
                CallToolResult::error(vec![ContentBlock::text(String::from(line))])
            }
        };
        Ok(result.into())
    }

    /// A request whose method the SDK does not know, or whose parameters it cannot read.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = shown(&request.method);
        Err(match &*request.method {
            "initialize" | "ping" | "prompts/get" | "prompts/list" | "tools/call" | "tools/list" => {
                ErrorData::invalid_params(format!("invalid parameters for {method}"), None)
            }
            _ => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {method}"), None),
        })
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![prompt::described()]))
    }

    async fn get_prompt(
        &self,
        asked: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompt::filled(&asked).map(Into::into)
    }
}
