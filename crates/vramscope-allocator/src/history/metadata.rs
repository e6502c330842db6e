//! Text that a thread's events carry.

use std::cell::RefCell;
use std::sync::Arc;

use super::recorder::{Recorder, TextKey};

thread_local! {
    static METADATA: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Sets the text that events of this thread carry from now on (`torch.cuda.memory._set_memory_metadata`).
pub fn set_user_metadata(text: Option<&str>) {
    METADATA.set(text.filter(|t| !t.is_empty()).map(Arc::from));
}

/// The text that events of this thread carry (`_get_memory_metadata`).
pub fn user_metadata() -> Option<Arc<str>> {
    METADATA.try_with(|text| text.borrow().clone()).ok().flatten()
}

/// Sets a text until it is dropped, then the one before.
#[must_use = "the text is put back when the guard is dropped"]
pub struct UserMetadata {
    before: Option<Arc<str>>,
    /// The text is this thread's.
    _this_thread: std::marker::PhantomData<*const ()>,
}

impl UserMetadata {
    /// Events of this thread carry `text` while the guard lives.
    pub fn set(text: &str) -> Self {
        let before = user_metadata();
        set_user_metadata(Some(text));
        Self { before, _this_thread: std::marker::PhantomData }
    }
}

impl Drop for UserMetadata {
    fn drop(&mut self) {
        set_user_metadata(self.before.as_deref());
    }
}

/// The key of this thread's text in a recorder.
pub(super) fn current(recorder: &Recorder) -> Option<TextKey> {
    user_metadata().map(|text| recorder.texts.intern(&text))
}
