#![doc = include_str!("README.md")]

mod args;
mod console;
mod end;
mod environment;
mod error;
mod guard;
mod lines;
mod logs;
mod member;
mod output;
mod redirect;
mod report;
mod settings;
mod signals;
mod stream;
mod supervisor;
mod tether;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use burn_virtual::distributed::tcp::{Limits, Store, host_port};

pub(crate) use args::LaunchArgs;
use console::Console;
use end::causes;
pub(crate) use error::LaunchError;
use guard::Guard;
pub(crate) use guard::run as run_guard;
use logs::Logs;
use member::{Member, Shared};
use redirect::Which;
use report::Report;
pub(crate) use settings::Settings;
use stream::Tail;
use supervisor::{Outcome, Supervisor};
pub(crate) use tether::{TetherArgs, run as run_tethered};

/// `burn-virtual launch`.
pub(crate) fn run(args: &LaunchArgs) -> Result<(), LaunchError> {
    launch(&args.settings()?)
}

/// Runs the processes of this node to their end. From the main thread: the processes end with the
/// thread that starts them.
pub(crate) fn launch(settings: &Settings) -> Result<(), LaunchError> {
    let (sender, events) = mpsc::channel();
    signals::listen(&settings.signals, sender.clone())?;
    let logs = Logs::open(settings)?;
    let store = store(settings)?;
    let shared = Shared {
        settings,
        port: store
            .as_ref()
            .map_or(settings.port, |store| store.addr().port()),
        logs: &logs,
        console: Arc::new(Console::open()?),
        over: Arc::new(AtomicBool::new(false)),
        events: sender,
    };
    let mut guard = Guard::start()?;
    let members = (0..settings.local_world).map(|local_rank| {
        let member = Member::start(&shared, local_rank)?;
        guard.take(member.group());
        Ok(member)
    });
    let mut members = members.collect::<Result<Vec<_>, LaunchError>>()?;
    let outcome = Supervisor::new(&mut members, &mut guard, settings.kill_after).run(&events);
    // From here on a signal ends this process: what is left may wait for those who read its output.
    drop(events);
    shared.over.store(true, Ordering::Release);
    // Who sent one doesn't want to wait for a reader that reads no more.
    let until = outcome.signal.map(|_| Instant::now() + settings.kill_after);
    let finish = |member: &mut Member| member.finish_output(until);
    let tails: Vec<_> = members.iter_mut().map(finish).collect();
    let judged = judge(&members, &tails, outcome);
    match result(&tails) {
        Some(line) if judged.is_ok() => print(line)?,
        Some(line) => show_as_output(settings, &shared.console, line),
        None => {}
    }
    judged
}

/// Where ranks meet, if it is on this node.
fn store(settings: &Settings) -> Result<Option<Store>, LaunchError> {
    if settings.node > 0 {
        return Ok(None);
    }
    let at = host_port(&settings.host, settings.port);
    let limits = Limits::default();
    Ok(Some(Store::bind(
        &at,
        &settings.job(),
        &settings.token,
        &limits,
    )?))
}

/// What the ends of all processes come to.
fn judge(members: &[Member], tails: &[Tail], outcome: Outcome) -> Result<(), LaunchError> {
    let left: Vec<_> = members
        .iter()
        .filter(|member| member.end().is_none())
        .collect();
    if let Some(first) = left.first() {
        return Err(LaunchError::Unkillable {
            processes: left.len(),
            first: first.pid(),
        });
    }
    if let Some(signal) = outcome.signal {
        return Err(LaunchError::Signal(signal));
    }
    let ends = members.iter().filter_map(Member::end);
    let causes = causes(ends, outcome.stop.as_ref()).into_iter();
    let mut lines = causes.filter_map(|end| {
        let (member, tail) = members
            .iter()
            .zip(tails)
            .find(|(member, _)| member.rank() == end.rank)?;
        Some(member.line(end, tail.error.as_ref()))
    });
    match lines.next() {
        None => Ok(()),
        Some(first) => Err(LaunchError::Failed(Box::new(Report {
            first,
            others: lines.collect(),
        }))),
    }
}

/// The line that was held back.
fn result(tails: &[Tail]) -> Option<&[u8]> {
    tails.iter().find_map(|tail| tail.result.as_deref())
}

/// The launcher's last line, as it is.
fn print(line: &[u8]) -> Result<(), LaunchError> {
    let mut out = io::stdout().lock();
    let written = out.write_all(&[line, b"\n"].concat());
    written
        .and_then(|()| out.flush())
        .map_err(LaunchError::Result)
}

/// Of a job that failed, the last line is one like others.
fn show_as_output(settings: &Settings, console: &Console, line: &[u8]) {
    if let Some(prefix) = settings.output.prefix(0, 0, Which::Stdout) {
        console.write(Which::Stdout, &[prefix.as_bytes(), line, b"\n"].concat());
    }
}

fn thread<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, LaunchError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(body);
    started.map_err(|source| LaunchError::System {
        what: "a thread",
        source,
    })
}
