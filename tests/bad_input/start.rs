//! Jobs that cannot start.

use burn::nn::{Linear, LinearConfig};
use burn_virtual::nodes::VirtualNodes;

use crate::common::{OneParam, assert_duplicate, devices};
use crate::{B, Twins};

fn refused_start(nodes: usize, ranks: usize, shares: Option<Vec<usize>>) -> String {
    let mut model = OneParam::<B>::new(&[1.0]);
    let id = model.w.id;
    let mut settings = VirtualNodes::new(nodes).devices(devices::<B>(ranks));
    if let Some(shares) = shares {
        settings = settings.shares(shares);
    }
    let error = settings.start(&mut model).err().unwrap();
    assert_eq!(model.w.id, id);
    error.to_string()
}

#[test]
fn start_is_refused_without_virtual_nodes() {
    let text = refused_start(0, 1, None);
    assert!(text.contains("0 virtual nodes"), "{text}");
    let mut model = OneParam::<B>::new(&[1.0]);
    let error = VirtualNodes::new(0)
        .start::<B, _>(&mut model)
        .err()
        .unwrap();
    assert_eq!(error.to_string(), text);
}

#[test]
fn start_is_refused_without_devices() {
    let text = refused_start(4, 0, None);
    assert!(text.contains("0 ranks"), "{text}");
}

#[test]
fn start_is_refused_with_more_devices_than_virtual_nodes() {
    let text = refused_start(4, 7, None);
    assert!(
        text.contains("7 ranks") && text.contains("4 virtual nodes"),
        "{text}"
    );
}

#[test]
fn start_is_refused_when_shares_are_wrong() {
    for (ranks, shares, parts) in [
        (2, vec![3, 2], ["4", "5"]),
        (2, vec![1, 1], ["4", "2"]),
        (2, vec![4, 0], ["rank 1", "at least one"]),
        (3, vec![2, 2], ["2 shares", "3 devices"]),
        (2, vec![usize::MAX, 5], ["4", "18446744073709551615"]),
    ] {
        let text = refused_start(4, ranks, Some(shares));
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn start_is_refused_by_both_paths_when_one_id_stands_twice() {
    let device = Default::default();
    let first: Linear<B> = LinearConfig::new(2, 2).with_bias(false).init(&device);
    let other = LinearConfig::new(2, 2).with_bias(false).init(&device);
    let id = first.weight.id;
    let mut model = Twins {
        others: vec![other, first.clone()],
        first,
    };
    let error = VirtualNodes::new(2)
        .start::<B, _>(&mut model)
        .err()
        .unwrap();
    assert_duplicate(&error, ["first.weight", "others.1.weight"]);
    assert_eq!((model.first.weight.id, model.others[1].weight.id), (id, id));
}
