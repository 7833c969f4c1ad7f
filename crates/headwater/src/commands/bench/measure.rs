//! One run of each reader.

use super::backlog;
use crate::cli::BenchArgs;
use crate::exit::{self, Failure};
use change::position::file_number;
use pipeline::control::{self, Request};
use pipeline::status::Report;
use source_mysql::binlog::header::{EventHeader, kind};
use source_mysql::config::{Endpoint, TlsMode};
use source_mysql::wire::{Dump, DumpStart, WireFailure};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A piece of a server's log, and how many rows are in it.
#[derive(Debug, Clone)]
pub struct Workload {
    pub name: &'static str,
    pub table: &'static str,
    pub from: (String, u64),
    pub to: (String, u64),
    pub rows: u64,
}

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub rows: u64,
    pub seconds: f64,
    pub cpu_seconds: f64,
    /// Resident bytes at most; 0 where it was not measured.
    pub memory_peak: u64,
}

pub fn wire(what: &'static str) -> impl Fn(WireFailure) -> Failure {
    move |failure| Failure::new(exit::SOURCE, format!("{what}: {failure}"))
}

/// User and system time of a process so far, seconds; the kernel counts in 10 ms.
pub fn cpu(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<f64> = after
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    (fields.get(10).unwrap_or(&0.0) + fields.get(11).unwrap_or(&0.0)) / 100.0
}

fn memory_peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// Reads the log and decodes nothing but each event's header.
pub fn raw(endpoint: &Endpoint, workload: &Workload, tls: TlsMode) -> Result<Measured, Failure> {
    let connection = backlog::connect(endpoint, tls)?;
    let (file, offset) = workload.from.clone();
    let mut at = file_number(&file);
    let to = (file_number(&workload.to.0), workload.to.1);
    let start = DumpStart::Place { file, offset };
    let mut dump = Dump::start(connection, 4_000_000_001, Duration::from_secs(5), &start)
        .map_err(wire("read the log"))?;
    let (since, cpu_before) = (Instant::now(), cpu("self"));
    loop {
        while let Some(event) = dump.buffered().map_err(wire("read the log"))? {
            let header = EventHeader::read(event)
                .map_err(|error| Failure::new(exit::SOURCE, format!("read the log: {error}")))?;
            if header.kind == kind::ROTATE {
                let name = event.get(27..event.len() - 4).unwrap_or_default();
                at = file_number(&String::from_utf8_lossy(name));
            }
            if (at, u64::from(header.end_offset)) >= to {
                return Ok(Measured {
                    rows: workload.rows,
                    seconds: since.elapsed().as_secs_f64(),
                    cpu_seconds: cpu("self") - cpu_before,
                    memory_peak: 0,
                });
            }
        }
        dump.fill(Duration::from_secs(5))
            .map_err(wire("read the log"))?;
    }
}

fn client(args: &BenchArgs, names: &[&str]) -> Result<PathBuf, Failure> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = match &args.clients {
        Some(folder) => vec![folder.clone()],
        None => std::env::split_paths(&path).collect(),
    };
    let all = folders
        .iter()
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    all.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        Failure::new(
            exit::USAGE,
            format!("find {}; hint: --clients FOLDER", names.join(" or ")),
        )
    })
}

/// Waits for a child, watching its CPU time.
fn watch(mut child: Child, rows: u64) -> Result<Measured, Failure> {
    let since = Instant::now();
    let pid = child.id().to_string();
    let mut cpu_seconds = 0.0;
    loop {
        cpu_seconds = f64::max(cpu_seconds, cpu(&pid));
        if let Some(status) = child.try_wait()? {
            let seconds = since.elapsed().as_secs_f64();
            return match status.success() {
                true => Ok(Measured {
                    rows,
                    seconds,
                    cpu_seconds,
                    memory_peak: 0,
                }),
                false => Err(Failure::new(exit::OTHER, format!("it ended with {status}"))),
            };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn login(command: &mut Command, endpoint: &Endpoint) {
    command
        .arg(format!("--host={}", endpoint.host))
        .arg(format!("--port={}", endpoint.port))
        .arg(format!("--user={}", endpoint.user))
        .arg("--protocol=TCP")
        .arg("--ssl-mode=DISABLED")
        .env("MYSQL_PWD", &endpoint.password.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
}

pub fn mysqlbinlog(
    args: &BenchArgs,
    endpoint: &Endpoint,
    workload: &Workload,
) -> Result<Measured, Failure> {
    if workload.from.0 != workload.to.0 {
        return Err(Failure::new(exit::OTHER, "the backlog spans two files"));
    }
    let folder = Folder::new("binlog")?;
    let mut command = Command::new(client(args, &["mysqlbinlog97", "mysqlbinlog"])?);
    login(&mut command, endpoint);
    command
        .arg("--read-from-remote-server")
        .arg("--raw")
        .arg(format!("--result-file={}/", folder.0.display()))
        .arg(format!("--start-position={}", workload.from.1))
        .arg(format!("--stop-position={}", workload.to.1))
        .arg(&workload.from.0);
    watch(command.spawn()?, workload.rows)
}

pub fn mysql_quick(
    args: &BenchArgs,
    endpoint: &Endpoint,
    workload: &Workload,
) -> Result<Measured, Failure> {
    let mut command = Command::new(client(args, &["mysql97-client", "mysql"])?);
    login(&mut command, endpoint);
    let select = format!("SELECT * FROM headwater_bench.{}", workload.table);
    command.args(["--quick", "--batch", "--skip-column-names", "-e", &select]);
    watch(command.spawn()?, workload.rows)
}

/// A folder that goes when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Result<Self, Failure> {
        let path =
            std::env::temp_dir().join(format!("headwater-bench-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The real pipeline as a process of its own, which ends when it is dropped.
pub struct Running {
    child: Child,
    folder: Folder,
}

impl Running {
    /// Starts it; `config` is YAML from `source:` on.
    pub fn start(config: &str) -> Result<Self, Failure> {
        let folder = Folder::new("capture")?;
        let path = folder.0.join("bench.yaml");
        std::fs::write(&path, config)?;
        let child = Command::new(std::env::current_exe()?)
            .args(["--log", "error", "run"])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()?;
        Ok(Self { child, folder })
    }

    /// Its status; none while it starts.
    pub fn report(&self) -> Option<Report> {
        let stream = control::connect(&self.folder.0.join("bench.journal"))?;
        control::call(&stream, &Request::Status).ok()?.report
    }

    /// Fails when it has ended.
    pub fn alive(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(Failure::new(
                exit::OTHER,
                format!("run the pipeline: it ended, {status}"),
            )),
        }
    }

    /// User and system time so far, seconds.
    pub fn cpu(&self) -> f64 {
        cpu(&self.child.id().to_string())
    }

    /// Resident bytes at most, so far.
    pub fn memory_peak(&self) -> u64 {
        memory_peak(self.child.id())
    }

    /// From the first row that `rows` counts to the last.
    pub fn follow(
        &mut self,
        wanted: u64,
        rows: impl Fn(&Report) -> u64,
    ) -> Result<Measured, Failure> {
        let started = Instant::now();
        // The process starts and connects; that is not what is measured.
        let mut since = None;
        loop {
            self.alive()?;
            let found = self.report().as_ref().map_or(0, &rows);
            let (at, cpu_before, rows_before) =
                *since.get_or_insert_with(|| (Instant::now(), self.cpu(), found));
            if found == 0 {
                since = None;
            }
            if found >= wanted {
                let share = (wanted - rows_before.min(wanted)).max(1);
                let factor = wanted as f64 / share as f64;
                return Ok(Measured {
                    rows: wanted,
                    seconds: at.elapsed().as_secs_f64() * factor,
                    cpu_seconds: (self.cpu() - cpu_before) * factor,
                    memory_peak: self.memory_peak(),
                });
            }
            if started.elapsed() > Duration::from_secs(600) {
                return Err(Failure::new(
                    exit::OTHER,
                    "run the pipeline: not done in 600 s",
                ));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The source's part of a config that reads one table from one place.
pub fn source_from(args: &BenchArgs, table: &str, from: &(String, u64), tls: &str) -> String {
    format!(
        "source:\n  mysql:\n    url: \"{}\"\n    tls: {{mode: {tls}}}\n    \
         tables: [\"headwater_bench.{table}\"]\n    snapshot: never\n    \
         start: {{file: \"{}\", position: {}}}\n",
        args.url, from.0, from.1
    )
}

pub fn capture(args: &BenchArgs, workload: &Workload, tls: &str) -> Result<Measured, Failure> {
    Running::start(&source_from(args, workload.table, &workload.from, tls))?
        .follow(workload.rows, |report| report.source.rows)
}

pub fn snapshot(args: &BenchArgs, workload: &Workload) -> Result<Measured, Failure> {
    let source = format!(
        "source:\n  mysql:\n    url: \"{}\"\n    tls: {{mode: disabled}}\n    \
         tables: [\"headwater_bench.{}\"]\n",
        args.url, workload.table
    );
    Running::start(&source)?.follow(workload.rows, |report| report.source.rows)
}
