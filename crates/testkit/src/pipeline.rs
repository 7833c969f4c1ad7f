//! The binary as a process: its config, its life, its words.

use crate::TempDir;
use serde_json::Value;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of the log that a failing test shows.
const SHOWN: usize = 40;

/// One pipeline: a folder with its config, its journal and its log. Killed on drop; when the test
/// fails the end of its log is shown.
#[derive(Debug)]
pub struct Pipeline {
    binary: PathBuf,
    dir: TempDir,
    config: PathBuf,
    child: Option<Child>,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code; none after a signal.
    pub code: Option<i32>,
    /// All that it wrote to stderr in this life.
    pub stderr: String,
}

impl Ended {
    /// Panics unless the code is this and all fragments stand in what was said.
    pub fn assert(&self, code: i32, fragments: &[&str]) {
        assert_eq!(self.code, Some(code), "it said: {}", self.stderr);
        for fragment in fragments {
            assert!(
                self.stderr.contains(fragment),
                "no `{fragment}` in: {}",
                self.stderr
            );
        }
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
    }
}

impl Pipeline {
    /// A pipeline with this config; `binary` is `env!("CARGO_BIN_EXE_headwater")`.
    pub fn new(binary: &str, config: &str) -> Self {
        let dir = TempDir::new("pipeline");
        let path = dir.path().join("shop.yaml");
        std::fs::write(&path, config).expect("the config can be written");
        Self {
            binary: binary.into(),
            dir,
            config: path,
            child: None,
        }
    }

    /// Its folder; relative paths of the config count from here.
    pub fn folder(&self) -> &Path {
        self.dir.path()
    }

    /// The journal's directory.
    pub fn journal(&self) -> PathBuf {
        self.dir.path().join("shop.journal")
    }

    /// The journal's segment files, oldest first.
    pub fn segments(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.journal()).expect("there is a journal");
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        paths.sort();
        paths
    }

    /// Writes a file beside the config that only we may read: keys, policies.
    pub fn write_private(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.folder().join(name);
        std::fs::write(&path, text).expect("the file can be written");
        let ours = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, ours).expect("it is ours");
    }

    /// Writes another config in its place.
    pub fn reconfigure(&self, config: &str) {
        std::fs::write(&self.config, config).expect("the config can be written");
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("stderr.log")
    }

    /// Starts `run`.
    pub fn start(&mut self) {
        self.start_with(&[]);
    }

    /// Starts `run` with further arguments. The log is appended to.
    pub fn start_with(&mut self, arguments: &[&str]) {
        self.start_in(arguments, &[]);
    }

    /// As [`start_with`](Self::start_with), with variables of the environment.
    pub fn start_in(&mut self, arguments: &[&str], variables: &[(&str, &str)]) {
        assert!(!self.is_alive(), "it runs already");
        let append = File::options().append(true).create(true).open(self.log());
        let mut command = Command::new(&self.binary);
        command.arg("run").arg(&self.config).args(arguments);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(append.expect("the log can be opened"));
        self.child = Some(command.spawn().expect("the binary can be started"));
    }

    /// Starts `run` with further variables in its environment. The log is appended to.
    pub fn start_with_env(&mut self, variables: &[(&str, &Path)]) {
        assert!(!self.is_alive(), "it runs already");
        let append = File::options().append(true).create(true).open(self.log());
        let mut command = Command::new(&self.binary);
        command.arg("run").arg(&self.config);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(append.expect("the log can be opened"));
        self.child = Some(command.spawn().expect("the binary can be started"));
    }

    /// Whether the process lives.
    pub fn is_alive(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(
            sent.is_ok_and(|status| status.success()),
            "the signal can be sent"
        );
    }

    /// SIGTERM; the drain must end with exit code 0.
    pub fn stop(&mut self) {
        self.signal("TERM");
        let ended = self.wait_end(Duration::from_secs(60));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }

    /// Starts, and waits for the end.
    pub fn run_to_end(&mut self, limit: Duration) -> Ended {
        self.run_to_end_with(&[], limit)
    }

    /// As [`run_to_end`](Self::run_to_end), with arguments.
    pub fn run_to_end_with(&mut self, arguments: &[&str], limit: Duration) -> Ended {
        let _ = std::fs::remove_file(self.log());
        self.start_with(arguments);
        self.wait_end(limit)
    }

    /// Waits for the end of the process.
    pub fn wait_end(&mut self, limit: Duration) -> Ended {
        let end = Instant::now() + limit;
        let mut child = self.child.take().expect("it was started");
        let status: Option<ExitStatus> = loop {
            match child.try_wait().expect("the process can be waited for") {
                Some(status) => break Some(status),
                None if Instant::now() > end => break None,
                None => std::thread::sleep(LOOK),
            }
        };
        let Some(status) = status else {
            self.child = Some(child);
            panic!("it does not end within {limit:?}; {}", self.standing());
        };
        Ended {
            code: status.code(),
            stderr: self.said(),
        }
    }

    /// What was written to stderr.
    pub fn said(&self) -> String {
        let bytes = std::fs::read(self.log()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until it has said something.
    pub fn wait_said(&mut self, fragment: &str, limit: Duration) {
        self.wait(&format!("`{fragment}` in the log"), limit, |pipeline| {
            pipeline.said().contains(fragment)
        });
    }

    /// Runs another command on this pipeline's config: `command(&["pause"], &["events"])`.
    pub fn command(&self, before: &[&str], after: &[&str]) -> Output {
        let mut command = Command::new(&self.binary);
        command
            .args(before)
            .arg(&self.config)
            .args(after)
            .stdin(Stdio::null());
        command.output().expect("the binary can be started")
    }

    /// As [`command`](Self::command); it must succeed. Returns stdout.
    pub fn done(&self, before: &[&str], after: &[&str]) -> String {
        let output = self.command(before, after);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{before:?} {after:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Starts a command with its stdout piped: a tail.
    pub fn piped(&self, before: &[&str], after: &[&str]) -> Child {
        let mut command = Command::new(&self.binary);
        command.args(before).arg(&self.config).args(after);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command.spawn().expect("the binary can be started")
    }

    /// `status --json`, when there is one.
    pub fn status(&self) -> Option<Value> {
        let output = self.command(&["status"], &["--json"]);
        output
            .status
            .success()
            .then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// Waits until the standing fulfils a condition; returns it.
    pub fn wait_status(
        &mut self,
        what: &str,
        limit: Duration,
        mut good: impl FnMut(&Value) -> bool,
    ) -> Value {
        let mut found = Value::Null;
        self.wait(what, limit, |pipeline| {
            let status = pipeline.status().filter(|status| good(status));
            status.map(|status| found = status).is_some()
        });
        found
    }

    /// Waits until something holds; panics with the standing when the process ends or time is up.
    pub fn wait(&mut self, what: &str, limit: Duration, mut good: impl FnMut(&Self) -> bool) {
        let end = Instant::now() + limit;
        loop {
            if good(self) {
                return;
            }
            assert!(
                self.is_alive(),
                "it ended before: {what}; {}",
                self.standing()
            );
            assert!(
                Instant::now() < end,
                "not within {limit:?}: {what}; {}",
                self.standing()
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until every table is copied and the log is followed.
    pub fn wait_streaming(&mut self, limit: Duration) -> Value {
        self.wait_status("it streams", limit, |status| {
            status["source"]["phase"] == "streaming"
        })
    }

    /// Waits until a text stands near the end of a file in its folder.
    pub fn wait_file(&mut self, file: &str, text: &str, limit: Duration) {
        let path = self.folder().join(file);
        self.wait(&format!("`{text}` in {file}"), limit, |_| {
            tail_of(&path).contains(text)
        });
    }

    /// The standing, and the end of the log, for a failing test.
    pub fn standing(&self) -> String {
        let mut text = String::new();
        let status = self.command(&["status"], &[]);
        let _ = writeln!(text, "status: {}", String::from_utf8_lossy(&status.stdout));
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        let _ = writeln!(
            text,
            "log: {}",
            lines[lines.len().saturating_sub(SHOWN)..].join("\n")
        );
        text
    }

    /// Most memory that the process has had, bytes.
    pub fn memory_peak(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }
}

/// The last 64 KiB of a file.
fn tail_of(path: &Path) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(mut file) = File::open(path) else {
        return String::new();
    };
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut bytes = Vec::new();
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(64 << 10)));
    let _ = file.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.standing());
        }
        self.kill();
    }
}
