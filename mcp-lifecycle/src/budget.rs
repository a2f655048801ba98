/// One token, counted in tenths so that a success can give a part of one.
const TOKEN: u32 = 10;
/// Ten tokens at most, and at the start.
const CAPACITY: u32 = 10 * TOKEN;
/// Repeats stop at half: what is left is for nobody, so that a dead server is not asked ten times at once.
const RESERVE: u32 = 5 * TOKEN;
/// What a successful call gives back.
const REFUND: u32 = 1;

/// Limits repeats to a fraction of the successes, so that repeating never multiplies an outage.
#[derive(Debug)]
pub(crate) struct RetryBudget {
    tenths: u32,
}

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self { tenths: CAPACITY }
    }

    /// Takes a token for one repeat; `false` if too few are left.
    pub(crate) fn withdraw(&mut self) -> bool {
        if self.tenths <= RESERVE {
            return false;
        }
        self.tenths -= TOKEN;
        true
    }

    /// A call has succeeded.
    pub(crate) fn on_success(&mut self) {
        self.tenths = (self.tenths + REFUND).min(CAPACITY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_stop_at_the_reserve() {
        let mut budget = RetryBudget::new();
        assert_eq!((0..100).filter(|_| budget.withdraw()).count(), 5);
    }

    #[test]
    fn ten_successes_pay_for_one_repeat() {
        let mut budget = RetryBudget::new();
        while budget.withdraw() {}
        (0..10).for_each(|_| budget.on_success());
        assert!(budget.withdraw());
        assert!(!budget.withdraw());
    }

    #[test]
    fn it_never_holds_more_than_at_the_start() {
        let mut budget = RetryBudget::new();
        (0..1000).for_each(|_| budget.on_success());
        assert_eq!((0..100).filter(|_| budget.withdraw()).count(), 5);
    }
}
