//! Word of calls that wait for long: who is missing, on every rank, whatever it waits for itself.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use burn_virtual_collective::{
    Algorithm, CollectiveError, Group, OnStall, Options, Reduce, Sent, Shares, Stall, Work,
};
use burn_virtual_plan::{Layout, Placement};
use common::around::BeforeSend;
use common::{constant, ends, nodes, run};

/// No test may hang: this is when it fails instead.
const LIMIT: Duration = Duration::from_secs(10);

type Call = fn(&mut Group) -> Result<(), CollectiveError>;

/// All collectives; in most of them a rank hears from few others.
const CALLS: [(&str, Call); 11] = [
    ("barrier", Group::barrier),
    ("broadcast", |group| group.broadcast(1, &mut vec![7])),
    ("gather", |group| group.gather(&[7]).map(|_| ())),
    ("ring all-reduce", |group| {
        group.sum(Algorithm::Ring, &mut [1.0_f32; 100])
    }),
    ("halving-doubling all-reduce", |group| {
        group.sum(Algorithm::HalvingDoubling, &mut [1.0_f32; 100])
    }),
    ("halving-doubling mean", |group| {
        group.mean(Algorithm::HalvingDoubling, &mut [1.0_f32; 100])
    }),
    ("reduce-scatter", |group| {
        let shares = Shares::even(100, group.world());
        group.reduce_scatter(&shares, &mut [1.0_f32; 100])
    }),
    ("all-gather", |group| {
        let shares = Shares::even(100, group.world());
        group.all_gather(&shares, &mut [1.0_f32; 100])
    }),
    ("slice broadcast", |group| {
        group.broadcast_slice(0, &mut [1.0_f32; 100])
    }),
    ("all-reduce of step 5, bucket 3", |group| {
        all_reduce(group, Reduce::Ordered)
    }),
    ("ring all-reduce of step 5, bucket 3", |group| {
        all_reduce(group, Reduce::Ring)
    }),
];

/// One virtual node a rank: aligned where the world is a power of two.
fn all_reduce(group: &mut Group, reduce: Reduce) -> Result<(), CollectiveError> {
    let placement = Placement::even(group.world(), group.world()).unwrap();
    let layout = Layout::new([100], 0, 0);
    let own = nodes(&layout, &placement, group.rank(), |_| {
        constant(&layout, 1.0)
    });
    let work = Work {
        step: 5,
        bucket: 3,
        samples: 64,
    };
    let sum = group.all_reduce_by(reduce, work, &layout, &placement, own);
    sum.map(|_| ())
}

/// What all ranks of a group reported.
#[derive(Clone, Default)]
struct Reports(Arc<(Mutex<Vec<Stall>>, Condvar)>);

impl Reports {
    fn options(&self, stall: Duration) -> Options {
        let reports = self.clone();
        Options {
            stall,
            on_stall: OnStall::call(move |stall| {
                let (list, changed) = &*reports.0;
                list.lock().unwrap().push(stall.clone());
                changed.notify_all();
            }),
            ..Options::default()
        }
    }

    /// Waits until the reports are enough.
    #[track_caller]
    fn wait(&self, is_enough: impl Fn(&[Stall]) -> bool) {
        let (list, changed) = &*self.0;
        let list = list.lock().unwrap();
        let waited = changed.wait_timeout_while(list, LIMIT, |list| !is_enough(list));
        let (list, waited) = waited.unwrap();
        assert!(!waited.timed_out(), "{list:#?}");
    }

    fn count(&self) -> usize {
        self.0.0.lock().unwrap().len()
    }
}

#[test]
fn every_rank_names_the_missing_one_again_and_again_and_goes_on_when_it_comes() {
    const STALL: Duration = Duration::from_millis(100);
    for world in [4, 5] {
        for (name, call) in CALLS {
            let (reports, late) = (Reports::default(), world / 2);
            let options = reports.options(STALL);
            let results = run(world, options, move |mut group| {
                call(&mut group).unwrap();
                let smooth = group.sent();
                if group.rank() == late {
                    // Both of two reports in a row, so that ranks that were late by chance are in.
                    let here: Vec<usize> = (0..group.world()).filter(|&r| r != late).collect();
                    reports.wait(|list| {
                        here.iter().all(|&rank| {
                            let own = list.iter().filter(|stall| stall.rank == rank);
                            let right = |stall: &&Stall| {
                                (&stall.here, &stall.missing[..]) == (&here, &[late])
                                    && stall.to_string().contains(name)
                            };
                            own.filter(right).count() >= 2
                        })
                    });
                }
                call(&mut group).unwrap();
                let stalled = group.sent();
                // What is left of notices is no stale message.
                call(&mut group).unwrap();
                let twice = Sent {
                    messages: 2 * smooth.messages,
                    bytes: 2 * smooth.bytes,
                };
                (stalled == twice, group.stale())
            });
            let right = vec![Some((true, 0)); world];
            assert_eq!(results, right, "{name}, {world} ranks");
        }
    }
}

#[test]
fn all_missing_ranks_are_named_when_they_are_several() {
    let reports = Reports::default();
    let options = reports.options(Duration::from_millis(100));
    let results = run(5, options, move |mut group| {
        if group.rank() % 2 == 1 {
            reports.wait(|list| {
                [0, 2, 4].iter().all(|rank| {
                    let own = list.iter().filter(|stall| stall.rank == *rank);
                    own.clone().any(|stall| stall.missing == [1, 3])
                })
            });
        }
        group.sum(Algorithm::Ring, &mut [1.0_f32; 7]).is_ok()
    });
    assert_eq!(results, [Some(true); 5]);
}

/// Of four ranks, rank 1 stops in the middle of a call, after so many sends.
#[track_caller]
fn assert_named_when_it_stops(sends: usize, call: Call) {
    let (reports, stall_after) = (Reports::default(), Duration::from_millis(100));
    let options = reports.options(stall_after);
    let ranks = ends(4).into_iter().enumerate().map(|(rank, inner)| {
        let (reports, options) = (reports.clone(), options.clone());
        let until = move || {
            // Those that are through have nothing to say; the others have said it by then.
            reports.wait(|list| {
                let last = |rank| list.iter().rfind(|stall| stall.rank == rank);
                let is_right =
                    |stall: &Stall| (&stall.missing[..], &stall.here[..]) == (&[1], &[0, 2, 3]);
                list.iter().any(|stall| stall.waited > 4 * stall_after)
                    && [0, 2, 3].into_iter().filter_map(last).all(is_right)
            });
        };
        let left = AtomicUsize::new(if rank == 1 { sends } else { usize::MAX });
        let end = BeforeSend::new(inner, move |_| {
            if left.fetch_sub(1, Ordering::Relaxed) == 0 {
                until();
            }
        });
        thread::spawn(move || {
            let mut group = Group::new(Box::new(end), options);
            call(&mut group).map(|()| group) // stays until all are through
        })
    });
    let ranks: Vec<_> = ranks.collect();
    let results = ranks.into_iter().map(|rank| rank.join().unwrap());
    assert!(results.collect::<Vec<_>>().iter().all(Result::is_ok));
}

#[test]
fn culprit_alone_is_missing_when_it_stops_in_the_middle_of_a_call() {
    // A vector in one piece: a ring has 6 messages for the next rank, of which the last 3 are sums.
    for sends in 1..6 {
        assert_named_when_it_stops(sends, |group| {
            group.sum(Algorithm::Ring, &mut [1.0_f32; 100])
        });
    }
    // 2 halves and 2 stretches of sums.
    for sends in 1..4 {
        assert_named_when_it_stops(sends, |group| {
            group.sum(Algorithm::HalvingDoubling, &mut [1.0_f32; 100])
        });
    }
    // 3 headers, then one message to the next rank.
    for sends in 1..4 {
        assert_named_when_it_stops(sends, |group| group.broadcast_slice(0, &mut [1.0_f32; 100]));
    }
}

#[test]
fn slow_rank_is_no_stall_by_default_case_36() {
    let (reports, defaults) = (Reports::default(), Options::default());
    let options = reports.options(defaults.stall);
    let results = run(3, options, |mut group| {
        for step in 0..2 {
            if group.rank() == 1 {
                thread::sleep(Duration::from_secs(1)); // a step of it
            }
            all_reduce(&mut group, [Reduce::Ordered, Reduce::Ring][step]).unwrap();
        }
    });
    assert_eq!(results, [Some(()); 3]);
    assert_eq!(reports.count(), 0);
}

#[test]
fn timeout_names_the_culprit_on_ranks_that_wait_for_others() {
    // Rank 1 never comes. Its successor waits for it; the others for one another.
    let mut ranks: Vec<_> = ends(5).into_iter().map(Some).collect();
    let _alive = ranks[1].take();
    let timeout = Duration::from_secs(1);
    let options = Options {
        first_timeout: timeout,
        ..Options::default()
    };
    let others: Vec<_> = ranks
        .into_iter()
        .flatten()
        .map(|end| {
            let options = options.clone();
            thread::spawn(move || {
                let mut group = Group::new(end, options);
                let begin = Instant::now();
                let error = group.sum(Algorithm::Ring, &mut [1.0_f32; 9]).unwrap_err();
                assert!(begin.elapsed() < LIMIT);
                error
            })
        })
        .collect();
    for rank in others {
        let error = rank.join().unwrap();
        let text = error.to_string();
        assert!(text.contains("no message from rank 1 within"), "{text}");
    }
}

/// A process in which rank 1 never enters a barrier.
#[test]
#[ignore = "another test starts it as a process"]
fn process_with_a_stall() {
    let mut ends = ends(2);
    let options = Options {
        stall: Duration::from_millis(50),
        first_timeout: Duration::from_millis(500),
        ..Options::default()
    };
    Group::new(ends.swap_remove(0), options)
        .barrier()
        .unwrap_err();
}

#[test]
fn report_is_a_line_on_stderr_by_default() {
    let module = module_path!();
    let name = match module.split_once("::") {
        Some((_, inner)) => format!("{inner}::process_with_a_stall"),
        None => "process_with_a_stall".to_owned(),
    };
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    let begin = "rank 0: barrier, call 0: waiting for ";
    let line = errors.lines().find(|line| line.starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no report in {errors:?}"));
    assert!(line.ends_with(" s; here: 0; missing: 1"), "{line}");
}
