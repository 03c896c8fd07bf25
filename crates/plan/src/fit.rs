//! How few virtual nodes still fit the memory of a device: fewer of them mean larger micro-batches.

/// The most that one measurement may be larger than the largest micro-batch that fitted before.
const GROWTH: usize = 8;

/// What one virtual node with a micro-batch of some size needs on its device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The peak of what does not depend on the micro-batch: the optimizer's update.
    pub fixed: usize,
    /// The peak of the forward and backward pass, parameters and optimizer state included. It grows
    /// about linearly with the micro-batch.
    pub step: usize,
}

impl Need {
    /// The larger of the two, in bytes: they do not stand on the device at the same time.
    pub fn peak(self) -> usize {
        self.fixed.max(self.step)
    }
}

/// The fewest virtual nodes whose micro-batches fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Number of virtual nodes, at least 1.
    pub virtual_nodes: usize,
    /// Samples in the largest micro-batch: the batch divided by the virtual nodes, rounded up.
    pub micro_batch: usize,
    /// What that micro-batch was measured to need, in bytes.
    pub need: usize,
}

/// Why there is no number of virtual nodes that fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError<E> {
    /// A micro-batch could not be measured.
    #[error(transparent)]
    Measure(E),
    /// There is nothing to share.
    #[error("the batch is empty: expected at least 1 sample, got 0")]
    EmptyBatch,
    /// Not even a micro-batch of one sample fits.
    #[error("a micro-batch of 1 sample needs {need} bytes: expected at most {limit}")]
    TooLarge {
        /// Bytes allowed.
        limit: usize,
        /// Bytes that one sample was measured to need.
        need: usize,
    },
}

/// Searches the fewest virtual nodes that share a batch of `batch` samples so that none needs more
/// than `limit` bytes.
///
/// `measure` runs one micro-batch of the number of samples it is given, for real: 1 sample, then 2,
/// and from then on only sizes that the two largest that fitted predict to fit, on a straight line,
/// and that are at most 8 times the largest. No size is measured twice, and only sizes that a number
/// of virtual nodes gives are. (Nothing predicts what 2 samples need; they are measured all the same,
/// as parameters may be nearly all that one sample needs.)
///
/// The result was measured, never only predicted. Where needs grow linearly, or ever faster, it is
/// the fewest; where they grow ever more slowly it may be more.
///
/// ```
/// use std::convert::Infallible;
/// use burn_virtual_plan::{Fit, Need, fewest_virtual_nodes};
///
/// // 1,000 bytes of parameters and state, 100 bytes a sample.
/// let measure = |samples| {
///     Ok::<_, Infallible>(Need { fixed: 1_200, step: 1_000 + 100 * samples })
/// };
/// let fit = fewest_virtual_nodes(64, 2_800, measure)?;
/// // 4 virtual nodes of 16 samples; 3 would have up to 22.
/// assert_eq!(fit, Fit { virtual_nodes: 4, micro_batch: 16, need: 2_600 });
/// # Ok::<(), burn_virtual_plan::FitError<Infallible>>(())
/// ```
///
/// # Errors
/// [`FitError::EmptyBatch`] if `batch` is 0, [`FitError::TooLarge`] if one sample needs more than
/// `limit`, [`FitError::Measure`] if `measure` fails.
pub fn fewest_virtual_nodes<E>(
    batch: usize,
    limit: usize,
    mut measure: impl FnMut(usize) -> Result<Need, E>,
) -> Result<Fit, FitError<E>> {
    if batch == 0 {
        return Err(FitError::EmptyBatch);
    }
    let need = measure(1).map_err(FitError::Measure)?;
    if need.peak() > limit {
        let need = need.peak();
        return Err(FitError::TooLarge { limit, need });
    }
    let mut search = Search::new(batch, limit, need);
    while let Some(samples) = search.next() {
        let need = measure(samples).map_err(FitError::Measure)?;
        search.learn(Measured { samples, need });
    }
    Ok(search.fit())
}

/// A size that was measured.
#[derive(Clone, Copy)]
struct Measured {
    samples: usize,
    need: Need,
}

/// What is known so far. Whatever is measured next lies between `fits` and `fails`.
struct Search {
    batch: usize,
    limit: usize,
    /// The largest size that fits.
    fits: Measured,
    /// The largest size below it.
    below: Option<Measured>,
    /// The smallest size that does not fit.
    fails: Option<Measured>,
    /// Whether `fails` is news: the line to it says more than the middle does, but only once.
    interpolate: bool,
}

impl Search {
    fn new(batch: usize, limit: usize, need: Need) -> Self {
        Self {
            batch,
            limit,
            fits: Measured { samples: 1, need },
            below: None,
            fails: None,
            interpolate: false,
        }
    }

    /// The size to measure next, if any larger one is worth it.
    fn next(&self) -> Option<usize> {
        let smallest = self.larger(self.fits.samples)?;
        let largest = self.reach();
        let aim = self.aim().map_or(largest, |aim| aim.min(largest));
        (smallest <= largest).then(|| self.size(aim).max(smallest))
    }

    /// No size above this one is known or predicted to fit, or within one measurement's growth.
    fn reach(&self) -> usize {
        let known = self.fails.map_or(self.batch, |fails| fails.samples - 1);
        let grown = self.fits.samples.saturating_mul(GROWTH);
        known.min(grown).min(self.predicted())
    }

    /// The largest size on the line through the two largest that fitted.
    fn predicted(&self) -> usize {
        match self.below {
            Some(below) => self.on_line(below, self.fits).unwrap_or(self.batch),
            None => 2,
        }
    }

    /// Between a size that fits and one that does not: where the line between them meets the limit,
    /// then the middle.
    fn aim(&self) -> Option<usize> {
        let (fits, fails) = (self.fits, self.fails?);
        let middle = fits.samples + (fails.samples - fits.samples) / 2;
        let line = self.on_line(fits, fails).filter(|_| self.interpolate);
        Some(line.unwrap_or(middle))
    }

    /// The largest size, up to the batch, whose pass stays within the limit on the line through two
    /// sizes; none where the line does not rise.
    fn on_line(&self, low: Measured, high: Measured) -> Option<usize> {
        let rise = high
            .need
            .step
            .checked_sub(low.need.step)
            .filter(|&r| r > 0)?;
        let room = self.limit.saturating_sub(low.need.step);
        // Two factors of 64 bits.
        let samples = room as u128 * (high.samples - low.samples) as u128 / rise as u128;
        let samples = usize::try_from(samples).unwrap_or(usize::MAX);
        Some(low.samples.saturating_add(samples).min(self.batch))
    }

    fn learn(&mut self, measured: Measured) {
        self.interpolate = measured.need.peak() > self.limit;
        if self.interpolate {
            self.fails = Some(measured);
        } else {
            self.below = Some(self.fits);
            self.fits = measured;
        }
    }

    fn fit(&self) -> Fit {
        Fit {
            virtual_nodes: self.batch.div_ceil(self.fits.samples),
            micro_batch: self.fits.samples,
            need: self.fits.need.peak(),
        }
    }

    /// The largest micro-batch of at most `samples`: most sizes belong to no number of virtual nodes.
    fn size(&self, samples: usize) -> usize {
        self.batch.div_ceil(self.batch.div_ceil(samples))
    }

    /// The next larger micro-batch: that of one virtual node fewer.
    fn larger(&self, samples: usize) -> Option<usize> {
        let virtual_nodes = self.batch.div_ceil(samples) - 1;
        (virtual_nodes > 0).then(|| self.batch.div_ceil(virtual_nodes))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::collection::vec;
    use proptest::prelude::{any, prop_assert, prop_assert_eq};

    use super::*;

    type Found = Result<Fit, FitError<Infallible>>;

    /// The result, and the sizes that were measured, in order.
    fn run(batch: usize, limit: usize, need: impl Fn(usize) -> Need) -> (Found, Vec<usize>) {
        let mut sizes = Vec::new();
        let found = fewest_virtual_nodes(batch, limit, |samples| {
            sizes.push(samples);
            Ok(need(samples))
        });
        (found, sizes)
    }

    fn affine(fixed: usize, base: usize, slope: usize) -> impl Fn(usize) -> Need {
        move |samples| Need {
            fixed,
            step: base.saturating_add(slope.saturating_mul(samples)),
        }
    }

    /// The fewest virtual nodes, by trying them all.
    fn brute_force(batch: usize, limit: usize, need: impl Fn(usize) -> Need) -> Option<usize> {
        (1..=batch).find(|&nodes| need(batch.div_ceil(nodes)).peak() <= limit)
    }

    fn nodes(found: &Found) -> Option<usize> {
        found.as_ref().ok().map(|fit| fit.virtual_nodes)
    }

    /// What holds whatever the needs are.
    fn check(batch: usize, limit: usize, need: impl Fn(usize) -> Need) -> Result<(), String> {
        let (found, sizes) = run(batch, limit, &need);
        let mut once = sizes.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() != sizes.len() {
            return Err(format!("measured twice: {sizes:?}"));
        }
        if let Some(size) = sizes
            .iter()
            .find(|&&s| batch.div_ceil(batch.div_ceil(s)) != s)
        {
            return Err(format!("{size} is no micro-batch of {batch}"));
        }
        match found {
            Ok(fit) => {
                let measured = sizes.contains(&fit.micro_batch);
                let fits = fit.need <= limit && fit.need == need(fit.micro_batch).peak();
                let split = batch.div_ceil(fit.virtual_nodes) == fit.micro_batch
                    && batch.div_ceil(fit.micro_batch) == fit.virtual_nodes;
                (measured && fits && split)
                    .then_some(())
                    .ok_or(format!("{fit:?} of {sizes:?}"))
            }
            Err(FitError::TooLarge { need: got, .. }) => (got == need(1).peak() && sizes == [1])
                .then_some(())
                .ok_or(format!("too large: {got}, {sizes:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn search_is_refused_when_batch_is_empty() {
        let (found, sizes) = run(0, usize::MAX, affine(0, 0, 0));
        assert_eq!(found, Err(FitError::EmptyBatch));
        assert!(sizes.is_empty());
    }

    #[test]
    fn search_is_refused_when_one_sample_does_not_fit() {
        let too_large = |need| Err(FitError::TooLarge { limit: 100, need });
        assert_eq!(run(8, 100, affine(0, 100, 1)).0, too_large(101));
        assert_eq!(run(8, 100, affine(102, 0, 1)).0, too_large(102));
    }

    #[test]
    fn search_ends_when_a_measurement_fails() {
        for fails in [1, 2, 8] {
            let found = fewest_virtual_nodes(64, 100, |samples| {
                let need = Need {
                    fixed: 0,
                    step: samples,
                };
                if samples >= fails {
                    Err("lost")
                } else {
                    Ok(need)
                }
            });
            assert_eq!(found, Err(FitError::Measure("lost")));
        }
    }

    #[test]
    fn one_sample_is_measured_once_when_it_is_the_batch() {
        let (found, sizes) = run(1, 10, affine(3, 2, 4));
        let fit = Fit {
            virtual_nodes: 1,
            micro_batch: 1,
            need: 6,
        };
        assert_eq!((found, sizes), (Ok(fit), vec![1]));
    }

    #[test]
    fn whole_batch_is_found_when_the_need_does_not_grow() {
        let (found, sizes) = run(1000, 10, affine(7, 5, 0));
        assert_eq!(nodes(&found), Some(1));
        assert_eq!(sizes, [1, 2, 16, 125, 1000]);
    }

    #[test]
    fn search_ends_when_the_numbers_are_the_largest() {
        let (found, sizes) = run(usize::MAX, usize::MAX, affine(0, 0, 1));
        assert_eq!(nodes(&found), Some(1));
        assert!(sizes.len() < 30, "{sizes:?}");
        let (found, _) = run(usize::MAX, usize::MAX, affine(usize::MAX, usize::MAX, 1));
        assert_eq!(nodes(&found), Some(1));
        let (found, _) = run(usize::MAX, 1 << 40, affine(0, 0, 3));
        let samples = (1_usize << 40) / 3;
        assert_eq!(nodes(&found), Some(usize::MAX.div_ceil(samples)));
    }

    #[test]
    fn two_samples_are_measured_when_parameters_are_nearly_all() {
        let (found, sizes) = run(64, 1_000, affine(0, 900, 3));
        assert_eq!(nodes(&found), Some(2));
        assert_eq!(sizes, [1, 2, 16, 32]);
    }

    #[test]
    fn search_goes_between_when_a_prediction_was_wrong() {
        // Flat up to 10 samples, steep beyond: 16 samples are predicted to fit, and do not.
        let need = |samples: usize| Need {
            fixed: 0,
            step: 100 + 50 * samples.saturating_sub(10),
        };
        let (found, sizes) = run(64, 220, need);
        assert_eq!(nodes(&found), brute_force(64, 220, need));
        assert_eq!(sizes[..3], [1, 2, 16]);
        assert!(sizes.len() <= 6, "{sizes:?}");
    }

    /// A need that grows ever faster: the highest of some lines, each as what it is below zero at no
    /// samples, and its slope.
    fn highest(fixed: usize, lines: &[(usize, usize)], samples: usize) -> Need {
        let at = |&(below, slope): &(usize, usize)| (slope * samples).saturating_sub(below);
        Need {
            fixed,
            step: 500 + lines.iter().map(at).max().unwrap_or(0),
        }
    }

    proptest::proptest! {
        #[test]
        fn fewest_are_found_for_affine_needs(
            batch in 1_usize..400,
            limit in 0_usize..3_000,
            fixed in 0_usize..3_000,
            base in 0_usize..3_000,
            slope in 0_usize..200,
        ) {
            let need = affine(fixed, base, slope);
            let (found, sizes) = run(batch, limit, &need);
            prop_assert_eq!(nodes(&found), brute_force(batch, limit, &need));
            // Before the third there is no line to predict by.
            let beyond = |&&size: &&usize| need(size).peak() > limit;
            prop_assert_eq!(sizes.iter().skip(2).find(beyond), None);
            prop_assert_eq!(check(batch, limit, need), Ok(()));
        }

        #[test]
        fn fewest_are_found_for_affine_needs_of_any_magnitude(
            batch in 1_usize..100_000,
            limit in 0..usize::MAX,
            base in any::<usize>(),
            slope in 0_u32..64,
        ) {
            let need = affine(0, base / 2, usize::MAX >> slope);
            let (found, sizes) = run(batch, limit, &need);
            prop_assert_eq!(nodes(&found), brute_force(batch, limit, &need));
            prop_assert!(sizes.len() < 12, "{:?}", sizes);
        }

        #[test]
        fn fewest_are_found_for_needs_that_grow_ever_faster(
            batch in 1_usize..400,
            limit in 0_usize..5_000,
            fixed in 0_usize..1_000,
            lines in vec((0_usize..2_000, 0_usize..60), 1..5),
        ) {
            let need = |samples| highest(fixed, &lines, samples);
            let (found, sizes) = run(batch, limit, need);
            prop_assert_eq!(nodes(&found), brute_force(batch, limit, need));
            prop_assert!(sizes.len() < 24, "{:?}", sizes);
            prop_assert_eq!(check(batch, limit, need), Ok(()));
        }

        #[test]
        fn result_was_measured_and_fits_for_any_growing_needs(
            limit in 0_usize..2_000,
            mut table in vec(0_usize..100, 1..200),
        ) {
            for index in 1..table.len() {
                table[index] += table[index - 1];
            }
            let need = |samples: usize| Need { fixed: 0, step: table[samples - 1] };
            prop_assert_eq!(check(table.len(), limit, need), Ok(()));
        }

        #[test]
        fn result_was_measured_and_fits_for_any_needs_at_all(
            limit in 0_usize..200,
            table in vec((0_usize..200, 0_usize..200), 1..200),
        ) {
            let need = |samples: usize| Need {
                fixed: table[samples - 1].0,
                step: table[samples - 1].1,
            };
            prop_assert_eq!(check(table.len(), limit, need), Ok(()));
        }
    }
}
