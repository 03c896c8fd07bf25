use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::Operation;

fn tag(part: u32) -> Tag {
    Tag {
        epoch: 0,
        sequence: 0,
        operation: Operation::Ring,
        part,
    }
}

fn lend(desk: &Desk, part: u32, bytes: &[u8], meanwhile: impl FnOnce()) -> End {
    desk.lend(tag(part), bytes, meanwhile)
}

#[test]
fn loan_is_read_where_it_lies() {
    within_limit(|| {
        let (desk, bytes) = (Desk::default(), vec![1, 2, 3]);
        thread::scope(|scope| {
            let end = lend(&desk, 1, &bytes, || {
                let read = scope.spawn(|| {
                    let borrowed = desk.borrow(&tag(1)).unwrap();
                    (borrowed.as_ptr().addr(), borrowed.to_vec())
                });
                assert_eq!(read.join().unwrap(), (bytes.as_ptr().addr(), bytes.clone()));
            });
            assert_eq!(end, End::Read);
        });
    });
}

#[test]
fn loan_is_withdrawn_when_nobody_reads_it() {
    within_limit(|| {
        let desk = Desk::default();
        let end = lend(&desk, 1, &[1], || {
            assert!(desk.borrow(&tag(2)).is_none(), "another message");
        });
        assert_eq!(end, End::Withdrawn);
        assert!(desk.borrow(&tag(1)).is_none());
    });
}

/// No test may hang: this is when it fails instead.
const LIMIT: Duration = Duration::from_secs(60);

/// Waits until there is something.
#[track_caller]
fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let limit = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "it hangs");
        thread::yield_now();
    }
}

fn borrow(desk: &Desk, part: u32) -> Borrowed<'_> {
    wait_for(|| desk.borrow(&tag(part)))
}

fn wait_for_flag(flag: &AtomicBool) {
    wait_for(|| flag.load(Ordering::Acquire).then_some(()));
}

/// Runs `body`; fails, and leaves it behind, if it waits for a loan that nobody returns.
fn within_limit(body: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(body));
        sender.send(result)
    });
    if let Err(panic) = receiver.recv_timeout(LIMIT * 2).expect("it hangs") {
        resume_unwind(panic);
    }
}

#[test]
fn lender_waits_for_a_borrower_that_reads() {
    within_limit(|| {
        let (desk, borrowed, goes_on) = (
            Desk::default(),
            AtomicBool::new(false),
            AtomicBool::new(false),
        );
        thread::scope(|scope| {
            let mut bytes = vec![7; 1000];
            let reader = scope.spawn(|| {
                let read = borrow(&desk, 1);
                borrowed.store(true, Ordering::Release);
                wait_for_flag(&goes_on);
                thread::yield_now();
                read.iter().all(|&byte| byte == 7)
            });
            let end = lend(&desk, 1, &bytes, || {
                wait_for_flag(&borrowed);
                goes_on.store(true, Ordering::Release);
            });
            bytes.fill(0); // a borrower that still read would see this
            assert_eq!(end, End::Read);
            assert!(reader.join().unwrap());
        });
    });
}

#[test]
fn loan_ends_when_the_lender_panics_and_its_bytes_are_gone() {
    within_limit(|| {
        let (desk, borrowed) = (Desk::default(), AtomicBool::new(false));
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let read = borrow(&desk, 1);
                borrowed.store(true, Ordering::Release);
                read.iter().all(|&byte| byte == 7)
            });
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let bytes = vec![7; 1000];
                lend(&desk, 1, &bytes, || {
                    wait_for_flag(&borrowed);
                    panic!("in the middle of a call");
                })
            }));
            assert!(panicked.is_err());
            assert!(reader.join().unwrap());
        });
        assert!(desk.borrow(&tag(1)).is_none());
        assert_eq!(lend(&desk, 2, &[1], || {}), End::Withdrawn);
    });
}

#[test]
fn loan_is_returned_when_the_borrower_panics() {
    within_limit(|| {
        let desk = Desk::default();
        let end = lend(&desk, 1, &[1], || {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let _borrowed = desk.borrow(&tag(1)).unwrap();
                panic!("while it reads");
            }));
            assert!(panicked.is_err());
        });
        assert_eq!(end, End::Read);
    });
}

#[test]
fn second_loan_is_none_while_the_first_is_out() {
    within_limit(|| {
        let desk = Desk::default();
        let outer = lend(&desk, 1, &[1], || {
            let mut ran = false;
            assert_eq!(lend(&desk, 2, &[2], || ran = true), End::Withdrawn);
            assert!(ran);
            assert_eq!(*desk.borrow(&tag(1)).unwrap(), [1]);
        });
        assert_eq!(outer, End::Read);
    });
}

#[test]
fn many_loans_are_each_read_once_or_withdrawn() {
    within_limit(|| {
        let desk = Desk::default();
        let rounds = if cfg!(miri) { 50 } else { 5000 };
        thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut read = vec![];
                while read.last() != Some(&rounds) {
                    let next = read.last().map_or(1, |last| last + 1);
                    let borrowed =
                        wait_for(|| (next..=rounds).find_map(|part| desk.borrow(&tag(part))));
                    read.push(u32::from_le_bytes((*borrowed).try_into().unwrap()));
                }
                read
            });
            let mut expected = vec![];
            for part in 1..=rounds {
                let bytes = part.to_le_bytes();
                let meanwhile = || {
                    // The last must be read, so that the reader ends.
                    let is_read = || !matches!(desk.lock().loan, Loan::Offered(..));
                    wait_for(|| (part < rounds || is_read()).then_some(()));
                };
                if desk.lend(tag(part), &bytes, meanwhile) == End::Read {
                    expected.push(part);
                }
            }
            assert_eq!(reader.join().unwrap(), expected);
        });
    });
}
