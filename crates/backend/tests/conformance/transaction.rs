//! `TransactionOps`.

use burn_backend::ops::TransactionPrimitive;

use crate::cases;

cases! { T, x;
    transaction tr_execute(TransactionPrimitive::new(
        vec![x.f([3, 4]), x.f([2])],
        vec![x.q([4, 4])],
        vec![x.i([2, 2]), x.i([3]), x.i([1])],
        vec![x.b([5, 2])],
    ));
    transaction tr_execute(TransactionPrimitive::new(vec![], vec![], vec![], vec![]));
}
