//! The local socket in the journal's directory: how commands reach a running pipeline.
//!
//! Shape: one JSON request a line, one JSON answer a line; a tail streams its lines instead. Only the
//! user that runs the pipeline may open it (mode 0600).

use crate::status::Report;
use serde::{Deserialize, Serialize};
use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use stream_api::LocalUser;

const SOCKET: &str = "control.sock";
/// A request is a short line; more is no request.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// What a command asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// The whole standing.
    Status,
    /// Pause one sink.
    Pause {
        /// Its name.
        sink: String,
    },
    /// Let one sink go on.
    Resume {
        /// Its name.
        sink: String,
    },
    /// Move one sink to another place.
    Rewind {
        /// Its name.
        sink: String,
        /// As [`crate::seek::Place`] reads it.
        to: String,
    },
    /// Bring a parked table back.
    Heal {
        /// `database.table`.
        table: String,
        /// Copy it again from the source instead of delivering from the journal.
        #[serde(default)]
        resnapshot: bool,
    },
    /// Stream lines.
    Tail {
        /// As [`crate::seek::Place`] reads it.
        from: String,
        /// Patterns.
        tables: Vec<String>,
        /// A format's name.
        format: String,
        /// Its settings, `key=value`.
        #[serde(default)]
        options: Vec<String>,
        /// Go on at the end.
        follow: bool,
    },
    /// About change streams.
    Streams {
        /// What.
        request: crate::streams::StreamRequest,
    },
    /// About keys of tables.
    Keys {
        /// What.
        request: crate::key_groups::KeyRequest,
    },
    /// One CQL statement.
    Cql {
        /// The statement.
        statement: String,
        /// The rows as JSON.
        #[serde(default)]
        json: bool,
    },
    /// Drain and stop.
    Stop,
}

/// What is answered.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// What was done, or why not.
    pub text: String,
    /// For `Status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
}

impl Answer {
    /// Done.
    pub fn done(text: impl Into<String>) -> Self {
        Self {
            ok: true,
            text: text.into(),
            report: None,
        }
    }
    /// Not done.
    pub fn refused(text: impl Into<String>) -> Self {
        Self {
            ok: false,
            text: text.into(),
            report: None,
        }
    }
}

/// Answers requests.
pub trait Handler: Send + Sync {
    /// One request that has one answer.
    fn answer(&self, request: Request, user: &LocalUser) -> Answer;
    /// Streams a tail into `out` until its reader goes away.
    fn tail(&self, request: Request, user: &LocalUser, out: &mut dyn Write) -> Result<(), String>;
}

/// A path to the socket that fits a socket address however deep the directory lies.
fn short_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))
}

/// Listens in `dir`, one thread a connection. The socket goes with the returned guard.
pub fn listen(dir: &Path, handler: Arc<dyn Handler>) -> io::Result<Guard> {
    let folder = File::open(dir)?;
    let path = short_path(&folder);
    // The journal's lock is ours: a socket that is still there belongs to a dead process.
    match std::fs::remove_file(dir.join(SOCKET)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(dir.join(SOCKET), Permissions::from_mode(0o600))?;
    std::thread::Builder::new()
        .name("control".into())
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                let handler = Arc::clone(&handler);
                let served = std::thread::Builder::new()
                    .name("control-call".into())
                    .spawn(move || serve(&stream, &*handler));
                if let Err(error) = served {
                    tracing::warn!("serve control call: {error}");
                }
            }
        })?;
    Ok(Guard {
        path: dir.join(SOCKET),
    })
}

/// Removes the socket when it is dropped.
#[derive(Debug)]
pub struct Guard {
    path: PathBuf,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The user at the other end, as the kernel tells it.
fn peer(stream: &UnixStream) -> LocalUser {
    match rustix::net::sockopt::socket_peercred(stream) {
        Ok(peer) => LocalUser::of(peer.uid.as_raw()),
        Err(_) => LocalUser {
            uid: u32::MAX,
            name: "unknown".into(),
        },
    }
}

fn serve(stream: &UnixStream, handler: &dyn Handler) {
    let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut line = String::new();
    if BufReader::new(stream.take(REQUEST_BYTES_MAX))
        .read_line(&mut line)
        .is_err()
    {
        return;
    }
    let mut out = stream;
    let user = peer(stream);
    let answer = match serde_json::from_str::<Request>(&line) {
        Err(error) => Answer::refused(format!("this is no request: {error}")),
        Ok(request @ Request::Tail { .. }) => match handler.tail(request, &user, &mut out) {
            Ok(()) => return,
            Err(text) => Answer::refused(text),
        },
        Ok(request) => handler.answer(request, &user),
    };
    if let Ok(mut text) = serde_json::to_vec(&answer) {
        text.push(b'\n');
        let _ = out.write_all(&text);
    }
}

/// Connects to the pipeline that runs on the journal in `dir`; none when nothing runs there.
pub fn connect(dir: &Path) -> Option<UnixStream> {
    let folder = File::open(dir).ok()?;
    UnixStream::connect(short_path(&folder)).ok()
}

/// Sends one request and waits for its answer.
pub fn call(stream: &UnixStream, request: &Request) -> io::Result<Answer> {
    send(stream, request)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Sends one request.
pub fn send(mut stream: &UnixStream, request: &Request) -> io::Result<()> {
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text)
}
