use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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
}

#[test]
fn loan_is_withdrawn_when_nobody_reads_it() {
    let desk = Desk::default();
    let end = lend(&desk, 1, &[1], || {
        assert!(desk.borrow(&tag(2)).is_none(), "another message");
    });
    assert_eq!(end, End::Withdrawn);
    assert!(desk.borrow(&tag(1)).is_none());
}

/// Borrows as soon as there is something.
fn borrow(desk: &Desk, part: u32) -> Borrowed<'_> {
    loop {
        match desk.borrow(&tag(part)) {
            Some(borrowed) => return borrowed,
            None => thread::yield_now(),
        }
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

#[test]
fn lender_waits_for_a_borrower_that_reads() {
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
            wait_for(&goes_on);
            thread::yield_now();
            read.iter().all(|&byte| byte == 7)
        });
        let end = lend(&desk, 1, &bytes, || {
            wait_for(&borrowed);
            goes_on.store(true, Ordering::Release);
        });
        bytes.fill(0); // a borrower that still read would see this
        assert_eq!(end, End::Read);
        assert!(reader.join().unwrap());
    });
}

#[test]
fn loan_ends_when_the_lender_panics_and_its_bytes_are_gone() {
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
                wait_for(&borrowed);
                panic!("in the middle of a call");
            })
        }));
        assert!(panicked.is_err());
        assert!(reader.join().unwrap());
    });
    assert!(desk.borrow(&tag(1)).is_none());
    assert_eq!(lend(&desk, 2, &[1], || {}), End::Withdrawn);
}

#[test]
fn loan_is_returned_when_the_borrower_panics() {
    let desk = Desk::default();
    let end = lend(&desk, 1, &[1], || {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _borrowed = desk.borrow(&tag(1)).unwrap();
            panic!("while it reads");
        }));
        assert!(panicked.is_err());
    });
    assert_eq!(end, End::Read);
}

#[test]
fn second_loan_is_none_while_the_first_is_out() {
    let desk = Desk::default();
    let outer = lend(&desk, 1, &[1], || {
        let mut ran = false;
        assert_eq!(lend(&desk, 2, &[2], || ran = true), End::Withdrawn);
        assert!(ran);
        assert_eq!(*desk.borrow(&tag(1)).unwrap(), [1]);
    });
    assert_eq!(outer, End::Read);
}

#[test]
fn many_loans_are_each_read_once_or_withdrawn() {
    let desk = Desk::default();
    let rounds = if cfg!(miri) { 50 } else { 5000 };
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut read = vec![];
            while read.last() != Some(&rounds) {
                let next = read.last().map_or(1, |last| last + 1);
                let borrowed = (next..=rounds).find_map(|part| desk.borrow(&tag(part)));
                if let Some(borrowed) = borrowed {
                    let part = u32::from_le_bytes((*borrowed).try_into().unwrap());
                    read.push(part);
                }
            }
            read
        });
        let mut expected = vec![];
        for part in 1..=rounds {
            let bytes = part.to_le_bytes();
            let meanwhile = || {
                // The last must be read, so that the reader ends.
                while part == rounds && matches!(desk.lock().loan, Loan::Offered(..)) {
                    thread::yield_now();
                }
            };
            if desk.lend(tag(part), &bytes, meanwhile) == End::Read {
                expected.push(part);
            }
        }
        assert_eq!(reader.join().unwrap(), expected);
    });
}
