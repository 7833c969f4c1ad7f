//! The stream API of a running pipeline: its service, its sockets, its audit trail, and what local commands leave there.

use crate::assemble::Place;
use crate::config::{ApiConfig, Config};
use crate::control::{Answer, Request};
use crate::key_groups::KeyRequest;
use crate::run::{RunError, Trouble};
use crate::streams::StreamRequest;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stream::Streams;
use stream_api::api::LocalEvent;
use stream_api::{Api, ApiParts, Audit, KeyFile, Keys, LocalUser, Sealer, Server};

/// The secret that iterators and audit records are sealed with, in the journal's directory.
const SECRET_FILE: &str = "api.key";

fn config_trouble(text: String) -> RunError {
    RunError {
        trouble: Trouble::Config,
        text,
    }
}

/// Where the audit trail is kept.
pub fn audit_dir(config: &Config, place: &Place) -> PathBuf {
    match config.api.as_ref().and_then(|api| api.audit.dir.as_ref()) {
        Some(dir) => place.path(dir),
        None => place.journal_dir(config).with_extension("audit"),
    }
}

/// Checks the audit trail of a pipeline, running or not; what was found, or the first place that is wrong.
pub fn verify_audit(config: &Config, place: &Place) -> Result<String, String> {
    let secret = place.journal_dir(config).join(SECRET_FILE);
    if !secret.exists() {
        return Err(format!(
            "check the audit trail: its secret {} is not there; hint: `run` makes it",
            secret.display()
        ));
    }
    let sealer = Sealer::open_or_create(&secret)
        .map_err(|error| format!("read {}: {error}", secret.display()))?;
    let dir = audit_dir(config, place);
    let verified = stream_api::audit::verify(&dir, &sealer)
        .map_err(|error| format!("trust the audit trail in {}: {error}", dir.display()))?;
    let word = match verified.is_sealed {
        true => "",
        false => {
            "; an older version wrote it, which did not seal its end: that no record is missing there is not proven"
        }
    };
    Ok(format!(
        "{} records in {} files, from record {} on: each is as it was written, none is missing{word}",
        verified.records, verified.files, verified.first
    ))
}

/// The service; it is there without `api:` in the config too, for the CQL door, and then opens no socket and keeps no
/// trail.
///
/// Errors: keys or files that cannot be read.
pub fn service(
    config: &Config,
    place: &Place,
    streams: &Streams,
    dir: &Path,
) -> Result<Arc<Api>, RunError> {
    let mut settings: ApiConfig = config.api.clone().unwrap_or_default();
    settings.resolve_paths(|path| place.path(path));
    settings
        .check()
        .map_err(|text| config_trouble(format!("use the config: {text}")))?;
    let secret = dir.join(SECRET_FILE);
    let sealer = Sealer::open_or_create(&secret)
        .map_err(|error| config_trouble(format!("open {}: {error}", secret.display())))?;
    let keys = match &settings.credentials_file {
        Some(file) => KeyFile::open(file, &settings.identity()).map_err(config_trouble)?,
        None => KeyFile::fixed(Keys::default()),
    };
    let audit = match config.api.is_some() && settings.audit.enabled {
        false => None,
        true => {
            let dir = audit_dir(config, place);
            let opened = Audit::open(&dir, &settings.audit, &settings.identity(), &sealer);
            Some(opened.map_err(|error| {
                config_trouble(format!(
                    "open the audit trail in {}: {error}",
                    dir.display()
                ))
            })?)
        }
    };
    Ok(Arc::new(Api::new(ApiParts {
        streams: streams.clone(),
        settings,
        keys,
        sealer,
        audit,
    })))
}

/// Opens the sockets, when the config asks for them.
pub fn serve(config: &Config, api: &Arc<Api>) -> Result<Option<Server>, RunError> {
    if config.api.is_none() {
        return Ok(None);
    }
    let server = Server::start(Arc::clone(api)).map_err(config_trouble)?;
    for address in server.addresses() {
        tracing::info!("the stream API listens on {address}");
    }
    if api.settings().credentials_file.is_none() {
        tracing::warn!("no api.credentials_file: every call of the stream API is refused");
    }
    Ok(Some(server))
}

/// Records a command that reads the files of a pipeline that does not run.
///
/// Errors: the trail cannot be written; the command is not to be done then.
pub fn record_offline(config: &Config, place: &Place, request: &Request) -> Result<(), String> {
    let secret = place.journal_dir(config).join(SECRET_FILE);
    let (Some(api), Some(event)) = (&config.api, event(request)) else {
        return Ok(());
    };
    if !api.audit.enabled || !secret.exists() {
        return Ok(());
    }
    let dir = audit_dir(config, place);
    let failed = |error: std::io::Error| {
        format!(
            "record the call in the audit trail {}: {error}",
            dir.display()
        )
    };
    let sealer = Sealer::open_or_create(&secret).map_err(failed)?;
    let audit = Audit::open(&dir, &api.audit, &api.identity(), &sealer).map_err(failed)?;
    let now_us = journal::Clock::now_us(&journal::SystemClock::default());
    audit.record_local(&LocalUser::me(), &event, None, now_us);
    audit.close();
    Ok(())
}

/// One statement through the CQL door.
pub fn cql(api: &Api, user: &LocalUser, statement: &str, json: bool) -> Answer {
    match stream_api::cql::execute(api, user, statement) {
        Err(error) => Answer::refused(error.message),
        Ok(rows) if json => match serde_json::to_string(&rows) {
            Ok(text) => Answer::done(text),
            Err(error) => Answer::refused(error.to_string()),
        },
        Ok(rows) if rows.columns.is_empty() => Answer::done("done"),
        Ok(rows) => Answer::done(rows.to_text()),
    }
}

/// What a local command is to the audit; none for what is recorded elsewhere, and for looking at the standing.
pub fn event(request: &Request) -> Option<LocalEvent> {
    let (name, is_management, is_read_only) = match request {
        Request::Status | Request::Cql { .. } => return None,
        Request::Pause { .. } => ("PauseSink", true, false),
        Request::Resume { .. } => ("ResumeSink", true, false),
        Request::Rewind { .. } => ("RewindSink", true, false),
        Request::Heal { .. } => ("HealTable", true, false),
        Request::Tail { .. } => ("Tail", false, true),
        Request::Stop => ("StopPipeline", true, false),
        Request::Streams { request } => match request {
            StreamRequest::List { .. } => ("ListStreams", true, true),
            StreamRequest::Describe { .. } => ("GetStream", true, true),
            _ => ("AlterTable", true, false),
        },
        Request::Keys { request } => match request {
            KeyRequest::List => ("ListKeys", true, true),
            _ => ("AlterKeys", true, false),
        },
    };
    // The request as it came: it holds names and numbers only.
    let parameters = match serde_json::to_value(request) {
        Ok(serde_json::Value::Object(members)) => members,
        _ => serde_json::Map::new(),
    };
    Some(LocalEvent {
        name,
        is_management,
        is_read_only,
        parameters,
    })
}
