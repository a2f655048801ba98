use std::pin::Pin;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

/// What is waited for beside the work that keeps a task awake: looked at only once it has called.
///
/// A task that reads a connection wakes up with every message. Whatever else is waited for in it would be
/// asked each time whether it has come, which it almost never has.
///
/// Boxed, because the set keeps room for one future more than it has.
#[derive(Debug)]
pub(crate) struct Aside<F>(FuturesUnordered<Pin<Box<F>>>);

impl<F: Future> Aside<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(FuturesUnordered::from_iter([Box::pin(future)]))
    }

    /// Waits for it; never ends a second time.
    pub(crate) async fn output(&mut self) -> F::Output {
        match self.0.next().await {
            Some(output) => output,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn it_is_looked_at_only_once_it_has_called() {
        let looks = Cell::new(0);
        let (call, mut called) = oneshot::channel();
        let mut aside = Aside::new(poll_fn(|cx| {
            looks.set(looks.get() + 1);
            pin!(&mut called).poll(cx)
        }));
        let mut output = pin!(aside.output());
        for _ in 0..5 {
            assert!(poll_fn(|cx| Poll::Ready(output.as_mut().poll(cx))).await.is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(looks.get(), 1);
        call.send(7).unwrap();
        assert_eq!(output.await, Ok(7));
        assert_eq!(looks.get(), 2);
    }
}
