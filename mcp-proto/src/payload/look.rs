//! How a text is read again when the first look at it was too quick.
//!
//! Blocks of content are read as they come, which is fast and almost always right. A block that does not
//! begin with its kind, or is not as its kind asks for, makes that look fail as a whole; at the next one,
//! the text of each block is found first and judged then.
//!
//! Which look it is is noted per thread, since serde passes nothing on from a value to those inside it.
//! Reading is one call that never waits, so nothing of it outlives that call.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// There is no other.
    Only,
    /// There will be another if this one fails.
    First,
    /// The same, and something has been read more quickly for it.
    Quick,
}

thread_local! {
    static LOOK: Cell<Look> = const { Cell::new(Look::Only) };
}

/// Puts back which look was taken around this one, also when reading panics.
struct Ending(Look);

impl Drop for Ending {
    fn drop(&mut self) {
        LOOK.set(self.0);
    }
}

/// Takes a first look; `None` if it has failed and [another one](last) may do better.
pub(crate) fn first<T, E>(read: impl FnOnce() -> Result<T, E>) -> Option<Result<T, E>> {
    let _ending = Ending(LOOK.replace(Look::First));
    let read = read();
    if read.is_err() && LOOK.get() == Look::Quick { None } else { Some(read) }
}

/// Takes a look after which there is none.
pub(crate) fn last<T>(read: impl FnOnce() -> T) -> T {
    let _ending = Ending(LOOK.replace(Look::Only));
    read()
}

/// Whether something may be read so that it fails although it need not.
pub(crate) fn is_first() -> bool {
    let is_first = LOOK.get() != Look::Only;
    if is_first {
        LOOK.set(Look::Quick);
    }
    is_first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_look_that_was_quick_is_taken_again() {
        assert!(!is_first(), "whoever reads without a second look has one");
        assert_eq!(first(|| Err::<(), _>("odd")), Some(Err("odd")));
        let quick = |end: Result<(), ()>| first(|| if is_first() { end } else { Ok(()) });
        assert_eq!((quick(Ok(())), quick(Err(()))), (Some(Ok(())), None));
    }

    #[test]
    fn a_look_inside_of_another_counts_for_itself() {
        let inner = || {
            assert_eq!(first(|| is_first().then_some(()).map_or(Ok(()), Err)), None);
            assert!(!last(is_first));
            Err::<(), _>(())
        };
        assert_eq!(first(inner), Some(Err(())), "the outer one was not quick");
        assert!(last(|| first(inner)).is_some());
        let panicked = std::panic::catch_unwind(|| first(|| -> Result<(), ()> { panic!("while reading") }));
        assert!(panicked.is_err() && !is_first());
    }
}
