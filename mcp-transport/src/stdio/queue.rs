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
/// Decides and counts; writes nothing. [`advance`](Self::advance) is where a frame turns from *not
/// sent* into *may have left*, and nowhere else.
#[derive(Debug)]
pub(super) struct Queue {
    frames: VecDeque<Queued>,
    /// Bytes that have not left, line ends included.
    bytes: usize,
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
            bytes: 0,
            begun: 0,
            withdrawn: VecDeque::new(),
            max_frames: limits.queued_frames,
            max_bytes: limits.queued_bytes,
        }
    }

    pub(super) fn push(&mut self, queued: Queued) {
        self.bytes += queued.frame.len() + 1;
        self.frames.push_back(queued);
    }

    /// Notes that `written` bytes have left.
    pub(super) fn advance(&mut self, written: usize) {
        self.bytes = self.bytes.saturating_sub(written);
        self.begun += written;
        while let Some(first) = self.frames.front()
            && self.begun > first.frame.len()
        {
            self.begun -= first.frame.len() + 1;
            self.frames.pop_front();
        }
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
            self.bytes = self.bytes.saturating_sub(queued.frame.len() + 1);
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
        self.is_empty()
            || (self.frames.len() < self.max_frames.saturating_add(frames)
                && self.bytes + length < self.max_bytes.saturating_add(bytes))
    }

    /// What is to be written next, as slices; answers how many of them are used.
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

    /// When the next frame with a time limit must have been written.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.frames.iter().find_map(|queued| queued.by)
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

    fn pending(queue: &Queue) -> String {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let used = queue.slices(&mut slices);
        slices[..used].iter().map(|slice| std::str::from_utf8(slice).unwrap()).collect()
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
                let rest = pending(&queue);
                assert_eq!(queue.bytes, rest.len());
                let taken = &rest[..piece.min(rest.len())];
                written.push_str(taken);
                queue.advance(taken.len());
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
        queue.advance(1);
        assert_eq!(queue.take_back(&1.into()), TakenBack::MayHaveLeft);
        assert_eq!(queue.take_back(&2.into()), TakenBack::Unsent);
        assert_eq!(queue.take_back(&2.into()), TakenBack::MayHaveLeft, "an answer is given once");
        assert_eq!(pending(&queue), "\"x\":0}\n{\"x\":0}\n");
        queue.advance(7);
        // All of the first frame has left, line end included; nothing of the next one.
        assert_eq!(queue.take_back(&3.into()), TakenBack::Unsent);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_frame_whose_line_end_is_missing_has_begun() {
        let mut queue = queue();
        queue.push(request(1, "{}"));
        queue.advance(2);
        assert_eq!(pending(&queue), "\n");
        assert_eq!(queue.take_back(&1.into()), TakenBack::MayHaveLeft);
    }

    #[test]
    fn requests_that_were_never_sent_are_known_after_the_end() {
        let mut queue = queue();
        for id in 1..=3 {
            queue.push(request(id, "{}"));
        }
        queue.advance(1);
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
