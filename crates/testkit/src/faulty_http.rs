//! An HTTP server that stands before a real one and gives the answers that the real one cannot be made
//! to give: of another version, of an engine that is not to be had, or none at all.
//!
//! It is for faults alone; what it has no rule for is the real server's answer.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// This is the answer: rows in TabSeparated.
    Rows(String),
    /// The server refuses: HTTP status, its error number, its text.
    Refusal(u16, u32, String),
    /// The real server does it, and its answer is lost.
    LostAnswer,
}

/// What to do with a statement; none for the real server's answer.
type Rule = Box<dyn FnMut(&str) -> Option<Fault> + Send>;

/// The server; its thread ends with it.
pub struct FaultyHttp {
    port: u16,
    rule: Arc<Mutex<Rule>>,
    stop: Arc<AtomicBool>,
}

impl FaultyHttp {
    /// Before the server on `real`.
    pub fn start(real: u16, rule: impl FnMut(&str) -> Option<Fault> + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let rule: Arc<Mutex<Rule>> = Arc::new(Mutex::new(Box::new(rule)));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, ends) = (Arc::clone(&rule), Arc::clone(&stop));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), rule) = (stream, Arc::clone(&shared)) else {
                    continue;
                };
                std::thread::spawn(move || serve(stream, real, &rule));
            }
        });
        Self { port, rule, stop }
    }

    /// From now on by another rule.
    pub fn set(&self, rule: impl FnMut(&str) -> Option<Fault> + Send + 'static) {
        *self.rule.lock().unwrap_or_else(PoisonError::into_inner) = Box::new(rule);
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for FaultyHttp {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// The requests of one connection, until one breaks off.
fn serve(stream: TcpStream, real: u16, rule: &Mutex<Rule>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut client = BufReader::new(stream);
    loop {
        let request = Message::read(&mut client)?;
        let statement = request.statement();
        let fault = (rule.lock().unwrap_or_else(PoisonError::into_inner))(&statement);
        let answer = match fault {
            Some(Fault::Rows(rows)) => answer(200, "", &rows),
            Some(Fault::Refusal(status, code, text)) => {
                let header = format!("X-ClickHouse-Exception-Code: {code}\r\n");
                answer(
                    status,
                    &header,
                    &format!("Code: {code}. DB::Exception: {text}"),
                )
            }
            Some(Fault::LostAnswer) => {
                pass(real, &request)?;
                return None;
            }
            None => pass(real, &request)?,
        };
        client.get_mut().write_all(&answer).ok()?;
    }
}

fn answer(status: u16, header: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} x\r\n{header}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

fn pass(real: u16, request: &Message) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", real)).ok()?;
    stream.set_nodelay(true).ok()?;
    stream.write_all(&request.raw).ok()?;
    Some(Message::read(&mut BufReader::new(stream))?.raw)
}

/// A request or an answer.
struct Message {
    /// All of it, as it came.
    raw: Vec<u8>,
    /// Its first line.
    first: String,
    body: Vec<u8>,
}

impl Message {
    fn read(from: &mut impl BufRead) -> Option<Self> {
        let (mut raw, mut first) = (Vec::new(), String::new());
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let mut line = String::new();
            if from.read_line(&mut line).ok()? == 0 {
                return None;
            }
            raw.extend_from_slice(line.as_bytes());
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            is_chunked |= lower.starts_with("transfer-encoding:") && lower.contains("chunked");
            if first.is_empty() {
                first = line;
            } else if line.trim().is_empty() {
                break;
            }
        }
        let mut body = Vec::new();
        if !is_chunked {
            body.resize(length, 0);
            from.read_exact(&mut body).ok()?;
            raw.extend_from_slice(&body);
            return Some(Self { raw, first, body });
        }
        loop {
            let mut line = String::new();
            from.read_line(&mut line).ok()?;
            raw.extend_from_slice(line.as_bytes());
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut piece = vec![0; size + 2];
            from.read_exact(&mut piece).ok()?;
            raw.extend_from_slice(&piece);
            if size == 0 {
                return Some(Self { raw, first, body });
            }
            body.extend_from_slice(&piece[..size]);
        }
    }

    /// The statement: in the address of an insert, else the body.
    fn statement(&self) -> String {
        let address = self.first.split(' ').nth(1).unwrap_or_default();
        let query = address
            .split(['?', '&'])
            .find_map(|pair| pair.strip_prefix("query="));
        match query {
            Some(query) => from_percent(query),
            None => String::from_utf8_lossy(&self.body).into_owned(),
        }
    }
}

fn from_percent(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let pair: Vec<u8> = bytes.by_ref().take(2).collect();
                let pair = String::from_utf8_lossy(&pair).into_owned();
                out.push(u8::from_str_radix(&pair, 16).unwrap_or(b'?'));
            }
            byte => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
