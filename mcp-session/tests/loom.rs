//! Models of the synchronisation that is written by hand here, in every order that two threads can have.
//!
//! Each is the protocol and nothing else, with the step that makes it right as an argument: without that
//! step the model must fail, or it would show nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use loom::sync::{Arc, Notify};
use loom::thread;

/// `Permits` of `gate.rs`: whoever waits until no permit is taken sees the last one come back, or is told.
struct Permits {
    free: AtomicUsize,
    are_awaited: AtomicBool,
    returned: Notify,
}

fn last_permit_is_seen(limit: usize, is_fenced: bool) {
    let fence = move || {
        if is_fenced {
            fence(Ordering::SeqCst);
        }
    };
    let mut model = loom::model::Builder::new();
    // More than that finds nothing new in a model of this size, and takes minutes.
    model.preemption_bound = Some(2);
    model.check(move || {
        let permits = Arc::new(Permits {
            free: AtomicUsize::new(0),
            are_awaited: AtomicBool::new(false),
            returned: Notify::new(),
        });
        let holders: Vec<_> = (0..limit)
            .map(|_| {
                let permits = Arc::clone(&permits);
                thread::spawn(move || {
                    permits.free.fetch_add(1, Ordering::Release);
                    fence();
                    if permits.are_awaited.load(Ordering::Relaxed) {
                        permits.returned.notify();
                    }
                })
            })
            .collect();
        loop {
            permits.are_awaited.store(true, Ordering::Relaxed);
            fence();
            if permits.free.load(Ordering::Acquire) == limit {
                break;
            }
            permits.returned.wait();
        }
        for holder in holders {
            holder.join().unwrap();
        }
    });
}

#[test]
fn who_waits_for_the_last_permit_sees_it_come_back_or_is_told() {
    for limit in [1, 2] {
        last_permit_is_seen(limit, true);
    }
}

#[test]
#[should_panic(expected = "deadlock")]
fn without_the_fence_the_last_permit_may_come_back_unseen() {
    last_permit_is_seen(1, false);
}

/// `meta` of `era.rs`: once a call of `set_log_level` has returned, the next request asks for logs.
#[test]
fn a_level_that_was_set_is_in_the_next_request() {
    loom::model(|| {
        let level = Arc::new((loom::sync::Mutex::new(None), AtomicBool::new(false)));
        let setter = {
            let level = Arc::clone(&level);
            thread::spawn(move || {
                *level.0.lock().unwrap() = Some("debug");
                level.1.store(true, Ordering::Release);
            })
        };
        // Before that it may see either, but never that there is a level and none.
        if level.1.load(Ordering::Acquire) {
            assert_eq!(*level.0.lock().unwrap(), Some("debug"));
        }
        setter.join().unwrap();
        assert!(level.1.load(Ordering::Acquire));
    });
}
