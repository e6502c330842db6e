//! temporary
use vramscope_analysis::*;
fn main() {
    for p in std::env::args().skip(1) {
        let f = std::fs::File::open(&p).unwrap();
        let r = vramscope_trace::formats::read(f, &mut |_| {}).unwrap();
        for d in &r.trace.devices {
            let t = std::time::Instant::now();
            let h = History::of(&r.trace, d);
            let pk = h.peaks();
            let fr = Frames::of(&r.trace);
            let ho = holders_at(&h, &fr, pk.allocated.moment, By::Line);
            let l = leak_suspects(&h, &fr);
            let (o, _) = ooms(&h);
            let rg = regions(&h);
            let fg = largest_request(&h).map(|q| Fragmentation::at(&h, pk.allocated.moment, q));
            println!(
                "{} {} held {} of {} leaks {:?} {:?}",
                p,
                d.device,
                ho.iter().map(|h| h.bytes).sum::<u64>(),
                pk.allocated.bytes,
                l.iter()
                    .map(|s| (r.trace.frames.get(s.line).line, s.floor, s.kept, s.kept_bytes, s.allocations))
                    .collect::<Vec<_>>(),
                t.elapsed()
            );
            for o in o {
                println!("   oom {o:?} enough {}", o.enough_in_total());
            }
            if std::env::var("V").is_ok() {
                println!("   {rg:?}\n   {fg:?}");
            }
        }
    }
}
