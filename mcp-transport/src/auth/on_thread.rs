use std::io;

use tokio::sync::oneshot;

/// Runs what blocks on a thread of its own, so that it holds up neither a task nor the runtime's end.
///
/// # Errors
///
/// No thread can be started.
///
/// # Cancel safety
///
/// What has begun goes on to its end; only its answer is lost.
pub(super) async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, answer) = oneshot::channel();
    std::thread::Builder::new().name("mcp-credentials".to_owned()).spawn(move || {
        // Whoever asked may be gone; then nobody wants to know.
        let _ = sender.send(work());
    })?;
    answer.await.map_err(io::Error::other)
}
