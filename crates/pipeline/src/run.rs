//! Starts a pipeline's threads, watches them, and ends them in order.
//!
//! Order of the end: capture stops and makes the journal durable, then every sink delivers what is
//! left (at most `drain_timeout`), then the process may go.

use crate::assemble::{self, Place};
use crate::capture::{
    Capture, CaptureError, CaptureParts, Captured, Heal, KeepPosition, Resumed, is_lost, resume,
    tell_lost,
};
use crate::config::{Config, SourceConfig};
use crate::control::{self, Answer, Handler, Request};
use crate::delivery::{self, Command, Delivery};
use crate::event_reader::ReadError;
use crate::key_groups::{self, KeyGroups};
use crate::pattern::Patterns;
use crate::seek;
use crate::status::{JournalReport, Report, Shared, SourceReport};
use crate::tail::{TailOptions, tail};
use crate::{api, metrics, recover, streams};
use ::stream::Streams;
use change::contract::ErrorKind;
use change::{Position, Source};
use format::settings::{FormatName, FormatOptions};
use journal::Journal;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use stream_api::{Api, LocalUser, Server};

/// Whose trouble ended the run: decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Wrong config: 2.
    Config,
    /// The source: 3.
    Source,
    /// A sink: 4.
    Sink,
    /// The journal: 5.
    Journal,
    /// Anything else: 1.
    Other,
}

/// Why a run ended.
#[derive(Debug, Clone)]
pub struct RunError {
    /// Whose trouble it is.
    pub trouble: Trouble,
    /// What, where, and what to do next.
    pub text: String,
}

impl std::fmt::Display for RunError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for RunError {}

fn trouble(trouble: Trouble, text: impl ToString) -> RunError {
    RunError {
        trouble,
        text: text.to_string(),
    }
}

/// How to start.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// The journal was lost: begin at the oldest position in the sinks' cursors.
    pub recover: bool,
    /// The server purged what the journal does not have: copy every table again and go on.
    pub resnapshot_lost: bool,
    /// The journal's time, where it is not the machine's: a demo that gives the same bytes each run.
    pub clock: Option<Arc<dyn journal::Clock>>,
}

type Requests = Arc<Mutex<BTreeMap<String, Sender<delivery::Request>>>>;

/// A running pipeline.
pub struct Running {
    shared: Arc<Shared>,
    journal: Journal,
    place: Place,
    requests: Requests,
    capture: Option<JoinHandle<Captured>>,
    sinks: Vec<(String, JoinHandle<delivery::Outcome>)>,
    streams: Streams,
    api: Arc<Api>,
    server: Option<Server>,
    _socket: Option<control::Guard>,
}

/// Starts everything.
///
/// Errors: [`RunError`] when something cannot be started; nothing runs then.
pub fn start(config: &Config, place: &Place, options: &RunOptions) -> Result<Running, RunError> {
    let mut journal_options = assemble::journal_options(config, place, true)
        .map_err(|error| trouble(Trouble::Journal, error))?;
    if let Some(clock) = &options.clock {
        journal_options.clock = Arc::clone(clock);
    }
    let dir = journal_options.dir.clone();
    let clock = Arc::clone(&journal_options.clock);
    let (journal, writer) =
        journal::open(journal_options).map_err(|error| trouble(Trouble::Journal, error))?;
    let (streams, driver) = Streams::open(journal.clone(), streams::options(config, &clock))
        .map_err(|error| trouble(Trouble::Journal, error))?;
    streams::hold(&streams);
    let api = api::service(config, place, &streams, &dir)?;
    let resumed = resumed(config, place, options, &journal)?;
    let mut sinks = Vec::new();
    for sink in &config.sinks {
        let built = assemble::sink(sink, place).map_err(|error| trouble(Trouble::Config, error))?;
        sinks.push((assemble::delivery(sink, options.recover), built));
    }
    if options.resnapshot_lost && !can_copy(&config.source) {
        return Err(trouble(
            Trouble::Config,
            "run --resnapshot-lost: this source copies no tables: it is a recording or a topic, or has \
             snapshot: never",
        ));
    }
    let opened = open_source(&config.source, place, resumed.clone());
    let (source, begins_anew) = match opened {
        Err(error) if options.resnapshot_lost && is_lost(&error) => {
            tell_lost(&error, &resumed);
            let anew = Resumed {
                anew: true,
                ..resumed
            };
            (open_source(&config.source, place, anew), true)
        }
        opened => (opened, false),
    };
    let source = source.map_err(source_trouble)?;

    let shared = Arc::new(Shared::default());
    let requests: Requests = Arc::default();
    let mut running = Running {
        shared: Arc::clone(&shared),
        journal: journal.clone(),
        place: place.clone(),
        requests,
        capture: None,
        sinks: Vec::new(),
        streams,
        api,
        server: None,
        _socket: None,
    };
    let (heals, to_heal) = channel();
    running.listen(config, &dir, heals)?;
    running.server = api::serve(config, &running.api)?;
    running.start_sinks(sinks, config.drain_timeout.0)?;
    let recorded = matches!(config.source, SourceConfig::Recorded(_));
    let keep = if recorded {
        KeepPosition::EveryBytes(4 << 20)
    } else {
        KeepPosition::EverySecond
    };
    let (source_config, its_place) = (config.source.clone(), place.clone());
    let key_groups = KeyGroups::new(journal.clone(), &config.journal.encryption.table_keys);
    let capture = Capture::new(CaptureParts {
        writer,
        journal,
        key_groups,
        shared: Arc::clone(&shared),
        keep,
        to_heal,
        reopen: Box::new(move |resumed| assemble::source(&source_config, &its_place, resumed)),
        streams: streams::CaptureStreams::new(driver, &config.streams),
        resnapshot_lost: options.resnapshot_lost,
        begins_anew,
    });
    running.capture = Some(spawn_capture(capture, source, shared)?);
    running.start_retention()?;
    Ok(running)
}

/// How long a source that was reached before may be away at the start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one may that was never reached: the address may be wrong.
const PATIENCE_UNMET: Duration = Duration::from_secs(3);

/// Opens the source, trying again while it is only away: a few seconds when it was never reached,
/// a minute when it was: the journal says so, or it went away between two of these first questions.
fn open_source(
    config: &SourceConfig,
    place: &Place,
    resumed: Resumed,
) -> Result<Box<dyn Source>, change::SourceError> {
    let mut is_known = resumed.position.is_some();
    let since = Instant::now();
    let mut backoff = Duration::from_millis(250);
    loop {
        let error = match assemble::source(config, place, resumed.clone()) {
            Ok(source) => return Ok(source),
            Err(error) => error,
        };
        let is_away = error.kind == ErrorKind::Unavailable;
        is_known |= is_away && error.operation != change::contract::CONNECT;
        let patience = if is_known { PATIENCE } else { PATIENCE_UNMET };
        if !is_away || since.elapsed() + backoff > patience {
            return Err(error);
        }
        tracing::warn!("{error}; trying again in {backoff:?}");
        std::thread::sleep(backoff);
        backoff = (backoff * 2).min(Duration::from_secs(10));
    }
}

/// Whether the source can copy tables again.
fn can_copy(config: &SourceConfig) -> bool {
    match config {
        SourceConfig::Mysql(source) | SourceConfig::Mariadb(source) => {
            source.snapshot != source_mysql::config::SnapshotMode::Never
        }
        SourceConfig::Recorded(_) | SourceConfig::Topic(_) => false,
    }
}

fn source_trouble(error: change::SourceError) -> RunError {
    let kind = match error.operation.contains("config") {
        true => Trouble::Config,
        false => Trouble::Source,
    };
    trouble(kind, error)
}

/// Where the source begins: where the journal ends, or after a lost journal where the sinks stand.
fn resumed(
    config: &Config,
    place: &Place,
    options: &RunOptions,
    journal: &Journal,
) -> Result<Resumed, RunError> {
    let resumed = resume(journal).map_err(|error| trouble(Trouble::Journal, error))?;
    if resumed.position.is_some() || !options.recover {
        return Ok(resumed);
    }
    if matches!(config.source, SourceConfig::Topic(_)) {
        return Err(trouble(
            Trouble::Config,
            "recover: a sink's cursor does not hold the offsets of all partitions that a topic source \
             reads; hint: put the journal's directory back, or start anew with fresh cursors",
        ));
    }
    let mut positions = Vec::new();
    for sink in &config.sinks {
        let mut built =
            assemble::sink(sink, place).map_err(|error| trouble(Trouble::Config, error))?;
        let cursor = built
            .open()
            .map_err(|error| trouble(Trouble::Sink, error))?;
        let Some(cursor) = cursor else { continue };
        let position = Position::decode(&cursor.position).map_err(|error| {
            let text = format!("read position in the cursor of sink {}: {error}", sink.name);
            trouble(Trouble::Sink, text)
        })?;
        positions.push(position);
    }
    match recover::oldest(positions) {
        Some(position) => {
            tracing::warn!("the journal is new: capture begins again at {position}");
            let mut control = resumed.control;
            control.push((b"source/snapshot".to_vec(), b"recovered".to_vec()));
            Ok(Resumed {
                position: Some(position),
                control,
                spool: resumed.spool,
                anew: false,
            })
        }
        None => Err(trouble(
            Trouble::Sink,
            "recover: no sink has a cursor to recover from; hint: run without --recover for a new \
             snapshot",
        )),
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, RunError> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|error| trouble(Trouble::Other, format!("start thread {name}: {error}")))
}

fn spawn_capture(
    capture: Capture,
    source: Box<dyn Source>,
    shared: Arc<Shared>,
) -> Result<JoinHandle<Captured>, RunError> {
    spawn("capture", move || {
        let captured = capture.run(source);
        if let Err(error) = &captured.outcome {
            tracing::error!("capture ended: {error}");
            shared.stop();
        }
        shared.source_ended.store(true, Ordering::SeqCst);
        captured
    })
}

impl Running {
    /// The journal, for readers in this process.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The change streams.
    pub fn streams(&self) -> &Streams {
        &self.streams
    }

    /// Where the stream API listens; nowhere without `api:` in the config.
    pub fn api_addresses(&self) -> &[std::net::SocketAddr] {
        self.server
            .as_ref()
            .map_or(&[], |server| server.addresses())
    }

    /// What all threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Asks for an orderly end.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// The standing now.
    pub fn report(&self) -> Report {
        report(&self.shared, &self.streams, &self.place.name)
    }

    fn listen(
        &mut self,
        config: &Config,
        dir: &std::path::Path,
        heals: Sender<Heal>,
    ) -> Result<(), RunError> {
        let handler = Arc::new(Commands {
            shared: Arc::clone(&self.shared),
            journal: self.journal.clone(),
            streams: self.streams.clone(),
            api: Arc::clone(&self.api),
            name: self.place.name.clone(),
            requests: Arc::clone(&self.requests),
            heals,
            can_copy: can_copy(&config.source),
        });
        let socket = control::listen(dir, handler).map_err(|error| {
            let text = format!("listen on the control socket in {}: {error}", dir.display());
            trouble(Trouble::Other, text)
        })?;
        self._socket = Some(socket);
        if let Some(config) = &config.metrics {
            let (shared, streams) = (Arc::clone(&self.shared), self.streams.clone());
            let name = self.place.name.clone();
            let reporter = Arc::new(move || report(&shared, &streams, &name));
            metrics::serve(config, reporter, Arc::clone(&self.api)).map_err(|error| {
                let text = format!(
                    "listen for metrics on {}: {error}; hint: choose another metrics.listen",
                    config.listen
                );
                trouble(Trouble::Config, text)
            })?;
        }
        Ok(())
    }

    fn start_sinks(
        &mut self,
        sinks: Vec<(delivery::DeliveryConfig, Box<dyn change::Sink>)>,
        drain: Duration,
    ) -> Result<(), RunError> {
        for (config, sink) in sinks {
            let name = config.name.clone();
            let (sender, receiver) = channel();
            self.requests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name.clone(), sender);
            // A sink holds its place from the first moment, also before it is connected.
            let known = self
                .journal
                .cursors()
                .into_iter()
                .find(|cursor| cursor.name == name);
            let held = known.map_or(self.journal.first(), |cursor| cursor.cursor.sequence);
            let hold = journal::Cursor {
                sequence: held,
                on_full: config.on_full,
            };
            self.journal
                .set_cursor(&name, hold)
                .map_err(|error| trouble(Trouble::Journal, error))?;
            self.shared.on_sink(&name, |status| {
                status.state = "starting".into();
                status.at = held.0;
            });
            let journal = self.journal.clone();
            let delivery = Delivery::new(config, journal, Arc::clone(&self.shared), sink, receiver);
            let thread = spawn(&format!("sink-{name}"), move || delivery.run(drain))?;
            self.sinks.push((name, thread));
        }
        Ok(())
    }

    fn start_retention(&self) -> Result<(), RunError> {
        let (shared, journal) = (Arc::clone(&self.shared), self.journal.clone());
        let streams = self.streams.clone();
        spawn("retention", move || {
            while !shared.is_stopping() {
                streams::hold(&streams);
                match journal.retain() {
                    Ok(retained) => {
                        for (sink, lost) in retained.detached {
                            tracing::error!(
                                sink,
                                "the journal was full: the sink lost {} to {}; hint: re-copy what it \
                                 missed",
                                lost.from,
                                lost.to
                            );
                        }
                    }
                    Err(error) => tracing::warn!("{error}"),
                }
                shared.sleep(Duration::from_secs(2));
            }
        })
        .map(|_| ())
    }

    /// Waits for the end; `tick` is called a few times a second meanwhile.
    ///
    /// Errors: the first trouble, by whose it is.
    pub fn wait(mut self, tick: &mut dyn FnMut(&Running)) -> Result<(), RunError> {
        let mut sink_error = None;
        let had_sinks = !self.sinks.is_empty();
        loop {
            tick(&self);
            self.collect_sinks(&mut sink_error);
            if had_sinks && self.sinks.is_empty() {
                self.shared.stop();
            }
            let captured = self.capture.as_ref().is_none_or(JoinHandle::is_finished);
            if captured && self.sinks.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        tick(&self);
        // Calls that are worked on are answered; then nobody reads any more.
        if let Some(server) = &mut self.server {
            server.stop();
        }
        let captured = match self.capture.take().map(JoinHandle::join) {
            Some(Ok(captured)) => {
                let closed = captured.writer.close().map_err(CaptureError::from);
                captured.outcome.and(closed)
            }
            Some(Err(_)) => return Err(trouble(Trouble::Other, "capture broke an invariant")),
            None => Ok(()),
        };
        match (captured, sink_error) {
            (Err(CaptureError::Source(error)), _) => Err(source_trouble(error)),
            (Err(error), _) => Err(trouble(Trouble::Journal, error)),
            (Ok(()), Some(error)) => Err(error),
            (Ok(()), None) => Ok(()),
        }
    }

    /// Takes the outcome of sinks that have ended.
    fn collect_sinks(&mut self, first: &mut Option<RunError>) {
        let ended: Vec<usize> = (0..self.sinks.len())
            .rev()
            .filter(|index| self.sinks[*index].1.is_finished())
            .collect();
        for index in ended {
            let (name, thread) = self.sinks.remove(index);
            let outcome = thread
                .join()
                .unwrap_or_else(|_| Err("it broke an invariant; the log has more".to_owned()));
            if let Err(text) = outcome {
                tracing::error!(sink = name, "the sink has ended: {text}");
                first.get_or_insert(trouble(Trouble::Sink, format!("sink {name}: {text}")));
            }
        }
    }
}

fn report(shared: &Shared, streams: &Streams, name: &str) -> Report {
    let journal = streams.journal();
    let rows = shared.rows_captured.load(Ordering::Relaxed);
    Report {
        pipeline: name.to_owned(),
        pid: Some(std::process::id()),
        source: SourceReport::new(shared.source(), rows),
        journal: JournalReport::new(journal, shared.journal_full.load(Ordering::Relaxed)),
        sinks: shared.sinks_against(journal.end().0),
        streams: streams::report(streams),
    }
}

/// How long the user waits for capture to bring a table back.
const HEAL_TIMEOUT: Duration = Duration::from_secs(600);

/// Answers the control socket.
struct Commands {
    shared: Arc<Shared>,
    journal: Journal,
    streams: Streams,
    api: Arc<Api>,
    name: String,
    requests: Requests,
    heals: Sender<Heal>,
    can_copy: bool,
}

impl Commands {
    fn ask(&self, sink: &str, command: Command) -> Answer {
        let requests = self
            .requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let Some(sender) = requests.get(sink) else {
            let names: Vec<&str> = requests.keys().map(String::as_str).collect();
            return Answer::refused(format!(
                "there is no sink `{sink}`; there are: {}",
                names.join(", ")
            ));
        };
        let (answer, answered) = channel();
        if sender.send((command, answer)).is_err() {
            return Answer::refused(format!("sink {sink} has ended; see `status`"));
        }
        match answered.recv_timeout(Duration::from_secs(120)) {
            Ok(Ok(text)) => Answer::done(text),
            Ok(Err(text)) => Answer::refused(text),
            Err(_) => Answer::refused(format!("sink {sink} gave no answer; see `status`")),
        }
    }

    fn heal(&self, table: &str, resnapshot: bool) -> Answer {
        if resnapshot && !self.can_copy {
            return Answer::refused(
                "this source copies no tables: it is a recording, or has snapshot: never",
            );
        }
        let source = self.shared.source();
        if resnapshot || source.parked.iter().any(|parked| parked.table == table) {
            let (answer, answered) = channel();
            let heal = Heal {
                table: table.to_owned(),
                resnapshot,
                answer,
            };
            if self.heals.send(heal).is_err() {
                return Answer::refused("capture has ended; see `status`");
            }
            return match answered.recv_timeout(HEAL_TIMEOUT) {
                Ok(Ok(text)) => Answer::done(text),
                Ok(Err(text)) => Answer::refused(text),
                Err(_) => Answer::refused("capture gives no answer yet; see `status`"),
            };
        }
        let parked: Vec<String> = self
            .shared
            .sinks()
            .into_iter()
            .filter(|(_, sink)| sink.parked.iter().any(|parked| parked.table == table))
            .map(|(name, _)| name)
            .collect();
        if parked.is_empty() {
            return Answer::refused(format!("nothing of {table} is parked in any sink"));
        }
        let answers: Vec<Answer> = parked
            .iter()
            .map(|sink| self.ask(sink, Command::Heal(table.to_owned())))
            .collect();
        let text: Vec<&str> = answers.iter().map(|answer| answer.text.as_str()).collect();
        Answer {
            ok: answers.iter().all(|answer| answer.ok),
            text: text.join("\n"),
            report: None,
        }
    }
}

impl Handler for Commands {
    fn answer(&self, request: Request, user: &LocalUser) -> Answer {
        let event = api::event(&request);
        let answer = self.do_it(request, user);
        if let Some(event) = event {
            let refused = (!answer.ok).then_some(answer.text.as_str());
            self.api.record_local(user, event, refused);
        }
        answer
    }

    fn tail(&self, request: Request, user: &LocalUser, out: &mut dyn Write) -> Result<(), String> {
        // When it begins: it may never end.
        if let Some(event) = api::event(&request) {
            self.api.record_local(user, event, None);
        }
        self.stream_tail(request, out)
    }
}

impl Commands {
    fn do_it(&self, request: Request, user: &LocalUser) -> Answer {
        match request {
            Request::Status => {
                let report = report(&self.shared, &self.streams, &self.name);
                Answer {
                    ok: true,
                    text: String::new(),
                    report: Some(report),
                }
            }
            Request::Pause { sink } => self.ask(&sink, Command::Pause),
            Request::Resume { sink } => self.ask(&sink, Command::Resume),
            Request::Rewind { sink, to } => {
                let found = to
                    .parse::<seek::Place>()
                    .and_then(|place| seek::find(&self.journal, &place));
                match found {
                    Ok(sequence) => self.ask(&sink, Command::Rewind(sequence)),
                    Err(text) => Answer::refused(text),
                }
            }
            Request::Heal { table, resnapshot } => self.heal(&table, resnapshot),
            Request::Keys { request } => key_groups::answer(&self.streams, request),
            Request::Streams { request } => streams::answer(&self.streams, request),
            Request::Cql { statement, json } => api::cql(&self.api, user, &statement, json),
            Request::Stop => {
                self.shared.stop();
                Answer::done("stopping: capture ends, then the sinks drain")
            }
            Request::Tail { .. } => Answer::refused("a tail is streamed"),
        }
    }

    fn stream_tail(&self, request: Request, out: &mut dyn Write) -> Result<(), String> {
        let Request::Tail {
            from,
            tables,
            format,
            options: settings,
            follow,
        } = request
        else {
            return Err("this is no tail".into());
        };
        let place: seek::Place = from.parse()?;
        let options = TailOptions {
            from: seek::find(&self.journal, &place)?,
            tables: Patterns::new(&tables),
            follow,
        };
        let encoder = encoder(&format, &settings)?;
        tail(&self.journal, &options, encoder, out, &|| {
            !self.shared.is_stopping()
        })
        .map_err(|error| error.to_string())
    }
}

/// An encoder by its format's name, with settings `key=value`.
pub fn encoder(format: &str, options: &[String]) -> Result<Box<dyn format::Encoder>, String> {
    let name: FormatName = format.parse()?;
    name.encoder(&format_options(options)?)
}

/// Settings of a format from `key=value` texts. A value is JSON, or else text.
///
/// Errors: which one is wrong.
pub fn format_options(pairs: &[String]) -> Result<FormatOptions, String> {
    let mut object = serde_json::Map::new();
    for pair in pairs {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("`{pair}` is not KEY=VALUE"))?;
        let value = serde_json::from_str(value)
            .unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
        object.insert(key.to_owned(), value);
    }
    serde_json::from_value(serde_json::Value::Object(object)).map_err(|error| error.to_string())
}

/// Text of a read error, for callers outside.
pub fn read_trouble(error: ReadError) -> RunError {
    trouble(Trouble::Journal, error)
}
