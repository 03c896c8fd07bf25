//! Waits for all processes to end, and stops them all when one fails or a signal comes.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime};

use signal_hook::consts::{SIGKILL, SIGTERM};

use super::end::{Fate, Stop};
use super::guard::Guard;
use super::member::Member;
use super::signals::Signal;

/// A process that heard of another's failure may be quicker to end than the one that failed: time for
/// that one to end by itself.
const CULPRIT: Duration = Duration::from_secs(1);

/// Time for the system to end a process that was killed.
const DYING: Duration = Duration::from_secs(10);

/// How often to look for what a process left behind: nobody tells of that.
const LOOK: Duration = Duration::from_millis(20);

/// The same while other processes still work.
const SELDOM: Duration = Duration::from_secs(1);

/// What happens during a launch.
pub(super) enum Event {
    /// A process ended.
    Ended {
        local_rank: usize,
        fate: Fate,
        time: SystemTime,
    },
    /// A signal came that is to be passed on.
    Signal(Signal),
}

/// How far the end has come.
#[derive(Clone, Copy)]
enum Phase {
    Working,
    /// A process heard of a failure; the one that failed is still to be seen.
    Alarmed(Instant),
    /// All were asked to stop.
    Asked(Instant),
    /// All were killed.
    Killed(Instant),
}

/// Watches over the processes of a launch.
pub(super) struct Supervisor<'a> {
    members: &'a mut [Member],
    guard: &'a mut Guard,
    kill_after: Duration,
    phase: Phase,
    stop: Option<Stop>,
    signal: Option<Signal>,
}

/// What a launch came to.
pub(super) struct Outcome {
    /// What was done to stop processes, if anything was.
    pub(super) stop: Option<Stop>,
    /// The signal that ended the job.
    pub(super) signal: Option<Signal>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(
        members: &'a mut [Member],
        guard: &'a mut Guard,
        kill_after: Duration,
    ) -> Self {
        Self {
            members,
            guard,
            kill_after,
            phase: Phase::Working,
            stop: None,
            signal: None,
        }
    }

    /// Returns when nobody is left, or somebody can't be killed.
    pub(super) fn run(mut self, events: &Receiver<Event>) -> Outcome {
        while !self.is_over() {
            if let Ok(event) = events.recv_timeout(self.patience()) {
                self.hear(&event);
            }
            self.advance();
        }
        Outcome {
            stop: self.stop,
            signal: self.signal,
        }
    }

    fn all_ended(&self) -> bool {
        self.members.iter().all(|member| member.end().is_some())
    }

    fn is_over(&mut self) -> bool {
        let mut left = false;
        // Each is looked at: the number of a group that is empty is soon another's.
        for member in &mut *self.members {
            if member.is_gone() {
                self.guard.leave(member.group());
            } else {
                left = true;
            }
        }
        match self.phase {
            Phase::Killed(until) => self.all_ended() || Instant::now() >= until,
            _ => !left,
        }
    }

    /// How long to wait for the next event.
    fn patience(&self) -> Duration {
        match self.phase {
            Phase::Working => SELDOM,
            Phase::Alarmed(until) | Phase::Asked(until) | Phase::Killed(until) => {
                let left = until.saturating_duration_since(Instant::now());
                left.min(if self.all_ended() { LOOK } else { SELDOM })
            }
        }
    }

    fn hear(&mut self, event: &Event) {
        match *event {
            Event::Signal(signal) => match self.phase {
                Phase::Working | Phase::Alarmed(_) => {
                    self.signal = Some(signal);
                    self.ask(signal.number());
                }
                Phase::Asked(_) => self.kill(),
                Phase::Killed(_) => {}
            },
            Event::Ended {
                local_rank,
                fate,
                time,
            } => {
                let end = self.members[local_rank].set_end(fate, time);
                let (failed, consequence) = (end.has_failed(), end.is_consequence());
                match self.phase {
                    Phase::Working if failed && consequence => {
                        self.phase = Phase::Alarmed(Instant::now() + CULPRIT);
                    }
                    Phase::Working | Phase::Alarmed(_) if failed && !consequence => {
                        self.ask(SIGTERM);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Goes on where it is time to.
    fn advance(&mut self) {
        match self.phase {
            // What processes left behind is no part of the job any more.
            Phase::Working if self.all_ended() => self.ask(SIGTERM),
            Phase::Alarmed(until) if self.all_ended() || Instant::now() >= until => {
                self.ask(SIGTERM);
            }
            Phase::Asked(until) if Instant::now() >= until => self.kill(),
            _ => {}
        }
    }

    fn ask(&mut self, signal: i32) {
        self.stop = Some(Stop {
            began: SystemTime::now(),
            sent: vec![signal],
        });
        self.phase = Phase::Asked(Instant::now() + self.kill_after);
        self.members.iter().for_each(|member| member.signal(signal));
    }

    fn kill(&mut self) {
        if let Some(stop) = &mut self.stop {
            stop.sent.push(SIGKILL);
        }
        self.phase = Phase::Killed(Instant::now() + DYING);
        self.members
            .iter()
            .for_each(|member| member.signal(SIGKILL));
    }
}
