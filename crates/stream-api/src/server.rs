//! The sockets: listeners, connections, and an orderly end.
//!
//! It has threads and a runtime of its own, so that nothing a client does slows capture.

use crate::api::{Api, Incoming, Outgoing};
use crate::call::Caller;
use crate::error::{ApiError, Code};
use crate::guests::Guests;
use crate::patience::{Busy, Patient};
use crate::policy::Policy;
use crate::settings::ListenerConfig;
use crate::tls;
use crate::wire;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming as Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

/// A request's head is at most this long.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Connections have this long to finish their last answer.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Access keys are looked at this often.
const KEYS_INTERVAL: Duration = Duration::from_secs(1);

/// A running server.
pub struct Server {
    addresses: Vec<SocketAddr>,
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
    shared: Arc<Shared>,
}

struct Shared {
    api: Arc<Api>,
    connections: Arc<Semaphore>,
    guests: Arc<Guests>,
    calls: Semaphore,
    /// Calls of the control plane: they wait for the capture thread, which no reader has to.
    control_calls: Semaphore,
    numbers: AtomicU64,
}

/// A listener that is open.
struct Door {
    socket: std::net::TcpListener,
    policy: Option<Arc<Policy>>,
    tls: Option<TlsAcceptor>,
    connections: Arc<Semaphore>,
}

fn open(config: &ListenerConfig, connections: usize) -> Result<Door, String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        format!("{what} of listener {}: {error}", config.listen)
    };
    let policy = match &config.policy_file {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| failed(&format!("read policy {}", path.display()), &error))?;
            let policy = Policy::parse(&text)
                .map_err(|error| failed(&format!("read policy {}", path.display()), &error))?;
            Some(Arc::new(policy))
        }
    };
    let tls = match &config.tls {
        None => None,
        Some(settings) => {
            let server = tls::server_config(settings).map_err(|error| failed("TLS", &error))?;
            Some(TlsAcceptor::from(server))
        }
    };
    let socket = std::net::TcpListener::bind(&config.listen)
        .and_then(|socket| socket.set_nonblocking(true).map(|()| socket))
        .map_err(|error| {
            format!(
                "listen on {}: {error}; hint: choose another api.listen",
                config.listen
            )
        })?;
    Ok(Door {
        socket,
        policy,
        tls,
        connections: Arc::new(Semaphore::new(connections)),
    })
}

impl Server {
    /// Opens all listeners and serves on threads of its own.
    ///
    /// Errors: a listener that cannot be opened, a policy or certificate that cannot be read; nothing is served then.
    pub fn start(api: Arc<Api>) -> Result<Server, String> {
        let settings = api.settings().clone();
        settings.check()?;
        let limits = settings.limits;
        let listeners = settings.all_listeners();
        let connections = limits.of_listener(listeners.len());
        let doors: Vec<Door> = listeners
            .iter()
            .map(|listener| open(listener, connections))
            .collect::<Result<_, _>>()?;
        let addresses = doors
            .iter()
            .map(|door| door.socket.local_addr())
            .collect::<Result<_, _>>()
            .map_err(|error| format!("listen: {error}"))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(settings.threads)
            .max_blocking_threads(limits.calls_at_once + limits.control_calls_at_once)
            .thread_name("api")
            .enable_all()
            .build()
            .map_err(|error| format!("start the API's threads: {error}"))?;
        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(Shared {
            api,
            connections: Arc::new(Semaphore::new(limits.connections)),
            guests: Guests::new(limits.connections_per_address),
            calls: Semaphore::new(limits.calls_at_once),
            control_calls: Semaphore::new(limits.control_calls_at_once),
            numbers: AtomicU64::new(1),
        });
        for door in doors {
            runtime.spawn(listen(door, Arc::clone(&shared), stopping.clone()));
        }
        runtime.spawn(look_at_keys(Arc::clone(&shared)));
        Ok(Server {
            addresses,
            runtime: Some(runtime),
            stop,
            shared,
        })
    }

    /// Where it listens, in the order of the config.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What answers.
    pub fn api(&self) -> &Arc<Api> {
        &self.shared.api
    }

    /// Lets no new call in, finishes those that are worked on, and closes the audit trail.
    pub fn stop(&mut self) {
        let Some(runtime) = self.runtime.take() else {
            return;
        };
        let _ = self.stop.send(true);
        let all = self.shared.api.settings().limits.connections as u32;
        let connections = Arc::clone(&self.shared.connections);
        runtime.block_on(async move {
            // Whoever holds all permits knows that no connection is left.
            let _ = tokio::time::timeout(STOP_TIMEOUT, connections.acquire_many(all)).await;
        });
        runtime.shutdown_timeout(STOP_TIMEOUT);
        self.shared.api.tell_skipped(true);
        if let Some(audit) = self.shared.api.audit() {
            audit.close();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn look_at_keys(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(KEYS_INTERVAL).await;
        shared.api.refresh_keys();
        shared.api.tell_skipped(false);
    }
}

async fn listen(door: Door, shared: Arc<Shared>, mut stopping: watch::Receiver<bool>) {
    let listener = match tokio::net::TcpListener::from_std(door.socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!("serve the API: {error}");
            return;
        }
    };
    loop {
        // Its own first: a listener that is full does not hold what the others need.
        let Ok(own) = Arc::clone(&door.connections).acquire_owned().await else {
            return;
        };
        let Ok(permit) = Arc::clone(&shared.connections).acquire_owned().await else {
            return;
        };
        let (socket, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Such as no file descriptor left: others will be given back.
                    tracing::warn!("accept a connection to the API: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            _ = stopping.changed() => return,
        };
        let Some(guest) = shared.guests.welcome(address.ip()) else {
            tracing::debug!("{address} has too many connections to the API");
            continue;
        };
        let _ = socket.set_nodelay(true);
        let caller = Caller {
            address: Some(address),
            connection: shared.numbers.fetch_add(1, Ordering::Relaxed),
            policy: door.policy.clone(),
            ..Caller::default()
        };
        let (shared, stopping, tls) = (Arc::clone(&shared), stopping.clone(), door.tls.clone());
        tokio::spawn(async move {
            let _counted = (own, permit, guest);
            match tls {
                None => serve(socket, caller, shared, stopping).await,
                Some(acceptor) => {
                    let time = Duration::from_secs(shared.api.settings().limits.request_seconds);
                    let Ok(Ok(stream)) = tokio::time::timeout(time, acceptor.accept(socket)).await
                    else {
                        return;
                    };
                    let caller = Caller {
                        tls: Some(tls::details(stream.get_ref().1)),
                        ..caller
                    };
                    serve(stream, caller, shared, stopping).await;
                }
            }
        });
    }
}

async fn serve<T>(
    socket: T,
    caller: Caller,
    shared: Arc<Shared>,
    mut stopping: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = shared.api.settings().limits;
    let busy = Arc::new(Busy::default());
    let (head, idle) = (
        Duration::from_secs(limits.request_seconds),
        Duration::from_secs(limits.idle_seconds),
    );
    let socket = TokioIo::new(Patient::new(socket, Arc::clone(&busy), head, idle));
    let caller = Arc::new(caller);
    let service = service_fn(move |request| {
        let (shared, caller, busy) = (Arc::clone(&shared), Arc::clone(&caller), Arc::clone(&busy));
        async move {
            busy.is_answering.store(true, Ordering::Relaxed);
            let response = respond(request, &caller, &shared, &busy).await;
            busy.answered.fetch_add(1, Ordering::Relaxed);
            busy.is_answering.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(true)
        .serve_connection(socket, service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection to the API ended: {error}");
    }
}

async fn respond(
    request: Request<Body>,
    caller: &Caller,
    shared: &Arc<Shared>,
    busy: &Busy,
) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let asked = wire::route(&parts.method, parts.uri.path(), &parts.headers);
    let refuse = |code: Code, text: &str| {
        let error = ApiError::new(code, text);
        let mut response = response(Outgoing {
            status: error.code.status(asked.service),
            encoding: asked.encoding,
            request_id: shared.api.new_id(),
            body: asked.encoding.write_error(&error),
            is_known: false,
        });
        // What is left of its body would be taken for the next request.
        close(&mut response);
        response
    };
    let limits = shared.api.settings().limits;
    let (body_max, time) = (
        limits.body_bytes,
        Duration::from_secs(limits.request_seconds),
    );
    let body = match tokio::time::timeout(time, collect(body, body_max)).await {
        Ok(Ok(body)) => body,
        Ok(Err(Collect::TooLong)) => {
            return refuse(
                Code::RequestEntityTooLarge,
                "the request's body is too long",
            );
        }
        Ok(Err(Collect::Cut)) => {
            return refuse(Code::Serialization, "the request's body is cut off");
        }
        Err(_) => {
            let mut response = refuse(
                Code::Serialization,
                "the request's body did not come in time",
            );
            *response.status_mut() = StatusCode::REQUEST_TIMEOUT;
            return response;
        }
    };
    let is_control = asked.service != wire::Service::Streams;
    let calls = match is_control {
        true => &shared.control_calls,
        false => &shared.calls,
    };
    let Ok(_permit) = calls.acquire().await else {
        return refuse(Code::InternalServer, "the server ends");
    };
    let text = |name: HeaderName| header(&parts.headers, &name);
    let caller = Caller {
        host: text(http::header::HOST),
        user_agent: text(http::header::USER_AGENT),
        ..caller.clone()
    };
    let shared = Arc::clone(shared);
    let api = Arc::clone(&shared.api);
    let answered = tokio::task::spawn_blocking(move || {
        api.answer(&Incoming {
            method: &parts.method,
            uri: &parts.uri,
            headers: &parts.headers,
            body: &body,
            caller: &caller,
        })
    })
    .await;
    match answered {
        Ok(outgoing) => {
            let is_known = outgoing.is_known;
            let mut response = response(outgoing);
            if is_known {
                busy.is_known.store(true, Ordering::Relaxed);
            } else {
                close(&mut response);
            }
            response
        }
        Err(error) => {
            tracing::error!("a call broke an invariant: {error}");
            refuse(
                Code::InternalServer,
                "the server could not answer this; its log tells why",
            )
        }
    }
}

/// The connection ends after this answer.
fn close(response: &mut Response<Full<Bytes>>) {
    let headers = response.headers_mut();
    headers.insert(http::header::CONNECTION, HeaderValue::from_static("close"));
}

fn header(headers: &HeaderMap, name: &HeaderName) -> String {
    let value = headers
        .get(name)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default();
    String::from_utf8_lossy(value).into_owned()
}

enum Collect {
    TooLong,
    Cut,
}

/// The whole body. What is too long is read to its end as far as that is bearable, so that the client gets to read the
/// answer.
async fn collect(body: Body, body_max: usize) -> Result<Bytes, Collect> {
    use hyper::body::Body as _;
    const DRAINED_MAX: usize = 64 << 20;
    let told = body.size_hint().lower();
    let mut body = Limited::new(
        body,
        if told > body_max as u64 {
            DRAINED_MAX
        } else {
            body_max
        },
    );
    if told <= body_max as u64 {
        return match BodyExt::collect(&mut body).await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Collect::TooLong),
            Err(_) => Err(Collect::Cut),
        };
    }
    while let Some(Ok(_)) = body.frame().await {}
    Err(Collect::TooLong)
}

fn response(outgoing: Outgoing) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(outgoing.body)));
    *response.status_mut() =
        StatusCode::from_u16(outgoing.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(outgoing.encoding.content_type());
    headers.insert(http::header::CONTENT_TYPE, content_type);
    if let Ok(id) = HeaderValue::from_str(&outgoing.request_id) {
        headers.insert("x-amzn-requestid", id);
    }
    if outgoing.encoding == wire::Encoding::Cbor {
        headers.insert("smithy-protocol", HeaderValue::from_static("rpc-v2-cbor"));
    }
    response
}
