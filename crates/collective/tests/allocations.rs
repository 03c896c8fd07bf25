//! Calls of the same size allocate nothing once buffers have grown, on both transports.
#![allow(clippy::unwrap_used)] // helpers of tests, outside the test functions

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use burn_virtual_collective::{Algorithm, Element, Group, Options, Transport, memory, tcp};
use burn_virtual_plan::{Layout, Partial, Placement, tree};

/// The system's, counted.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: all is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        unsafe { System.dealloc(at, memory) }
    }

    unsafe fn realloc(&self, at: *mut u8, memory: Memory, bytes: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::SeqCst);
        unsafe { System.realloc(at, memory, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Batches of calls, and calls in each.
const BATCHES: usize = 15;
const CALLS: usize = 5;

/// No test may hang: this is when it fails instead.
const LIMIT: Duration = Duration::from_secs(60);

/// A barrier with a limit, for the case that a rank panics; it allocates nothing.
struct Gate {
    threads: usize,
    arrivals: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn new(threads: usize) -> Self {
        Self {
            threads,
            arrivals: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn wait(&self) {
        let mut arrivals = self.arrivals.lock().unwrap();
        *arrivals += 1;
        self.changed.notify_all();
        let all = arrivals.next_multiple_of(self.threads);
        let is_early = |arrivals: &mut usize| *arrivals < all;
        let waited = self.changed.wait_timeout_while(arrivals, LIMIT, is_early);
        let is_late = waited.unwrap().1.timed_out();
        assert!(!is_late, "a rank hangs or panicked");
    }
}

/// The fewest allocations of all ranks together in a few calls. The first batches let buffers grow,
/// and in a later one more messages may be on the way than ever before: if some batch needs no
/// memory, messages don't.
fn fewest<C>(ends: Vec<impl Transport + 'static>, call: impl Fn(usize) -> C) -> u64
where
    C: FnMut(&mut Group) + Send + 'static,
{
    let start = Arc::new(Gate::new(ends.len() + 1));
    let ranks: Vec<_> = ends
        .into_iter()
        .map(|end| {
            let (start, mut call) = (start.clone(), call(end.rank()));
            thread::spawn(move || {
                let mut group = Group::new(Box::new(end), Options::default());
                for _ in 0..BATCHES {
                    start.wait();
                    (0..CALLS).for_each(|_| call(&mut group));
                    start.wait();
                }
            })
        })
        .collect();
    let batch = |_| {
        let before = COUNT.load(Ordering::SeqCst);
        start.wait();
        start.wait();
        COUNT.load(Ordering::SeqCst) - before
    };
    let fewest = (0..BATCHES).map(batch).min().unwrap_or_default();
    ranks.into_iter().for_each(|rank| rank.join().unwrap());
    fewest
}

fn sum<T: Element + Send>(
    algorithm: Algorithm,
    values: &[T],
) -> impl Fn(usize) -> Box<dyn FnMut(&mut Group) + Send> {
    let values = values.to_vec();
    move |_| {
        let mut values = values.clone();
        Box::new(move |group: &mut Group| group.sum(algorithm, &mut values).unwrap())
    }
}

/// An ordered all-reduce of `elements`, of two virtual nodes on each of two ranks.
fn ordered(elements: usize) -> impl Fn(usize) -> Box<dyn FnMut(&mut Group) + Send> {
    let layout = Layout::new([elements], 1, 1);
    let placement = Placement::explicit(4, &[2, 2]).unwrap();
    move |rank| {
        let (layout, placement) = (layout.clone(), placement.clone());
        let node = tree::maximal_subtrees(4, placement.range(rank)).remove(0);
        let mut sum = Partial::empty(&layout);
        sum.set_segment(0, &vec![0.0; elements]).unwrap();
        let mut sum = Some(sum);
        Box::new(move |group| {
            let nodes = vec![(node.clone(), sum.take())];
            sum = group.all_reduce(0, &layout, &placement, nodes).unwrap();
        })
    }
}

#[test]
fn messages_allocate_nothing_once_buffers_have_grown() {
    const MANY: usize = 300_000; // in several pieces
    for algorithm in [Algorithm::Ring, Algorithm::HalvingDoubling] {
        for world in [2, 3] {
            for values in [&[1.0_f32; 100][..], &vec![1.0; MANY]] {
                let memory = fewest(memory::group(world), sum(algorithm, values));
                let tcp = fewest(tcp::group(world).unwrap(), sum(algorithm, values));
                let case = format!("{algorithm}, {world} ranks, {} elements", values.len());
                assert_eq!((memory, tcp), (0, 0), "{case}");
            }
        }
    }
    let narrow = vec![half::bf16::ONE; MANY];
    assert_eq!(fewest(memory::group(3), sum(Algorithm::Ring, &narrow)), 0);
    // A call makes lists of nodes; its messages allocate nothing.
    let few = fewest(memory::group(2), ordered(100));
    let memory = fewest(memory::group(2), ordered(MANY));
    let tcp = fewest(tcp::group(2).unwrap(), ordered(MANY));
    assert_eq!((memory, tcp), (few, few));
}
