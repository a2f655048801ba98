use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use futures_util::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connection that notes when an answer begins.
///
/// How long a server thinks is limited by the deadline of the call; only from the first byte on can a
/// slow head be told from slow work.
pub(super) struct Watched {
    stream: Stream,
    first_byte: FirstByte,
}

/// What the bytes go through.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Whether a byte has come since the last request.
#[derive(Clone, Default)]
pub(super) struct FirstByte(Arc<Arrival>);

#[derive(Default)]
struct Arrival {
    has_come: AtomicBool,
    waker: AtomicWaker,
}

impl Watched {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream, first_byte: FirstByte::default() }
    }

    pub(super) fn first_byte(&self) -> FirstByte {
        self.first_byte.clone()
    }
}

impl FirstByte {
    /// Waits for the next byte from now on.
    pub(super) fn expect(&self) {
        self.0.has_come.store(false, Ordering::Release);
    }

    pub(super) fn poll_come(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.0.has_come.load(Ordering::Acquire) {
            self.0.waker.register(cx.waker());
        }
        if self.0.has_come.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn come(&self) {
        if !self.0.has_come.load(Ordering::Relaxed) {
            self.0.has_come.store(true, Ordering::Release);
            self.0.waker.wake();
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buf),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buf),
        };
        ready!(read)?;
        if buf.filled().len() > before {
            self.first_byte.come();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

impl fmt::Debug for FirstByte {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FirstByte").field(&self.0.has_come).finish()
    }
}
