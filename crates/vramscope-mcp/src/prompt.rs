//! The prompt `explain_out_of_memory`: a user selects it, and the assistant explains an out-of-memory failure.

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::Value;

use super::shown;

const NAME: &str = "explain_out_of_memory";
const DESCRIPTION: &str =
    "Explain why a recorded run is out of GPU memory, or nearly out, and what to change";

pub(super) fn described() -> Prompt {
    let path = PromptArgument::new("path").with_description("The recording's file").with_required(true);
    Prompt::new(NAME, Some(DESCRIPTION), Some(vec![path])).with_title("Explain an out-of-memory failure")
}

/// The user message of the prompt.
///
/// # Errors
/// The prompt is unknown, or its `path` is missing.
pub(super) fn filled(asked: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    if asked.name != NAME {
        let name = shown(&asked.name);
        return Err(ErrorData::invalid_params(
            format!("unknown prompt {name}; the only prompt is {NAME}"),
            None,
        ));
    }
    let path = asked.arguments.as_ref().and_then(|arguments| arguments.get("path")).and_then(Value::as_str);
    let Some(path) = path else {
        return Err(ErrorData::invalid_params("path: missing; give the recording's file", None));
    };
    let text = format!(
        "Explain the GPU memory of the recording {path:?} with the tools of vramscope. `open` it and read its `summary`. If a request \
         failed, report its size, the free memory, and why that memory was not usable: too little in total, or fragmented. Report the \
         largest holders at that event with `holders`, by line and, if known, by category. Check `leaks`. Then `replay` the recording, \
         and name the settings of PYTORCH_CUDA_ALLOC_CONF or the smallest device (`find_capacity`) that would have fit the run, and \
         whether that is exact. End with the one to three most effective changes, each with its bytes."
    );
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description(DESCRIPTION))
}
