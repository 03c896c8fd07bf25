//! What kind of backend is inside, by the name of its type: its own name takes an allocation, and on
//! a GPU a client, for every operation that asks.

use core::any::type_name;
use core::sync::atomic::{AtomicU64, Ordering};

/// The backends that need something of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Other,
    Flex,
    NdArray,
    Cubecl,
}

/// In the order of their numbers.
const KINDS: [Kind; 4] = [Kind::Other, Kind::Flex, Kind::NdArray, Kind::Cubecl];

/// Whether the backend computes on the CPU, without atomics.
pub(crate) fn is_cpu<B>() -> bool {
    matches!(kind::<B>(), Kind::Flex | Kind::NdArray)
}

/// Whether the backend is ndarray's.
pub(crate) fn is_ndarray<B>() -> bool {
    kind::<B>() == Kind::NdArray
}

/// Whether the backend's kernels are those of cubecl.
pub(crate) fn is_cubecl<B>() -> bool {
    kind::<B>() == Kind::Cubecl
}

/// Looks at a name once. On a tensor of a few elements searching it would take as long as the
/// operation; so what was found is kept, by the address of the name, one entry for each low part of
/// it. An entry is one word: another thread sees all of it or none.
fn kind<B>() -> Kind {
    static FOUND: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];
    const COUNT: u64 = KINDS.len() as u64;

    let name = type_name::<B>();
    let address = name.as_ptr() as u64;
    let entry = &FOUND[(address / 16 % 16) as usize];
    let found = entry.load(Ordering::Relaxed);
    if found / COUNT == address {
        return KINDS[(found % COUNT) as usize];
    }
    let kind = kind_of(name);
    entry.store(address * COUNT + kind as u64, Ordering::Relaxed);
    kind
}

/// Decorators inside are looked through: their names hold that of what they decorate.
fn kind_of(name: &str) -> Kind {
    let known = [
        ("burn_cubecl::", Kind::Cubecl),
        ("burn_flex::", Kind::Flex),
        ("burn_ndarray::", Kind::NdArray),
    ];
    let named = known.iter().find(|(part, _)| name.contains(part));
    named.map_or(Kind::Other, |(_, kind)| *kind)
}

/// Whether the GPU backends of this build choose their kernels by timing them, and with it their bits.
///
/// Burn's feature `autotune` may come from anywhere in the build, and holds for all of it. It is seen
/// where this crate has feature `wgpu` or `cuda`.
pub fn autotunes() -> bool {
    #[cfg(any(feature = "wgpu", feature = "cuda"))]
    {
        use burn_cubecl::kernel::matmul::MatmulStrategy;
        !matches!(MatmulStrategy::default(), MatmulStrategy::Cube)
    }
    #[cfg(not(any(feature = "wgpu", feature = "cuda")))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Decorated<B>(core::marker::PhantomData<B>);

    #[test]
    fn kinds_are_at_their_numbers() {
        for (number, kind) in KINDS.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }

    #[test]
    fn kind_is_that_of_the_backend_inside_however_often_it_is_asked() {
        for _ in 0..3 {
            assert_eq!(kind::<burn_flex::Flex>(), Kind::Flex);
            assert_eq!(kind::<Decorated<burn_flex::Flex>>(), Kind::Flex);
            assert_eq!(kind::<burn_ndarray::NdArray>(), Kind::NdArray);
            assert_eq!(kind::<Decorated<u8>>(), Kind::Other);
            #[cfg(feature = "wgpu")]
            assert_eq!(kind::<crate::Wgpu>(), Kind::Cubecl);
            assert!(is_cpu::<burn_flex::Flex>() && !is_cubecl::<burn_flex::Flex>());
        }
    }
}
