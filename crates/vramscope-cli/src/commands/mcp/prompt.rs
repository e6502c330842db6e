//! The one prompt: a user picks it, and the assistant knows how to go about an out of memory.

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role,
};
use serde_json::Value;

use super::shown;

const NAME: &str = "explain_out_of_memory";
const DESCRIPTION: &str =
    "Explain why a recorded run is out of GPU memory, or near it, and what to do about it";

pub(super) fn described() -> Prompt {
    let path = PromptArgument::new("path").with_description("The file of the recording").with_required(true);
    Prompt::new(NAME, Some(DESCRIPTION), Some(vec![path])).with_title("Explain an out of memory")
}

/// What the user then says.
///
/// # Errors
/// Where the prompt or its path is another.
pub(super) fn filled(asked: &GetPromptRequestParams) -> Result<GetPromptResult, ErrorData> {
    if asked.name != NAME {
        let name = shown(&asked.name);
        return Err(ErrorData::invalid_params(format!("there is no prompt {name}; there is {NAME}"), None));
    }
    let path = asked.arguments.as_ref().and_then(|arguments| arguments.get("path")).and_then(Value::as_str);
    let Some(path) = path else {
        return Err(ErrorData::invalid_params("path: name the file of the recording", None));
    };
    let text = format!(
        "Explain the GPU memory of the recording {path:?} with the tools of vramscope. `open` it and read its `summary`. If a request \
         failed, say what was asked, what was free and why none of it was usable: too little in all, or fragmented. Say what \
         held the most at that moment, by `holders` of the lines and, where known, of the categories. Look at `leaks`. Then \
         `replay` it, and name the settings of PYTORCH_CUDA_ALLOC_CONF or the smallest device (`find_capacity`) that would \
         have served, and whether that is exact. End with the one to three changes that help most, each with its bytes."
    );
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).with_description(DESCRIPTION))
}
