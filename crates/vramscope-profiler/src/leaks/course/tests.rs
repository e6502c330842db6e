use super::*;

#[test]
fn a_long_run_keeps_few_steps_and_the_same_verdict() {
    let mut course = Course::default();
    for call in 1..=100_000u64 {
        course.push_until(call, call / 10 + call % 7);
    }
    assert!(course.steps.len() < 4_000, "{}", course.steps.len());
    let floor = Floor::of([&course].into_iter(), 10_000).unwrap();
    assert!(floor.points.len() as u64 <= MOST_POINTS && floor.points.is_sorted());
    assert!(keeps_growing(&floor.points), "{floor:?}");
}

/// A line in a loop unrolled four times: each copy allocates every fourth block.
#[test]
fn parts_that_take_turns_have_the_floor_of_the_whole() {
    for calls in [3, 10, 64, 1_000, 50_000u64] {
        let mut parts: [Course; 4] = Default::default();
        let mut whole = Course::default();
        for call in 0..calls {
            for (i, part) in parts.iter_mut().enumerate() {
                part.push_until(call + 1, (call + 4 - i as u64) / 4);
            }
            whole.push_until(call + 1, call + 1);
        }
        let of_parts = Floor::of(parts.iter(), calls).unwrap();
        let of_whole = Floor::of([&whole].into_iter(), calls).unwrap();
        assert_eq!((of_parts.calls, of_parts.calls_per_point), (calls, of_whole.calls_per_point));
        assert!(keeps_growing(&of_parts.points), "{of_parts:?}");
        let exact: Vec<u64> =
            (0..calls).step_by(of_whole.calls_per_point as usize).map(|call| call + 1).collect();
        let near = |points: &[u64]| {
            points.iter().zip(&exact).all(|(point, exact)| point.abs_diff(*exact) <= calls / 64)
        };
        assert!(near(&of_parts.points) && near(&of_whole.points), "{of_parts:?} {of_whole:?}");
    }
}

/// A list that keeps its newest three blocks, filled by eight copies of one line.
#[test]
fn parts_of_a_bounded_list_are_no_leak() {
    let mut parts: [Course; 8] = Default::default();
    for call in 0..100u64 {
        for (i, part) in parts.iter_mut().enumerate() {
            let held = (call.saturating_sub(2)..=call).filter(|made| *made % 8 == i as u64).count();
            part.push_until(call + 1, held as u64);
        }
    }
    let floor = Floor::of(parts.iter(), 3).unwrap();
    assert_eq!((floor.calls, floor.points.last()), (100, Some(&3)));
    assert!(!keeps_growing(&floor.points), "{floor:?}");
}

/// Adding calls late and together gives the same steps as adding them one by one.
#[test]
fn a_course_does_not_depend_on_when_it_is_added_to() {
    let (mut one_by_one, mut together) = (Course::default(), Course::default());
    let mut calls = 0;
    for (value, more) in (0..400u64).map(|i| (i * 7 % 31, i % 5)) {
        (1..=more).for_each(|n| one_by_one.push_until(calls + n, value));
        calls += more;
        together.push_until(calls, value);
    }
    assert_eq!((one_by_one.steps, one_by_one.calls), (together.steps, together.calls));
}

#[test]
fn a_floor_begins_after_the_last_call_that_left_nothing() {
    let mut course = Course::default();
    for (calls, blocks) in [(5, 4), (6, 0), (7, 1), (8, 2), (9, 3)] {
        course.push_until(calls, blocks);
    }
    let floor = Floor::of([&course].into_iter(), 3).unwrap();
    assert_eq!(floor, Floor { points: vec![1, 2, 3], calls_per_point: 1, calls: 3 });
    assert_eq!(Floor::of([&course].into_iter(), 0), None);
}
