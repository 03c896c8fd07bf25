//! What each algorithm sends is what the README says, on every rank.
#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside the test functions

mod common;

use burn_virtual_collective::{
    Algorithm, CollectiveError, Element, Group, Options, Reduce, Sent, Shares,
};
use burn_virtual_plan::{Layout, Placement, tree};
use common::{constant, few_worlds, nodes, run};
use half::f16;

/// Bytes of a header.
const HEADER: u64 = 96;
const SIZES: [usize; 6] = [0, 1, 2, 7, 1000, 5040];

/// What every rank sends in one call.
#[track_caller]
fn sent(
    world: usize,
    body: impl Fn(&mut Group) -> Result<(), CollectiveError> + Clone + Send + 'static,
) -> Vec<Sent> {
    let sent = run(world, Options::default(), move |mut group| {
        body(&mut group).unwrap();
        group.sent()
    });
    sent.into_iter().map(Option::unwrap).collect()
}

fn sum<T: Element>(world: usize, elements: usize, algorithm: Algorithm) -> Vec<Sent> {
    sent(world, move |group| {
        group.sum(algorithm, &mut vec![T::zeroed(); elements])
    })
}

fn count(messages: usize, bytes: u64) -> Sent {
    let messages = messages as u64;
    Sent { messages, bytes }
}

/// Elements in the shares of all ranks but one.
fn without(shares: &Shares, rank: usize) -> u64 {
    (shares.elements() - shares.range(rank % shares.ranks()).len()) as u64
}

#[test]
fn ring_sends_all_but_a_share_twice() {
    for world in few_worlds().skip(1) {
        for elements in SIZES {
            let shares = Shares::even(elements, world);
            // A sum of so many bytes, then a value.
            let right = |sum: u64, value: u64| {
                let rank = |rank| sum * without(&shares, rank) + value * without(&shares, rank + 1);
                let sent = |bytes| count(2 * (world - 1), bytes + HEADER);
                (0..world).map(rank).map(sent).collect::<Vec<_>>()
            };
            assert_eq!(sum::<f32>(world, elements, Algorithm::Ring), right(4, 4));
            assert_eq!(sum::<f64>(world, elements, Algorithm::Ring), right(8, 8));
            assert_eq!(sum::<f16>(world, elements, Algorithm::Ring), right(4, 2));
            assert_eq!(sum::<u8>(world, elements, Algorithm::Ring), right(1, 1));
        }
    }
}

#[test]
fn reduce_scatter_and_all_gather_send_all_but_a_share() {
    for world in few_worlds().skip(1) {
        let mut counts = vec![3; world];
        counts[0] = 100;
        let shares = Shares::explicit(&counts);
        let elements = shares.elements();
        let scatter = {
            let shares = shares.clone();
            sent(world, move |group| {
                group.reduce_scatter(&shares, &mut vec![1.0_f32; elements])
            })
        };
        let gather = {
            let shares = shares.clone();
            sent(world, move |group| {
                group.all_gather(&shares, &mut vec![1_u8; elements])
            })
        };
        for rank in 0..world {
            let scattered = 4 * without(&shares, rank) + HEADER;
            assert_eq!(scatter[rank], count(world - 1, scattered));
            let gathered = without(&shares, rank + 1) + HEADER;
            assert_eq!(gather[rank], count(world - 1, gathered));
        }
    }
}

#[test]
fn halving_doubling_sends_all_but_a_share_twice_when_world_is_a_power_of_two() {
    for world in [2_usize, 4, 8] {
        let steps = world.ilog2() as usize;
        for elements in [0, 1000, 5040] {
            let share = (elements - elements / world) as u64;
            let right = |bytes: u64| count(2 * steps, bytes * share + HEADER * steps as u64);
            let all = |bytes| vec![right(bytes); world];
            assert_eq!(
                sum::<f32>(world, elements, Algorithm::HalvingDoubling),
                all(8)
            );
            assert_eq!(
                sum::<f16>(world, elements, Algorithm::HalvingDoubling),
                all(6)
            );
        }
        // Not divisible: the halves of a step differ by one element at most.
        for sent in sum::<u8>(world, 1001, Algorithm::HalvingDoubling) {
            let about = 2 * (1001 - 1001 / world as u64) + HEADER * steps as u64;
            assert!(sent.bytes.abs_diff(about) <= 2 * steps as u64);
        }
    }
}

#[test]
fn halving_doubling_sends_whole_vectors_beside_when_world_is_no_power_of_two() {
    for world in [3_usize, 5, 6, 7, 9]
        .into_iter()
        .filter(|world| few_worlds().contains(world))
    {
        let corners = 1_usize << world.ilog2();
        let (steps, folded) = (corners.ilog2() as usize, world - corners);
        let elements = 5040;
        let share = (elements - elements / corners) as u64;
        let corner = count(2 * steps, 8 * share + HEADER * steps as u64);
        let whole = 4 * elements as u64 + HEADER;
        for (rank, sent) in sum::<f32>(world, elements, Algorithm::HalvingDoubling)
            .into_iter()
            .enumerate()
        {
            let right = match (rank < 2 * folded, rank % 2) {
                (false, _) => corner,
                (true, 0) => count(1, whole),
                (true, _) => count(2 * steps + 1, corner.bytes + whole),
            };
            assert_eq!(sent, right, "rank {rank} of {world}");
        }
    }
}

/// Bytes beside the values of a sum: presence, sums and flags.
const BESIDE: u64 = 8 + 3 * 8 + 2 * 8;

fn ordered(counts: &[usize], elements: usize) -> Vec<Sent> {
    let counts = counts.to_vec();
    sent(counts.len(), move |group| {
        let layout = Layout::new([elements], 3, 70);
        let placement = Placement::explicit(counts.iter().sum(), &counts).unwrap();
        let own = nodes(&layout, &placement, group.rank(), |_| {
            constant(&layout, 1.0)
        });
        group.all_reduce(0, &layout, &placement, own).map(|_| ())
    })
}

#[test]
fn ordered_sends_all_but_a_share_twice_when_placement_is_aligned() {
    for counts in [&[4, 3][..], &[4, 4], &[2, 2, 2, 1], &[1; 8]] {
        let (world, steps) = (counts.len(), counts.len().ilog2() as usize);
        for elements in [0, 1000, 5040] {
            let share = (elements - elements / world) as u64;
            let beside = steps as u64 * (HEADER + 8 + BESIDE);
            let right = count(2 * steps, 8 * share + beside);
            assert_eq!(ordered(counts, elements), vec![right; world]);
        }
    }
}

#[test]
fn ordered_sends_every_node_when_placement_is_not_aligned() {
    for counts in [
        &[3, 5][..],
        &[2, 4],
        &[2, 2, 2],
        &[1, 1, 1, 5],
        &[3, 1, 4, 2, 2],
    ] {
        let (world, total) = (counts.len(), counts.iter().sum());
        let placement = Placement::explicit(total, counts).unwrap();
        for elements in [0, 1, 7, 1000, 5040] {
            let shares = Shares::even(elements, world);
            for (rank, sent) in ordered(counts, elements).into_iter().enumerate() {
                let nodes = tree::maximal_subtrees(total, placement.range(rank)).len() as u64;
                let others = world as u64 - 1;
                let own = shares.range(rank).len();
                let first =
                    4 * nodes * without(&shares, rank) + others * (HEADER + nodes * (8 + BESIDE));
                let result = others * 4 * own as u64;
                let messages = if own == 0 { world - 1 } else { 2 * (world - 1) };
                assert_eq!(
                    sent,
                    count(messages, first + result),
                    "rank {rank}, {counts:?}"
                );
            }
        }
    }
}

/// A row of the README's table.
struct Row {
    placement: Placement,
    /// Of each rank.
    nodes: Vec<usize>,
    /// Bytes of values against those of a ring, on the rank that sends the most.
    most: f64,
    average: f64,
}

/// The README's table of placements that are not aligned, as it stands there.
fn table() -> Vec<Row> {
    const HEAD: &str = "| virtual nodes | placement | nodes of each rank | most | average |";
    let (_, table) = include_str!("../src/README.md").split_once(HEAD).unwrap();
    let rows = table.trim_start().lines().skip(1); // dashes
    rows.take_while(|line| line.starts_with('|'))
        .map(row)
        .collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [total, placement, nodes, most, average] = cells[..] else {
        panic!("{line}");
    };
    let numbers = |text: &str| -> Vec<usize> {
        text.split(", ")
            .map(|number| number.parse().unwrap())
            .collect()
    };
    let counts = numbers(placement.rsplit(": ").next().unwrap());
    let placed = Placement::explicit(total.parse().unwrap(), &counts).unwrap();
    if placement.starts_with("even on ") {
        let even = Placement::even(placed.virtual_nodes(), placed.ranks());
        assert_eq!(Ok(&placed), even.as_ref(), "{line}");
    }
    Row {
        placement: placed,
        nodes: numbers(nodes),
        most: most.parse().unwrap(),
        average: average.parse().unwrap(),
    }
}

/// Bytes of values that each rank sends in an ordered all-reduce, against those of a ring.
fn byte_ratios(placement: &Placement) -> Vec<f64> {
    let (world, elements) = (placement.ranks(), 5040); // a multiple of every world here
    let ring = sum::<f32>(world, elements, Algorithm::Ring);
    let ratio = |(rank, (sent, ring)): (usize, (Sent, Sent))| {
        let beside = placement.subtrees(rank) as u64 * (8 + BESIDE);
        let values = sent.bytes - (world as u64 - 1) * (HEADER + beside);
        values as f64 / (ring.bytes - HEADER) as f64
    };
    let sent = ordered(&Vec::from(placement.clone()), elements);
    sent.into_iter().zip(ring).enumerate().map(ratio).collect()
}

#[test]
fn ordered_sends_as_many_times_the_bytes_of_a_ring_as_table_and_plan_say() {
    let table = table();
    assert!(table.len() >= 12, "{} rows", table.len());
    for row in table {
        let placement = row.placement;
        assert!(!placement.is_aligned(), "{placement}");
        let ranks = 0..placement.ranks();
        let nodes: Vec<usize> = ranks.clone().map(|rank| placement.subtrees(rank)).collect();
        assert_eq!(nodes, row.nodes, "{placement}");
        let planned: Vec<f64> = ranks.map(|rank| placement.byte_ratio(rank)).collect();
        assert_eq!(byte_ratios(&placement), planned, "{placement}");
        assert_eq!(placement.worst_byte_ratio(), row.most, "{placement}");
        let average = placement.mean_byte_ratio();
        assert!(
            (average - row.average).abs() < 0.005,
            "{placement}: {average}"
        );
    }
}

#[test]
fn twelve_twelve_and_eight_send_less_than_the_even_placement() {
    let most = |placement: Placement| byte_ratios(&placement).into_iter().fold(0.0, f64::max);
    assert_eq!(most(Placement::even(32, 3).unwrap()), 2.5);
    assert_eq!(most(Placement::fewest_bytes(32, 3, 12).unwrap()), 1.5);
}

/// What every rank sends in a call that follows the ranks; rank 1 brings nothing.
fn ranks_first(reduce: Reduce, elements: usize) -> Vec<Sent> {
    sent(3, move |group| {
        let placement = Placement::explicit(6, &[3, 1, 2]).unwrap();
        let layout = Layout::new([elements, 1], 2, 65); // beside the values: 5 words
        let own = nodes(&layout, &placement, group.rank(), |vn| match vn {
            3 => None,
            _ => constant(&layout, 1.0),
        });
        let sum = group.all_reduce_by(reduce, 0, &layout, &placement, own);
        sum.map(|_| ())
    })
}

#[test]
fn ranks_first_sends_what_lies_beside_and_a_sum() {
    for (reduce, algorithm) in [
        (Reduce::Ring, Algorithm::Ring),
        (Reduce::HalvingDoubling, Algorithm::HalvingDoubling),
    ] {
        for elements in SIZES {
            let flat = sum::<f32>(3, elements + 1, algorithm);
            let beside = [5 * 8, 0, 5 * 8];
            let right = flat.iter().zip(beside).map(|(flat, beside)| Sent {
                messages: flat.messages + 2,
                bytes: flat.bytes + 2 * (HEADER + 8 + beside),
            });
            assert_eq!(ranks_first(reduce, elements), right.collect::<Vec<_>>());
        }
    }
}

#[test]
fn mean_sends_what_a_sum_does() {
    for algorithm in [Algorithm::Ring, Algorithm::HalvingDoubling] {
        let mean = sent(5, move |group| group.mean(algorithm, &mut [f16::ONE; 1000]));
        assert_eq!(mean, sum::<f16>(5, 1000, algorithm));
    }
}

#[test]
fn broadcast_of_a_slice_sends_it_once_from_rank_to_rank() {
    for world in few_worlds().skip(1) {
        for elements in [0, 7, 1000] {
            let root = world / 2;
            let sent = sent(world, move |group| {
                group.broadcast_slice(root, &mut vec![1.0_f64; elements])
            });
            for (rank, sent) in sent.into_iter().enumerate() {
                let headers = HEADER * (world as u64 - 1);
                let right = match (rank + 1) % world == root {
                    true => count(world - 1, headers),
                    false => count(world, headers + 8 * elements as u64),
                };
                assert_eq!(sent, right);
            }
        }
    }
}

#[test]
fn long_vectors_travel_in_pieces_of_a_quarter_of_a_mebibyte() {
    let elements = 5 * 65_536; // 1.25 MiB: halves of 2.5 pieces
    for algorithm in [Algorithm::Ring, Algorithm::HalvingDoubling] {
        let right = count(2 * 3, 4 * elements as u64 + HEADER);
        assert_eq!(sum::<f32>(2, elements, algorithm), [right; 2]);
    }
    let [first, _] = ordered(&[2, 2], elements)[..] else {
        panic!("expected two ranks");
    };
    assert_eq!(first.messages, 2 * 3);
}
