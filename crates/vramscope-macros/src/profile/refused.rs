//! What cannot be measured, and why.

use proc_macro2::{Span, TokenStream};
use syn::spanned::Spanned;
use syn::{Error, Item, ItemFn, TraitItem};

/// The function that `item` is.
///
/// # Errors
/// Where it is none, or one that cannot be measured.
pub(super) fn function(item: TokenStream) -> syn::Result<ItemFn> {
    let Ok(function) = syn::parse2::<ItemFn>(item.clone()) else {
        let (span, message) = no_function(item);
        return Err(Error::new(span, message));
    };
    let signature = &function.sig;
    if let Some(token) = &signature.constness {
        let message = "a `const fn` may run while the program is compiled, where nothing can be measured: remove \
                       `const`, or measure its calls with `profile_function`";
        return Err(Error::new(token.span(), message));
    }
    if let Some(variadic) = &signature.variadic {
        let message = "a function with variable arguments cannot be measured: measure its calls with \
                       `profile_function`";
        return Err(Error::new(variadic.span(), message));
    }
    if let Some(attribute) = function.attrs.iter().find(|attribute| attribute.path().is_ident("track_caller"))
    {
        let message = "the body of a measured function is called by the profiler, so that it cannot know its caller: \
                       remove `#[track_caller]`, or measure its calls with `profile_function`";
        return Err(Error::new(attribute.path().span(), message));
    }
    Ok(function)
}

/// Where an item that is no function says what it is, and what to do.
fn no_function(item: TokenStream) -> (Span, &'static str) {
    const EACH: &str = "`#[profile]` measures a function: put it on each one inside that is to be measured";
    const NONE: &str = "`#[profile]` measures a function, and this is none";
    let without_body = "`#[profile]` measures the body of a function, and this has none: put it where the function is \
                        implemented";
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
