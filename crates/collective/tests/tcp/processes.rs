//! Ranks that are killed or stopped: the others get an error, and go on without them.

use std::thread;

use burn_virtual_collective::tcp::Store;

use super::help::{assert_contains, assert_works, free_address, result, settings, start, store};
use super::rank::Rank;

/// Starts ranks and has them begin to join.
fn joining<const N: usize>(store: &Store, ranks: [usize; N], world: usize) -> [Rank; N] {
    ranks.map(|rank| {
        let mut process = Rank::start();
        process.tell(&format!("join launcher {} {rank} {world}", store.addr()));
        process
    })
}

/// A group of three in three processes.
fn group_of_three() -> [Rank; 3] {
    let store = store(3);
    let ranks = joining(&store, [0, 1, 2], 3);
    ranks
        .iter()
        .for_each(|rank| assert_eq!(rank.hear(), "joined"));
    ranks
}

/// A way to lose a rank.
type Fate = fn(&mut Rank);

const FATES: [(Fate, &str); 2] = [
    (Rank::kill, "rank 0 is gone"),
    (|rank| rank.stop(), "no message from rank 0"),
];

/// Both err because of rank 0; then they form a group of two whose sum is right.
fn assert_survive(mut survivors: [Rank; 2], reason: &str) {
    for rank in &survivors {
        let error = rank.hear();
        assert_contains(&error, &["error: ", reason]);
    }
    let store = store(2);
    for (rank, process) in survivors.iter_mut().enumerate() {
        process.tell(&format!("join launcher {} {rank} 2", store.addr()));
    }
    for process in &mut survivors {
        assert_eq!(process.hear(), "joined");
        process.tell("reduce");
    }
    for process in &survivors {
        assert_eq!(process.hear(), "sum 3");
    }
}

#[test]
fn processes_sum_what_each_brings() {
    let mut ranks = group_of_three();
    ranks.iter_mut().for_each(|rank| rank.tell("reduce"));
    ranks
        .iter()
        .for_each(|rank| assert_eq!(rank.hear(), "sum 6"));
}

#[test]
fn survivors_go_on_when_rank_0_is_lost_before_the_first_all_reduce_case_37() {
    for (lose, reason) in FATES {
        let [mut lost, mut one, mut two] = group_of_three();
        lose(&mut lost);
        one.tell("reduce");
        two.tell("reduce");
        assert_survive([one, two], reason);
    }
}

/// A call, and half of the messages that rank 0 has for the others in it. 1,000,000 elements on 3 ranks
/// are 6 pieces for each: as ordered sum, two ranks get 6 of rank 0's node and 6 of its result; around
/// a ring, the next rank gets 2 times 2 stretches of 6.
const CALLS: [(&str, usize); 3] = [
    ("reduce 1000", 2),
    ("reduce 1000000", 12),
    ("ring 1000000", 12),
];

#[test]
fn survivors_go_on_when_rank_0_is_lost_after_half_the_chunks_case_37() {
    let lose_amid = |lose: Fate, reason: &str, call: &str, half: usize| {
        let [mut lost, mut one, mut two] = group_of_three();
        lost.tell(&format!("halt {half}"));
        for rank in [&mut lost, &mut one, &mut two] {
            rank.tell(call);
        }
        assert_eq!(lost.hear(), "halted", "{call}");
        lose(&mut lost);
        assert_survive([one, two], reason);
    };
    // They mostly wait: all at once.
    thread::scope(|scope| {
        for (lose, reason) in FATES {
            for (call, half) in CALLS {
                scope.spawn(move || lose_amid(lose, reason, call, half));
            }
        }
    });
}

#[test]
fn survivors_go_on_when_rank_0_is_lost_in_the_final_barrier_case_37() {
    for (lose, reason) in FATES {
        let [mut lost, mut one, mut two] = group_of_three();
        for rank in [&mut lost, &mut one, &mut two] {
            rank.tell("reduce");
        }
        for rank in [&lost, &one, &two] {
            assert_eq!(rank.hear(), "sum 6");
        }
        lost.tell("halt 0");
        for rank in [&mut lost, &mut one, &mut two] {
            rank.tell("barrier");
        }
        assert_eq!(lost.hear(), "halted");
        lose(&mut lost);
        assert_survive([one, two], reason);
    }
}

#[test]
fn others_say_who_is_missing_when_a_rank_is_stopped_while_it_joins_case_37() {
    let store = store(3);
    let [stopped] = joining(&store, [2], 3);
    // It may have come as far as the store, or not: the others do not wait longer for that.
    std::thread::sleep(std::time::Duration::from_millis(300));
    stopped.stop();
    let others = [0, 1].map(|rank| start(settings(&store, rank, 3)));
    for joining in &others {
        let error = result(joining).unwrap_err().to_string();
        assert_contains(&error, &["missing: 2"]);
    }
}

#[test]
fn another_takes_the_place_when_a_rank_is_killed_while_it_waits() {
    let store = store(2);
    let [mut killed] = joining(&store, [1], 2);
    std::thread::sleep(std::time::Duration::from_millis(300));
    killed.kill();
    let ranks = [0, 1].map(|rank| start(settings(&store, rank, 2)));
    assert_works(ranks.iter().map(result).collect());
}

#[test]
fn others_err_when_rank_0_is_killed_with_the_store_case_37() {
    let at = free_address();
    let mut ranks = [0, 1, 2].map(|_| Rank::start());
    for (rank, process) in ranks.iter_mut().enumerate().take(2) {
        process.tell(&format!("join rank-0 {at} {rank} 3"));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    ranks[0].kill();
    assert_contains(&ranks[1].hear(), &["error: ", "store", &at]);
}

#[test]
fn the_others_say_who_is_missing_when_ranks_are_processes_case_40() {
    let store = store(4);
    for rank in joining(&store, [0, 1, 2], 4) {
        assert_contains(&rank.hear(), &["error: ", "missing: 3"]);
    }
}
