//! A model of the synchronisation that is written by hand here, in every order that the threads can have.
//!
//! It is the protocol and nothing else, with the step that makes it right as an argument: without that step
//! the model must fail, or it would show nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

/// `Writer` of `stdio/writer.rs`: two senders and a driver that looks only when it is woken.
struct Writer {
    outgoing: Mutex<Outgoing>,
    /// How many frames have left.
    pipe: Mutex<usize>,
    /// How often the driver was woken, by whoever has taken its waker out.
    wakes: AtomicUsize,
}

#[derive(Default)]
struct Outgoing {
    queue: usize,
    is_written: bool,
    is_busy: bool,
    has_waker: bool,
}

const SENDERS: usize = 2;

impl Writer {
    fn send(&self, does_wake: bool) {
        let mut outgoing = self.outgoing.lock().unwrap();
        let is_quiet = !std::mem::replace(&mut outgoing.is_busy, true);
        if is_quiet
            && !outgoing.is_written
            && outgoing.queue == 0
            && let Ok(mut pipe) = self.pipe.try_lock()
        {
            outgoing.is_written = true;
            drop(outgoing);
            *pipe += 1;
            let mut outgoing = self.outgoing.lock().unwrap();
            outgoing.is_written = false;
            drop(pipe);
            if does_wake {
                self.leave(outgoing);
            }
        } else {
            outgoing.queue += 1;
            self.leave(outgoing);
        }
    }

    fn leave(&self, mut outgoing: MutexGuard<'_, Outgoing>) {
        let is_left = !outgoing.is_written && outgoing.queue > 0;
        let wakes = is_left && std::mem::take(&mut outgoing.has_waker);
        drop(outgoing);
        if wakes {
            self.wakes.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The driver's look; answers how many frames have left, if the pipe could be had.
    fn look(&self) -> Option<usize> {
        let mut outgoing = self.outgoing.lock().unwrap();
        outgoing.is_busy = false;
        outgoing.has_waker = true;
        let mut pipe = self.pipe.try_lock().ok()?;
        outgoing.is_written = true;
        while outgoing.queue > 0 {
            let batch = std::mem::take(&mut outgoing.queue);
            drop(outgoing);
            *pipe += batch;
            outgoing = self.outgoing.lock().unwrap();
        }
        outgoing.is_written = false;
        let written = *pipe;
        drop(pipe);
        Some(written)
    }
}

fn every_frame_leaves(does_wake: bool) {
    loom::model(move || {
        let writer =
            Arc::new(Writer { outgoing: Mutex::default(), pipe: Mutex::new(0), wakes: AtomicUsize::new(0) });
        writer.look();
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let writer = Arc::clone(&writer);
                thread::spawn(move || writer.send(does_wake))
            })
            .collect();
        // The driver may look meanwhile, because something has come to be read.
        let seen = writer.wakes.load(Ordering::SeqCst);
        writer.look();
        for sender in senders {
            sender.join().unwrap();
        }
        // Nothing else wakes it: what is left must have.
        let left = writer.outgoing.lock().unwrap().queue;
        if left > 0 {
            assert!(writer.wakes.load(Ordering::SeqCst) > seen, "a frame is forgotten");
            writer.look();
        }
        assert_eq!(*writer.pipe.lock().unwrap(), SENDERS);
    });
}

#[test]
fn every_frame_leaves_by_its_sender_or_wakes_the_driver() {
    every_frame_leaves(true);
}

#[test]
#[should_panic(expected = "a frame is forgotten")]
fn a_writer_that_does_not_wake_the_driver_leaves_frames_lying() {
    every_frame_leaves(false);
}
