use std::collections::{BTreeMap, BTreeSet};

/// The resources that a legacy server has been asked to watch, and for how many subscriptions.
///
/// Pure. One subscription at a time asks or takes back, so that the server sees both in their order:
///
/// ```text
///            hold: Ask            confirm               release, the last one
///   unknown ───────────▶ asked ───────────▶ watched ──────────────────────────▶ parting
///      ▲        refuse     │   hold: Known ──▶│ ◀──────────── hold: Known ────────┤
///      ├───────────────────┘ release, the last one ──▶ parting                    │
///      └───────────────────────────── part: to be taken back ◀────────────────────┘
/// ```
///
/// A request that was given up may have been heeded, so that it is taken back as well.
#[derive(Debug, Default)]
pub(super) struct Interests {
    watched: BTreeMap<String, Watched>,
    /// Those that nobody holds any more, still to be taken back.
    parting: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Watched {
    holders: usize,
    is_confirmed: bool,
}

/// What a subscription to one resource needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// The server must be asked.
    Ask,
    /// The server watches it already.
    Known,
}

impl Interests {
    /// One subscription more holds a resource.
    pub(super) fn hold(&mut self, uri: &str) -> Hold {
        self.parting.remove(uri);
        let watched = self.watched.entry(uri.to_owned()).or_default();
        watched.holders += 1;
        if watched.is_confirmed { Hold::Known } else { Hold::Ask }
    }

    /// The server has agreed to watch a resource.
    pub(super) fn confirm(&mut self, uri: &str) {
        if let Some(watched) = self.watched.get_mut(uri) {
            watched.is_confirmed = true;
        }
    }

    /// The server does not watch a resource: it was not asked, or it has refused.
    pub(super) fn refuse(&mut self, uri: &str) {
        self.watched.remove(uri);
        self.parting.remove(uri);
    }

    /// One subscription less holds a resource.
    pub(super) fn release(&mut self, uri: &str) {
        let Some(watched) = self.watched.get_mut(uri) else { return };
        watched.holders = watched.holders.saturating_sub(1);
        if watched.holders == 0 {
            self.parting.insert(uri.to_owned());
        }
    }

    /// Whether there is something to take back.
    pub(super) fn has_parting(&self) -> bool {
        !self.parting.is_empty()
    }

    /// The next resource to take back; from here on the server counts as not asked.
    pub(super) fn part(&mut self) -> Option<String> {
        let uri = self.parting.pop_first()?;
        self.watched.remove(&uri);
        Some(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_asked_for_once_and_taken_back_after_its_last_holder() {
        let mut interests = Interests::default();
        assert_eq!(interests.hold("a"), Hold::Ask);
        interests.confirm("a");
        assert_eq!(interests.hold("a"), Hold::Known);
        assert_eq!(interests.hold("b"), Hold::Ask, "each resource for itself");
        interests.release("a");
        assert!(!interests.has_parting());
        interests.release("a");
        assert_eq!((interests.part(), interests.part()), (Some("a".to_owned()), None));
        assert_eq!(interests.hold("a"), Hold::Ask, "and then it is unknown again");
    }

    #[test]
    fn who_comes_before_it_is_taken_back_finds_it_watched() {
        let mut interests = Interests::default();
        interests.hold("a");
        interests.confirm("a");
        interests.release("a");
        assert!(interests.has_parting());
        assert_eq!(interests.hold("a"), Hold::Known);
        assert_eq!(interests.part(), None);
    }

    #[test]
    fn what_was_refused_is_not_taken_back() {
        let mut interests = Interests::default();
        interests.hold("a");
        interests.refuse("a");
        interests.release("a");
        assert!(!interests.has_parting());
        assert_eq!(interests.hold("a"), Hold::Ask);
    }

    #[test]
    fn what_was_given_up_is_taken_back_or_asked_for_again() {
        let mut interests = Interests::default();
        interests.hold("a");
        interests.release("a");
        assert!(interests.has_parting(), "the server may have heeded it");
        assert_eq!(interests.hold("a"), Hold::Ask, "or may not have");
        assert!(!interests.has_parting());
    }
}
