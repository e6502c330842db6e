#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use super::*;

const PAGE: u64 = DEVICE_PAGE;

fn requests(sizes: &[u64]) -> Vec<PlannedRequest> {
    let places = sizes.iter().scan(0, |at, &size| {
        let offset = *at;
        *at += size * 512;
        Some(PlannedRequest { size: size * 512, stream: 0, offset: Some(offset) })
    });
    places.collect()
}

fn follow(follower: &mut PlanFollower, sizes: &[u64]) -> String {
    let one = |size: &u64| match follower.request(PoolId::default(), 0, size * 512) {
        Planned::At(_) => 'p',
        Planned::Left => 'l',
        Planned::Differs => 'd',
    };
    sizes.iter().map(one).collect()
}

#[test]
fn steps_repeat_after_the_startup() {
    let plan = Plan::new(vec![PAGE], requests(&[1, 2]), requests(&[3, 4, 5])).unwrap();
    let mut follower = PlanFollower::new(Arc::new(plan));
    assert_eq!(follow(&mut follower, &[1, 2, 3, 4, 5, 3, 4, 5, 3]), "ppppppppp");
}

#[test]
fn an_extra_request_differs_alone() {
    let plan = Plan::new(vec![PAGE], Vec::new(), requests(&[3, 4, 5])).unwrap();
    let mut follower = PlanFollower::new(Arc::new(plan));
    assert_eq!(follow(&mut follower, &[3, 4, 9, 5, 3]), "ppdpp");
}

#[test]
fn a_missing_request_is_skipped_after_eight_others() {
    let step: Vec<u64> = (1..=20).collect();
    let plan = Plan::new(vec![PAGE], Vec::new(), requests(&step)).unwrap();
    let mut follower = PlanFollower::new(Arc::new(plan));
    let without_3: Vec<u64> = step.iter().copied().filter(|&size| size != 3).collect();
    assert_eq!(follow(&mut follower, &without_3), "ppddddddddppppppppp");
    assert_eq!(follow(&mut follower, &step), "p".repeat(20));
}

#[test]
fn a_program_that_begins_in_a_step_finds_its_place() {
    let step: Vec<u64> = (1..=20).collect();
    let plan = Plan::new(vec![PAGE], requests(&[30, 31]), requests(&step)).unwrap();
    let mut follower = PlanFollower::new(Arc::new(plan));
    assert_eq!(follow(&mut follower, &step[5..]), "ddddddddppppppp");
    assert_eq!(follow(&mut follower, &step), "p".repeat(20));
}

#[test]
fn a_lost_program_resumes_in_any_copy_of_the_step() {
    let step: Vec<u64> = (1..=20).chain(1..=20).collect();
    let plan = Plan::new(vec![PAGE], Vec::new(), requests(&step)).unwrap();
    let mut follower = PlanFollower::new(Arc::new(plan));
    assert_eq!(follow(&mut follower, &[1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]), "ppddddddddp");
}

#[test]
fn a_running_program_follows_its_plan_from_the_next_step_on() {
    let step: Vec<u64> = (1..=20).collect();
    let others: Vec<u64> = (30..=45).collect();
    let plan = Plan::new(vec![PAGE], Vec::new(), requests(&step)).unwrap();
    let mut follower = PlanFollower::joining(Arc::new(plan), Vec::new());
    assert_eq!(follow(&mut follower, &step[5..]), "d".repeat(15));
    assert!(follower.take_release());
    assert_eq!(follow(&mut follower, &step), "p".repeat(20));
    assert!(!follower.take_release());

    // After a step of other requests, it follows again once a whole step matched, and then two.
    for needed in 1..=2 {
        assert_eq!(follow(&mut follower, &others), "d".repeat(16));
        assert!(follower.take_release());
        for _ in 0..needed {
            assert!(!follower.take_release());
            assert_eq!(follow(&mut follower, &step), "d".repeat(20));
        }
        assert!(follower.take_release());
        assert_eq!(follow(&mut follower, &step), "p".repeat(20));
    }
    // The second release is that of blocks which were in use at the first.
    assert_eq!(follow(&mut follower, &others), "d".repeat(16));
    assert!(follower.take_release());
    assert_eq!(follow(&mut follower, &others), "d".repeat(16));
    assert!(follower.take_release());
    assert_eq!(follow(&mut follower, &others), "d".repeat(16));
    assert!(!follower.take_release());
}

#[test]
fn a_running_program_has_the_streams_of_its_plan() {
    let on = |stream| PlannedRequest { size: 512, stream, offset: Some(0) };
    let plan = Plan::new(vec![PAGE, PAGE, PAGE], Vec::new(), vec![on(1), on(0), on(2)]).unwrap();
    let mut follower = PlanFollower::joining(Arc::new(plan), vec![0x77, 0x55]);
    let step = [0x77, 0, 0x55];
    let mut ask = |stream| follower.request(PoolId::default(), stream, 512);
    (1..6).for_each(|index| assert_eq!(ask(step[index % 3]), Planned::Differs));
    assert!(step.iter().all(|&stream| matches!(ask(stream), Planned::At(_))));
}

#[test]
fn streams_are_numbered_by_first_use() {
    let on = |stream| PlannedRequest { size: 512, stream, offset: Some(0) };
    let plan = Plan::new(vec![PAGE, PAGE, PAGE], Vec::new(), vec![on(1), on(0), on(2)]).unwrap();
    let mut follower = PlanFollower::new(Arc::new(plan));
    for stream in [0x77, 0, 0x55, 0x77, 0, 0x55] {
        let planned = follower.request(PoolId::default(), stream, 512);
        assert!(matches!(planned, Planned::At(_)), "{stream:#x}");
    }
    assert_eq!(follower.request(PoolId(0, 1), 0x77, 512), Planned::Differs);
}

#[test]
fn a_plan_names_the_requests_at_places_of_other_streams() {
    let on = |stream, offset| PlannedRequest { size: 512, stream, offset };
    let startup = vec![on(0, Some(0)), on(1, Some(512)), on(1, None)];
    // The last request of the step hands its place over to the first one of the next step.
    let step = vec![on(1, Some(0)), on(1, Some(512)), on(1, Some(0)), on(0, Some(0))];
    let plan = Plan::shared(PAGE, startup.clone(), step).unwrap();
    let shared = plan.shared.as_ref().unwrap();
    assert_eq!(shared.handed_over, [true, false, false, false, false, true, true]);
    assert_eq!((plan.waits(), plan.shares_streams(), plan.bytes()), (2, true, PAGE));
    // A block over several places.
    let large = PlannedRequest { size: 1024, stream: 2, offset: Some(0) };
    let plan = Plan::shared(PAGE, [startup, vec![large]].concat(), Vec::new()).unwrap();
    assert_eq!(plan.shared.as_ref().unwrap().handed_over, [true, true, false, false]);
    assert_eq!(plan.waits(), 1);
    let separate = Plan::new(vec![PAGE; 3], plan.startup().to_vec(), Vec::new()).unwrap();
    assert_eq!((separate.waits(), separate.shares_streams()), (0, false));
}

#[test]
fn invalid_plans_are_refused() {
    let one = |size, stream, offset| {
        Plan::new(vec![PAGE], vec![PlannedRequest { size, stream, offset }], Vec::new())
    };
    assert!(one(512, 0, Some(PAGE - 512)).is_ok());
    for (size, stream, offset) in [
        (512, 0, Some(PAGE)),
        (512, 0, Some(u64::MAX - 511)),
        (512, 0, Some(5)),
        (512, 1, None),
        (0, 0, None),
        (500, 0, None),
        (u64::MAX - 511, 0, Some(0)),
    ] {
        assert!(matches!(one(size, stream, offset), Err(BadPlan::Request { .. })), "{size} {offset:?}");
    }
    for segment in [1, PAGE + 512, 1 << 51, u64::MAX] {
        let bad = Plan::new(vec![0, segment], Vec::new(), Vec::new());
        assert_eq!(bad, Err(BadPlan::Segment(1)), "{segment}");
    }
}
