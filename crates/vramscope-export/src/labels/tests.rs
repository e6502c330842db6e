use super::*;
use crate::testing;

#[test]
fn a_frame_cannot_end_a_line_a_frame_or_a_stack() {
    for (name, frame) in [
        ("model.py:42 forward", "model.py:42 forward"),
        ("a;b", "a,b"),
        ("a\nb", "a\\u{a}b"),
        ("a\u{2028}b\u{a0}c", "a\\u{2028}b c"),
        ("operator 12", "operator_12"),
        ("operator 1.5", "operator_1.5"),
        ("operator\u{3000}7", "operator_7"),
        ("# note", "_# note"),
        (" ", "(unnamed)"),
        ("\u{ffff}", "\u{fffd}"),
    ] {
        assert_eq!(one_frame(name), frame, "{name:?}");
    }
}

#[test]
fn a_very_deep_stack_keeps_its_innermost_frames() {
    let trace = testing::deep_stack(100_000);
    let frames = vramscope_analysis::Frames::of(&trace);
    let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
    let (stack, _) = trace.stacks.iter().next().unwrap();
    let text = labels.stack(stack);
    assert!(text.len() <= LONGEST_STACK + 40, "{}", text.len());
    assert!(text.starts_with('(') && text.contains(" more frames);"), "{}", &text[..40]);
    assert!(text.ends_with("a.py:0 f"), "{}", &text[text.len() - 40..]);
    assert_eq!(*labels.users_stack(stack), *text);
}

#[test]
fn the_users_stack_is_made_once() {
    let trace = testing::deep_stack(3);
    let frames = vramscope_analysis::Frames::of(&trace);
    let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
    let (stack, _) = trace.stacks.iter().next().unwrap();
    let text = labels.users_stack(stack);
    assert!(Rc::ptr_eq(&text, &labels.users_stack(stack)));
    assert!(Rc::ptr_eq(&labels.own_frame(Some(stack)), &labels.own_frame(Some(stack))));
}

#[test]
fn a_name_of_any_length_is_a_frame_of_a_bounded_one() {
    for length in [5_000, 5_000_000] {
        let long = "x".repeat(length);
        let frames = serde_json::json!([
            {"name": "step", "filename": format!("/{long}.py"), "line": 3},
            {"name": long, "filename": "b.py", "line": 4},
            {"name": long, "filename": "??", "line": 0},
        ]);
        let event = serde_json::json!({"action": "alloc", "addr": 512, "size": 9, "stream": 0,
            "frames": frames, "user_metadata": long});
        let trace = testing::read(&serde_json::json!({"segments": [], "device_traces": [[event]]}));
        let frames = vramscope_analysis::Frames::of(&trace);
        let mut labels = Labels::new(Names { trace: &trace, frames: &frames });
        for (id, _) in trace.frames.iter() {
            let text = labels.frame(id);
            assert!(text.len() <= LONGEST_FRAME + '…'.len_utf8(), "{}", text.len());
            assert!(text.contains("xxx") && text.contains('…'), "{text}");
        }
        let metadata = trace.tags.iter().find_map(|t| t.user_metadata).unwrap();
        assert!(labels.text(metadata).len() <= LONGEST_STACK + '…'.len_utf8());
    }
}
