//! Values on their way from a device to the host: all of a virtual node's in one transaction.
//!
//! A GPU computes behind the host's back. Reading a tensor waits until everything before it is
//! done, and reading tensor by tensor waits as often as there are tensors. So the values of one
//! virtual node are asked for at once, and awaited when the next one's work has been handed over: the
//! copy and the host's additions hide behind it. A CPU backend has its values at once. So, it seems, has
//! CUDA: cubecl 0.10 waits there when it is first asked.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use burn::tensor::backend::{Backend, ExecutionError};
use burn::tensor::ops::{FloatTensor, TransactionPrimitive, TransactionPrimitiveData};
use burn::tensor::{TensorData, try_read_sync};

type Answer = Result<TransactionPrimitiveData, ExecutionError>;

/// The values of some float tensors, asked for.
pub(crate) enum Download {
    Here(Answer),
    OnTheWay(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl Download {
    /// Asks for the values of tensors of one device; doesn't wait for them.
    pub(crate) fn start<B: Backend>(tensors: Vec<FloatTensor<B>>) -> Self {
        // Some backends can't read nothing.
        if tensors.is_empty() {
            return Self::Here(Ok(TransactionPrimitiveData::default()));
        }
        let transaction = TransactionPrimitive::<B>::new(tensors, vec![], vec![], vec![]);
        let mut answer = Box::pin(B::tr_execute(transaction));
        // A future does nothing before it is asked: this is what hands the copies over.
        match answer
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(answer) => Self::Here(answer),
            Poll::Pending => Self::OnTheWay(answer),
        }
    }

    /// Whether there is nothing to wait for.
    pub(crate) fn is_here(&self) -> bool {
        matches!(self, Self::Here(_))
    }

    /// Waits for the values: those of each tensor, in the order in which they were given.
    pub(crate) fn finish(self) -> Result<Vec<TensorData>, String> {
        let answer = match self {
            Self::Here(answer) => answer,
            Self::OnTheWay(answer) => {
                try_read_sync(answer).ok_or("this platform can't wait for a device")?
            }
        };
        Ok(answer.map_err(|error| error.to_string())?.read_floats)
    }
}
