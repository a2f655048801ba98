//! How much memory the lists in one text may take: `{},` is three bytes in a frame and hundreds as an
//! entry of a list, and a frame may hold millions.
//!
//! What is left is noted per thread, since serde passes nothing on from a value to those inside it.
//! Reading is one call that never waits, so nothing of it outlives that call.

use std::cell::Cell;

/// Bytes that lists may take for each byte of the text; with the texts themselves, and a copy of them
/// where something is odd, that makes eight.
const PER_BYTE: usize = 6;

/// Bytes that they may take whatever the length of the text.
const FREE: usize = 4 * 1024 * 1024;

/// What is wrong with a text whose lists take more.
pub(crate) const TOO_MANY: &str = "more entries than the length of the text accounts for";

thread_local! {
    /// `None` while nothing is read.
    static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Ends an allowance, also when reading panics.
struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        LEFT.set(None);
    }
}

/// Reads a text of `length` bytes. Texts that are read inside of it share its allowance.
pub(crate) fn within<T>(length: usize, read: impl FnOnce() -> T) -> T {
    if LEFT.get().is_some() {
        return read();
    }
    LEFT.set(Some(length.saturating_mul(PER_BYTE).saturating_add(FREE)));
    let _ending = Ending;
    read()
}

/// What is left of the allowance, to be [put back](set) when the text is read again.
pub(crate) fn left() -> Option<usize> {
    LEFT.get()
}

/// Puts back what was left, because what was taken since is given up.
pub(crate) fn set(left: Option<usize>) {
    LEFT.set(left);
}

/// Takes room for one more entry of `size` bytes; whether there is any. There always is outside of
/// [`within`].
pub(crate) fn take(size: usize) -> bool {
    // A list that grows exists twice for a moment, and the new one is up to twice as large as it must be.
    let size = size.saturating_mul(3);
    let Some(left) = LEFT.get() else { return true };
    let rest = left.checked_sub(size);
    LEFT.set(Some(rest.unwrap_or_default()));
    rest.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_inside_shares_the_allowance_and_the_next_text_has_its_own() {
        let half = FREE / 3 / 2;
        for _ in 0..2 {
            let taken = within(0, || (take(half), within(1 << 20, || take(half)), take(half)));
            assert_eq!(taken, (true, true, false));
        }
        assert!(take(usize::MAX), "nothing is counted outside");
    }

    #[test]
    fn a_longer_text_may_take_more() {
        assert!(!within(0, || take(FREE / 3 + 1)));
        assert!(within(1024, || take(FREE / 3 + 1)));
        assert!(within(usize::MAX, || take(usize::MAX)), "nothing overflows");
    }

    #[test]
    fn a_panic_leaves_no_allowance_behind() {
        let panicked = std::panic::catch_unwind(|| within(0, || panic!("while reading")));
        assert!(panicked.is_err());
        assert!(take(usize::MAX));
    }
}
