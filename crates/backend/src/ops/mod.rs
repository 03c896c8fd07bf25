//! Every method of every op family, handed over to the inner backend.
//!
//! A forgotten default would silently replace the inner backend's own kernel by a slow composite
//! of smaller ops, so each family is a table of verbatim signatures and each impl denies
//! `clippy::missing_trait_methods`.
//!
//! A table is a macro that hands its rows to the macro it is given, so that a test can build another
//! decorator on the same rows. It names Burn's types as the file does that it stands in: who uses it
//! elsewhere has to import them.

mod activation;
mod bool;
mod empty;
mod float;
mod int;
mod module;
mod quantized;
mod transaction;
mod unrepeatable;

/// Writes one delegating method per signature: arguments are peeled to the inner backend's types,
/// the result is wrapped again. Two tensors that the operation broadcasts, `lhs` and `rhs`, are
/// stretched first where one of them is empty.
macro_rules! delegate {
    ($(fn $name:ident($($args:tt)*) -> $ret:ty;)*) => {
        $(crate::ops::delegate! { @row $name($($args)*) -> $ret })*
    };
    // Not value by value.
    (@row float_matmul $args:tt -> $ret:ty) => {
        crate::ops::delegate! { @method float_matmul $args -> $ret }
    };
    (@row int_matmul $args:tt -> $ret:ty) => {
        crate::ops::delegate! { @method int_matmul $args -> $ret }
    };
    (@row $name:ident(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>$(, $arg:ident: $ty:ty)*) -> $ret:ty) => {
        crate::ops::delegate! { @pair FloatTensor float_expand $name($($arg: $ty),*) -> $ret }
    };
    (@row $name:ident(lhs: IntTensor<Self>, rhs: IntTensor<Self>$(, $arg:ident: $ty:ty)*) -> $ret:ty) => {
        crate::ops::delegate! { @pair IntTensor int_expand $name($($arg: $ty),*) -> $ret }
    };
    (@row $name:ident(lhs: BoolTensor<Self>, rhs: BoolTensor<Self>) -> $ret:ty) => {
        crate::ops::delegate! { @pair BoolTensor bool_expand $name() -> $ret }
    };
    (@row $name:ident $args:tt -> $ret:ty) => {
        crate::ops::delegate! { @method $name $args -> $ret }
    };
    (@pair $tensor:ident $expand:ident $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[inline]
        fn $name(lhs: $tensor<Self>, rhs: $tensor<Self>, $($arg: $ty),*) -> $ret {
            crate::ops::delegate! { @note $name }
            let (lhs, rhs) = crate::ops::empty::stretched::<B, _>(peel(lhs), peel(rhs), B::$expand);
            wrap(B::$name(lhs, rhs, $(peel($arg)),*))
        }
    };
    (@method $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        #[inline]
        fn $name($($arg: $ty),*) -> $ret {
            crate::ops::delegate! { @note $name }
            wrap(B::$name($(peel($arg)),*))
        }
    };
    (@note $name:ident) => {
        if const { crate::ops::unrepeatable::is_listed(stringify!($name)) } {
            crate::ops::unrepeatable::note::<B>(stringify!($name));
        }
    };
}
pub(crate) use delegate;
