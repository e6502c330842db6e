//! Rejected attributes and items, and the source text that each error points at. `vramscope/tests/profile.rs` tests profiled functions,
//! because they can run there.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parser;

use super::{Arguments, expand, refused};

/// The source text that the attribute's error points at, and the message.
fn refused(arguments: &str, item: &str) -> (String, String) {
    let item: TokenStream = item.parse().unwrap();
    let arguments: TokenStream = arguments.parse().unwrap();
    let expanded = expand(arguments.clone(), item.clone()).to_string();
    assert!(expanded.contains("compile_error"), "{expanded}");
    assert!(expanded.ends_with(&item.to_string()), "the item is unchanged: {expanded}");
    let error = match refused::function(item) {
        Err(error) => error,
        Ok(_) => syn::parse2::<Arguments>(arguments).err().unwrap(),
    };
    (error.span().source_text().unwrap_or_default(), error.to_string())
}

#[test]
fn an_argument_that_there_is_not_is_refused_at_its_name() {
    let (at, message) = refused("nmae = \"step\"", "fn step() {}");
    assert_eq!(at, "nmae");
    assert_eq!(message, "unknown argument `nmae`; expected `name`, `with` or `crate`");
}

#[test]
fn an_argument_that_is_given_twice_is_refused_at_the_second() {
    let (at, message) = refused("name = \"a\", name = \"b\"", "fn step() {}");
    assert_eq!((at.as_str(), message.as_str()), ("name", "duplicate argument `name`"));
}

#[test]
fn a_bare_text_is_refused_with_the_right_argument() {
    let (at, message) = refused("\"forward\"", "fn step() {}");
    assert_eq!(at, "\"forward\"");
    assert_eq!(message, "expected a named argument: `name = \"forward\"`");
}

#[test]
fn an_argument_without_a_value_is_refused() {
    let (_, message) = refused("name", "fn step() {}");
    assert_eq!(message, "expected `=`");
    let (at, message) = refused("name: \"a\"", "fn step() {}");
    assert_eq!((at.as_str(), message.as_str()), (":", "expected `=`"));
    let (at, message) = refused("name = \"a\" with = p", "fn step() {}");
    assert_eq!((at.as_str(), message.as_str()), ("with", "expected `,`"));
}

#[test]
fn unsupported_functions_are_refused_at_the_token() {
    for (item, words, reason) in [
        ("pub const fn size() -> u64 { 4 }", "const", "at compile time"),
        ("#[track_caller] fn f() {}", "track_caller", "cannot know its caller"),
        ("unsafe extern \"C\" fn f(n: i32, ...) {}", "...", "variadic functions"),
        ("fn forward(&self);", "forward", "add it where the function is implemented"),
        ("impl Model { fn forward(&self) {} }", "impl", "add it to each function inside"),
        ("trait Layer { fn forward(&self) {} }", "trait", "add it to each function inside"),
        ("mod layers { pub fn forward() {} }", "mod", "add it to each function inside"),
        ("struct Model;", "struct", "applies to functions only"),
        ("enum Model {}", "enum", "applies to functions only"),
        ("static STEP: u64 = 4;", "static STEP: u64 = 4;", "applies to functions only"),
    ] {
        let (at, message) = refused("", item);
        assert_eq!(at, words, "{item}");
        assert!(message.contains(reason), "{item}: {message}");
    }
}

#[test]
fn attributes_and_modifiers_of_a_function_are_kept() {
    let item = "#[doc = \"A step.\"] #[inline] #[must_use] pub(crate) unsafe extern \"C\" fn step<T: Copy>(x: T) -> T where T: Send { x }";
    let item: TokenStream = item.parse().unwrap();
    let expanded: syn::ItemFn = syn::parse2(expand(TokenStream::new(), item.clone())).unwrap();
    let written: syn::ItemFn = syn::parse2(item).unwrap();
    let head =
        |f: syn::ItemFn| syn::ItemFn { block: syn::parse_quote! { {} }, ..f }.into_token_stream().to_string();
    assert_eq!(head(expanded), head(written));
}

#[test]
fn arguments_come_in_any_order() {
    let parse = |text: &str| Parser::parse_str(<Arguments as syn::parse::Parse>::parse, text).unwrap();
    let arguments = parse("crate = ::renamed::inner, with = self.profiler, name = NAME,");
    assert!(arguments.name.is_some() && arguments.with.is_some());
    assert_eq!(arguments.root().to_string(), ":: renamed :: inner");
    assert_eq!(parse("").root().to_string(), ":: vramscope");
}
