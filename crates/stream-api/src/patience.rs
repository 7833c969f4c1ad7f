//! How long a connection may take: for a request's head, between requests, and to take an answer.
//!
//! A client that sends its head a byte at a time, or never reads, loses its connection; one that is idle between
//! requests keeps it for longer.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Shared by a connection and the service that answers on it.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// A request is being answered: its body and its answer have times of their own.
    pub is_answering: AtomicBool,
    /// Requests that were answered: from each on the connection is between requests again.
    pub answered: AtomicU64,
    /// One of them told who makes it: only then it may be idle for longer.
    pub is_known: AtomicBool,
}

/// A connection with its times.
pub(crate) struct Patient<T> {
    inner: T,
    busy: Arc<Busy>,
    head: Duration,
    idle: Duration,
    /// Bytes of a head have come.
    has_begun: bool,
    /// As [`Busy::answered`] was when the connection last looked.
    answered: u64,
    read_by: Pin<Box<Sleep>>,
    write_by: Pin<Box<Sleep>>,
    is_writing: bool,
}

impl<T> Patient<T> {
    pub fn new(inner: T, busy: Arc<Busy>, head: Duration, idle: Duration) -> Self {
        // The first head has the time of a head: who connects has something to ask.
        let by = || Box::pin(sleep_until(Instant::now() + head));
        Self {
            inner,
            busy,
            head,
            idle,
            has_begun: true,
            answered: 0,
            read_by: by(),
            write_by: by(),
            is_writing: false,
        }
    }

    /// Whether the time for reading is over.
    fn poll_read_time(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.busy.is_answering.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.read_by.as_mut().poll(cx)
    }

    fn give(&mut self, time: Duration) {
        self.read_by.as_mut().reset(Instant::now() + time);
    }

    fn poll_written<R>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if result.is_ready() {
            self.is_writing = false;
            return result;
        }
        if !self.is_writing {
            self.is_writing = true;
            self.write_by.as_mut().reset(Instant::now() + self.head);
        }
        match self.write_by.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(too_slow("the client does not take the answer"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn too_slow(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, text.to_owned())
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let answered = self.busy.answered.load(Ordering::Relaxed);
        if answered != self.answered {
            (self.answered, self.has_begun) = (answered, false);
            let time = match self.busy.is_known.load(Ordering::Relaxed) {
                true => self.idle,
                false => self.head,
            };
            self.give(time);
        }
        let result = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let is_answering = self.busy.is_answering.load(Ordering::Relaxed);
        if buffer.filled().len() > before && !self.has_begun && !is_answering {
            self.has_begun = true;
            let head = self.head;
            self.give(head);
        }
        if result.is_ready() {
            return result;
        }
        match self.poll_read_time(cx) {
            Poll::Ready(()) => Poll::Ready(Err(too_slow("the client did not finish its request"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.poll_written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.poll_written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.poll_written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.poll_written(cx, result)
    }
}
