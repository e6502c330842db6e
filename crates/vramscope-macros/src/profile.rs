//! Expansion of `#[profile]`: calls the body of a function through a profiler.

mod arguments;
mod refused;
#[cfg(test)]
mod tests;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Expr, FnArg, Ident, ItemFn, Pat, ReceiverKind, ReturnType, Stmt, Type, parse_quote_spanned,
};

use arguments::Arguments;

/// Returns the profiled function. On an error, returns the unchanged item and the error, so that one mistake gives one error.
pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let expanded = refused::function(item.clone())
        .and_then(|function| syn::parse2(arguments).map(|arguments| measured(&arguments, function)));
    expanded.unwrap_or_else(|error| {
        let error = error.to_compile_error();
        quote! { #error #item }
    })
}

fn measured(arguments: &Arguments, mut function: ItemFn) -> TokenStream {
    let inputs = Inputs::of(&mut function);
    let ItemFn { sig, block, .. } = &function;
    // Hygienic names, which cannot collide with names in the function.
    let here = Span::mixed_site();
    let root = arguments.root();
    let [profiler, value] = ["profiler", "value"].map(|name| Ident::new(name, here));
    let find = match &arguments.with {
        Some(with) => quote_spanned! { with.span() =>
            let #profiler: &#root::profiler::GpuMemoryProfiler = &(#with);
            let #profiler = ::core::option::Option::Some(#profiler);
        },
        None => quote_spanned! { here =>
            let #profiler = #root::profiler::global_profiler();
            let #profiler = #profiler.as_deref();
        },
    };
    let name = match &arguments.name {
        Some(name) => quote_spanned! { name.span() => ::core::convert::AsRef::<str>::as_ref(&#name) },
        None => {
            let name = sig.ident.unraw().to_string();
            quote_spanned! { sig.ident.span() => #name }
        }
    };
    let attribute = quote_spanned! { here => #root::profiler::attribute };
    let error = quote_spanned! { here => |#value| {
        #[allow(unused_imports)]
        use #attribute::{ErrorInWords as _, ErrorWithoutWords as _, NoError as _};
        (&&&#attribute::Returned(#value)).error()
    } };
    let returned = match &sig.output {
        ReturnType::Default => parse_quote_spanned! { here => () },
        ReturnType::Type(_, returned) => nameable(returned),
    };
    let statements = &block.stmts;
    let body = if sig.asyncness.is_some() {
        // An `async` block has no place for a return type; a `return` that is never reached fixes its type.
        quote_spanned! { here =>
            #attribute::future(#profiler, #name, async move {
                #[allow(unreachable_code, clippy::diverging_sub_expression, clippy::let_unit_value)]
                if false {
                    let #value: #returned = loop {};
                    return #value;
                }
                #inputs
                #(#statements)*
            }, #error).await
        }
    } else if matches!(returned, Type::Never(_)) {
        quote_spanned! { here =>
            let _context = #profiler.map(|#profiler| #profiler.profile_context(#name));
            #inputs
            #(#statements)*
        }
    } else {
        quote_spanned! { here =>
            #attribute::call(#profiler, #name, move || -> #returned { #inputs #(#statements)* }, #error)
        }
    };
    function.block.stmts = vec![Stmt::Expr(Expr::Verbatim(quote! { #find #body }), None)];
    function.into_token_stream()
}

/// Moves the function's arguments into the closure or future, so that the profiler also measures what their drop frees.
struct Inputs(Vec<TokenStream>);

impl Inputs {
    /// Collects the arguments. An argument with a pattern gets a name, and the body destructures it.
    fn of(function: &mut ItemFn) -> Self {
        let mut moved = Vec::new();
        let mut taken_apart = Vec::new();
        for (n, input) in function.sig.inputs.iter_mut().enumerate() {
            let (attributes, name) = match input {
                FnArg::Receiver(receiver) if matches!(receiver.kind, ReceiverKind::Reference(..)) => continue,
                FnArg::Receiver(receiver) => {
                    let this = receiver.self_token;
                    (&receiver.attrs, quote! { #this })
                }
                FnArg::Typed(argument) => {
                    let name = match &*argument.pat {
                        Pat::Ident(name) if name.by_ref.is_none() && name.subpat.is_none() => {
                            let name = &name.ident;
                            quote! { #name }
                        }
                        pattern => {
                            let name = format_ident!("argument_{n}", span = Span::mixed_site());
                            let conditions = conditions(&argument.attrs);
                            taken_apart.push(quote! { #(#conditions)* let #pattern = #name; });
                            *argument.pat = parse_quote_spanned! { pattern.span() => #name };
                            quote! { #name }
                        }
                    };
                    // Dropping a reference does nothing.
                    if matches!(&*argument.ty, Type::Reference(_)) {
                        continue;
                    }
                    (&argument.attrs, name)
                }
            };
            let conditions = conditions(attributes);
            moved.push(quote_spanned! { Span::mixed_site() => #(#conditions)* let _ = &#name; });
        }
        // The body drops its captures in reverse order of their first mention, as a function does with its arguments.
        moved.extend(taken_apart);
        Self(moved)
    }
}

impl ToTokens for Inputs {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        tokens.extend(self.0.iter().cloned());
    }
}

/// Returns the `cfg` attributes of an argument.
fn conditions(attributes: &[Attribute]) -> Vec<&Attribute> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).collect()
}

/// Returns the return type of a closure: replaces `impl Trait` by `_`, which the compiler infers.
fn nameable(returned: &Type) -> Type {
    struct Named;
    impl VisitMut for Named {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            match ty {
                Type::ImplTrait(_) => *ty = parse_quote_spanned! { ty.span() => _ },
                // The compiler cannot infer the types inside a function pointer.
                Type::FnPtr(_) => {}
                _ => visit_mut::visit_type_mut(self, ty),
            }
        }
    }
    let mut returned = returned.clone();
    Named.visit_type_mut(&mut returned);
    returned
}
