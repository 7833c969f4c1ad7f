//! The judges in `judges/`: Java programs around somebody else's decoders and clients.
//!
//! Shape: a request is lines and an empty line, and so is the answer. One JVM serves many requests; it
//! ends when its input does, and so never outlives the test.

use crate::{TempDir, script};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an answer may take: the first includes fetching and compiling.
const LIMIT: Duration = Duration::from_secs(180);

/// A running judge; several threads may ask it, one after the other.
#[derive(Debug)]
pub(crate) struct Judge {
    name: &'static str,
    dir: TempDir,
    process: Mutex<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Vec<u8>>,
}

/// An answer that has begun.
pub(crate) struct Answer<'a> {
    judge: &'a Judge,
    process: std::sync::MutexGuard<'a, Process>,
    end: Instant,
}

impl Judge {
    /// Starts the judge `judges/run.sh NAME`.
    pub(crate) fn start(name: &'static str) -> Self {
        let dir = TempDir::new(name);
        let log = File::create(dir.path().join("judge.log")).expect("a log can be made");
        let program = script::folder().join("../judges/run.sh");
        let mut child = Command::new(program)
            .arg(name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the script is there");
        let requests = child.stdin.take().expect("its input is a pipe");
        let output = child.stdout.take().expect("its output is a pipe");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n') {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let process = Mutex::new(Process {
            child,
            requests,
            answers,
        });
        Self { name, dir, process }
    }

    /// One request and all of its answer. Panics when the judge fails or refuses the request.
    pub(crate) fn ask<L: AsRef<[u8]> + Sync>(&self, lines: &[L]) -> Vec<Vec<u8>> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let Process {
            child,
            requests,
            answers,
        } = &mut *process;
        // It answers while it reads: both sides have to move.
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| write(requests, lines));
            let answer = receive(answers, Instant::now() + LIMIT);
            if answer.is_err() {
                // Or the writer waits for ever.
                let _ = child.kill();
            }
            answer
        });
        self.check(answer)
    }

    /// A short request whose answer comes piece by piece.
    pub(crate) fn begin<L: AsRef<[u8]>>(&self, lines: &[L], limit: Duration) -> Answer<'_> {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut process.requests, lines);
        Answer {
            judge: self,
            process,
            end: Instant::now() + limit,
        }
    }

    fn check(&self, answer: Result<Vec<Vec<u8>>, String>) -> Vec<Vec<u8>> {
        let refused = |lines: &Vec<Vec<u8>>| {
            let line = lines.iter().find(|line| line.starts_with(b"!"))?;
            Some(String::from_utf8_lossy(line).into_owned())
        };
        let trouble = match answer {
            Ok(lines) => match refused(&lines) {
                None => return lines,
                Some(text) => text,
            },
            Err(text) => text,
        };
        panic!("judge {}: {trouble}\n{}", self.name, self.log());
    }

    /// The end of what it said on its standard error.
    fn log(&self) -> String {
        let text = std::fs::read(self.dir.path().join("judge.log")).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        let process = self
            .process
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let _ = process.child.kill();
        let _ = process.child.wait();
    }
}

impl Answer<'_> {
    /// Waits for the first line, which the judge says before the rest.
    pub(crate) fn first_line(&mut self) -> Vec<u8> {
        let line = next(&self.process.answers, self.end);
        self.judge.check(line.map(|line| vec![line])).remove(0)
    }

    /// Waits for the rest.
    pub(crate) fn finish(mut self) -> Vec<Vec<u8>> {
        let answer = receive(&self.process.answers, self.end);
        if answer.is_err() {
            let _ = self.process.child.kill();
        }
        self.judge.check(answer)
    }
}

/// What goes wrong here shows in the answer.
fn write<L: AsRef<[u8]>>(requests: &mut ChildStdin, lines: &[L]) {
    let mut out = BufWriter::new(requests);
    for line in lines {
        let line = line.as_ref();
        assert!(!line.is_empty() && !line.contains(&b'\n'), "one line each");
        let _ = out.write_all(line);
        let _ = out.write_all(b"\n");
    }
    let _ = out.write_all(b"\n");
    let _ = out.flush();
}

fn next(answers: &Receiver<Vec<u8>>, end: Instant) -> Result<Vec<u8>, String> {
    let left = end.saturating_duration_since(Instant::now());
    answers.recv_timeout(left).map_err(|error| match error {
        RecvTimeoutError::Timeout => "no answer in time".to_owned(),
        RecvTimeoutError::Disconnected => "it ended".to_owned(),
    })
}

fn receive(answers: &Receiver<Vec<u8>>, end: Instant) -> Result<Vec<Vec<u8>>, String> {
    let mut lines = Vec::new();
    loop {
        let line = next(answers, end)?;
        if line.is_empty() {
            return Ok(lines);
        }
        lines.push(line);
    }
}

/// A line of an answer, read as JSON.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(line: &'a [u8]) -> T {
    let shown = || String::from_utf8_lossy(line);
    serde_json::from_slice(line).unwrap_or_else(|error| panic!("a judge said {}: {error}", shown()))
}

/// Bytes in hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hex as bytes.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("a judge writes hex");
    (0..text.len()).step_by(2).map(digit).collect()
}
