//! Groups of threads, each running one rank.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burn_virtual_collective::{Group, Options, memory};
use burn_virtual_plan::{Layout, Node, Partial, Placement, Stack};

/// No test may hang: this is when it fails instead.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `body` on every rank of a group in memory; results in rank order, `None` where a rank
/// panicked.
pub(crate) fn run<T: Send + 'static>(
    world: usize,
    options: Options,
    body: impl Fn(Group) -> T + Clone + Send + 'static,
) -> Vec<Option<T>> {
    let (sender, receiver) = mpsc::channel();
    for (rank, transport) in memory::group(world).into_iter().enumerate() {
        let (sender, body, options) = (sender.clone(), body.clone(), options.clone());
        thread::spawn(move || {
            let group = Group::new(Box::new(transport), options);
            let body = std::panic::AssertUnwindSafe(|| body(group));
            let result = std::panic::catch_unwind(body).ok();
            sender.send((rank, result))
        });
    }
    let mut results: Vec<Option<T>> = (0..world).map(|_| None).collect();
    for _ in 0..world {
        let (rank, result) = receiver.recv_timeout(LIMIT).expect("a rank hangs");
        results[rank] = result;
    }
    results
}

/// Waits that end soon.
#[allow(dead_code)] // not every test file waits in vain
pub(crate) fn short() -> Options {
    let timeout = Duration::from_millis(200);
    Options {
        timeout,
        first_timeout: timeout,
        ..Options::default()
    }
}

/// A rank's nodes, from the leaves of the virtual nodes it runs.
pub(crate) fn nodes(
    layout: &Layout,
    placement: &Placement,
    rank: usize,
    mut leaf: impl FnMut(usize) -> Option<Partial>,
) -> Vec<Node> {
    let range = placement.range(rank);
    let mut stack = Stack::new(layout, placement.virtual_nodes(), range.clone()).unwrap();
    for vn in range {
        stack.push_leaf(vn, leaf(vn)).unwrap();
    }
    stack.finish().unwrap()
}

/// A leaf with every element of segment 0 equal to `value`.
#[allow(dead_code)] // not every test file needs it
pub(crate) fn constant(layout: &Layout, value: f32) -> Option<Partial> {
    let mut leaf = Partial::empty(layout);
    let values = vec![value; layout.segment(0).len()];
    leaf.set_segment(0, &values).unwrap();
    Some(leaf)
}
