//! Every method of every op family, handed over to the inner backend.
//!
//! A forgotten default would silently replace the inner backend's own kernel by a slow composite
//! of smaller ops, so each family is a table of verbatim signatures and each impl denies
//! `clippy::missing_trait_methods`.

mod activation;
mod bool;
mod float;
mod int;
mod module;
mod quantized;
mod transaction;

/// Writes one delegating method per signature: arguments are peeled to the inner backend's types,
/// the result is wrapped again.
macro_rules! delegate {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)*) => {
        $(
            #[inline]
            fn $name($($arg: $ty),*) -> $ret {
                wrap(B::$name($(peel($arg)),*))
            }
        )*
    };
}
pub(crate) use delegate;
