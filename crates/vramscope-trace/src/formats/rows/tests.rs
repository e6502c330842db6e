use super::super::window::WhenNeeded;
use super::*;

fn rows(text: &str) -> Vec<Vec<String>> {
    let mut progress = || {};
    let window = Window::new(WhenNeeded { stream: text.as_bytes(), progress: &mut progress }, None);
    let mut rows = Rows::new(window, |line| line.starts_with(b"#"));
    let mut all = Vec::new();
    while rows.next().unwrap() {
        all.push((0..rows.len()).map(|i| rows.field(i).into_owned()).collect());
    }
    all
}

#[test]
fn fields_may_be_quoted() {
    assert_eq!(rows("a,b\r\n\n1,\"x,\"\"y\"\"\nz\",\n"), [vec!["a", "b"], vec!["1", "x,\"y\"\nz", ""]]);
    assert_eq!(rows("last"), [["last"]]);
    assert_eq!(rows(""), Vec::<Vec<String>>::new());
    // A quote inside a field is a quote.
    assert_eq!(rows("a\"b,c\n"), [["a\"b", "c"]]);
}

/// How each row ends, and its first field.
fn ends(text: &str) -> Vec<(RowEnd, String)> {
    let mut progress = || {};
    let window = Window::new(WhenNeeded { stream: text.as_bytes(), progress: &mut progress }, None);
    let mut rows = Rows::new(window, |line| line.starts_with(b"#"));
    let mut all = Vec::new();
    while rows.next().unwrap() {
        all.push((rows.end(), rows.field(0).into_owned()));
    }
    all
}

#[test]
fn a_stray_quote_takes_its_row_and_no_other() {
    use RowEnd::{AtEnd, Complete, Damaged};
    let row = |end, first: &str| (end, first.to_owned());
    // It opens a field that does not end, or ends one too early.
    assert_eq!(ends("#1,\"x\n#2,y\n"), [row(Damaged, "#1"), row(Complete, "#2")]);
    assert_eq!(ends("#1,\"a\"b\",\"c\n#2,y"), [row(Damaged, "#1"), row(AtEnd, "#2")]);
    assert_eq!(ends("\"#1,x\ny\n#2\n"), [row(Damaged, "#1,x\ny"), row(Complete, "#2")]);
    assert_eq!(ends("#1,\"x\ny"), [row(AtEnd, "#1")]);
}

#[test]
fn a_row_has_a_maximum_length() {
    let text = format!("\"{}#2,y\n", "x,\n".repeat(LONGEST_ROW));
    let all = ends(&text);
    assert_eq!(all.first().map(|(end, _)| *end), Some(RowEnd::Damaged));
    assert_eq!(all.last(), Some(&(RowEnd::Complete, "#2".to_owned())));
}
