//! Who did what, when: an audit trail in CloudTrail's record shape.
//!
//! Shape: files of JSON lines. Each line ends in `auditHash`, a keyed hash of the line and of the hash before it, so that
//! a line that was changed, removed or put in is found by [`verify`]; `head`, which is sealed with the same key, tells how
//! far the trail went, so that a cut end is found too. Whoever writes on after a cut leaves a gap in the numbers.
//!
//! Promises: a record is written in the order in which calls ended; none is dropped silently: when the disk is slower than
//! the calls, the calls wait. Row values, secrets and iterators are never in it.

mod event;
mod file;
mod verify;

pub use verify::{Verified, verify};

use crate::api::{LocalEvent, local_caller, random_id};
use crate::call::{Caller, LocalUser, Principal};
use crate::error::ApiError;
use crate::operations::Facts;
use crate::seal::Sealer;
use crate::settings::AuditConfig;
use crate::wire::Service;
use file::Trail;
use serde_json::{Map, Value};
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stream::Identity;

/// Records that wait to be written.
const WAITING_MAX: usize = 4096;
/// The trail is made durable this often.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A call that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Happened<'a> {
    /// What was called.
    pub facts: Facts,
    /// Who called; none when the signature did not tell.
    pub principal: Option<&'a Principal>,
    /// From where.
    pub caller: &'a Caller,
    /// What was asked.
    pub parameters: &'a Map<String, Value>,
    /// ARNs of what it was about.
    pub resources: &'a [String],
    /// Why it was refused, if it was.
    pub error: Option<&'a ApiError>,
    /// The answer's request id.
    pub request_id: &'a str,
    /// The record's own id.
    pub event_id: &'a str,
    /// When, microseconds since 1970.
    pub at_us: i64,
}

/// Writes the trail, on a thread of its own.
pub struct Audit {
    identity: Identity,
    data_events: bool,
    lines: Mutex<Option<SyncSender<Map<String, Value>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Audit {
    /// Opens the trail in `dir`, going on where it ended.
    ///
    /// Errors: the directory or its last file cannot be written.
    pub fn open(
        dir: &Path,
        config: &AuditConfig,
        identity: &Identity,
        sealer: &Sealer,
    ) -> io::Result<Arc<Self>> {
        let mut trail = Trail::open(dir, config, sealer.clone())?;
        let (sender, receiver) = sync_channel::<Map<String, Value>>(WAITING_MAX);
        let thread = std::thread::Builder::new()
            .name("audit".into())
            .spawn(move || {
                let mut is_ended = false;
                while !is_ended {
                    match receiver.recv_timeout(SYNC_INTERVAL) {
                        Ok(event) => trail.append(event),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => is_ended = true,
                    }
                    trail.sync_if_due(SYNC_INTERVAL);
                }
                trail.sync_if_due(Duration::ZERO);
            })?;
        Ok(Arc::new(Self {
            identity: identity.clone(),
            data_events: config.data_events,
            lines: Mutex::new(Some(sender)),
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Records a call.
    pub fn record(&self, happened: &Happened<'_>) {
        if !happened.facts.is_management && !self.data_events {
            return;
        }
        let event = event::render(happened, &self.identity);
        let sender = self
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let sent = sender.is_some_and(|sender| sender.send(event).is_ok());
        if !sent {
            tracing::error!("a call was made after the audit trail was closed");
        }
    }

    /// Records what a user of this machine did by other ways than the API's operations; `refused` tells why it was not
    /// done.
    pub fn record_local(
        &self,
        user: &LocalUser,
        event: &LocalEvent,
        refused: Option<&str>,
        at_us: i64,
    ) {
        let error = refused.map(ApiError::invalid);
        self.record(&Happened {
            facts: Facts {
                service: Service::Keyspaces,
                name: event.name,
                action: "",
                event: event.name,
                is_management: event.is_management,
                is_read_only: event.is_read_only,
            },
            principal: Some(&Principal::Local(user.clone())),
            caller: &local_caller(),
            parameters: &event.parameters,
            resources: &[],
            error: error.as_ref(),
            request_id: &random_id(),
            event_id: &random_id(),
            at_us,
        });
    }

    /// Writes what waits, and ends.
    pub fn close(&self) {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the audit thread broke an invariant");
        }
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.close();
    }
}
