//! Parser of the attribute's arguments.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, Ident, LitStr, Path, Token, ext::IdentExt};

/// `name = "...", with = ..., crate = ...`, in any order, each at most once.
#[derive(Default)]
pub(super) struct Arguments {
    /// Name under which calls are recorded: an expression that implements `AsRef<str>`.
    pub(super) name: Option<Expr>,
    /// The profiler. Default: the global profiler.
    pub(super) with: Option<Expr>,
    /// Path of the crate `vramscope`, if it has another name.
    root: Option<Path>,
}

impl Arguments {
    /// Returns the path of the crate `vramscope`.
    pub(super) fn root(&self) -> TokenStream {
        self.root.as_ref().map_or_else(|| quote! { ::vramscope }, |root| quote! { #root })
    }
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut arguments = Self::default();
        while !input.is_empty() {
            if input.peek(LitStr) {
                let text: LitStr = input.parse()?;
                let message = format!("expected a named argument: `name = {:?}`", text.value());
                return Err(syn::Error::new(text.span(), message));
            }
            let key = Ident::parse_any(input)?;
            let known = ["name", "with", "crate"];
            if !known.iter().any(|known| key == known) {
                let message = format!("unknown argument `{key}`; expected `name`, `with` or `crate`");
                return Err(syn::Error::new(key.span(), message));
            }
            input.parse::<Token![=]>()?;
            let twice = if key == "name" {
                arguments.name.replace(input.parse()?).is_some()
            } else if key == "with" {
                arguments.with.replace(input.parse()?).is_some()
            } else {
                arguments.root.replace(input.call(Path::parse_mod_style)?).is_some()
            };
            if twice {
                return Err(syn::Error::new(key.span(), format!("duplicate argument `{key}`")));
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        Ok(arguments)
    }
}
