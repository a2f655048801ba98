use std::future::poll_fn;

use bytes::{Bytes, BytesMut};

use super::backend::HttpBody;
use super::error::HttpError;

/// How reading a whole body has ended.
#[derive(Debug)]
pub(crate) enum Whole {
    Complete(Bytes),
    /// Longer than the limit; what was read so far.
    TooLarge(Bytes),
}

/// Reads a body to its end, so that its connection can be kept. A body in one piece is not copied.
pub(crate) async fn read_whole(mut body: Box<dyn HttpBody>, limit: usize) -> Result<Whole, HttpError> {
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(chunk) = poll_fn(|cx| body.poll_chunk(cx)).await {
        let chunk = chunk?;
        if first.is_empty() {
            first = chunk;
        } else {
            if more.is_empty() {
                more.extend_from_slice(&first);
            }
            more.extend_from_slice(&chunk);
        }
        if first.len().max(more.len()) > limit {
            let read = if more.is_empty() { first } else { more.freeze() };
            return Ok(Whole::TooLarge(read));
        }
    }
    Ok(Whole::Complete(if more.is_empty() { first } else { more.freeze() }))
}
