//! Stretches of a vector that travel from rank to rank, piece by piece.
//!
//! A rank sends a few pieces ahead of those that it takes: while one is being added, the next is
//! under way, and no more of them are in flight than a cache holds. The first piece of a stretch
//! travels even if it is empty, so that a rank that waits for it knows that its sender is there;
//! other empty pieces do not.

use std::ops::Range;

use bytemuck::Pod;

use crate::CollectiveError;
use crate::call::Call;
use crate::pieces::Pieces;

/// Pieces that a rank sends ahead of those that it takes.
pub(crate) const AHEAD: usize = 4;

/// What passes through one rank: stretches that it sends and, in the same number and cut alike,
/// stretches that it takes.
pub(crate) struct Stream {
    pub(crate) to: usize,
    pub(crate) from: usize,
    /// Number of the first message.
    pub(crate) first: u32,
    pub(crate) stretches: usize,
    pub(crate) pieces: Pieces,
}

impl Stream {
    /// One stretch of at most `longest` elements to and from rank `with`.
    pub(crate) fn both_ways<T>(with: usize, first: u32, longest: usize) -> Self {
        Self {
            to: with,
            from: with,
            first,
            stretches: 1,
            pieces: Pieces::new(longest, size_of::<T>()),
        }
    }

    /// Number of the first message after this.
    pub(crate) fn next(&self) -> u32 {
        self.part(self.stretches * self.pieces.count())
    }

    /// Sends stretches `out(0), out(1), ..` of `values` and merges what comes into stretches
    /// `into(0), into(1), ..`. A stretch is sent piece by piece as its pieces are complete: what is
    /// merged into one may be what is sent as the next.
    pub(crate) fn run<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &mut [T],
        out: impl Fn(usize) -> Range<usize>,
        into: impl Fn(usize) -> Range<usize>,
        merge: impl Fn(&mut [T], &[T]),
    ) -> Result<(), CollectiveError> {
        let count = self.pieces.count();
        let total = self.stretches * count;
        // Never so far ahead that a piece is sent before it is complete.
        let ahead = self.ahead(call);
        for index in 0..total.min(ahead - 1) {
            self.send(call, values, index, &out(0))?;
        }
        for taken in 0..total {
            if taken == count {
                call.relay();
            }
            let next = taken + ahead - 1;
            let next = (next < total).then(|| (next, out(next / count)));
            let taken = (taken, into(taken / count));
            self.exchange(call, values, next, Some(taken), &merge)?;
        }
        Ok(())
    }

    /// Pieces of a stretch that are under way, at most. One is enough where both ranks read from each
    /// other at the same time.
    pub(crate) fn ahead(&self, call: &Call<'_>) -> usize {
        match call.lends() {
            true => 1,
            false => AHEAD.min(self.pieces.count()),
        }
    }

    /// Sends one piece of a stretch and takes one of another, as far as they are given: where the
    /// transport lends, the first is read while the second is merged.
    pub(crate) fn exchange<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &mut [T],
        next: Option<(usize, Range<usize>)>,
        taken: Option<(usize, Range<usize>)>,
        merge: impl Fn(&mut [T], &[T]),
    ) -> Result<(), CollectiveError> {
        if let (Some((next, out)), Some((taken, into))) = (&next, &taken)
            && let (Some(out), Some(into)) = (self.piece(*next, out), self.piece(*taken, into))
            && let Ok([out, into]) = values.get_disjoint_mut([out, into])
        {
            let (next, taken) = (self.part(*next), self.part(*taken));
            return call.lend(self.to, next, bytemuck::cast_slice(out), |call| {
                call.take_values(self.from, taken, into.len(), |got| merge(into, got))
            });
        }
        if let Some((next, out)) = next {
            self.send(call, values, next, &out)?;
        }
        match taken {
            None => Ok(()),
            Some((taken, into)) => self.take(call, values, taken, &into, merge),
        }
    }

    /// Sends one stretch and takes nothing.
    pub(crate) fn send_only<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &[T],
        stretch: &Range<usize>,
    ) -> Result<(), CollectiveError> {
        (0..self.pieces.count()).try_for_each(|index| self.send(call, values, index, stretch))
    }

    /// Takes one stretch and sends nothing.
    pub(crate) fn take_only<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &mut [T],
        stretch: &Range<usize>,
        merge: impl Fn(&mut [T], &[T]),
    ) -> Result<(), CollectiveError> {
        (0..self.pieces.count())
            .try_for_each(|index| self.take(call, values, index, stretch, &merge))
    }

    /// Takes one stretch, if `take`, and passes each piece on as it comes, if `send`.
    pub(crate) fn pass_on<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &mut [T],
        take: bool,
        send: bool,
    ) -> Result<(), CollectiveError> {
        let stretch = 0..values.len();
        for index in 0..self.pieces.count() {
            if take {
                self.take(call, values, index, &stretch, <[T]>::copy_from_slice)?;
            }
            if send {
                self.send(call, values, index, &stretch)?;
            }
        }
        Ok(())
    }

    /// Sends piece `index` of a stretch.
    pub(crate) fn send<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &[T],
        index: usize,
        stretch: &Range<usize>,
    ) -> Result<(), CollectiveError> {
        match self.piece(index, stretch) {
            None => Ok(()),
            Some(piece) => {
                let bytes = bytemuck::cast_slice(&values[piece]);
                call.send(self.to, self.part(index), bytes)
            }
        }
    }

    fn take<T: Pod>(
        &self,
        call: &mut Call<'_>,
        values: &mut [T],
        index: usize,
        stretch: &Range<usize>,
        merge: impl Fn(&mut [T], &[T]),
    ) -> Result<(), CollectiveError> {
        match self.piece(index, stretch) {
            None => Ok(()),
            Some(piece) => {
                let (part, values) = (self.part(index), &mut values[piece]);
                call.take_values(self.from, part, values.len(), |got| merge(values, got))
            }
        }
    }

    /// Where the piece of a message lies; `None` if there is no such message.
    fn piece(&self, index: usize, stretch: &Range<usize>) -> Option<Range<usize>> {
        let index = index % self.pieces.count();
        let piece = self.pieces.range(stretch, index);
        (index == 0 || !piece.is_empty()).then_some(piece)
    }

    pub(crate) fn part(&self, index: usize) -> u32 {
        // Pieces are few enough, see there.
        self.first + index as u32
    }
}
