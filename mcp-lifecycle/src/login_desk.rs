use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::authorizer::LoginFailed;
use crate::orders::Orders;

/// Where calls wait for a login of their server. The owner of the server runs it: once for everybody who
/// waits, and no longer than somebody does.
#[derive(Debug, Default)]
pub(crate) struct LoginDesk {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// Those who wait for the next login to end.
    waiting: usize,
    /// How many logins have ended so far.
    ended: u64,
    /// How the last one did.
    last: Option<Result<(), LoginFailed>>,
}

/// One who waits. Dropping it gives that up.
#[derive(Debug)]
#[must_use = "dropping it gives up"]
pub(crate) struct Waiting<'a> {
    desk: &'a LoginDesk,
    orders: &'a Orders,
    /// How many logins had ended when the waiting began: with the next one it is over.
    round: u64,
}

impl LoginDesk {
    /// Wants a login to take place, until the answer is dropped; `None` if one has ended since `ended` were
    /// counted.
    pub(crate) fn wait<'a>(&'a self, ended: u64, orders: &'a Orders) -> Option<Waiting<'a>> {
        let round = {
            let mut book = self.book();
            if book.ended > ended {
                return None;
            }
            book.waiting += 1;
            book.ended
        };
        orders.give(|wishes| wishes.login = true);
        Some(Waiting { desk: self, orders, round })
    }

    /// Whether anybody waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.book().waiting > 0
    }

    /// A login has ended.
    pub(crate) fn on_end(&self, result: Result<(), LoginFailed>) {
        let mut book = self.book();
        book.ended += 1;
        book.waiting = 0;
        book.last = Some(result);
    }

    /// How many logins have ended so far.
    pub(crate) fn ended(&self) -> u64 {
        self.book().ended
    }

    /// How the last login ended, if more have than these.
    pub(crate) fn end_since(&self, ended: u64) -> Option<Result<(), LoginFailed>> {
        let book = self.book();
        book.last.clone().filter(|_| book.ended > ended)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut book = self.desk.book();
        let is_over = book.ended > self.round;
        if !is_over {
            book.waiting -= 1;
        }
        let is_last = !is_over && book.waiting == 0;
        drop(book);
        if is_last {
            self.orders.give(|wishes| wishes.login = true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_still_waits_when_a_login_has_ended_wants_no_other_one() {
        let (desk, orders) = (LoginDesk::default(), Orders::default());
        let first = desk.wait(0, &orders).unwrap();
        assert!(desk.is_wanted());
        desk.on_end(Ok(()));
        assert!(!desk.is_wanted(), "the end is on its way to them");
        assert!(desk.wait(0, &orders).is_none(), "it has ended since");
        let second = desk.wait(1, &orders).unwrap();
        drop(first);
        assert!(desk.is_wanted(), "that one was of the round before");
        drop(second);
        assert!(!desk.is_wanted());
        assert_eq!(desk.end_since(0), Some(Ok(())));
        assert_eq!(desk.end_since(1), None);
    }
}
