//! One run of each reader.

use super::backlog;
use crate::cli::BenchArgs;
use crate::exit::{self, Failure};
use change::position::file_number;
use pipeline::control::{self, Request};
use source_mysql::binlog::header::{EventHeader, kind};
use source_mysql::config::{Endpoint, TlsMode};
use source_mysql::wire::{Dump, DumpStart, WireFailure};
use std::path::{Path, PathBuf};
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
fn cpu(pid: &str) -> f64 {
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
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self, Failure> {
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

/// Runs the real pipeline, without sinks, as a process of its own; from its first appended row to the
/// last.
fn pipeline(source: &str, rows: u64) -> Result<Measured, Failure> {
    let folder = Folder::new("capture")?;
    let config = folder.0.join("bench.yaml");
    std::fs::write(&config, format!("source:\n  mysql:\n{source}"))?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--log", "error", "run"])
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()?;
    let outcome = follow(&mut child, &folder.0.join("bench.journal"), rows);
    let _ = child.kill();
    let _ = child.wait();
    outcome
}

fn rows_so_far(dir: &Path) -> Option<u64> {
    let stream = control::connect(dir)?;
    Some(
        control::call(&stream, &Request::Status)
            .ok()?
            .report?
            .source
            .rows,
    )
}

fn follow(child: &mut Child, dir: &Path, rows: u64) -> Result<Measured, Failure> {
    let pid = child.id().to_string();
    let started = Instant::now();
    // The process starts and connects; that is not what is measured.
    let mut since = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Err(Failure::new(
                exit::OTHER,
                format!("run the capture: it ended, {status}"),
            ));
        }
        let found = rows_so_far(dir).unwrap_or(0);
        let (at, cpu_before, rows_before) =
            *since.get_or_insert_with(|| (Instant::now(), cpu(&pid), found));
        if found == 0 {
            since = None;
        }
        if found >= rows {
            let share = (rows - rows_before.min(rows)).max(1);
            return Ok(Measured {
                rows: share,
                seconds: at.elapsed().as_secs_f64(),
                cpu_seconds: cpu(&pid) - cpu_before,
                memory_peak: memory_peak(child.id()),
            });
        }
        if started.elapsed() > Duration::from_secs(300) {
            return Err(Failure::new(
                exit::OTHER,
                "run the capture: not done in 300 s",
            ));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn capture(args: &BenchArgs, workload: &Workload, tls: &str) -> Result<Measured, Failure> {
    let source = format!(
        "    url: \"{}\"\n    tls: {{mode: {tls}}}\n    tables: [\"headwater_bench.{}\"]\n    \
         snapshot: never\n    start: {{file: \"{}\", position: {}}}\n",
        args.url, workload.table, workload.from.0, workload.from.1
    );
    scaled(pipeline(&source, workload.rows)?, workload.rows)
}

pub fn snapshot(args: &BenchArgs, workload: &Workload) -> Result<Measured, Failure> {
    let source = format!(
        "    url: \"{}\"\n    tls: {{mode: disabled}}\n    tables: [\"headwater_bench.{}\"]\n",
        args.url, workload.table
    );
    scaled(pipeline(&source, workload.rows)?, workload.rows)
}

/// From the rows that passed while the clock ran to all of them.
fn scaled(found: Measured, rows: u64) -> Result<Measured, Failure> {
    let factor = rows as f64 / found.rows as f64;
    Ok(Measured {
        rows,
        seconds: found.seconds * factor,
        cpu_seconds: found.cpu_seconds * factor,
        ..found
    })
}
