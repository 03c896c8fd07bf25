//! Ranks in processes that are alive but don't come, or come late.

use std::thread;
use std::time::{Duration, Instant};

use burn_virtual_collective::Reduce;

use super::help::{LIMIT, assert_contains, store};
use super::rank::Rank;

const WAYS: [Reduce; 3] = [Reduce::Ordered, Reduce::Ring, Reduce::HalvingDoubling];

/// A group of so many processes, with this patience.
fn group(world: usize, patience: &str) -> Vec<Rank> {
    let store = store(world);
    let join = |rank| {
        let mut process = Rank::start();
        process.tell(&format!("patience {patience}"));
        process.tell(&format!("join launcher {} {rank} {world}", store.addr()));
        process
    };
    let ranks: Vec<Rank> = (0..world).map(join).collect();
    for rank in &ranks {
        assert_eq!(rank.hear(), "joined");
    }
    ranks
}

/// All take a step; rank 1 comes `late`.
fn step(ranks: &mut [Rank], step: u64, way: Reduce, late: Duration) {
    let order = format!("step {step} {way}");
    for (rank, process) in ranks.iter_mut().enumerate() {
        if rank != 1 {
            process.tell(&order);
        }
    }
    thread::sleep(late);
    ranks[1].tell(&order);
    let sum = ranks.len() * (ranks.len() + 1) / 2;
    for process in ranks {
        assert_eq!(process.hear(), format!("sum {sum}"));
    }
}

#[test]
fn others_name_rank_step_and_bucket_when_one_is_alive_and_never_enters_case_36() {
    for way in [Reduce::Ordered, Reduce::Ring] {
        let mut ranks = group(3, "2000 2000 10000");
        for number in 0..5 {
            step(&mut ranks, number, way, Duration::ZERO);
        }
        for rank in [0, 2] {
            ranks[rank].tell(&format!("step 5 {way}"));
        }
        for rank in [0, 2] {
            let error = ranks[rank].hear();
            let parts = ["error: ", "no message from rank 1", "step 5", "bucket 1"];
            assert_contains(&error, &parts);
        }
        // When it does come, it reads why the others have gone.
        ranks[1].tell(&format!("step 5 {way}"));
        let error = ranks[1].hear();
        let parts = ["error: ", "closed by rank", "no message from rank 1"];
        assert_contains(&error, &parts);
        // The others go on without it.
        let store = store(2);
        for (rank, old) in [(0, 0), (1, 2)] {
            ranks[old].tell(&format!("join launcher {} {rank} 2", store.addr()));
        }
        for old in [0, 2] {
            assert_eq!(ranks[old].hear(), "joined");
            ranks[old].tell(&format!("step 5 {way}"));
        }
        for old in [0, 2] {
            assert_eq!(ranks[old].hear(), "sum 3");
        }
    }
}

#[test]
fn no_alarm_when_a_rank_is_slow_case_36() {
    let mut ranks = group(3, "5000 5000 4000");
    for (number, way) in (0..).zip(WAYS) {
        step(&mut ranks, number, way, Duration::from_secs(1));
    }
}

#[test]
fn first_call_has_a_limit_of_its_own_case_36() {
    let mut ranks = group(3, "9000 1000 8000");
    step(&mut ranks, 0, Reduce::Ordered, Duration::from_millis(1500));
    for rank in [0, 2] {
        ranks[rank].tell("step 1 ordered");
    }
    for rank in [0, 2] {
        let parts = ["error: ", "rank 1", "step 1"];
        assert_contains(&ranks[rank].hear(), &parts);
    }
}

/// Waits until a rank has said this.
#[track_caller]
fn await_stall(rank: &Rank, parts: &[&str]) {
    let deadline = Instant::now() + LIMIT;
    let mut last = String::new();
    while Instant::now() < deadline {
        last = rank.hear();
        assert_contains(&last, &["stall: "]);
        if parts.iter().all(|part| last.contains(part)) {
            return;
        }
    }
    panic!("{last:?} lacks one of {parts:?}");
}

#[test]
fn all_others_name_a_stopped_process_and_go_on_when_it_does() {
    for way in WAYS {
        let mut ranks = group(4, "9000 9000 300");
        step(&mut ranks, 0, way, Duration::ZERO);
        ranks[1].stop();
        for rank in [0, 2, 3] {
            ranks[rank].tell(&format!("step 1 {way}"));
        }
        for rank in [0, 2, 3] {
            let begin = format!("rank {rank}: ");
            let end = "here: 0, 2, 3; missing: 1";
            await_stall(&ranks[rank], &[&begin, "of step 1, bucket 1", end]);
        }
        ranks[1].wake();
        ranks[1].tell(&format!("step 1 {way}"));
        for rank in &ranks {
            let mut answer = rank.hear();
            while answer.starts_with("stall: ") {
                answer = rank.hear();
            }
            assert_eq!(answer, "sum 10");
        }
    }
}

#[test]
fn all_others_err_and_name_a_stopped_process() {
    let mut ranks = group(4, "2000 1000 10000");
    step(&mut ranks, 0, Reduce::Ring, Duration::ZERO);
    ranks[1].stop();
    for rank in [0, 2, 3] {
        ranks[rank].tell("step 1 ring");
    }
    for rank in [0, 2, 3] {
        let parts = [
            "error: ",
            "no message from rank 1 within",
            "step 1, bucket 1",
        ];
        assert_contains(&ranks[rank].hear(), &parts);
    }
}
