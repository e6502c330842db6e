use super::*;

struct Fixed(Vec<SourceFrame>);

impl StackSource for Fixed {
    fn capture(&self, frames: &mut Vec<SourceFrame>) {
        frames.extend_from_slice(&self.0);
    }
}

#[test]
fn the_same_place_is_one_stack_and_another_is_another() {
    let store = StackStore::default();
    let [a, b] = [(); 2].map(|()| store.capture(Stacks::All).unwrap());
    let c = store.capture(Stacks::All).unwrap();
    assert_eq!(a, b);
    assert_ne!(a, c);
}

#[test]
fn supplied_frames_come_before_native_ones_and_alone_with_python() {
    let store = StackStore::default();
    let frame = SourceFrame::new("train.py", 7, "step");
    store.set_source(Some(Arc::new(Fixed(vec![frame.clone()]))));
    let python = store.capture(Stacks::Python).unwrap();
    let all = store.capture(Stacks::All).unwrap();
    let [python, all] = [python, all].map(|stack| store.sites(stack));
    assert_eq!(python.len(), 1);
    assert_eq!(store.meaning(python[0]), Ok(frame.clone()));
    assert_eq!(store.meaning(all[0]), Ok(frame));
    assert!(all.len() > 1 && store.meaning(all[1]).is_err());
}

#[inline(never)]
fn nested(depth: usize, store: &StackStore) -> usize {
    if depth == 0 {
        let stack = store.capture(Stacks::All).unwrap();
        return store.sites(stack).len();
    }
    std::hint::black_box(nested(depth - 1, store))
}

#[test]
fn every_frame_of_a_recursion_is_seen() {
    let store = StackStore::default();
    assert_eq!(nested(50, &store) - nested(10, &store), 40);
}

/// A frame resolves to the line of the call, not to the line after it.
#[test]
fn a_stack_resolves_to_this_function() {
    let store = StackStore::default();
    let line = line!() + 1;
    let stack = store.capture(Stacks::All).unwrap();
    let mut symbols = Symbols::default();
    let all = store.sites(stack).into_iter().flat_map(|site| symbols.frames(&store, site).to_vec());
    let here: Vec<SourceFrame> = all.filter(|f| f.filename.ends_with("stacks/tests.rs")).collect();
    assert!(
        here.iter().any(|f| f.line == line && f.name.contains("a_stack_resolves_to_this_function")),
        "{here:#?}"
    );
}

#[test]
fn a_thread_has_a_stack_of_its_own() {
    let store = StackStore::default();
    std::thread::scope(|s| {
        s.spawn(|| assert!(nested(20, &store) > 20));
    });
}
