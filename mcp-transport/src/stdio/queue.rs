use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;
use mcp_proto::RequestId;
use tokio::time::Instant;

use super::limits::StdioLimits;

/// Frames handed to the system in one call.
pub(super) const MAX_BATCH: usize = 32;

/// Slices for one call: each frame and its line end.
pub(super) const MAX_SLICES: usize = 2 * MAX_BATCH;

/// What notices and answers may use beyond the limits for requests: as many frames as a session has
/// calls by default, since all of them may be given up at once while the pipe is full.
const RESERVED_FRAMES: usize = 1024;
const RESERVED_BYTES: usize = 256 * 1024;

/// Requests that are remembered as never sent; more than can be queued or wait in line at once in
/// sane use. An older one is then taken for sent, which errs on the safe side.
const MAX_WITHDRAWN: usize = 1024;

/// Frames on their way out, in order, and how far the first of them has come.
///
/// Decides and counts; writes nothing. [`take_batch`](Self::take_batch) is where a frame that waits turns
/// from *not sent* into *may have left*; what a full pipe leaves of a batch is *not sent* again. A frame that
/// its sender writes at once never waits here: it may have left from the beginning.
#[derive(Debug)]
pub(super) struct Queue {
    frames: VecDeque<Queued>,
    /// Room for frames, while it is not lent to a batch.
    spare: VecDeque<Queued>,
    /// Bytes that wait, line ends included.
    bytes: usize,
    /// How many frames are being written, and how many bytes they have: they still take room.
    out: (usize, usize),
    /// Bytes of the first frame that have left.
    begun: usize,
    /// Requests that were taken back and are known never to have left.
    withdrawn: VecDeque<RequestId>,
    max_frames: usize,
    max_bytes: usize,
}

/// One frame to write.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) frame: Bytes,
    /// Set if it is a request.
    pub(super) id: Option<RequestId>,
    /// When it must have been written, if that matters.
    pub(super) by: Option<Instant>,
}

/// Frames that are being written.
#[derive(Debug)]
pub(super) struct Batch {
    frames: VecDeque<Queued>,
    /// Bytes of the first frame that had left before.
    begun: usize,
}

/// Who asks for room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// Somebody who can wait.
    Common,
    /// Somebody who cannot.
    Reserved,
}

/// What became of a frame that is not wanted any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TakenBack {
    /// It has left, at least in part, or was never here.
    MayHaveLeft,
    /// No byte of it has left and none will.
    Unsent,
}

impl Queue {
    pub(super) fn new(limits: &StdioLimits) -> Self {
        Self {
            frames: VecDeque::new(),
            spare: VecDeque::new(),
            bytes: 0,
            out: (0, 0),
            begun: 0,
            withdrawn: VecDeque::new(),
            max_frames: limits.queued_frames,
            max_bytes: limits.queued_bytes,
        }
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += queued.bytes();
        self.frames.push_back(queued);
    }

    /// Takes out what is to be written next; `None` if nothing waits.
    pub(super) fn take_batch(&mut self) -> Option<Batch> {
        if self.frames.is_empty() {
            return None;
        }
        let mut frames = std::mem::take(&mut self.spare);
        if self.frames.len() > MAX_BATCH {
            frames.extend(self.frames.drain(..MAX_BATCH));
        } else {
            std::mem::swap(&mut frames, &mut self.frames);
        }
        let begun = std::mem::take(&mut self.begun);
        let bytes = frames.iter().map(Queued::bytes).sum::<usize>() - begun;
        self.bytes -= bytes;
        self.out = (frames.len(), bytes);
        Some(Batch { frames, begun })
    }

    /// `written` bytes of the batch have left; the rest is first in the queue again.
    pub(super) fn put_back(&mut self, batch: Batch, written: usize) {
        let Batch { mut frames, mut begun } = batch;
        begun += written;
        while let Some(first) = frames.front()
            && begun >= first.bytes()
        {
            begun -= first.bytes();
            frames.pop_front();
        }
        while let Some(last) = frames.pop_back() {
            self.bytes += last.bytes();
            self.frames.push_front(last);
        }
        self.begun_with(begun);
        self.spare = frames;
        self.out = (0, 0);
    }

    /// Puts a frame first that was written without waiting here; `begun` bytes of it have left.
    pub(super) fn put_first(&mut self, queued: Queued, begun: usize) {
        self.bytes += queued.bytes();
        self.frames.push_front(queued);
        self.begun_with(begun);
    }

    fn begun_with(&mut self, begun: usize) {
        self.begun = begun;
        self.bytes -= begun;
    }

    /// Removes the request `id` if no byte of it has left.
    pub(super) fn take_back(&mut self, id: &RequestId) -> TakenBack {
        if let Some(index) = self.withdrawn.iter().position(|known| known == id) {
            self.withdrawn.remove(index);
            return TakenBack::Unsent;
        }
        let Some(index) = self.frames.iter().position(|queued| queued.id.as_ref() == Some(id)) else {
            return TakenBack::MayHaveLeft;
        };
        if index == 0 && self.begun > 0 {
            return TakenBack::MayHaveLeft;
        }
        if let Some(queued) = self.frames.remove(index) {
            self.bytes = self.bytes.saturating_sub(queued.bytes());
        }
        TakenBack::Unsent
    }

    /// Remembers a request that was never put in.
    pub(super) fn withdraw(&mut self, id: RequestId) {
        if self.withdrawn.len() >= MAX_WITHDRAWN {
            self.withdrawn.pop_front();
        }
        self.withdrawn.push_back(id);
    }

    /// Throws away what has not left, remembering the requests among it.
    pub(super) fn clear(&mut self) {
        let unsent = self.frames.drain(..).skip(usize::from(self.begun > 0));
        let ids: Vec<_> = unsent.filter_map(|queued| queued.id).collect();
        ids.into_iter().for_each(|id| self.withdraw(id));
        (self.bytes, self.begun) = (0, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether a frame of `length` bytes may be put in. An empty queue takes any.
    pub(super) fn has_room(&self, length: usize, room: Room) -> bool {
        let (frames, bytes) = match room {
            Room::Common => (0, 0),
            Room::Reserved => (RESERVED_FRAMES, RESERVED_BYTES),
        };
        let taken = (self.frames.len() + self.out.0, self.bytes + self.out.1);
        taken.0 == 0
            || (taken.0 < self.max_frames.saturating_add(frames)
                && taken.1 + length < self.max_bytes.saturating_add(bytes))
    }

    /// When the next frame with a time limit must have been written.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.frames.iter().find_map(|queued| queued.by)
    }
}

impl Queued {
    /// How many there are to write, the line end included.
    fn bytes(&self) -> usize {
        self.frame.len() + 1
    }
}

impl Batch {
    /// What is to be written, as slices; answers how many of them are used.
    pub(super) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let mut begun = self.begun;
        let pairs = slices.as_chunks_mut::<2>().0;
        let mut used = 0;
        for (queued, [content, end]) in self.frames.iter().zip(pairs) {
            // Past its last byte, only the line end is left.
            *content = IoSlice::new(queued.frame.get(begun..).unwrap_or_default());
            *end = IoSlice::new(b"\n");
            begun = 0;
            used += 2;
        }
        used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue::new(&StdioLimits::default().with_queue(3, 100))
    }

    fn request(id: i64, frame: &'static str) -> Queued {
        Queued { frame: Bytes::from_static(frame.as_bytes()), id: Some(id.into()), by: None }
    }

    /// Writes as many bytes as `piece`, and answers what was to be written.
    fn write(queue: &mut Queue, piece: usize) -> String {
        let Some(batch) = queue.take_batch() else { return String::new() };
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let used = batch.slices(&mut slices);
        let text: String = slices[..used].iter().map(|slice| std::str::from_utf8(slice).unwrap()).collect();
        assert_eq!(queue.out.1, text.len());
        queue.put_back(batch, piece.min(text.len()));
        text
    }

    fn pending(queue: &mut Queue) -> String {
        write(queue, 0)
    }

    #[test]
    fn frames_leave_in_order_and_in_any_pieces() {
        let text = "{\"a\":1}\n{\"b\":22}\n{}\n";
        for piece in 1..=text.len() {
            let mut queue = queue();
            queue.push(request(1, "{\"a\":1}"));
            queue.push(request(2, "{\"b\":22}"));
            queue.push(request(3, "{}"));
            let mut written = String::new();
            while !queue.is_empty() {
                let bytes = queue.bytes;
                let rest = write(&mut queue, piece);
                assert_eq!(bytes, rest.len());
                written.push_str(&rest[..piece.min(rest.len())]);
            }
            assert_eq!(written, text);
            assert_eq!((queue.bytes, queue.begun), (0, 0));
        }
    }

    #[test]
    fn only_what_has_not_begun_can_be_taken_back() {
        let mut queue = queue();
        for id in 1..=3 {
            queue.push(request(id, "{\"x\":0}"));
        }
        write(&mut queue, 1);
        assert_eq!(queue.take_back(&1.into()), TakenBack::MayHaveLeft);
        assert_eq!(queue.take_back(&2.into()), TakenBack::Unsent);
        assert_eq!(queue.take_back(&2.into()), TakenBack::MayHaveLeft, "an answer is given once");
        assert_eq!(pending(&mut queue), "\"x\":0}\n{\"x\":0}\n");
        write(&mut queue, 7);
        // All of the first frame has left, line end included; nothing of the next one.
        assert_eq!(queue.take_back(&3.into()), TakenBack::Unsent);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_is_being_written_may_leave_and_what_a_full_pipe_leaves_has_not() {
        let mut queue = queue();
        queue.push(request(1, "{}"));
        queue.push(request(2, "{}"));
        let batch = queue.take_batch().unwrap();
        assert!(queue.is_empty() && queue.take_batch().is_none());
        assert!(!queue.has_room(100, Room::Common), "it still takes room");
        queue.push(request(3, "{}"));
        assert_eq!(queue.take_back(&2.into()), TakenBack::MayHaveLeft);
        queue.put_back(batch, 1);
        assert_eq!(pending(&mut queue), "}\n{}\n{}\n", "in their order");
        assert_eq!(queue.take_back(&1.into()), TakenBack::MayHaveLeft);
        assert_eq!(queue.take_back(&2.into()), TakenBack::Unsent);
        assert_eq!(queue.take_back(&3.into()), TakenBack::Unsent);
        assert_eq!((pending(&mut queue).as_str(), queue.bytes), ("}\n", 2));
    }

    #[test]
    fn more_than_a_batch_leaves_in_order_too() {
        let mut queue = queue();
        let count = MAX_BATCH + 3;
        for id in 0..count {
            queue.push(request(i64::try_from(id).unwrap(), if id % 2 == 0 { "{}" } else { "{1}" }));
        }
        let text = pending(&mut queue);
        assert_eq!(text, "{}\n{1}\n".repeat(MAX_BATCH / 2));
        write(&mut queue, text.len());
        assert_eq!(pending(&mut queue), "{}\n{1}\n{}\n");
    }

    #[test]
    fn a_frame_whose_line_end_is_missing_has_begun() {
        let mut queue = queue();
        queue.push(request(1, "{}"));
        write(&mut queue, 2);
        assert_eq!(pending(&mut queue), "\n");
        assert_eq!(queue.take_back(&1.into()), TakenBack::MayHaveLeft);
    }

    #[test]
    fn requests_that_were_never_sent_are_known_after_the_end() {
        let mut queue = queue();
        for id in 1..=3 {
            queue.push(request(id, "{}"));
        }
        write(&mut queue, 1);
        queue.clear();
        let kept: Vec<_> = (1..=3).map(|id| queue.take_back(&id.into())).collect();
        assert_eq!(kept, [TakenBack::MayHaveLeft, TakenBack::Unsent, TakenBack::Unsent]);
    }

    #[test]
    fn room_is_bounded_by_frames_and_bytes_with_a_reserve() {
        let mut queue = queue();
        assert!(queue.has_room(1_000_000, Room::Common), "an empty queue takes any frame");
        queue.push(request(1, "{}"));
        assert!(!queue.has_room(100, Room::Common));
        assert!(queue.has_room(100, Room::Reserved));
        queue.push(request(2, "{}"));
        assert!(queue.has_room(2, Room::Common));
        queue.push(request(3, "{}"));
        assert!(!queue.has_room(2, Room::Common));
        for id in 0..RESERVED_FRAMES {
            assert!(queue.has_room(2, Room::Reserved));
            queue.push(request(i64::try_from(id).unwrap(), "{}"));
        }
        assert!(!queue.has_room(2, Room::Reserved));
    }

    #[test]
    fn the_cancels_of_all_calls_of_a_session_fit_behind_a_full_queue() {
        let limits = StdioLimits::default();
        let mut queue = Queue::new(&limits);
        for id in 0..limits.queued_frames {
            queue.push(request(i64::try_from(id).unwrap(), "{}"));
        }
        assert!(!queue.has_room(2, Room::Common));
        let notice = Bytes::from(vec![b'x'; 200]);
        for _ in 0..1024 {
            assert!(queue.has_room(notice.len(), Room::Reserved));
            queue.push(Queued { frame: notice.clone(), id: None, by: None });
        }
    }
}
