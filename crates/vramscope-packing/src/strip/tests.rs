use super::*;

/// Every byte of a short line: the time until which it is free, and whether it is in use.
struct Bytes(Vec<(u32, bool)>);

impl Bytes {
    fn find(&self, size: usize, to: u32) -> Option<u64> {
        let fits =
            |start: &usize| self.0[*start..start + size].iter().all(|&(until, held)| !held && until >= to);
        (0..self.0.len() - size).find(fits).map(|start| start as u64)
    }

    fn pieces(&self, from: usize, to: usize) -> Vec<(u64, u32)> {
        let mut out: Vec<(u64, u32)> = Vec::new();
        for (at, &(until, _)) in self.0[from..to].iter().enumerate() {
            if out.last().is_none_or(|last| last.1 != until) {
                out.push(((from + at) as u64, until));
            }
        }
        out
    }
}

#[test]
fn a_strip_equals_its_bytes() {
    const LENGTH: usize = 40_000;
    let mut state = 7u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut strip = Strip::new();
    let mut bytes = Bytes(vec![(u32::MAX, false); LENGTH]);
    for round in 0..6000 {
        // Short ranges make thousands of pieces; long ones remove most of them.
        let longest = if round % 500 == 499 { LENGTH / 2 } else { 24 };
        let start = random(LENGTH - longest - 1);
        let end = start + 1 + random(longest);
        match random(3) {
            0 => {
                let held = random(3) > 0;
                strip.mark(start as u64, end as u64, held);
                bytes.0[start..end].iter_mut().for_each(|b| b.1 = held);
            }
            1 => {
                let until = [3, 5, 9, u32::MAX][random(4)];
                strip.replace(&[Piece { start: start as u64, until, held: false }], end as u64);
                bytes.0[start..end].fill((until, false));
            }
            _ => {
                let middle = start as u64 + (end - start) as u64 / 2;
                let first = Piece { start: start as u64, until: 4, held: false };
                let second = Piece { start: middle, until: 8, held: true };
                let pieces = [first, second];
                let pieces = if middle > first.start { &pieces[..] } else { &pieces[1..] };
                strip.replace(pieces, end as u64);
                bytes.0[start..middle as usize].fill((4, false));
                bytes.0[middle as usize..end].fill((8, true));
            }
        }
        if round % 7 == 0 {
            let (size, to) = (1 + random(200), [1, 4, 5, 9, 10][random(5)]);
            // The line continues after these bytes.
            let found = strip.find(size as u64, to).filter(|&at| at < (LENGTH - size) as u64);
            assert_eq!(found, bytes.find(size, to), "{size} until {to} in round {round}");
            let mut read = Vec::new();
            strip.read(start as u64, end as u64, &mut read);
            let read: Vec<(u64, u32)> = read.iter().map(|p| (p.start, p.until)).collect();
            assert_eq!(read, bytes.pieces(start, end), "{start} to {end} in round {round}");
        }
    }
    // The search budget is used up: requests for a free place get the top.
    strip.searches = 0;
    let top = bytes.0.iter().rposition(|&(until, held)| held || until < 9).map_or(0, |last| last + 1);
    assert_eq!(strip.find(1, 9), Some(top as u64));
}
