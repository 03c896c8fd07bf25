//! Transactions: several reads at once.

use burn_backend::ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData};
use burn_backend::{Backend, ExecutionError};

use crate::VirtualBackend;
use crate::convert::peel;

#[deny(clippy::missing_trait_methods)]
impl<B: Backend> TransactionOps<Self> for VirtualBackend<B> {
    fn tr_execute(
        transaction: TransactionPrimitive<Self>,
    ) -> impl Future<Output = Result<TransactionPrimitiveData, ExecutionError>> + Send {
        B::tr_execute(TransactionPrimitive::new(
            peel(transaction.read_floats),
            peel(transaction.read_qfloats),
            peel(transaction.read_ints),
            peel(transaction.read_bools),
        ))
    }
}
