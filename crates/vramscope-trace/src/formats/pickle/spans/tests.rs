use super::*;

#[test]
fn common_prefixes_of_any_length_are_found() {
    let bytes: Vec<u8> = (0..=255).collect();
    for length in 0..100 {
        let start = &bytes[..length];
        assert!(begins_with(&bytes, start) && begins_with(start, start));
        assert!(!begins_with(start, &bytes[..length + 1]));
        for at in 0..length {
            let mut other = start.to_vec();
            other[at] ^= 1 << (at % 8);
            assert!(!begins_with(&bytes, &other));
        }
    }
}

fn stack(n: usize) -> StackId {
    StackId::new(n).unwrap()
}

#[test]
fn the_next_stack_is_predicted_from_the_previous_order() {
    let mut spans = Spans::new();
    for n in 0..5 {
        spans.keep(stack(n), &[n as u8; 9]);
    }
    let round = |spans: &mut Spans| {
        let mut right = 0;
        for n in 0..5 {
            let bytes = [n as u8; 9];
            let first = spans.guesses()[0].filter(|(_, guess)| *guess == bytes);
            right += usize::from(first.is_some());
            let number = spans.find(&bytes).unwrap();
            assert_eq!(spans.came(number), stack(n));
        }
        right
    };
    round(&mut spans);
    assert_eq!(round(&mut spans), 5);
    assert!(spans.find(&[9; 9]).is_none());
}

#[test]
fn the_same_stack_may_be_written_in_two_ways_and_the_same_bytes_mean_another_after_forgetting() {
    let mut spans = Spans::new();
    spans.keep(stack(7), b"one");
    spans.keep(stack(7), b"two");
    for bytes in [b"one", b"two"] {
        let number = spans.find(bytes).unwrap();
        assert_eq!(spans.came(number), stack(7));
    }
    spans.forget();
    assert!(spans.find(b"one").is_none() && spans.guesses() == [None, None]);
    spans.keep(stack(8), b"one");
    let number = spans.find(b"one").unwrap();
    assert_eq!(spans.came(number), stack(8));
}
