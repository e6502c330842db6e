//! What is refused, and at which words. What the attribute makes of a function is tested where it can run, in
//! `vramscope/tests/profile.rs`.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::parse::Parser;

use super::{Arguments, expand, refused};

/// The error of an attribute before an item: what it points at, and what it says.
fn refused(arguments: &str, item: &str) -> (String, String) {
    let item: TokenStream = item.parse().unwrap();
    let arguments: TokenStream = arguments.parse().unwrap();
    let expanded = expand(arguments.clone(), item.clone()).to_string();
    assert!(expanded.contains("compile_error"), "{expanded}");
    assert!(expanded.ends_with(&item.to_string()), "the item is left as it was: {expanded}");
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
    assert_eq!(message, "there is no argument `nmae`; there are `name`, `with` and `crate`");
}

#[test]
fn an_argument_that_is_given_twice_is_refused_at_the_second() {
    let (at, message) = refused("name = \"a\", name = \"b\"", "fn step() {}");
    assert_eq!((at.as_str(), message.as_str()), ("name", "`name` is given twice"));
}

#[test]
fn a_text_alone_is_refused_with_what_was_meant() {
    let (at, message) = refused("\"forward\"", "fn step() {}");
    assert_eq!(at, "\"forward\"");
    assert_eq!(message, "say what the text is: `name = \"forward\"`");
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
fn what_cannot_be_measured_is_refused_at_the_words_that_say_it() {
    for (item, words, reason) in [
        ("pub const fn size() -> u64 { 4 }", "const", "while the program is compiled"),
        ("#[track_caller] fn f() {}", "track_caller", "cannot know its caller"),
        ("unsafe extern \"C\" fn f(n: i32, ...) {}", "...", "variable arguments"),
        ("fn forward(&self);", "forward", "put it where the function is implemented"),
        ("impl Model { fn forward(&self) {} }", "impl", "put it on each one inside"),
        ("trait Layer { fn forward(&self) {} }", "trait", "put it on each one inside"),
        ("mod layers { pub fn forward() {} }", "mod", "put it on each one inside"),
        ("struct Model;", "struct", "and this is none"),
        ("enum Model {}", "enum", "and this is none"),
        ("static STEP: u64 = 4;", "static STEP: u64 = 4;", "and this is none"),
    ] {
        let (at, message) = refused("", item);
        assert_eq!(at, words, "{item}");
        assert!(message.contains(reason), "{item}: {message}");
    }
}

#[test]
fn what_belongs_to_a_function_is_kept() {
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
