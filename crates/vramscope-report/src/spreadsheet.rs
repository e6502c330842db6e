//! Cells of tables that spreadsheets open.

use std::borrow::Cow;

/// `text` as a cell that no spreadsheet calculates: what begins with `=`, `+`, `-` or `@` has a `'` in front, which
/// says that it is text. So has what begins like that behind a `;`, where some spreadsheets begin a cell. A number
/// stays as it is.
///
/// ```
/// use vramscope_report::harmless_cell;
///
/// assert_eq!(harmless_cell("=1+1"), "'=1+1");
/// assert_eq!(harmless_cell("a;=1+1"), "a;'=1+1");
/// assert_eq!(harmless_cell("-1.5"), "-1.5");
/// ```
pub fn harmless_cell(text: &str) -> Cow<'_, str> {
    let begins = has_sign(text) && !is_number(text);
    if !begins && !text.split(';').skip(1).any(has_sign) {
        return text.into();
    }
    // What a spreadsheet splits off goes on with the cells that follow in the row: it is never a number by itself.
    let mark = |(i, part)| {
        let is_formula = if i == 0 { begins } else { has_sign(part) };
        if is_formula { format!("'{part}").into() } else { part.into() }
    };
    let cells: Vec<Cow<'_, str>> = text.split(';').enumerate().map(mark).collect();
    cells.join(";").into()
}

/// Spreadsheets look past blanks, and take the wide forms of East Asia for the signs.
fn has_sign(cell: &str) -> bool {
    cell.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
}

fn is_number(cell: &str) -> bool {
    cell.trim_start().parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_formulas_are_marked() {
        for (text, cell) in [
            ("", ""),
            ("model.py:42 forward", "model.py:42 forward"),
            ("a-b=c@d", "a-b=c@d"),
            ("-12", "-12"),
            ("+1e5", "+1e5"),
            ("-inf", "'-inf"),
            ("-1;-2", "'-1;'-2"),
            (" \t=1", "' \t=1"),
            ("\r@x", "'\r@x"),
            ("＝1", "'＝1"),
            ("f;-[NSObject init];g; @h", "f;'-[NSObject init];g;' @h"),
        ] {
            assert_eq!(harmless_cell(text), cell);
        }
    }
}
