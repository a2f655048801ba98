use std::collections::{BTreeMap, VecDeque};

/// The resources that a legacy server is asked to watch, and for how many subscriptions; and the line of what
/// it is still to be asked.
///
/// Pure. One thing is asked at a time, so that the server sees all of it in its order. `W` is whoever waits:
///
/// ```text
///            hold              its turn           agreed
///   unknown ──────▶ unasked ───────────▶ asked ───────────▶ watched
///     ▲ ▲              │ ▲    refused      │ │                 │
///     │ │   released   │ └─────────────────┘ │ released by     │
///     │ └──────────────┘                     ▼ the last one    ▼
///     │              its turn             in line to be taken back
///     └──────────────────────────────────────┘   (hold: as before)
/// ```
///
/// What was asked and given up may have been heeded, so that it is taken back as well.
#[derive(Debug)]
pub(super) struct Interests<W> {
    resources: BTreeMap<String, Resource>,
    line: VecDeque<InLine<W>>,
    /// The number of the last one that came into the line to wait.
    newest: u64,
}

#[derive(Debug, Default)]
struct Resource {
    holders: usize,
    standing: Standing,
}

/// What the server knows of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    /// It was asked to watch it, and may do so.
    Asked,
    #[default]
    Unasked,
    Watched,
}

#[derive(Debug)]
enum InLine<W> {
    Part { uri: String },
    Watch { uri: String, number: u64, waiting: W },
}

/// What a subscription to one resource needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// The server must be asked: to be [lined up](Interests::line_up).
    Ask,
    /// The server watches it already.
    Known,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn<W> {
    /// The server watches meanwhile what this one has waited for.
    Known(W),
    /// The server is to be asked to watch the resource no more; from here on it counts as not asked.
    Part { uri: String },
    /// The server is to be asked to watch the resource.
    Watch { uri: String, waiting: W },
}

impl<W> Default for Interests<W> {
    fn default() -> Self {
        Self { resources: BTreeMap::new(), line: VecDeque::new(), newest: 0 }
    }
}

impl<W> Interests<W> {
    /// One subscription more holds a resource.
    pub(super) fn hold(&mut self, uri: &str) -> Hold {
        self.stop_parting(uri);
        let resource = self.resources.entry(uri.to_owned()).or_default();
        resource.holders += 1;
        if resource.standing == Standing::Watched { Hold::Known } else { Hold::Ask }
    }

    /// Has `waiting` wait for the server to be asked for a resource that it holds; answers its number.
    pub(super) fn line_up(&mut self, uri: &str, waiting: W) -> u64 {
        self.newest += 1;
        self.line.push_back(InLine::Watch { uri: uri.to_owned(), number: self.newest, waiting });
        self.newest
    }

    /// Takes the one with this number out of the line; `None` if its turn has come.
    pub(super) fn leave_line(&mut self, number: u64) -> Option<W> {
        let is_it = |next: &InLine<W>| matches!(next, InLine::Watch { number: its, .. } if *its == number);
        let index = self.line.iter().position(is_it)?;
        match self.line.remove(index)? {
            InLine::Watch { waiting, .. } => Some(waiting),
            InLine::Part { .. } => None,
        }
    }

    /// Empties the line; answers who has waited there.
    pub(super) fn clear_line(&mut self) -> Vec<W> {
        let line = std::mem::take(&mut self.line);
        let waiting = |next| match next {
            InLine::Watch { waiting, .. } => Some(waiting),
            InLine::Part { .. } => None,
        };
        line.into_iter().filter_map(waiting).collect()
    }

    /// Whether something waits for its turn.
    pub(super) fn is_next(&self) -> bool {
        !self.line.is_empty()
    }

    /// What comes next. One [`Turn::Watch`] is to be answered before the next turn.
    pub(super) fn next(&mut self) -> Option<Turn<W>> {
        Some(match self.line.pop_front()? {
            InLine::Part { uri } => {
                self.resources.remove(&uri);
                Turn::Part { uri }
            }
            InLine::Watch { uri, waiting, .. } => {
                let resource = self.resources.entry(uri.clone()).or_default();
                if resource.standing == Standing::Watched {
                    return Some(Turn::Known(waiting));
                }
                resource.standing = Standing::Asked;
                Turn::Watch { uri, waiting }
            }
        })
    }

    /// The server has agreed to watch a resource.
    pub(super) fn on_agreed(&mut self, uri: &str) {
        self.stand(uri, Standing::Watched);
    }

    /// The server does not watch a resource: it was not asked, or it has refused.
    pub(super) fn on_refused(&mut self, uri: &str) {
        self.stand(uri, Standing::Unasked);
        if self.resources.get(uri).is_some_and(|resource| resource.holders == 0) {
            self.resources.remove(uri);
            self.stop_parting(uri);
        }
    }

    /// One subscription less holds a resource.
    pub(super) fn release(&mut self, uri: &str) {
        let Some(resource) = self.resources.get_mut(uri) else { return };
        resource.holders = resource.holders.saturating_sub(1);
        match (resource.holders, resource.standing) {
            (0, Standing::Unasked) => {
                self.resources.remove(uri);
            }
            (0, Standing::Asked | Standing::Watched) => {
                self.line.push_back(InLine::Part { uri: uri.to_owned() });
            }
            _ => {}
        }
    }

    /// There is nothing to take back.
    fn stop_parting(&mut self, uri: &str) {
        self.line.retain(|next| !matches!(next, InLine::Part { uri: parting } if parting == uri));
    }

    fn stand(&mut self, uri: &str, standing: Standing) {
        if let Some(resource) = self.resources.get_mut(uri) {
            resource.standing = standing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(uri: &str, waiting: u32) -> Option<Turn<u32>> {
        Some(Turn::Watch { uri: uri.to_owned(), waiting })
    }

    fn part(uri: &str) -> Option<Turn<u32>> {
        Some(Turn::Part { uri: uri.to_owned() })
    }

    /// One more subscription wants a resource that is not watched yet.
    fn want(interests: &mut Interests<u32>, uri: &str, waiting: u32) -> u64 {
        assert_eq!(interests.hold(uri), Hold::Ask);
        interests.line_up(uri, waiting)
    }

    /// A server that watches `a` for one subscription.
    fn watched() -> Interests<u32> {
        let mut interests = Interests::default();
        want(&mut interests, "a", 1);
        assert_eq!(interests.next(), watch("a", 1));
        interests.on_agreed("a");
        assert_eq!(interests.next(), None);
        interests
    }

    #[test]
    fn a_resource_is_asked_for_once_and_taken_back_after_its_last_holder() {
        let mut interests = watched();
        assert_eq!(interests.hold("a"), Hold::Known);
        assert_eq!(interests.hold("b"), Hold::Ask, "each resource for itself");
        interests.release("a");
        assert!(!interests.is_next());
        interests.release("a");
        assert!(interests.is_next());
        assert_eq!((interests.next(), interests.next()), (part("a"), None));
        assert_eq!(interests.hold("a"), Hold::Ask, "and then it is unknown again");
    }

    #[test]
    fn who_comes_before_it_is_taken_back_finds_it_watched() {
        let mut interests = watched();
        interests.release("a");
        assert_eq!(interests.hold("a"), Hold::Known);
        assert_eq!(interests.next(), None);
    }

    #[test]
    fn what_waits_has_its_turn_in_the_order_in_which_it_came() {
        let mut interests = watched();
        want(&mut interests, "b", 2);
        interests.release("a");
        want(&mut interests, "c", 3);
        assert_eq!(interests.next(), watch("b", 2));
        assert_eq!(interests.next(), part("a"));
        assert_eq!(interests.next(), watch("c", 3));
        assert_eq!(interests.next(), None);
    }

    #[test]
    fn who_waits_for_a_resource_that_is_watched_meanwhile_is_told_so() {
        let mut interests = Interests::default();
        want(&mut interests, "a", 1);
        want(&mut interests, "a", 2);
        assert_eq!(interests.next(), watch("a", 1));
        interests.on_agreed("a");
        assert_eq!((interests.next(), interests.next()), (Some(Turn::Known(2)), None));
        interests.release("a");
        assert!(!interests.is_next(), "both have held it");
    }

    #[test]
    fn what_was_refused_is_not_taken_back_and_is_asked_for_by_the_next_one() {
        let mut interests = Interests::default();
        want(&mut interests, "a", 1);
        want(&mut interests, "a", 2);
        assert_eq!(interests.next(), watch("a", 1));
        interests.on_refused("a");
        interests.release("a");
        assert_eq!(interests.next(), watch("a", 2));
        // Released before it was refused.
        interests.release("a");
        interests.on_refused("a");
        assert_eq!(interests.next(), None);
    }

    #[test]
    fn what_was_given_up_is_taken_back_or_asked_for_again() {
        let mut interests = Interests::default();
        want(&mut interests, "a", 1);
        assert_eq!(interests.next(), watch("a", 1));
        interests.release("a");
        assert!(interests.is_next(), "the server may have heeded it");
        want(&mut interests, "a", 2);
        assert_eq!(interests.next(), watch("a", 2), "or may not have");
        assert_eq!(interests.next(), None);
    }

    #[test]
    fn who_leaves_the_line_has_asked_for_nothing() {
        let mut interests = Interests::default();
        let (first, second) = (want(&mut interests, "a", 1), want(&mut interests, "b", 2));
        assert_eq!(interests.leave_line(second), Some(2));
        interests.release("b");
        assert_eq!(interests.next(), watch("a", 1));
        assert_eq!(interests.leave_line(first), None, "its turn has come");
        assert_eq!(interests.next(), None);
        interests.release("a");
        want(&mut interests, "b", 3);
        assert_eq!(interests.clear_line(), [3]);
        assert!(!interests.is_next());
    }
}
