//! Transports around others, for tests of ranks that are late or stop.

use std::sync::Arc;

use burn_virtual_collective::{Deadline, Lender, Sent, Tag, Transport, TransportError};

/// A transport that calls `before` with the tag of each message that it is about to send or lend, and is
/// as `inner` otherwise.
pub(crate) struct BeforeSend<T> {
    inner: T,
    before: Arc<Before>,
}

type Before = dyn Fn(Tag) + Send + Sync;

impl<T> BeforeSend<T> {
    pub(crate) fn new(inner: T, before: impl Fn(Tag) + Send + Sync + 'static) -> Self {
        let before = Arc::new(before);
        Self { inner, before }
    }
}

impl<T: Transport> Transport for BeforeSend<T> {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn world(&self) -> usize {
        self.inner.world()
    }

    fn send(
        &mut self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        (self.before)(tag);
        self.inner.send(to, tag, payload, deadline)
    }

    fn receive(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<(), TransportError> {
        self.inner.receive(from, tag, buffer, deadline)
    }

    fn receive_or_read(
        &mut self,
        from: usize,
        tag: Tag,
        buffer: &mut Vec<u8>,
        deadline: Deadline,
        read: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TransportError> {
        self.inner
            .receive_or_read(from, tag, buffer, deadline, read)
    }

    fn lender(&self) -> Option<Arc<dyn Lender>> {
        let (inner, before) = (self.inner.lender()?, self.before.clone());
        Some(Arc::new(BeforeLend { inner, before }))
    }

    fn arrived(&self, from: usize) -> Option<(u64, u64)> {
        self.inner.arrived(from)
    }

    fn close(&mut self, reason: &str) {
        self.inner.close(reason);
    }

    fn stale(&self) -> u64 {
        self.inner.stale()
    }

    fn sent(&self) -> Sent {
        self.inner.sent()
    }
}

struct BeforeLend {
    inner: Arc<dyn Lender>,
    before: Arc<Before>,
}

impl Lender for BeforeLend {
    fn lend(
        &self,
        to: usize,
        tag: Tag,
        payload: &[u8],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<(), TransportError> {
        (self.before)(tag);
        self.inner.lend(to, tag, payload, meanwhile)
    }
}
