//! Ranks that disagree, leave, or never come: an error on every rank, never a wait without end.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use std::time::Duration;

use burn_virtual_collective::{
    Algorithm, CollectiveError, Deadline, Group, Operation, Options, Sent, Tag, TransportError,
};
use burn_virtual_plan::{Layout, Placement};
use common::{assert_all_contain, constant, ends, errors, nodes, run, short};

fn reduce(group: &mut Group, step: u64, layout: &Layout) -> Result<Vec<f32>, CollectiveError> {
    let placement = Placement::even(group.world(), group.world()).unwrap();
    let own = nodes(layout, &placement, group.rank(), |vn| {
        constant(layout, vn as f32 + 1.0)
    });
    let sum = group.all_reduce(step, layout, &placement, own)?;
    Ok(sum.map(|sum| sum.values().to_vec()).unwrap_or_default())
}

#[test]
fn every_rank_errs_when_sizes_differ_case_21() {
    let errors = errors(3, Options::default(), |mut group| {
        let elements = if group.rank() == 1 { 12 } else { 10 };
        reduce(&mut group, 4, &Layout::new([elements], 0, 0))
    });
    assert_all_contain(
        &errors,
        &[
            "all-reduce of step 4",
            "rank 1",
            "element count",
            "10",
            "12",
        ],
    );
    let fresh = run(2, Options::default(), |mut group| {
        reduce(&mut group, 0, &Layout::new([1], 0, 0)).unwrap()
    });
    assert_eq!(fresh, [Some(vec![3.0]), Some(vec![3.0])]);
}

#[test]
fn every_rank_errs_when_only_shapes_differ_case_21() {
    let errors = errors(2, Options::default(), |mut group| {
        let layout = Layout::new([12], 0, 0).with_identity(group.rank() as u64);
        reduce(&mut group, 0, &layout)
    });
    assert_all_contain(&errors, &["layout fingerprint"]);
}

#[test]
fn every_rank_errs_when_steps_or_placements_differ() {
    let steps = errors(2, Options::default(), |mut group| {
        let step = 7 + group.rank() as u64;
        reduce(&mut group, step, &Layout::new([1], 0, 0))
    });
    assert_all_contain(&steps, &["step", "7", "8"]);
    let placements = errors(2, Options::default(), |mut group| {
        let counts = [[1, 3], [2, 2]][group.rank()];
        let (layout, placement) = (
            Layout::new([1], 0, 0),
            Placement::explicit(4, &counts).unwrap(),
        );
        let own = nodes(&layout, &placement, group.rank(), |_| None);
        group.all_reduce(0, &layout, &placement, own)
    });
    assert_all_contain(&placements, &["placement fingerprint"]);
}

#[test]
fn every_rank_errs_when_operations_differ_case_21() {
    // The odd one out, or the root, may be any rank.
    for odd in 0..3 {
        let errors = errors(3, Options::default(), move |mut group| {
            if group.rank() == odd {
                group.barrier()
            } else {
                group.broadcast(odd, &mut vec![])
            }
        });
        assert_all_contain(&errors, &["operation", "barrier", "broadcast"]);
    }
    let errors = errors(2, Options::default(), |mut group| match group.rank() {
        0 => group.broadcast(0, &mut vec![1]).map(|()| vec![]),
        _ => reduce(&mut group, 0, &Layout::new([1], 0, 0)),
    });
    assert_all_contain(&errors, &["operation", "all-reduce", "broadcast"]);
}

#[test]
fn every_rank_errs_when_roots_differ_or_do_not_exist() {
    let differ = errors(2, Options::default(), |mut group| {
        let root = group.rank();
        group.broadcast(root, &mut vec![])
    });
    assert_all_contain(&differ, &["root"]);
    let beyond = errors(2, Options::default(), |mut group| {
        group.broadcast(2, &mut vec![])
    });
    assert_all_contain(&beyond, &["expected a root below 2, got 2"]);
}

#[test]
fn others_name_rank_and_step_when_one_never_enters_case_36() {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    let results = run(3, short(), move |mut group| {
        if group.rank() == 1 {
            // Alive, but elsewhere, until both others have given up.
            let wait = wait.lock().unwrap();
            (0..2).for_each(|_| wait.recv().unwrap());
            return None;
        }
        let error = reduce(&mut group, 5, &Layout::new([10], 0, 0)).unwrap_err();
        done.send(()).unwrap();
        Some(error.to_string())
    });
    for result in [&results[0], &results[2]] {
        let error = result.clone().flatten().unwrap();
        assert_all_contain(
            &[error],
            &["step 5", "no message from rank 1", "all-reduce"],
        );
    }
}

#[test]
fn timeout_names_all_missing_ranks_when_several_do_not_enter() {
    let mut ends = ends(5);
    let mut group = Group::new(ends.swap_remove(2), short());
    let Err(CollectiveError::Timeout { rank, missing, .. }) = group.barrier() else {
        panic!("expected a timeout");
    };
    assert_eq!((rank, missing), (2, vec![0, 1, 3, 4]));
}

#[test]
fn others_are_woken_when_a_rank_panics() {
    let results = run(3, Options::default(), |mut group| {
        if group.rank() == 2 {
            std::panic::resume_unwind(Box::new("a fault of the test"));
        }
        group.barrier().unwrap_err().to_string()
    });
    assert_eq!(results[2], None);
    for result in &results[..2] {
        assert_all_contain(&[result.clone().unwrap()], &["rank 2", "panicked"]);
    }
}

#[test]
fn survivors_err_and_form_a_new_group_when_a_rank_is_gone_case_37() {
    let results = run(3, Options::default(), |mut group| {
        if group.rank() == 0 {
            return None;
        }
        Some(
            reduce(&mut group, 0, &Layout::new([2], 0, 0))
                .unwrap_err()
                .to_string(),
        )
    });
    for result in &results[1..] {
        let error = result.clone().flatten().unwrap();
        assert_all_contain(&[error], &["rank 0 is gone"]);
    }
    let survivors = run(2, Options::default(), |mut group| {
        reduce(&mut group, 0, &Layout::new([1], 0, 0)).unwrap()
    });
    assert_eq!(survivors, [Some(vec![3.0]), Some(vec![3.0])]);
}

#[test]
fn others_read_the_reason_when_a_rank_aborts() {
    let errors = errors(3, Options::default(), |mut group| {
        if group.rank() == 1 {
            group.abort("virtual node 4 has no data");
        }
        group.barrier()
    });
    assert_all_contain(&errors, &["closed by rank 1", "virtual node 4 has no data"]);
}

#[test]
fn group_stays_closed_with_the_first_reason_when_a_call_failed() {
    let results = run(2, Options::default(), |mut group| {
        let layout = Layout::new([1 + group.rank()], 0, 0);
        reduce(&mut group, 3, &layout).unwrap_err();
        group.abort("too late");
        let again = reduce(&mut group, 4, &layout).unwrap_err();
        assert!(matches!(again, CollectiveError::Closed { .. }));
        again.to_string()
    });
    for error in results {
        assert_all_contain(&[error.unwrap()], &["step 4", "step 3", "element count"]);
    }
}

#[test]
fn every_rank_errs_when_one_contributes_what_was_not_asked_for() {
    let wrong_nodes = errors(2, Options::default(), |mut group| {
        let (layout, placement) = (Layout::new([1], 0, 0), Placement::even(4, 2).unwrap());
        let nodes = [vec![(0..2, None)], vec![(2..3, None)]][group.rank()].clone();
        group.all_reduce(0, &layout, &placement, nodes)
    });
    assert_all_contain(
        &wrong_nodes,
        &["rank 1", "expected the nodes [2..4], got [2..3]"],
    );
    let wrong_layout = errors(2, Options::default(), |mut group| {
        let (layout, placement) = (Layout::new([1], 0, 0), Placement::even(2, 2).unwrap());
        let given = Layout::new([1 + group.rank()], 0, 0);
        let own = nodes(&given, &placement, group.rank(), |_| constant(&given, 1.0));
        group.all_reduce(0, &layout, &placement, own)
    });
    assert_all_contain(
        &wrong_layout,
        &["rank 1", "two layouts", "1 elements", "2 elements"],
    );
    let wrong_world = errors(2, Options::default(), |mut group| {
        let (layout, placement) = (Layout::new([1], 0, 0), Placement::even(3, 3).unwrap());
        group.all_reduce(0, &layout, &placement, vec![])
    });
    assert_all_contain(&wrong_world, &["expected a placement of 2 ranks, got 3"]);
}

#[test]
fn everything_works_without_messages_when_world_is_one() {
    let mut group = Group::new(ends(1).remove(0), short());
    group.barrier().unwrap();
    group.broadcast(0, &mut vec![1]).unwrap();
    assert_eq!(
        reduce(&mut group, 0, &Layout::new([2], 0, 0)).unwrap(),
        [1.0, 1.0]
    );
}

const TAG: Tag = Tag {
    epoch: 1,
    sequence: 3,
    operation: Operation::Barrier,
    part: 0,
};

fn soon() -> Deadline {
    Deadline::after(Duration::from_millis(200))
}

#[test]
fn stale_messages_are_dropped_and_counted_case_20() {
    let mut ends = ends(2);
    let (mut receiver, mut sender) = (ends.remove(0), ends.remove(0));
    let older = [Tag { epoch: 0, ..TAG }, Tag { sequence: 2, ..TAG }];
    let later = Tag { part: 1, ..TAG };
    for (tag, text) in [
        (older[0], "old"),
        (older[1], "old"),
        (later, "later"),
        (TAG, "now"),
    ] {
        sender.send(0, tag, text.as_bytes(), soon()).unwrap();
    }
    let mut buffer = vec![];
    receiver.receive(1, TAG, &mut buffer, soon()).unwrap();
    assert_eq!((&buffer[..], receiver.stale()), (&b"now"[..], 2));
    receiver.receive(1, later, &mut buffer, soon()).unwrap();
    assert_eq!((&buffer[..], receiver.stale()), (&b"later"[..], 2));
}

#[test]
fn messages_of_an_earlier_group_are_dropped_and_counted_case_20() {
    // Before it left the group of epoch 1, rank 1 sent what nobody took, also of calls that the new
    // group makes, too.
    let ranks = ends(2).into_iter().enumerate().map(|(rank, mut end)| {
        let left = [
            (0, Operation::Barrier),
            (0, Operation::Ring),
            (9, Operation::Ring),
        ];
        for (sequence, operation) in left.into_iter().filter(|_| rank == 1) {
            let old = Tag {
                sequence,
                operation,
                ..TAG
            };
            end.send(0, old, &[9; 8], soon()).unwrap();
        }
        std::thread::spawn(move || {
            let (epoch, first_timeout) = (2, Duration::from_secs(5));
            let options = Options {
                epoch,
                first_timeout,
                ..Options::default()
            };
            let mut group = Group::new(end, options);
            let mut values = [rank as f32 + 1.0; 2];
            group.sum(Algorithm::Ring, &mut values).unwrap();
            let sum = reduce(&mut group, 0, &Layout::new([1], 0, 0)).unwrap();
            (values, sum, group.stale())
        })
    });
    let ranks: Vec<_> = ranks.collect();
    let results = ranks.into_iter().map(|rank| rank.join().unwrap());
    let right = |stale| ([3.0; 2], vec![3.0], stale);
    assert_eq!(results.collect::<Vec<_>>(), [right(3), right(0)]);
}

#[test]
fn buffers_are_recycled_when_messages_follow_each_other() {
    let mut ends = ends(2);
    let (mut receiver, mut sender) = (ends.remove(0), ends.remove(0));
    let (mut buffer, mut seen) = (vec![], std::collections::HashSet::new());
    for sequence in 0..100 {
        let tag = Tag { sequence, ..TAG };
        sender.send(0, tag, &[7; 1000], soon()).unwrap();
        receiver.receive(1, tag, &mut buffer, soon()).unwrap();
        seen.insert(buffer.as_ptr());
    }
    assert!(seen.len() <= 2, "{} buffers", seen.len());
}

#[test]
fn what_has_arrived_is_received_when_its_sender_is_gone() {
    let mut ends = ends(2);
    let (mut receiver, mut sender) = (ends.remove(0), ends.remove(0));
    sender.send(0, TAG, b"last words", soon()).unwrap();
    sender.close("done");
    drop(sender);
    let mut buffer = vec![];
    receiver.receive(1, TAG, &mut buffer, soon()).unwrap();
    assert_eq!(buffer, b"last words");
    let fault = receiver.receive(1, Tag { part: 1, ..TAG }, &mut buffer, soon());
    let reason = "done".to_owned();
    assert_eq!(fault, Err(TransportError::Closed { by: 1, reason }));
}

#[test]
fn sent_counts_messages_and_the_bytes_in_them() {
    let mut ends = ends(2);
    let one = &mut ends[0];
    assert_eq!(one.sent(), Sent::default());
    one.send(1, TAG, &[0; 1000], soon()).unwrap();
    one.send(1, TAG, &[], soon()).unwrap();
    one.send(2, TAG, &[0; 7], soon()).unwrap_err();
    let (messages, bytes) = (2, 1000);
    assert_eq!(one.sent(), Sent { messages, bytes });
    assert_eq!(ends[1].sent(), Sent::default());
}

#[test]
fn link_refused_when_there_is_no_such_other_rank() {
    let mut ends = ends(2);
    let end = &mut ends[0];
    for other in [0, 2] {
        let refused = Err(TransportError::NoLink {
            rank: 0,
            other,
            world: 2,
        });
        assert_eq!(end.send(other, TAG, &[], soon()), refused);
        assert_eq!(end.receive(other, TAG, &mut vec![], soon()), refused);
    }
}
