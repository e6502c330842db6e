//! Items that `#[profile]` rejects, and the errors.

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::{Error, Item, ItemFn, TraitItem};

/// Parses `item` as a function.
///
/// # Errors
/// If the item is not a function, or is a function that cannot be measured.
pub(super) fn function(item: TokenStream) -> syn::Result<ItemFn> {
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        let (span, message) = no_function(item);
        return Err(Error::new(span, message));
    };
    let signature = &function.sig;
    if let Some(token) = &signature.constness {
        let message = "a `const fn` may run at compile time, where the profiler cannot measure it: remove `const`, or \
                       measure its calls with `profile_function`";
        return Err(Error::new(token.span(), message));
    }
    if let Some(variadic) = &signature.variadic {
        let message =
            "`#[profile]` does not support variadic functions: measure their calls with `profile_function`";
        return Err(Error::new(variadic.span(), message));
    }
    if let Some(attribute) = function.attrs.iter().find(|attribute| attribute.path().is_ident("track_caller"))
    {
        let message = "the profiler calls the body of a measured function, so the body cannot know its caller: \
                       remove `#[track_caller]`, or measure its calls with `profile_function`";
        return Err(Error::new(attribute.path().span(), message));
    }
    Ok(function)
}

/// Returns the span and the message of the error for an item that is not a function.
fn no_function(item: TokenStream) -> (Span, &'static str) {
    const EACH: &str = "`#[profile]` applies to functions: add it to each function inside";
    const NONE: &str = "`#[profile]` applies to functions only";
    let without_body = "`#[profile]` needs a function body: add it where the function is implemented";
    if let Ok(TraitItem::Fn(function)) = syn::parse2(item.clone()) {
        return (function.sig.ident.span(), without_body);
    }
    match syn::parse2(item.clone()) {
        Ok(Item::Impl(item)) => (item.impl_token.span(), EACH),
        Ok(Item::Trait(item)) => (item.trait_token.span(), EACH),
        Ok(Item::Mod(item)) => (item.mod_token.span(), EACH),
        Ok(Item::ForeignMod(item)) => (item.abi.span(), without_body),
        Ok(Item::Struct(item)) => (item.struct_token.span(), NONE),
        Ok(Item::Enum(item)) => (item.enum_token.span(), NONE),
        Ok(item) => (item.span(), NONE),
        Err(_) => (item.span(), NONE),
    }
}
