//! The attribute macro `#[profile]`. The crate `vramscope` re-exports and documents it as `vramscope::profile`.

mod profile;

use proc_macro::TokenStream;

/// Profiles every call of a function.
#[proc_macro_attribute]
pub fn profile(arguments: TokenStream, item: TokenStream) -> TokenStream {
    profile::expand(arguments.into(), item.into()).into()
}
