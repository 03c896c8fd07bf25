//! Transactions: several reads at once.

use burn_backend::ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_backend::{Backend, ExecutionError};

use crate::VirtualBackend;
use crate::convert::peel;
use crate::tensor::VirtualTensor;

#[deny(clippy::missing_trait_methods)]
impl<B: Backend> TransactionOps<Self> for VirtualBackend<B> {
    fn tr_execute(
        transaction: TransactionPrimitive<Self>,
    ) -> impl Future<Output = Result<TransactionPrimitiveData, ExecutionError>> + Send {
        let TransactionPrimitive {
            read_floats,
            read_qfloats,
            read_ints,
            read_bools,
            ..
        } = transaction;
        // The tensors are alive until their values are here, and so are their bytes on the books.
        let claims = (
            VirtualTensor::claims(&read_floats),
            VirtualTensor::claims(&read_qfloats),
            VirtualTensor::claims(&read_ints),
            VirtualTensor::claims(&read_bools),
        );
        let answer = B::tr_execute(TransactionPrimitive::new(
            peel(read_floats),
            peel(read_qfloats),
            peel(read_ints),
            peel(read_bools),
        ));
        async move {
            let answer = answer.await;
            drop(claims);
            answer
        }
    }
}
