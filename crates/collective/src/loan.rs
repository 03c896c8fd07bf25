//! Bytes that one thread lends to another, which reads them where they lie. The only unsafe code of
//! the crate. In MPI: rendezvous.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::Tag;
use crate::spin::{self, Apart};

/// Where one rank lends to one other, a message at a time.
///
/// Why no borrower reads what is gone or changes: the address of the bytes is known only while they
/// are on offer, and is used only between [`Desk::borrow`] and the drop of what that returns. Both
/// happen within [`Desk::lend`], which holds the lender's borrow of the bytes: it returns, or passes a
/// panic on, once nobody can find the address any more and nobody who has found it still reads.
/// A borrower that never drops what it has makes the lender wait, and nothing else.
///
/// A desk has one lender at a time: with a second one, the first could withdraw the loan of the second,
/// and either take the end of the other's loan for that of its own. No bytes would be read too late,
/// but messages lost. [`crate::memory`] sees to it.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
    returned: Condvar,
    // Loans that were returned so far: to be looked at without the lock, which the borrower needs.
    returns: Apart<AtomicU64>,
}

#[derive(Debug, Default)]
struct State {
    loan: Loan,
    // Whether the lender sleeps until the loan is returned.
    is_awaited: bool,
}

#[derive(Debug, Default)]
enum Loan {
    #[default]
    None,
    Offered(Tag, NonNull<[u8]>),
    Read,
}

// SAFETY: the address is that of bytes that another thread may read: `&[u8]` is `Send`. See [`Desk`]
// for how long.
unsafe impl Send for Loan {}

/// How a loan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The borrower has read it.
    Read,
    /// Nobody has: it was withdrawn.
    Withdrawn,
}

impl Desk {
    /// Offers `bytes` as the message of `tag` while `meanwhile` runs, and for as long after as it pays
    /// to wait for a borrower instead of making a copy. If another loan is out, they are not offered.
    pub(crate) fn lend(&self, tag: Tag, bytes: &[u8], meanwhile: impl FnOnce()) -> End {
        let before = self.returns();
        if !self.offer(tag, bytes) {
            meanwhile();
            return End::Withdrawn;
        }
        // From here on every way out leads through the drop of this.
        let offer = Offer(self);
        meanwhile();
        spin::run(|| (self.returns() != before).then_some(()));
        offer.take_back()
    }

    fn returns(&self) -> u64 {
        self.returns.0.load(Ordering::Acquire)
    }

    fn offer(&self, tag: Tag, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        let is_free = matches!(state.loan, Loan::None);
        if is_free {
            state.loan = Loan::Offered(tag, NonNull::from(bytes));
        }
        is_free
    }

    /// The message of `tag`, if it is on offer.
    pub(crate) fn borrow(&self, tag: &Tag) -> Option<Borrowed<'_>> {
        let mut state = self.lock();
        let Loan::Offered(offered, bytes) = &state.loan else {
            return None;
        };
        if offered != tag {
            return None;
        }
        let bytes = *bytes;
        state.loan = Loan::Read;
        Some(Borrowed { desk: self, bytes })
    }

    /// Waits for a borrower that reads, which takes as long as it takes to read: there is no deadline,
    /// since the lender must not go on before.
    fn take_back(&self) -> End {
        let mut state = self.lock();
        if let Loan::Offered(..) = state.loan {
            state.loan = Loan::None;
            return End::Withdrawn;
        }
        while let Loan::Read = state.loan {
            state.is_awaited = true;
            state = self
                .returned
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.is_awaited = false;
        End::Read
    }

    /// Nothing that holds the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A loan that is out; taken back when it is dropped, also in a panic.
struct Offer<'a>(&'a Desk);

impl Offer<'_> {
    fn take_back(self) -> End {
        let desk = self.0;
        std::mem::forget(self);
        desk.take_back()
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.0.take_back();
    }
}

/// What is lent, in the hands of the borrower; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Borrowed<'a> {
    desk: &'a Desk,
    bytes: NonNull<[u8]>,
}

impl Deref for Borrowed<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the lender takes its bytes back only once this is dropped, see [`Desk`]; until then
        // it holds a shared borrow of them, so that nobody changes them.
        unsafe { self.bytes.as_ref() }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut state = self.desk.lock();
        state.loan = Loan::None;
        if state.is_awaited {
            self.desk.returned.notify_all();
        }
        drop(state);
        self.desk.returns.0.fetch_add(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
