//! `bench`: this machine against the raw limit of a server of one's own, in one run, as ratios.
//!
//! It makes a closed backlog in a database of its own (`headwater_bench`, dropped at the end), then
//! reads the same log with a reader that decodes nothing, with `mysqlbinlog --raw`, and with the real
//! capture into a sealed, fsynced journal; and copies the table with `mysql --quick` and with the real
//! snapshot. With `--kafka` it goes on to a real Kafka. `--formats` needs no server. The best run of each counts; CPU time and memory are those of a process of its own.

mod backlog;
mod formats;
mod kafka;
mod measure;

use crate::cli::BenchArgs;
use crate::exit::{self, Failure};
use measure::{Measured, Workload};
use source_mysql::config::{Endpoint, TlsMode};
use std::io::{Write, stdout};

pub fn run(args: &BenchArgs) -> Result<(), Failure> {
    let mut out = stdout().lock();
    if args.formats {
        formats::run(&mut out)?;
    }
    if args.url.is_empty() {
        return match args.formats {
            true => Ok(()),
            false => Err(Failure::new(
                exit::USAGE,
                "measure: give --url of a server of your own, or --formats",
            )),
        };
    }
    let endpoint = Endpoint::parse(&args.url.as_str().into())
        .map_err(|error| Failure::new(exit::USAGE, format!("read --url: {error}")))?;
    let (server, small, bulk) = backlog::make(&endpoint, args.rows)?;
    writeln!(
        out,
        "{server}, {} rows a workload, best of {} runs\n",
        args.rows, args.runs
    )?;
    for workload in [&small, &bulk] {
        stream(args, &endpoint, workload, &mut out)?;
    }
    snapshot(args, &endpoint, &bulk, &mut out)?;
    if let Some(brokers) = &args.kafka {
        into_kafka(args, brokers, &endpoint, [&small, &bulk], &mut out)?;
    }
    backlog::drop(&endpoint)
}

fn line(
    out: &mut dyn Write,
    name: &str,
    found: &Measured,
    base: &[&Measured],
) -> Result<(), Failure> {
    write!(
        out,
        "  {name:34} {:>9.0} rows/s  {:>6.2} µs CPU/row",
        found.rows as f64 / found.seconds,
        found.cpu_seconds * 1e6 / found.rows as f64,
    )?;
    match found.memory_peak {
        0 => write!(out, "           ")?,
        bytes => write!(out, "  {:>5.1} MiB", bytes as f64 / (1 << 20) as f64)?,
    }
    for base in base {
        write!(out, "  {:>6.2}x", base.seconds / found.seconds)?;
    }
    writeln!(out)?;
    Ok(())
}

fn best(
    runs: u32,
    mut run: impl FnMut() -> Result<Measured, Failure>,
) -> Result<Measured, Failure> {
    let mut best = run()?;
    for _ in 1..runs {
        let next = run()?;
        if next.seconds < best.seconds {
            best = next;
        }
    }
    Ok(best)
}

fn stream(
    args: &BenchArgs,
    endpoint: &Endpoint,
    workload: &Workload,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(
        out,
        "{} (x of our raw reader, x of mysqlbinlog --raw):",
        workload.name
    )?;
    let raw = best(args.runs, || {
        measure::raw(endpoint, workload, TlsMode::Disabled)
    })?;
    let peer = best(args.runs, || measure::mysqlbinlog(args, endpoint, workload));
    let bases: Vec<&Measured> = match &peer {
        Ok(peer) => vec![&raw, peer],
        Err(_) => vec![&raw],
    };
    line(out, "our raw reader, nothing decoded", &raw, &bases)?;
    match &peer {
        Ok(peer) => line(out, "mysqlbinlog --raw", peer, &bases)?,
        Err(failure) => writeln!(out, "  mysqlbinlog --raw: not measured: {}", failure.text)?,
    }
    let ours = best(args.runs, || measure::capture(args, workload, "disabled"))?;
    line(out, "capture into the sealed journal", &ours, &bases)?;
    let raw_tls = best(args.runs, || {
        measure::raw(endpoint, workload, TlsMode::Required)
    })?;
    line(out, "our raw reader, TLS", &raw_tls, &bases)?;
    let tls = best(args.runs, || measure::capture(args, workload, "required"))?;
    line(out, "capture into the journal, TLS", &tls, &bases)?;
    writeln!(out)?;
    Ok(())
}

fn into_kafka(
    args: &BenchArgs,
    brokers: &str,
    endpoint: &Endpoint,
    workloads: [&Workload; 2],
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(out, "\ninto Kafka at {brokers}, transactional:")?;
    for workload in workloads {
        let found = best(args.runs, || kafka::behind(args, brokers, workload))?;
        line(out, &format!("behind, {}", workload.name), &found, &[])?;
    }
    kafka::latency(args, brokers, endpoint, out)?;
    if let Some(mib) = args.transaction_mib {
        let found = kafka::large(args, brokers, endpoint, mib)?;
        line(out, &format!("one transaction of {mib} MiB"), &found, &[])?;
    }
    Ok(())
}

fn snapshot(
    args: &BenchArgs,
    endpoint: &Endpoint,
    workload: &Workload,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    writeln!(out, "snapshot (x of mysql --quick):")?;
    let peer = best(args.runs, || measure::mysql_quick(args, endpoint, workload));
    let ours = best(args.runs, || measure::snapshot(args, workload))?;
    match &peer {
        Ok(peer) => {
            line(out, "mysql --quick", peer, &[peer])?;
            line(out, "snapshot into the sealed journal", &ours, &[peer])
        }
        Err(failure) => {
            writeln!(out, "  mysql --quick: not measured: {}", failure.text)?;
            line(out, "snapshot into the sealed journal", &ours, &[])
        }
    }
}
