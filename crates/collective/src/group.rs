//! The ranks that train together, as one of them sees them.

use std::fmt;
use std::time::Duration;

use burn_virtual_plan::{Layout, Node, Partial, Placement};

use crate::call::{Buffers, Call, Span};
use crate::element::summed::Summed;
use crate::header::Header;
use crate::shape::Shape;
use crate::{
    Algorithm, CallName, CollectiveError, Element, Float, OnStall, Operation, Reduce, Sent, Shares,
    Transport, Work, exchange, halving, ordered, ring, unordered,
};

/// How a group waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Generation of the group; greater each time it is formed anew over the same links. Messages
    /// of an earlier one are dropped.
    pub epoch: u64,
    /// The longest that a collective may take, from entering it to its result. Where ranks wait for
    /// one another in turn, those that don't wait for the culprit itself may wait an eighth longer,
    /// so that the one that does is the one that names it.
    pub timeout: Duration,
    /// The same for the first collective of the group, and for its first all-reduce of a step: other
    /// ranks may still be compiling.
    pub first_timeout: Duration,
    /// A call that waits for longer than this is reported, and again each time that it has waited so
    /// much longer: [`crate::Stall`] says which ranks are missing. No error: a slow rank is not a
    /// dead one. [`Duration::MAX`] for never.
    pub stall: Duration,
    /// What is done with the report: by default, a line on stderr.
    pub on_stall: OnStall,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            epoch: 0,
            timeout: Duration::from_secs(30),
            first_timeout: Duration::from_secs(300),
            stall: Duration::from_secs(10),
            on_stall: OnStall::default(),
        }
    }
}

/// One rank's membership in a group.
///
/// All ranks make the same calls in the same order. The first error on any rank closes the group
/// for all of them: the others get an error that says why instead of waiting for their deadline,
/// and every later call returns [`CollectiveError::Closed`] with that first reason.
pub struct Group {
    transport: Box<dyn Transport>,
    options: Options,
    sequence: u64,
    /// Whether there was an all-reduce of a step.
    stepped: bool,
    closed: Option<(usize, String)>,
    /// The shape of the next vector.
    shape: Option<Shape>,
    buffers: Buffers,
    kept: ordered::Kept,
}

impl Group {
    /// A group over the given transport.
    pub fn new(transport: Box<dyn Transport>, options: Options) -> Self {
        Self {
            transport,
            options,
            sequence: 0,
            stepped: false,
            closed: None,
            shape: None,
            buffers: Buffers::default(),
            kept: ordered::Kept::default(),
        }
    }

    /// This rank, in `0..world`.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// Number of ranks.
    pub fn world(&self) -> usize {
        self.transport.world()
    }

    /// Number of messages of earlier calls or epochs that were dropped.
    pub fn stale(&self) -> u64 {
        self.transport.stale()
    }

    /// Messages of collectives that this rank has sent, and the bytes in them.
    pub fn sent(&self) -> Sent {
        self.transport.sent()
    }

    /// Waits until every rank has entered the barrier.
    ///
    /// # Errors
    /// A rank is missing, gone, or runs another operation; the group is closed.
    pub fn barrier(&mut self) -> Result<(), CollectiveError> {
        self.run(Header::barrier(), |call, _| exchange::barrier(call))
    }

    /// Replaces `bytes` on every rank by those of rank `root`; lengths need not agree before.
    ///
    /// # Errors
    /// As [`Group::barrier`]; `root` is no rank of the group, or not the same on every rank.
    pub fn broadcast(&mut self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CollectiveError> {
        self.run(Header::broadcast(root), |call, _| {
            exchange::broadcast(call, root, bytes)
        })
    }

    /// Says of which shape the vector of the next call is: two ranks whose vectors are as long, but
    /// not of one shape, get an error that names both. Without it, a vector is of one dimension.
    ///
    /// ```
    /// # use burn_virtual_collective::{Algorithm, Group, Options, memory};
    /// # let end = memory::group(1).remove(0);
    /// # let mut group = Group::new(Box::new(end), Options::default());
    /// let mut values = [1.0_f32; 12];
    /// group.shape(&[2, 6]).sum(Algorithm::Ring, &mut values)?;
    /// # Ok::<(), burn_virtual_collective::CollectiveError>(())
    /// ```
    ///
    /// It counts for [`Group::sum`], [`Group::mean`], [`Group::reduce_scatter`],
    /// [`Group::all_gather`] and [`Group::broadcast_slice`]; other calls have no shape to compare.
    pub fn shape(&mut self, sizes: &[usize]) -> &mut Self {
        self.shape = Some(Shape::new(sizes));
        self
    }

    /// Replaces `values` on every rank by those of rank `root`. After an error they are unspecified.
    ///
    /// # Errors
    /// As [`Group::broadcast`]; another number or type of elements on some other rank.
    pub fn broadcast_slice<T: Element>(
        &mut self,
        root: usize,
        values: &mut [T],
    ) -> Result<(), CollectiveError> {
        let header = Header::slice(Operation::BroadcastSlice, T::TYPE, values.len());
        self.run_slice(header.with_root(root), |call| {
            exchange::broadcast_slice(call, root, values)
        })
    }

    /// What every rank brings, on every rank, in rank order. Lengths need not agree.
    ///
    /// # Errors
    /// As [`Group::barrier`].
    pub fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CollectiveError> {
        self.run(Header::gather(), |call, _| exchange::gather(call, bytes))
    }

    /// The sum over all virtual nodes along the tree, the same bits on every rank and for every
    /// placement. `nodes` are this rank's maximal subtrees in order, as its stack gave them.
    /// Absent segments of the result hold zeros; `None` if no virtual node contributed.
    ///
    /// # Errors
    /// As [`Group::barrier`]; a contribution that is not what `layout` and `placement` ask for;
    /// another step, batch, layout or placement on some other rank.
    pub fn all_reduce(
        &mut self,
        work: impl Into<Work>,
        layout: &Layout,
        placement: &Placement,
        nodes: Vec<Node>,
    ) -> Result<Option<Partial>, CollectiveError> {
        self.all_reduce_by(Reduce::Ordered, work, layout, placement, nodes)
    }

    /// [`Group::all_reduce`] in another way. All but [`Reduce::Ordered`] give the same bits on every
    /// rank and in every run, but not for every placement.
    ///
    /// # Errors
    /// As there; another way on some other rank.
    pub fn all_reduce_by(
        &mut self,
        reduce: Reduce,
        work: impl Into<Work>,
        layout: &Layout,
        placement: &Placement,
        nodes: Vec<Node>,
    ) -> Result<Option<Partial>, CollectiveError> {
        let work = work.into();
        let span = self.span(!self.stepped);
        self.stepped = true;
        let Some(algorithm) = reduce.algorithm() else {
            let header = Header::all_reduce(Operation::AllReduce, work, layout, placement);
            return self.run_call(header, Some(work), span, |call, kept| {
                ordered::all_reduce(call, kept, layout, placement, nodes)
            });
        };
        // Two calls within one span of time.
        let header = Header::all_reduce(algorithm.operation(), work, layout, placement);
        let joined = self.run_call(header, Some(work), span, |call, kept| {
            unordered::join(call, &mut kept.spare, layout, placement, nodes)
        })?;
        let Some(mut sum) = joined else {
            return Ok(None); // as on every other rank
        };
        let spare = self.take_spares();
        let values = sum.values_mut();
        let header = Header::slice(algorithm.operation(), f32::TYPE, values.len());
        self.run_call(header, Some(work), span, |call, _| {
            flat(call, algorithm, values, |_| {})
        })?;
        sum.zero_absent();
        self.kept.spare = spare;
        Ok(Some(sum))
    }

    /// Replaces `values` on every rank by their sum over all ranks: the same bits on every rank,
    /// and again in every call on as many ranks, but not on another number of them. After an error
    /// they are unspecified.
    ///
    /// ```
    /// use burn_virtual_collective::{Algorithm, CollectiveError, Group, Options, memory};
    ///
    /// std::thread::scope(|scope| {
    ///     for transport in memory::group(3) {
    ///         scope.spawn(|| {
    ///             let mut group = Group::new(Box::new(transport), Options::default());
    ///             let mut values = [1.0, group.rank() as f32];
    ///             group.sum(Algorithm::Ring, &mut values)?;
    ///             assert_eq!(values, [3.0, 3.0]);
    ///             Ok::<(), CollectiveError>(())
    ///         });
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`Group::barrier`]; another number or type of elements on some other rank.
    pub fn sum<T: Element>(
        &mut self,
        algorithm: Algorithm,
        values: &mut [T],
    ) -> Result<(), CollectiveError> {
        let header = Header::slice(algorithm.operation(), T::TYPE, values.len());
        self.run_slice(header, |call| flat(call, algorithm, values, |_| {}))
    }

    /// Replaces `values` on every rank by their mean over all ranks: their sum as [`Group::sum`] adds
    /// it up, divided once. Elements of 16 bits are rounded after that, so that a mean is right
    /// also where the sum is out of their range.
    ///
    /// # Errors
    /// As [`Group::sum`].
    pub fn mean<T: Float>(
        &mut self,
        algorithm: Algorithm,
        values: &mut [T],
    ) -> Result<(), CollectiveError> {
        let world = self.world();
        let header = Header::slice(algorithm.mean(), T::TYPE, values.len());
        self.run_slice(header, |call| {
            flat(call, algorithm, values, |sums| T::divide(sums, world))
        })
    }

    /// Replaces this rank's share of `values` by its sum over all ranks; the rest of them, and after
    /// an error all, are unspecified. Followed by [`Group::all_gather`], this is
    /// [`Algorithm::Ring`].
    ///
    /// # Errors
    /// As [`Group::sum`]; shares that are not for this vector and group, or not the same on every
    /// rank.
    pub fn reduce_scatter<T: Element>(
        &mut self,
        shares: &Shares,
        values: &mut [T],
    ) -> Result<(), CollectiveError> {
        let header = Header::slice(Operation::ReduceScatter, T::TYPE, values.len());
        self.run_slice(header.with_shares(shares), |call| {
            call.check_shares(shares, values.len())?;
            ring::reduce_scatter(call, shares, values, |_| {}).map(|_| ())
        })
    }

    /// Fills `values` on every rank with the shares of all ranks. Each brings its own, in its place;
    /// what lies elsewhere is replaced, and unspecified after an error.
    ///
    /// # Errors
    /// As [`Group::reduce_scatter`].
    pub fn all_gather<T: Element>(
        &mut self,
        shares: &Shares,
        values: &mut [T],
    ) -> Result<(), CollectiveError> {
        let header = Header::slice(Operation::AllGather, T::TYPE, values.len());
        self.run_slice(header.with_shares(shares), |call| {
            call.check_shares(shares, values.len())?;
            ring::all_gather(call, shares, values)
        })
    }

    /// Buffers of nodes that the results of [`Group::all_reduce`] did not use, for
    /// [`burn_virtual_plan::Stack::recycle`]. Those that nobody takes are dropped at the next call.
    pub fn take_spares(&mut self) -> Vec<Partial> {
        std::mem::take(&mut self.kept.spare)
    }

    /// Closes the group for all ranks because this one cannot go on; they read `reason`. Without
    /// effect if it is closed already.
    pub fn abort(&mut self, reason: &str) {
        if self.closed.is_none() {
            self.transport.close(reason);
            self.closed = Some((self.rank(), reason.to_owned()));
        }
    }

    /// Makes a call that belongs to no step.
    fn run<T>(
        &mut self,
        header: Header,
        body: impl FnOnce(&mut Call<'_>, &mut ordered::Kept) -> Result<T, CollectiveError>,
    ) -> Result<T, CollectiveError> {
        self.run_call(header, None, self.span(false), body)
    }

    /// Makes a call on a vector, which may have a shape.
    fn run_slice(
        &mut self,
        header: Header,
        body: impl FnOnce(&mut Call<'_>) -> Result<(), CollectiveError>,
    ) -> Result<(), CollectiveError> {
        self.buffers.shape = self.shape.take();
        let header = header.with_shape(self.buffers.shape.as_ref());
        let result = self.run_call(header, None, self.span(false), |call, _| {
            call.check_shape(header.elements)?;
            body(call)
        });
        self.buffers.shape = None;
        result
    }

    /// The time of a call that begins now.
    fn span(&self, is_first: bool) -> Span {
        let is_first = is_first || self.sequence == 0;
        Span::new(if is_first {
            self.options.first_timeout
        } else {
            self.options.timeout
        })
    }

    /// Makes one call, and closes the group if it fails.
    fn run_call<T>(
        &mut self,
        header: Header,
        work: Option<Work>,
        span: Span,
        body: impl FnOnce(&mut Call<'_>, &mut ordered::Kept) -> Result<T, CollectiveError>,
    ) -> Result<T, CollectiveError> {
        let name = CallName {
            operation: header.operation,
            work,
            sequence: self.sequence,
        };
        self.check_open(name)?;
        self.shape = None;
        self.sequence += 1;
        self.kept.spare.clear();
        let mut call = Call::new(
            &mut *self.transport,
            &mut self.buffers,
            &self.options,
            name,
            header,
            span,
        );
        let result = body(&mut call, &mut self.kept);
        if let Err(error) = &result {
            self.shut(error);
        }
        result
    }

    fn check_open(&self, call: CallName) -> Result<(), CollectiveError> {
        match self.closed.clone() {
            None => Ok(()),
            Some((by, reason)) => Err(CollectiveError::Closed {
                rank: self.rank(),
                call,
                by,
                reason,
            }),
        }
    }

    fn shut(&mut self, error: &CollectiveError) {
        match error {
            CollectiveError::Closed { by, reason, .. } => {
                self.closed = Some((*by, reason.clone()));
                // Passed on: this rank may leave before the news has reached all others from where
                // it comes, and they must not take that for the cause.
                self.transport
                    .close(&format!("closed by rank {by}: {reason}"));
            }
            error => self.abort(&error.to_string()),
        }
    }
}

/// The sum over all ranks, with `finish` applied to it before it is rounded.
fn flat<T: Element>(
    call: &mut Call<'_>,
    algorithm: Algorithm,
    values: &mut [T],
    finish: impl Fn(&mut [<T as Summed>::Sum]),
) -> Result<(), CollectiveError> {
    match algorithm {
        Algorithm::Ring => ring::all_reduce(call, values, finish),
        Algorithm::HalvingDoubling => halving::all_reduce(call, values, finish),
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Group")
            .field("rank", &self.rank())
            .field("world", &self.world())
            .field("sequence", &self.sequence)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
