//! A name that servers stand behind: connections go to one of them, and to another after a failover.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The open connections.
type Open = Arc<Mutex<Vec<TcpStream>>>;

/// See the module's page. It ends when it is dropped.
pub struct Switch {
    port: u16,
    target: Arc<AtomicU16>,
    open: Open,
    stop: Arc<AtomicBool>,
}

impl Switch {
    /// Before the server on `target`.
    pub fn before(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let target = Arc::new(AtomicU16::new(target));
        let (open, stop) = (Open::default(), Arc::new(AtomicBool::new(false)));
        let (to, list, ends) = (Arc::clone(&target), Arc::clone(&open), Arc::clone(&stop));
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if ends.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", to.load(Ordering::SeqCst)))
                else {
                    continue;
                };
                join(&client, &server, &list);
                join(&server, &client, &list);
            }
        });
        Self {
            port,
            target,
            open,
            stop,
        }
    }

    /// Where clients connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A failover: what is connected breaks off, what connects from now on goes to `target`.
    pub fn over_to(&self, target: u16) {
        self.target.store(target, Ordering::SeqCst);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Copies what one side says to the other, in a thread of its own.
fn join(from: &TcpStream, to: &TcpStream, open: &Open) {
    let (Ok(mut from), Ok(mut to), Ok(kept)) = (from.try_clone(), to.try_clone(), from.try_clone())
    else {
        return;
    };
    open.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(kept);
    std::thread::spawn(move || {
        let _ = to.set_nodelay(true);
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count) = from.read(&mut buffer) {
            if count == 0 || to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.over_to(self.port);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}
