use std::cell::Cell;
use std::mem;
use std::ops::{Deref, DerefMut};

use bytes::Bytes;

/// Up to how many bytes a text is copied out, in its exact size; a longer one leaves with its memory.
const SHORT: usize = 4 * 1024;

/// How much room the text of a thread begins with, in bytes: what most requests take.
const FIRST: usize = 512;

thread_local! {
    static SPARE: Cell<String> = const { Cell::new(String::new()) };
}

/// An empty text to write into, whose memory the thread keeps from one message to the next.
///
/// A message is written before it is known how long it will be. What is copied out of here has one
/// allocation, and no byte too many.
#[derive(Debug)]
pub(crate) struct Scratch(String);

impl Scratch {
    /// Takes that of the thread; whoever has taken it already gets a new one.
    pub(crate) fn take() -> Self {
        let mut text = SPARE.try_with(Cell::take).unwrap_or_default();
        text.clear();
        text.reserve(FIRST);
        Self(text)
    }

    /// What was written, as bytes of their own.
    pub(crate) fn into_bytes(self) -> Bytes {
        self.finish(|short| Bytes::copy_from_slice(short.as_bytes()), Bytes::from)
    }

    /// What was written, copied out by `short` or handed to `long` with its memory.
    pub(crate) fn finish<T>(mut self, short: impl FnOnce(&str) -> T, long: impl FnOnce(String) -> T) -> T {
        if self.0.len() > SHORT { long(mem::take(&mut self.0)) } else { short(&self.0) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.0.capacity() <= SHORT {
            let spare = mem::take(&mut self.0);
            // A thread that is ending keeps nothing.
            let _ = SPARE.try_with(|slot| slot.set(spare));
        }
    }
}

impl Deref for Scratch {
    type Target = String;

    fn deref(&self) -> &String {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_inside_of_another_writing_is_its_own() {
        let mut outer = Scratch::take();
        outer.push_str("outer ");
        let mut inner = Scratch::take();
        assert_eq!(inner.as_str(), "");
        inner.push_str("inner");
        assert_eq!(inner.into_bytes(), "inner");
        outer.push_str("end");
        assert_eq!(outer.into_bytes(), "outer end");
        assert_eq!(Scratch::take().as_str(), "", "nothing is left for the next one");
    }

    #[test]
    fn the_memory_of_a_short_text_stays_and_that_of_a_long_one_leaves() {
        let mut short = Scratch::take();
        short.push_str(&"x".repeat(FIRST));
        let address = short.as_ptr();
        let out = short.into_bytes();
        assert_ne!(out.as_ptr(), address);
        let mut long = Scratch::take();
        assert_eq!(long.as_ptr(), address);
        long.push_str(&"x".repeat(SHORT + 1));
        let address = long.as_ptr();
        assert_eq!(long.into_bytes().as_ptr(), address);
    }
}
