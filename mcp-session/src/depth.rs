use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

use mcp_proto::{ErrorObject, code};

/// How deep a handler may be asked: by a server that serves a call which a handler has made that was asked
/// by a server, and so on.
pub(crate) const MAX_DEPTH: u8 = 3;

thread_local! {
    /// How many handlers the code is inside of that this thread runs right now.
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// The depth of a call that is made here and now: 0 outside of every handler.
pub(crate) fn of_this_call() -> u8 {
    DEPTH.get()
}

/// How deep the handler is that answers a question which belongs to a call; an error if that is too deep.
pub(crate) fn of_handler(call: u8) -> Result<u8, ErrorObject> {
    if call >= MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(call + 1)
}

pub(crate) fn too_deep() -> ErrorObject {
    ErrorObject::new(code::INTERNAL_ERROR, "this client asks no deeper inside its own handlers")
}

/// Runs a handler: calls that it makes, to whichever server, are `depth` deep. What it has spawned runs
/// outside of it.
pub(crate) async fn inside<F: Future>(depth: u8, handler: F) -> F::Output {
    let mut handler = pin!(handler);
    poll_fn(|cx| {
        let _inside = Inside::enter(depth);
        handler.as_mut().poll(cx)
    })
    .await
}

/// The thread is inside of a handler while it lives.
struct Inside {
    before: u8,
}

impl Inside {
    fn enter(depth: u8) -> Self {
        Self { before: DEPTH.replace(depth) }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn the_thread_is_inside_only_while_the_handler_is_polled() {
        let mut running = pin!(inside(2, async {
            assert_eq!(of_this_call(), 2);
            inside(3, async { assert_eq!(of_this_call(), 3) }).await;
            assert_eq!(of_this_call(), 2);
            std::future::pending::<()>().await;
        }));
        assert!(running.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(of_this_call(), 0);
        let panicking = std::panic::catch_unwind(|| {
            let _ = pin!(inside(1, async { panic!("a handler") }))
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()));
        });
        assert!(panicking.is_err());
        assert_eq!(of_this_call(), 0);
    }

    #[test]
    fn three_handlers_may_be_inside_of_each_other() {
        let depths: Vec<_> = (0..=4).map(|call| of_handler(call).ok()).collect();
        assert_eq!(depths, [Some(1), Some(2), Some(3), None, None]);
    }
}
