//! Groups of threads, each running one rank.
//!
//! The test binary `tcp` takes in the other binaries' tests as modules and runs them over TCP: which
//! transport is used, and how large worlds become, depends on the name of the binary.

#[allow(dead_code)] // not every test file has ranks that stop
pub(crate) mod around;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burn_virtual_collective::{CollectiveError, Group, Options, Transport, memory, tcp};
use burn_virtual_plan::{Layout, Node, Partial, Placement, Stack};

/// No test may hang: this is when it fails instead.
const LIMIT: Duration = Duration::from_secs(60);

/// Whether this is the test binary `tcp`.
fn over_tcp() -> bool {
    env!("CARGO_CRATE_NAME") == "tcp"
}

/// The ends of a group, in rank order.
pub(crate) fn ends(world: usize) -> Vec<Box<dyn Transport>> {
    fn boxed<T: Transport + 'static>(ends: Vec<T>) -> Vec<Box<dyn Transport>> {
        let boxed = ends.into_iter().map(|end| Box::new(end) as _);
        boxed.collect()
    }
    if over_tcp() {
        boxed(tcp::group(world).expect("a group on the loopback address"))
    } else {
        boxed(memory::group(world))
    }
}

/// The sizes of worlds that a sweep goes through.
#[allow(dead_code)] // not every test file sweeps
pub(crate) fn worlds() -> std::ops::RangeInclusive<usize> {
    1..=9
}

/// The same, where groups are formed anew again and again: fewer over TCP, where a world takes world²
/// sockets and threads.
#[allow(dead_code)]
pub(crate) fn few_worlds() -> std::ops::RangeInclusive<usize> {
    if over_tcp() { 1..=4 } else { 1..=9 }
}

/// Runs `body` on every rank of a group; results in rank order, `None` where a rank panicked.
pub(crate) fn run<T: Send + 'static>(
    world: usize,
    options: Options,
    body: impl Fn(Group) -> T + Clone + Send + 'static,
) -> Vec<Option<T>> {
    let (sender, receiver) = mpsc::channel();
    for (rank, transport) in ends(world).into_iter().enumerate() {
        let (sender, body, options) = (sender.clone(), body.clone(), options.clone());
        thread::spawn(move || {
            let group = Group::new(transport, options);
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

/// The errors of all ranks, as text; fails if some rank had none.
#[allow(dead_code)] // not every test file has ranks err
#[track_caller]
pub(crate) fn errors<T: Send + 'static>(
    world: usize,
    options: Options,
    body: impl Fn(Group) -> Result<T, CollectiveError> + Clone + Send + 'static,
) -> Vec<String> {
    let results = run(world, options, move |group| body(group).err());
    results
        .into_iter()
        .map(|error| error.flatten().expect("an error").to_string())
        .collect()
}

#[allow(dead_code)] // not every test file has ranks err
#[track_caller]
pub(crate) fn assert_all_contain(errors: &[String], parts: &[&str]) {
    for error in errors {
        assert!(
            parts.iter().all(|part| error.contains(part)),
            "{error:?} lacks one of {parts:?}"
        );
    }
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

/// Holds one of three ranks up for 50 ms in about one of 500 calls, each in others.
#[allow(dead_code)] // not every test file calls in a row
pub(crate) fn late_now_and_then(rank: usize, call: usize) {
    if (call * 7919 + rank * 83) % 500 == 17 {
        thread::sleep(Duration::from_millis(50));
    }
}

/// A rank's nodes, from the leaves of the virtual nodes it runs.
#[allow(dead_code)] // not every test file has a tree
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
