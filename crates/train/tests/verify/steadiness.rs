//! A fault that comes and goes is caught without a second backend.

use std::sync::atomic::{AtomicBool, Ordering};

use burn_virtual_train::TrainError;

use crate::broken::Fault;
use crate::task::{items, verify, with_fault};

/// Faults in every second call of an operation.
macro_rules! faults_that_come_and_go {
    ($($name:ident: $op:literal;)*) => {
        $(
            #[derive(Clone, Debug, Default)]
            struct $name;

            impl Fault for $name {
                const OP: &'static str = $op;

                fn strikes() -> bool {
                    static STRIKES: AtomicBool = AtomicBool::new(false);
                    STRIKES.fetch_not(Ordering::Relaxed)
                }
            }
        )*
    };
}
faults_that_come_and_go! {
    EmbeddingBackward: "embedding_backward";
    FloatTanh: "float_tanh";
}

#[test]
fn backend_is_caught_when_its_bits_change_from_run_to_run() {
    let items = items();
    let verify = with_fault::<EmbeddingBackward>(verify(&items)).unwrap();
    let report = verify.report();
    let text = report.to_string();
    assert!(!report.holds(), "{text}");
    assert_eq!(report.backends[0].repeats, Some(false), "{text}");
    let named = text.contains("bits from run to run       DIFFERENT\n");
    assert!(named, "{text}");
}

#[test]
fn backend_is_refused_by_name_when_the_bit_probe_sees_it_change() {
    let items = items();
    // Once in every probe.
    let error = with_fault::<FloatTanh>(verify(&items)).unwrap_err();
    let TrainError::Unsteady { backend, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(backend, "broken<flex>");
    assert!(error.to_string().contains(backend), "{error}");
}
