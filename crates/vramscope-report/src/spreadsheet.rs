//! Table cells that are safe in spreadsheets.

use std::borrow::Cow;

/// Makes `text` a cell that spreadsheets do not evaluate: puts `'` before text that starts with `=`, `+`, `-` or `@`, also after a `;`,
/// where some spreadsheets start a new cell. Numbers are unchanged.
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
    // After a split at `;`, the part continues with the following cells of the row, so it is never a number.
    let mark = |(i, part)| {
        let is_formula = if i == 0 { begins } else { has_sign(part) };
        if is_formula { format!("'{part}").into() } else { part.into() }
    };
    let cells: Vec<Cow<'_, str>> = text.split(';').enumerate().map(mark).collect();
    cells.join(";").into()
}

/// Whether a cell starts with a formula sign. Spreadsheets skip blanks, and accept full-width forms of the signs.
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
