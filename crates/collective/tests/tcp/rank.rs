//! A rank in a process of its own: this test binary, started again.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use burn_virtual_collective::tcp::{Host, Settings, TcpTransport, join};
use burn_virtual_collective::{Algorithm, CollectiveError, Group, OnStall, Options, Reduce, Work};
use burn_virtual_plan::{Layout, Partial, Placement, Stack};

use super::common::around::BeforeSend;
use super::help::LIMIT;
use super::strangers::{self, Words};

/// How long ranks in processes wait: for each other and in collectives.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Lines of the child begin with this; others are the test harness's.
const MARK: &str = "@ ";

const VARIABLE: &str = "BURN_VIRTUAL_TEST_RANK";

/// A child process that does what it is told, line by line: mostly, to be a rank. It is killed when it
/// is dropped.
pub(crate) struct Rank {
    child: Child,
    orders: ChildStdin,
    answers: mpsc::Receiver<String>,
}

impl Rank {
    pub(crate) fn start() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "rank::process_of_a_rank",
                "--ignored",
                "--nocapture",
            ])
            .env(VARIABLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // The harness may have begun the line.
                if let Some((_, answer)) = line.split_once(MARK) {
                    let _ = sender.send(answer.to_owned());
                }
            }
        });
        Self {
            child,
            orders,
            answers,
        }
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    #[track_caller]
    pub(crate) fn hear(&self) -> String {
        self.answers.recv_timeout(LIMIT).expect("a rank hangs")
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP.
    pub(crate) fn stop(&self) {
        self.signal("STOP");
    }

    /// SIGCONT.
    pub(crate) fn wake(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(
            Command::new("sh")
                .args(["-c", &kill])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A transport that stops for ever at a send, after so many.
fn halting(inner: TcpTransport, left: Arc<AtomicUsize>) -> BeforeSend<TcpTransport> {
    BeforeSend::new(inner, move |_| {
        if left.fetch_sub(1, Ordering::Relaxed) == 0 {
            say("halted");
            loop {
                thread::park();
            }
        }
    })
}

fn say(answer: &str) {
    println!("{MARK}{answer}");
}

fn answer<T, E: std::fmt::Display>(result: Result<T, E>, ok: impl FnOnce(T) -> String) {
    match result {
        Ok(value) => say(&ok(value)),
        Err(error) => say(&format!("error: {error}")),
    }
}

#[test]
#[ignore = "other tests start it as a process"]
fn process_of_a_rank() {
    if std::env::var(VARIABLE).is_err() {
        return;
    }
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let (mut group, mut strangers, mut options) = (None, vec![], options());
    let (mut timeout, mut bind) = (TIMEOUT, None);
    for order in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<_> = order.split(' ').collect();
        match &words[..] {
            ["join", host, store, rank, world] => {
                let joined = join(&Settings {
                    bind: bind.clone(),
                    timeout,
                    ..settings(host, store, rank, world)
                });
                answer(joined, |inner| {
                    let left = left.clone();
                    group = Some(Group::new(Box::new(halting(inner, left)), options.clone()));
                    "joined".to_owned()
                });
            }
            ["wait", seconds] => timeout = Duration::from_secs(seconds.parse().unwrap()),
            // Milliseconds: of the first call, of others, and until a stall is told.
            ["patience", first, others, stall] => {
                let [first_timeout, timeout, stall] = [first, others, stall]
                    .map(|millis| Duration::from_millis(millis.parse().unwrap()));
                options = Options {
                    timeout,
                    first_timeout,
                    stall,
                    on_stall: OnStall::call(|stall| say(&format!("stall: {stall}"))),
                    ..Options::default()
                };
            }
            ["bind", host] => bind = Some((*host).to_owned()),
            ["strangers", words, count, at] => {
                let (count, at) = (count.parse().unwrap(), at.parse().unwrap());
                strangers = strangers::strangers(Words::of(words), count, at);
                say(&format!("connected {}", strangers.len()));
            }
            ["heard"] => say(&format!("heard {}", strangers::most_heard(&mut strangers))),
            ["halt", sends] => left.store(sends.parse().unwrap(), Ordering::Relaxed),
            ["reduce"] => answer(reduce(group.as_mut().unwrap(), 1000, 0, WAY), sum_text),
            ["reduce", elements] => {
                let elements = elements.parse().unwrap();
                answer(reduce(group.as_mut().unwrap(), elements, 0, WAY), sum_text);
            }
            ["step", step, way] => {
                let (step, way) = (step.parse().unwrap(), way.parse().unwrap());
                answer(reduce(group.as_mut().unwrap(), 1000, step, way), sum_text);
            }
            ["ring", elements] => {
                let elements = elements.parse().unwrap();
                answer(ring(group.as_mut().unwrap(), elements), sum_text);
            }
            ["barrier"] => answer(group.as_mut().unwrap().barrier(), |()| "passed".to_owned()),
            _ => panic!("unknown order {order:?}"),
        }
    }
}

fn settings(host: &str, store: &str, rank: &str, world: &str) -> Settings {
    let host = match host {
        "rank-0" => Host::Rank0,
        _ => Host::Launcher,
    };
    Settings {
        host,
        ..Settings::new(store, rank.parse().unwrap(), world.parse().unwrap())
    }
}

fn options() -> Options {
    Options {
        timeout: TIMEOUT,
        first_timeout: TIMEOUT,
        ..Options::default()
    }
}

fn sum_text(sum: f32) -> String {
    format!("sum {sum}")
}

const WAY: Reduce = Reduce::Ordered;

/// The sum of 1, 2, .. up to the size of the world, as bucket 1 of a step.
fn reduce(
    group: &mut Group,
    elements: usize,
    step: u64,
    way: Reduce,
) -> Result<f32, Box<dyn std::error::Error>> {
    let layout = Layout::new([elements], 0, 0);
    let placement = Placement::even(group.world(), group.world())?;
    let mut stack = Stack::new(&layout, group.world(), placement.range(group.rank()))?;
    for vn in placement.range(group.rank()) {
        let mut leaf = Partial::empty(&layout);
        leaf.set_segment(0, &vec![vn as f32 + 1.0; elements])?;
        stack.push_leaf(vn, Some(leaf))?;
    }
    let work = Work {
        step,
        bucket: 1,
        samples: 64,
    };
    let sum = group.all_reduce_by(way, work, &layout, &placement, stack.finish()?)?;
    Ok(sum.map(|sum| sum.values()[0]).unwrap_or_default())
}

/// The same around a ring.
fn ring(group: &mut Group, elements: usize) -> Result<f32, CollectiveError> {
    let mut values = vec![group.rank() as f32 + 1.0; elements];
    group.sum(Algorithm::Ring, &mut values)?;
    Ok(values[0])
}
