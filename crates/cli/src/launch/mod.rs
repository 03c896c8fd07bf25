#![doc = include_str!("README.md")]

mod alive;
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
mod patience;
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
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};

use burn_virtual::distributed::tcp::{Limits, Store, host_port};

pub(crate) use args::LaunchArgs;
use console::Console;
use end::{End, causes};
pub(crate) use error::LaunchError;
use guard::Guard;
pub(crate) use guard::{GuardArgs, run as run_guard};
use logs::Logs;
use member::{Member, Shared};
use patience::Patience;
use redirect::Which;
use report::Report;
pub(crate) use settings::Settings;
use stream::Tail;
use supervisor::{Event, Outcome, Supervisor};
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
    let mut guard = Guard::start(logs.temporary_folder())?;
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
    let members = (0..settings.local_world).map(|local_rank| {
        let member = Member::start(&shared, local_rank)?;
        guard.take(member.group());
        Ok(member)
    });
    let mut members = members.collect::<Result<Vec<_>, LaunchError>>()?;
    let outcome = Supervisor::new(&mut members, &mut guard, settings.kill_after).run(&events);
    shared.over.store(true, Ordering::Release);
    finish(&shared, &mut members, &outcome, &events)
}

/// Brings out what is left of the output, and says what the job came to.
fn finish(
    shared: &Shared<'_>,
    members: &mut [Member],
    outcome: &Outcome,
    events: &Receiver<Event>,
) -> Result<(), LaunchError> {
    let settings = shared.settings;
    let failed = |member: &Member| member.end().is_none_or(End::has_failed);
    // A job that succeeded waits for a reader who is slow; whoever sent a signal doesn't.
    let failed = outcome.signal.is_some() || members.iter().any(failed);
    let mut patience = Patience::new(events, failed.then_some(settings.kill_after));
    let tails = members.iter_mut();
    let tails = tails.map(|member| member.finish_output(&mut patience));
    let mut tails: Vec<_> = tails.collect();
    let mut report = judge(settings, members, &tails, outcome);
    if let Some(line) = tails.iter_mut().find_map(|tail| tail.result.take()) {
        let shown = if report.is_success() {
            thread("result", move || print(&line))
        } else {
            show_as_output(settings, shared.console.clone(), line)
        };
        patience.finish(shown?).transpose()?;
    }
    if let Some(signal) = patience.signal()
        && report.is_success()
    {
        report.add(format!("stopped by {signal}"), signal.exit_code());
    }
    if shared.console.has_lost() {
        report.add("output of the job is lost, see the warnings", 1);
    }
    if report.is_success() {
        return Ok(());
    }
    Err(LaunchError::Failed(Box::new(report)))
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
fn judge(settings: &Settings, members: &[Member], tails: &[Tail], outcome: &Outcome) -> Report {
    let mut report = Report::new(settings.kill_after);
    if let Some(signal) = outcome.signal {
        report.add(format!("stopped by {signal}"), signal.exit_code());
    } else {
        let ends = members.iter().filter_map(Member::end);
        for end in causes(ends, outcome.stop.as_ref()) {
            let mut all = members.iter().zip(tails);
            if let Some((member, tail)) = all.find(|(member, _)| member.rank() == end.rank) {
                let line = member.line(end, tail.error.as_ref());
                report.add(&line, line.exit_code());
            }
        }
    }
    for member in members.iter().filter(|member| member.end().is_none()) {
        let (rank, pid) = (member.rank(), member.pid());
        report.add(format!("rank {rank} could not be killed (pid {pid})"), 1);
    }
    report
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
fn show_as_output(
    settings: &Settings,
    console: Arc<Console>,
    line: Vec<u8>,
) -> Result<JoinHandle<Result<(), LaunchError>>, LaunchError> {
    let prefix = settings.output.prefix(0, 0, Which::Stdout);
    thread("result", move || {
        if let Some(prefix) = prefix {
            let line = [prefix.as_bytes(), &line, b"\n"].concat();
            console.write(Which::Stdout, &line);
        }
        Ok(())
    })
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
