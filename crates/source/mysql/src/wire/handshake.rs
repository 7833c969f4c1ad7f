//! The first messages of a connection: greeting, TLS, login.

use super::auth;
use super::error::WireFailure;
use super::tls;
use super::transport::Transport;
use crate::binlog::bytes::{Bytes, DecodeError};
use crate::config::{Endpoint, TlsConfig, TlsMode};

mod capability {
    pub const LONG_PASSWORD: u32 = 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const SSL: u32 = 1 << 11;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
}

/// utf8mb4_general_ci, known to every server.
const COLLATION: u8 = 45;

/// What the server says of itself.
#[derive(Debug, Clone)]
pub struct Greeting {
    pub version: String,
    pub capabilities: u32,
    pub nonce: Vec<u8>,
    pub plugin: String,
}

impl From<DecodeError> for WireFailure {
    fn from(_: DecodeError) -> Self {
        WireFailure::Protocol("a message that cannot be read")
    }
}

/// Reads the server's greeting.
pub fn greeting(message: &[u8]) -> Result<Greeting, WireFailure> {
    if message.first() == Some(&0xff) {
        return Err(server_error(message));
    }
    let mut b = Bytes::new(message);
    if b.u8("version")? != 10 {
        return Err(WireFailure::Protocol("another protocol's greeting"));
    }
    let version = String::from_utf8_lossy(b.until_nul("version")?).into_owned();
    b.u32("connection")?;
    let mut nonce = b.take(8, "nonce")?.to_vec();
    b.u8("filler")?;
    let mut capabilities = u32::from(b.u16("capabilities")?);
    b.u8("charset")?;
    b.u16("status")?;
    capabilities |= u32::from(b.u16("capabilities")?) << 16;
    let nonce_bytes = usize::from(b.u8("nonce length")?);
    b.take(10, "filler")?;
    let rest = nonce_bytes.saturating_sub(8).max(13).min(b.rest().len());
    nonce.extend_from_slice(b.take(rest, "nonce")?);
    if nonce.last() == Some(&0) {
        nonce.pop();
    }
    let plugin = b
        .rest()
        .split(|byte| *byte == 0)
        .next()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .unwrap_or_default();
    Ok(Greeting {
        version,
        capabilities,
        nonce,
        plugin,
    })
}

/// An error message of the server.
pub fn server_error(message: &[u8]) -> WireFailure {
    let mut b = Bytes::new(message.get(1..).unwrap_or_default());
    let code = b.u16("code").unwrap_or(0);
    let mut text = b.rest();
    if text.first() == Some(&b'#') {
        text = text.get(6..).unwrap_or_default();
    }
    WireFailure::Server {
        code,
        message: String::from_utf8_lossy(text).into_owned(),
    }
}

/// Logs in; the server's greeting is returned, and whether it ends results without EOF.
pub fn login(
    transport: &mut Transport,
    endpoint: &Endpoint,
    tls_config: &TlsConfig,
) -> Result<(Greeting, bool), WireFailure> {
    let hello = greeting(transport.receive()?)?;
    let mut flags = capability::LONG_PASSWORD
        | capability::LONG_FLAG
        | capability::PROTOCOL_41
        | capability::TRANSACTIONS
        | capability::SECURE_CONNECTION
        | capability::PLUGIN_AUTH;
    flags |= hello.capabilities & (capability::PLUGIN_AUTH_LENENC | capability::DEPRECATE_EOF);
    start_tls(transport, endpoint, tls_config, (&hello, &mut flags))?;
    let mut plugin = hello.plugin.clone();
    if plugin.is_empty() || plugin == "mysql_old_password" {
        plugin = "mysql_native_password".into();
    }
    let password = &endpoint.password.0;
    let response = auth::respond(&plugin, password, &hello.nonce, transport.is_tls())
        // The server names the account's own plugin after this.
        .unwrap_or_default();
    let mut message = head(flags);
    message.extend_from_slice(endpoint.user.as_bytes());
    message.push(0);
    if flags & capability::PLUGIN_AUTH_LENENC != 0 {
        put_lenenc(&mut message, response.len());
    } else {
        message.push(response.len() as u8);
    }
    message.extend_from_slice(&response);
    message.extend_from_slice(plugin.as_bytes());
    message.push(0);
    transport.send(false, &message)?;
    authenticate(transport, plugin, hello.nonce.clone(), password)?;
    Ok((hello, flags & capability::DEPRECATE_EOF != 0))
}

fn put_lenenc(out: &mut Vec<u8>, count: usize) {
    if count < 251 {
        out.push(count as u8);
    } else {
        out.push(252);
        out.extend_from_slice(&(count as u16).to_le_bytes());
    }
}

fn head(flags: u32) -> Vec<u8> {
    let mut message = flags.to_le_bytes().to_vec();
    message.extend_from_slice(&(1u32 << 30).to_le_bytes());
    message.push(COLLATION);
    message.extend_from_slice(&[0; 23]);
    message
}

fn start_tls(
    transport: &mut Transport,
    endpoint: &Endpoint,
    config: &TlsConfig,
    (hello, flags): (&Greeting, &mut u32),
) -> Result<(), WireFailure> {
    let offered = hello.capabilities & capability::SSL != 0;
    match config.mode {
        TlsMode::Disabled => return Ok(()),
        TlsMode::Preferred if !offered => return Ok(()),
        _ if !offered => {
            return Err(WireFailure::Tls("the server offers no TLS".into()));
        }
        _ => {}
    }
    *flags |= capability::SSL;
    transport.send(false, &head(*flags))?;
    transport.upgrade(|socket| tls::wrap(socket, &endpoint.host, config))
}

fn authenticate(
    transport: &mut Transport,
    mut plugin: String,
    mut nonce: Vec<u8>,
    password: &str,
) -> Result<(), WireFailure> {
    // A server asks at most a few times.
    for _ in 0..8 {
        let message = transport.receive()?.to_vec();
        match message.split_first() {
            Some((0, _)) => return Ok(()),
            Some((0xff, _)) => return Err(server_error(&message)),
            Some((0xfe, [])) => {
                return Err(WireFailure::Auth(
                    "the account uses mysql_old_password, which is broken; change its plugin"
                        .into(),
                ));
            }
            Some((0xfe, data)) => {
                let mut b = Bytes::new(data);
                plugin = String::from_utf8_lossy(b.until_nul("plugin")?).into_owned();
                nonce = b.rest().to_vec();
                if nonce.last() == Some(&0) && nonce.len() % 2 == 1 {
                    nonce.pop();
                }
                let answer = auth::respond(&plugin, password, &nonce, transport.is_tls())?;
                transport.send(false, &answer)?;
            }
            Some((1, data)) => auth::go_on(transport, &plugin, password, &nonce, data)?,
            // MariaDB's parsec sends its salt without a mark.
            Some((b'P', _)) if plugin == "parsec" => {
                auth::go_on(transport, &plugin, password, &nonce, &message)?;
            }
            _ => return Err(WireFailure::Protocol("an unknown login message")),
        }
    }
    Err(WireFailure::Protocol("login messages without end"))
}
