//! One process of a launch.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::SystemTime;

use rustix::process::{
    Pid, Signal, getpgid, kill_process, kill_process_group, test_kill_process_group,
};

use super::LaunchError;
use super::alive::Alive;
use super::console::Console;
use super::end::{End, Fate};
use super::environment;
use super::logs::Logs;
use super::patience::Patience;
use super::redirect::Which;
use super::report::Line;
use super::settings::Settings;
use super::stream::{Route, Stream, Tail};
use super::supervisor::Event;
use super::tether;

/// What all processes of a launch have in common.
pub(super) struct Shared<'a> {
    pub(super) settings: &'a Settings,
    /// Where ranks meet.
    pub(super) port: u16,
    pub(super) logs: &'a Logs,
    pub(super) console: Arc<Console>,
    /// Set when all have ended.
    pub(super) over: Arc<AtomicBool>,
    pub(super) events: Sender<Event>,
}

/// One process of a launch, the leader of a process group. When it is dropped, what is left of the
/// group is killed.
pub(super) struct Member {
    local_rank: usize,
    rank: usize,
    pid: Pid,
    error_file: PathBuf,
    log: Option<PathBuf>,
    streams: Vec<Stream>,
    alive: Alive,
    end: Option<End>,
    /// Whether nobody of the group is left: then its number may be another's.
    gone: bool,
}

impl Member {
    /// Starts the process of a local rank. Threads carry its output, and wait for its end.
    pub(super) fn start(shared: &Shared<'_>, local_rank: usize) -> Result<Self, LaunchError> {
        let settings = shared.settings;
        let error_file = shared.logs.error_file(local_rank);
        let variables = environment::variables(settings, shared.port, local_rank, &error_file);
        let (out, err) = (
            route(shared, local_rank, Which::Stdout)?,
            route(shared, local_rank, Which::Stderr)?,
        );
        let (mut command, program) = command(settings)?;
        let mut child = command
            .envs(variables)
            // A process group that isn't the terminal's is stopped when it reads from it.
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| LaunchError::Start { program, source })?;
        let log = Which::BOTH.into_iter().rev();
        let log = log.filter(|&which| settings.output.to_file(local_rank, which));
        let mut member = Self {
            local_rank,
            rank: settings.rank(local_rank),
            pid: Pid::from_child(&child),
            error_file,
            log: log.map(|which| shared.logs.path(local_rank, which)).next(),
            streams: Vec::new(),
            alive: Alive::default(),
            end: None,
            gone: false,
        };
        member.attend(shared, child.stdout.take(), out)?;
        member.attend(shared, child.stderr.take(), err)?;
        wait(
            child,
            member.alive.clone(),
            local_rank,
            shared.events.clone(),
        )?;
        Ok(member)
    }

    fn attend(
        &mut self,
        shared: &Shared<'_>,
        pipe: Option<impl Read + AsFd + Send + 'static>,
        route: Route,
    ) -> Result<(), LaunchError> {
        if let Some(pipe) = pipe {
            let (console, over) = (shared.console.clone(), shared.over.clone());
            self.streams
                .push(Stream::start(pipe, route, console, over)?);
        }
        Ok(())
    }

    /// Takes note of its end.
    pub(super) fn set_end(&mut self, fate: Fate, time: SystemTime) -> &End {
        self.end
            .insert(End::new(self.rank, time, fate, &self.error_file))
    }

    pub(super) fn rank(&self) -> usize {
        self.rank
    }

    pub(super) fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    pub(super) fn group(&self) -> Pid {
        self.pid
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether the process has ended and nobody of its group is left.
    pub(super) fn is_gone(&mut self) -> bool {
        if self.end.is_some() && !self.gone {
            self.gone = test_kill_process_group(self.pid).is_err();
        }
        self.gone
    }

    /// Sends a signal to its group, and to the process itself if it has gone over to another.
    pub(super) fn signal(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal)
            && !self.gone
        {
            // Nobody there, or nobody whom it may signal: both show when it is waited for.
            let _ = kill_process_group(self.pid, signal);
            self.alive.with(|| {
                if getpgid(Some(self.pid)).is_ok_and(|group| group != self.pid) {
                    let _ = kill_process(self.pid, signal);
                }
            });
        }
    }

    /// Waits until all of its output is out, as long as there is patience for it.
    pub(super) fn finish_output(&mut self, patience: &mut Patience<'_>) -> Tail {
        let mut last = Tail::default();
        for stream in self.streams.drain(..) {
            let tail = stream.finish(patience);
            last.result = last.result.or(tail.result);
            last.error = last.error.or(tail.error);
        }
        last
    }

    /// What there is to say of its end.
    pub(super) fn line(&self, end: &End, error: Option<&String>) -> Line {
        let told = end.failure.as_ref();
        let told = told.map(|failure| failure.message.message.clone());
        Line {
            rank: self.rank,
            local_rank: self.local_rank,
            pid: self.pid(),
            time: end.time,
            fate: end.fate,
            message: told.or_else(|| error.cloned()),
            log: self.log.clone(),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.signal(Signal::KILL.as_raw());
        }
    }
}

/// What starts a process, and the program that it becomes.
fn command(settings: &Settings) -> Result<(Command, OsString), LaunchError> {
    let own = std::env::current_exe().map_err(|source| LaunchError::System {
        what: "the path of this program",
        source,
    })?;
    let program = settings.program.clone();
    let program = program.unwrap_or_else(|| own.clone().into_os_string());
    let mut command = Command::new(&own);
    command.args(tether::words(&program)).args(&settings.words);
    Ok((command, program))
}

fn route(shared: &Shared<'_>, local_rank: usize, which: Which) -> Result<Route, LaunchError> {
    let output = &shared.settings.output;
    let rank = shared.settings.rank(local_rank);
    let file = || {
        let file = shared.logs.create(local_rank, which)?;
        Ok::<_, LaunchError>((file, shared.logs.path(local_rank, which)))
    };
    Ok(Route {
        which,
        rank,
        file: output.to_file(local_rank, which).then(file).transpose()?,
        prefix: output.prefix(rank, local_rank, which),
        hold: output.hold_result && rank == 0 && which == Which::Stdout,
    })
}

fn wait(
    mut child: Child,
    alive: Alive,
    local_rank: usize,
    events: Sender<Event>,
) -> Result<(), LaunchError> {
    super::thread("end", move || {
        let fate = alive.end(&mut child).map_or(Fate::Unknown, Fate::from);
        let time = SystemTime::now();
        // If nobody listens any more, nobody has to know.
        let _ = events.send(Event::Ended {
            local_rank,
            fate,
            time,
        });
    })?;
    Ok(())
}
