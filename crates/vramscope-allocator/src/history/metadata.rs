//! The user metadata of a thread's events.

use std::cell::RefCell;
use std::sync::Arc;

use super::recorder::{Recorder, TextKey};

thread_local! {
    static METADATA: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Sets the metadata that this thread's events carry from now on (`torch.cuda.memory._set_memory_metadata`).
pub fn set_user_metadata(text: Option<&str>) {
    METADATA.set(text.filter(|t| !t.is_empty()).map(Arc::from));
}

/// Returns the metadata that this thread's events carry (`_get_memory_metadata`).
pub fn user_metadata() -> Option<Arc<str>> {
    METADATA.try_with(|text| text.borrow().clone()).ok().flatten()
}

/// Sets metadata until the guard is dropped, then restores the previous metadata.
#[must_use = "dropping the guard restores the previous metadata"]
pub struct UserMetadata {
    before: Option<Arc<str>>,
    /// The metadata belongs to this thread.
    _this_thread: std::marker::PhantomData<*const ()>,
}

impl UserMetadata {
    /// Sets `text` as the metadata of this thread's events until the guard is dropped.
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

/// Returns the key of this thread's metadata in `recorder`.
pub(super) fn current(recorder: &Recorder) -> Option<TextKey> {
    user_metadata().map(|text| recorder.texts.intern(&text))
}
