use std::io::{self, IoSlice};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, ready};

use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::StdioLimits;
use super::outgoing::{Outgoing, Refused, Ticket};
use super::queue::{Batch, MAX_SLICES, Queued, Room};
use crate::error::Closed;
use crate::transport::Outbound;

/// Batches that are written in one turn, as others may go on sending meanwhile: then reading has its turn.
const MAX_BATCHES: usize = 8;

/// Writes what many callers send.
///
/// Two locks, so that nobody who sends waits for the system: one for what waits, held for moments, and one for
/// the pipe, held by whoever writes. Whoever has the pipe may lock the other one; whoever has that one only
/// tries the pipe, and gives it back before the other. So a frame that comes while somebody writes is either
/// seen by that one, who wakes the driver for it, or finds the pipe free.
#[derive(Debug)]
pub(super) struct Writer {
    outgoing: Mutex<Outgoing>,
    /// `None` once it is closed.
    pipe: Mutex<Option<pipe::Sender>>,
    /// Tells the sender that is first in line that there may be room, or that the connection has closed.
    pub(super) room: Notify,
}

/// What became of a frame that was offered.
#[derive(Debug)]
pub(super) enum Offer {
    Closed(Closed),
    /// Come back when there is room.
    Full(Outbound),
    Taken,
    /// Writing failed; what was offered may be gone with it.
    Failed(io::Error, FailedWith),
}

/// What the driver has to know of the sending side.
#[derive(Debug)]
pub(super) enum Looked {
    Closed(Closed),
    /// `notice_by`: when a queued notice must have been written.
    Open {
        notice_by: Option<Instant>,
    },
}

/// How far what waits was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flushed {
    All,
    /// Others should get a turn first.
    Some,
    /// The pipe is full.
    Full,
}

/// What a failed write means for the frame that was offered with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailedWith {
    NothingLeft,
    SomeLeft,
}

type Pipe<'a> = MutexGuard<'a, Option<pipe::Sender>>;

impl Writer {
    pub(super) fn new(pipe: pipe::Sender, limits: &StdioLimits) -> Self {
        Self {
            outgoing: Mutex::new(Outgoing::new(limits)),
            pipe: Mutex::new(Some(pipe)),
            room: Notify::new(),
        }
    }

    pub(super) fn outgoing(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a frame if there is room, and writes it at once on a quiet connection.
    pub(super) fn offer(
        &self,
        message: Outbound,
        room: Room,
        turn: Option<Ticket>,
        by: Option<Instant>,
    ) -> Offer {
        let mut outgoing = self.outgoing();
        let mut entry = outgoing.let_in(&message, room, turn);
        if room == Room::Reserved && matches!(entry, Err(Refused::Full)) {
            // Who cannot wait does not wait for the driver either: frames may lie here only because it
            // has not had its turn.
            drop(outgoing);
            if let Err(error) = self.write_now() {
                return Offer::Failed(error, FailedWith::NothingLeft);
            }
            outgoing = self.outgoing();
            entry = outgoing.let_in(&message, room, turn);
        }
        match entry {
            Ok(()) => {}
            Err(Refused::Closed(closed)) => return Offer::Closed(closed),
            Err(Refused::Full) => return Offer::Full(message),
            // It counts as taken, and taken back.
            Err(Refused::Abandoned) => return Offer::Taken,
        }
        let id = message.request_id().cloned();
        let queued = Queued { frame: message.frame, id, by };
        if outgoing.is_quiet()
            && let Some(pipe) = self.try_pipe()
        {
            outgoing.begin_writing();
            drop(outgoing);
            return self.write_alone(pipe, queued);
        }
        outgoing.push(queued);
        self.leave(outgoing);
        Offer::Taken
    }

    /// The driver's look: writes what is queued, unless somebody else does, who will wake it for what is left.
    ///
    /// Frames that it sees for the first time it leaves for its next turn, which it asks for: a driver that is
    /// woken by the first of many callers would run before the others, and write for each of them. A notice
    /// whose time is up waits for nobody: only of a pipe that is full, the driver is told until when it may be.
    pub(super) fn look(&self, is_busy: bool, cx: &mut Context<'_>) -> io::Result<Looked> {
        let mut outgoing = self.outgoing();
        outgoing.on_driver(is_busy, cx);
        if let Some(closed) = outgoing.closed() {
            return Ok(Looked::Closed(closed.clone()));
        }
        if outgoing.is_empty() {
            return Ok(Looked::Open { notice_by: None });
        }
        let is_late = outgoing.next_deadline().is_some_and(|by| by <= Instant::now());
        if outgoing.should_gather() && !is_late {
            drop(outgoing);
            cx.waker().wake_by_ref();
            return Ok(Looked::Open { notice_by: None });
        }
        let Some(pipe) = self.try_pipe() else { return Ok(Looked::Open { notice_by: None }) };
        // The poller may know of less room than there is.
        let poller = if is_late { None } else { Some(&mut *cx) };
        let (mut outgoing, flushed) = self.flush(pipe, outgoing, poller);
        let notice_by = match flushed? {
            Flushed::All => None,
            Flushed::Some => {
                outgoing.go_on();
                cx.waker().wake_by_ref();
                None
            }
            Flushed::Full => outgoing.next_deadline(),
        };
        let has_line = outgoing.has_line();
        drop(outgoing);
        if has_line {
            self.room.notify_one();
        }
        Ok(Looked::Open { notice_by })
    }

    /// Writes what is queued while the connection closes; `Ready` when nothing is left.
    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pipe = self.pipe();
        let (outgoing, flushed) = self.flush(pipe, self.outgoing(), Some(cx));
        drop(outgoing);
        match flushed? {
            Flushed::All => return Poll::Ready(Ok(())),
            Flushed::Some => cx.waker().wake_by_ref(),
            Flushed::Full => {}
        }
        Poll::Pending
    }

    /// Ends everything, and throws away what has not left. Answers how it has ended, which may have been
    /// something else before.
    pub(super) fn close(&self, closed: Closed) -> Closed {
        // Whoever writes now is done in a moment: so it is known of each frame whether it has left.
        let mut pipe = self.pipe();
        let (closed, driver) = self.outgoing().close(closed);
        let taken = pipe.take();
        drop(pipe);
        drop(taken);
        self.room.notify_one();
        if let Some(driver) = driver {
            driver.wake();
        }
        closed
    }

    /// Ends a change of what waits, and wakes whom it concerns.
    fn leave(&self, mut outgoing: MutexGuard<'_, Outgoing>) {
        let (driver, has_line) = (outgoing.wake_for_queue(), outgoing.has_line());
        drop(outgoing);
        if let Some(driver) = driver {
            driver.wake();
        }
        if has_line {
            self.room.notify_one();
        }
    }

    /// Writes as much as the pipe takes; waits for whoever writes now.
    fn write_now(&self) -> io::Result<()> {
        let pipe = self.pipe();
        let (outgoing, flushed) = self.flush(pipe, self.outgoing(), None);
        self.leave(outgoing);
        flushed.map(drop)
    }

    /// Writes a frame that came when nothing else was there.
    fn write_alone(&self, pipe: Pipe<'_>, queued: Queued) -> Offer {
        let mut begun = 0;
        let result = loop {
            let slices = [IoSlice::new(queued.frame.get(begun..).unwrap_or_default()), IoSlice::new(b"\n")];
            match write(&pipe, &slices) {
                Ok(written) => begun += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            if begun > queued.frame.len() {
                break Ok(());
            }
        };
        let mut outgoing = self.outgoing();
        let offer = match result {
            Ok(()) => Offer::Taken,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                outgoing.put_first(queued, begun);
                Offer::Taken
            }
            Err(error) if begun > 0 => Offer::Failed(error, FailedWith::SomeLeft),
            Err(error) => Offer::Failed(error, FailedWith::NothingLeft),
        };
        outgoing.end_writing();
        drop(pipe);
        self.leave(outgoing);
        offer
    }

    /// Writes until nothing is left, the pipe is full, or others should get a turn.
    ///
    /// With `cx`, whoever that is will be woken when a full pipe has room again.
    fn flush<'a>(
        &'a self,
        pipe: Pipe<'a>,
        mut outgoing: MutexGuard<'a, Outgoing>,
        mut cx: Option<&mut Context<'_>>,
    ) -> (MutexGuard<'a, Outgoing>, io::Result<Flushed>) {
        outgoing.begin_writing();
        let mut batches = 0;
        let result = loop {
            if batches == MAX_BATCHES && !outgoing.is_empty() {
                break Ok(Flushed::Some);
            }
            let Some(batch) = outgoing.take_batch() else { break Ok(Flushed::All) };
            batches += 1;
            drop(outgoing);
            let result = poll_batch(&pipe, &batch, cx.as_deref_mut());
            outgoing = self.outgoing();
            let written = if let Poll::Ready(Ok(written)) = &result { *written } else { 0 };
            outgoing.put_back(batch, written);
            match result {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => break Err(error),
                Poll::Pending => break Ok(Flushed::Full),
            }
        };
        outgoing.end_writing();
        drop(pipe);
        (outgoing, result)
    }

    fn pipe(&self) -> Pipe<'_> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pipe, if nobody writes.
    fn try_pipe(&self) -> Option<Pipe<'_>> {
        match self.pipe.try_lock() {
            Ok(pipe) => Some(pipe),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Writes once; `Pending` if the pipe is full.
fn poll_batch(
    pipe: &Option<pipe::Sender>,
    batch: &Batch,
    mut cx: Option<&mut Context<'_>>,
) -> Poll<io::Result<usize>> {
    let mut slices = [IoSlice::new(&[]); MAX_SLICES];
    let used = batch.slices(&mut slices);
    let slices = slices.get(..used).unwrap_or_default();
    loop {
        if let (Some(pipe), Some(cx)) = (pipe, &mut cx) {
            ready!(pipe.poll_write_ready(cx))?;
        }
        match write(pipe, slices) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // With somebody to be woken, the pipe is asked once more, and knows of them then.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && cx.is_some() => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            done => return Poll::Ready(done),
        }
    }
}

fn write(pipe: &Option<pipe::Sender>, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    match pipe {
        Some(pipe) => pipe.try_write_vectored(slices),
        None => Err(io::ErrorKind::BrokenPipe.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Wake, Waker};
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::io::AsyncReadExt as _;
    use tokio::task::JoinSet;
    use tokio::time::sleep;

    use super::*;
    use crate::stdio::queue::MAX_BATCH;

    fn offer(writer: &Writer, frame: &'static str) {
        let message = Outbound::notification(Bytes::from_static(frame.as_bytes()));
        assert!(matches!(writer.offer(message, Room::Common, None, None), Offer::Taken));
    }

    /// The driver's look.
    fn look(writer: &Writer, is_busy: bool) {
        let looked = writer.look(is_busy, &mut Context::from_waker(Waker::noop()));
        assert!(matches!(looked, Ok(Looked::Open { notice_by: None })));
    }

    /// What has been written so far.
    fn written(pipe: &pipe::Receiver) -> String {
        let mut bytes = [0; 64];
        let length = rustix::io::read(pipe, &mut bytes).unwrap_or(0);
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_lone_frame_is_written_at_once_and_more_of_them_together() {
        let (pipe, far) = pipe::pipe().unwrap();
        pipe.writable().await.unwrap();
        let writer = Writer::new(pipe, &StdioLimits::default());
        look(&writer, false);
        offer(&writer, "{}");
        assert_eq!(written(&far), "{}\n");
        offer(&writer, "{1}");
        assert_eq!(written(&far), "", "under load frames gather");
        look(&writer, false);
        assert_eq!(written(&far), "", "others get their turn before they are written");
        offer(&writer, "{2}");
        look(&writer, false);
        assert_eq!(written(&far), "{1}\n{2}\n");
        // Several callers have just been answered.
        look(&writer, true);
        offer(&writer, "{3}");
        assert_eq!(written(&far), "");
        look(&writer, false);
        look(&writer, false);
        assert_eq!(written(&far), "{3}\n");
        offer(&writer, "{4}");
        assert_eq!(written(&far), "{4}\n");
    }

    /// Counts how often the driver is woken.
    #[derive(Default)]
    struct Wakes {
        count: AtomicUsize,
        woken: Notify,
    }

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.count.fetch_add(1, Ordering::Relaxed);
            self.woken.notify_one();
        }
    }

    #[tokio::test]
    async fn nobody_who_sends_waits_for_who_writes_and_nothing_is_forgotten() {
        let (pipe, far) = pipe::pipe().unwrap();
        pipe.writable().await.unwrap();
        let writer = Writer::new(pipe, &StdioLimits::default());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut driver = Context::from_waker(&waker);
        writer.look(false, &mut driver).unwrap();

        // As if the system took its time over the frame of another caller.
        let pipe = writer.try_pipe().unwrap();
        writer.outgoing().begin_writing();
        std::thread::scope(|scope| {
            let (done, is_done) = std::sync::mpsc::sync_channel(1);
            let writer = &writer;
            scope.spawn(move || {
                offer(writer, "{1}");
                done.send(()).unwrap();
            });
            is_done.recv_timeout(Duration::from_secs(10)).expect("who sends does not wait");
        });
        assert_eq!(wakes.count.load(Ordering::Relaxed), 0, "who writes will do that");
        let looked = writer.look(false, &mut driver);
        assert!(matches!(looked, Ok(Looked::Open { .. })), "neither does the driver wait");

        let mut outgoing = writer.outgoing();
        outgoing.end_writing();
        drop(pipe);
        let before = wakes.count.load(Ordering::Relaxed);
        writer.leave(outgoing);
        assert_eq!(wakes.count.load(Ordering::Relaxed), before + 1);
        for _ in 0..2 {
            writer.look(false, &mut driver).unwrap();
        }
        assert_eq!(written(&far), "{1}\n");
    }

    #[tokio::test]
    async fn reading_has_its_turn_however_much_there_is_to_write() {
        let (pipe, far) = pipe::pipe().unwrap();
        pipe.writable().await.unwrap();
        let writer = Writer::new(pipe, &StdioLimits::default());
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut driver = Context::from_waker(&waker);
        for _ in 0..=MAX_BATCHES * MAX_BATCH {
            let frame = Bytes::from_static(b"{}");
            writer.outgoing().push(Queued { frame, id: None, by: None });
        }
        writer.look(false, &mut driver).unwrap();
        let before = wakes.count.load(Ordering::Relaxed);
        writer.look(false, &mut driver).unwrap();
        assert!(!writer.outgoing().is_empty());
        assert_eq!(wakes.count.load(Ordering::Relaxed), before + 1, "it goes on later");
        writer.look(false, &mut driver).unwrap();
        assert!(writer.outgoing().is_empty(), "without gathering once more");
        drop(far);
    }

    #[tokio::test]
    async fn a_notice_is_late_only_where_the_pipe_is_full() {
        let (pipe, far) = pipe::pipe().unwrap();
        pipe.writable().await.unwrap();
        let writer = Writer::new(pipe, &StdioLimits::default());
        let mut driver = Context::from_waker(Waker::noop());
        let notice = || Queued { frame: Bytes::from_static(b"{}"), id: None, by: Some(Instant::now()) };
        // As after a while in which the driver had no turn.
        writer.outgoing().push(notice());
        let looked = writer.look(false, &mut driver);
        assert!(matches!(looked, Ok(Looked::Open { notice_by: None })), "{looked:?}");
        assert_eq!(written(&far), "{}\n");

        let frame = Bytes::from(vec![b'x'; 1024 * 1024]);
        writer.outgoing().push(Queued { frame, id: None, by: None });
        writer.outgoing().push(notice());
        let looked = writer.look(false, &mut driver);
        assert!(matches!(looked, Ok(Looked::Open { notice_by: Some(_) })), "{looked:?}");
        drop(far);
    }

    /// The driver looks only when it is woken: what nobody wakes it for lies there, and the round never ends.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_frame_of_many_threads_leaves() {
        const SENDERS: usize = 2;
        let (pipe, mut far) = pipe::pipe().unwrap();
        pipe.writable().await.unwrap();
        let writer = Arc::new(Writer::new(pipe, &StdioLimits::default()));
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(Arc::clone(&wakes));
        let mut driver = Context::from_waker(&waker);
        for round in 0..3000 {
            // The first of them finds a quiet connection, and the other one perhaps a writer.
            writer.look(false, &mut driver).unwrap();
            let mut senders = JoinSet::new();
            let start = Arc::new(AtomicBool::new(false));
            for _ in 0..SENDERS {
                let (writer, start) = (Arc::clone(&writer), Arc::clone(&start));
                senders.spawn(async move {
                    while !start.load(Ordering::Acquire) {
                        std::hint::spin_loop();
                    }
                    offer(&writer, "{}");
                });
            }
            start.store(true, Ordering::Release);
            let mut bytes = Vec::new();
            while bytes.len() < SENDERS * "{}\n".len() {
                tokio::select! {
                    read = far.read_buf(&mut bytes) => assert!(read.unwrap() > 0),
                    () = wakes.woken.notified() => drop(writer.look(false, &mut driver).unwrap()),
                    () = sleep(Duration::from_secs(30)) => panic!("forgotten in round {round}"),
                }
            }
            senders.join_all().await;
        }
    }
}
