//! A command that runs while a test goes on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::text;

/// No test may hang: this is when it fails instead.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A command that runs. It is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    /// Lines of stdout, as they come.
    lines: Receiver<Vec<u8>>,
    heard: Vec<u8>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                let more = stdout.read_until(b'\n', &mut line).unwrap() > 0;
                if !more || sender.send(line).is_err() {
                    return;
                }
            }
        });
        let mut stderr = child.stderr.take().unwrap();
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            stderr.read_to_end(&mut bytes).unwrap();
            bytes
        });
        Self {
            child,
            lines,
            heard: Vec::new(),
            stderr: Some(stderr),
        }
    }

    /// The next line of stdout, without its end.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> String {
        let line = self.lines.recv_timeout(LIMIT).expect("no line comes");
        self.heard.extend_from_slice(&line);
        text(&line).trim_end().to_owned()
    }

    /// The next lines of stdout, sorted.
    #[track_caller]
    pub(crate) fn hear_all(&mut self, count: usize) -> Vec<String> {
        let mut lines: Vec<_> = (0..count).map(|_| self.hear()).collect();
        lines.sort_unstable();
        lines
    }

    /// Sends it a signal, by name.
    pub(crate) fn signal(&self, signal: &str) {
        send(signal, &self.pid().to_string());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Output {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.heard.extend_from_slice(&line),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
            }
        }
        let status = self.wait();
        Output {
            status,
            stdout: std::mem::take(&mut self.heard),
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }

    /// Waits for its end, whatever becomes of its output.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        until("the end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `look` finds something.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        if let Some(found) = look() {
            return found;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} does not come");
}

/// Sends a signal to a process.
pub(crate) fn send(signal: &str, pid: &str) {
    let sent = Command::new("/bin/sh")
        .args(["-c", &format!("kill -{signal} {pid}")])
        .status();
    assert!(sent.unwrap().success(), "no process {pid}");
}
