use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::SubscriptionFilter;

use crate::inbox::ListKind;
use crate::subscription::{SubscriptionEnd, SubscriptionEvent};

/// Most bytes of addresses that wait in one subscription.
const MAX_BYTES: usize = 1024 * 1024;

/// Where the driver leaves the events of one subscription for whoever takes them. Putting never waits.
///
/// No other lock is taken while a lane is locked.
#[derive(Debug)]
pub(crate) struct SubscriptionLane(Mutex<State>);

#[derive(Debug)]
struct State {
    events: Events,
    waker: Option<Waker>,
}

/// Whether a subscription could have what was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is nobody's: too early, too late, or not what was wanted.
    Stray,
    /// It could.
    Taken,
}

/// The events of one subscription that nobody has taken yet, and how far the subscription has come.
///
/// Pure. Bounded: at most one change of each list waits, one of each resource, and a limited number of
/// resources; what goes beyond that is told as one [`SubscriptionEvent::Lagged`].
///
/// ```text
///   Opening ──acknowledged──▶ Open ──end──▶ Ended ──told──▶ Over
///      └──────────────end────────────────────▲
/// ```
///
/// The first end counts. What came before it is told before it, unless we have closed it ourselves.
#[derive(Debug)]
struct Events {
    wanted: SubscriptionFilter,
    phase: Phase,
    /// What the server has promised, once it has.
    honoured: Option<SubscriptionFilter>,
    waiting: VecDeque<SubscriptionEvent>,
    /// How many of those are resources, and their bytes.
    resources: usize,
    bytes: usize,
    max_resources: usize,
}

#[derive(Debug)]
enum Phase {
    Opening,
    Open,
    Ended(SubscriptionEnd),
    Over,
}

impl SubscriptionLane {
    /// Of a subscription that begins when the server says so.
    pub(crate) fn opening(wanted: SubscriptionFilter, max_resources: usize) -> Self {
        Self::new(Events::new(wanted, Phase::Opening, max_resources))
    }

    /// Of a subscription that has begun.
    pub(crate) fn open(wanted: SubscriptionFilter, max_resources: usize) -> Self {
        Self::new(Events::new(wanted, Phase::Open, max_resources))
    }

    fn new(events: Events) -> Self {
        Self(Mutex::new(State { events, waker: None }))
    }

    /// The server promises to tell of what `honoured` names.
    pub(crate) fn acknowledge(&self, honoured: SubscriptionFilter) -> Put {
        self.change(|events| events.on_acknowledged(honoured))
    }

    pub(crate) fn put(&self, event: SubscriptionEvent) -> Put {
        self.change(|events| events.on_event(event))
    }

    /// Ends the subscription, if it has not ended yet.
    pub(crate) fn end(&self, end: SubscriptionEnd) -> Put {
        self.change(|events| events.on_end(end))
    }

    /// Ends the subscription from our side: what waits is not told any more.
    pub(crate) fn close(&self) -> Put {
        self.change(Events::on_closed)
    }

    /// The next event, then the end, then `None`.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<SubscriptionEvent>> {
        let mut state = self.lock();
        match state.events.take() {
            Poll::Pending => state.wait(cx),
            next => next,
        }
    }

    /// What the server has promised, once it has.
    pub(crate) fn poll_honoured(&self, cx: &mut Context<'_>) -> Poll<SubscriptionFilter> {
        let mut state = self.lock();
        match state.events.honoured.clone() {
            Some(honoured) => Poll::Ready(honoured),
            None => state.wait(cx),
        }
    }

    /// Wakes whoever takes the events if there is something new for it.
    fn change(&self, change: impl FnOnce(&mut Events) -> Put) -> Put {
        let mut state = self.lock();
        let put = change(&mut state.events);
        let waker = if put == Put::Taken { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        put
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing is left half-done inside these locks, so a panic elsewhere does not matter here.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        match &self.waker {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => self.waker = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Events {
    fn new(wanted: SubscriptionFilter, phase: Phase, max_resources: usize) -> Self {
        let waiting = VecDeque::new();
        Self { wanted, phase, honoured: None, waiting, resources: 0, bytes: 0, max_resources }
    }

    fn on_acknowledged(&mut self, honoured: SubscriptionFilter) -> Put {
        if !matches!(self.phase, Phase::Opening) {
            return Put::Stray;
        }
        self.phase = Phase::Open;
        self.honoured = Some(honoured);
        Put::Taken
    }

    fn on_event(&mut self, event: SubscriptionEvent) -> Put {
        if !matches!(self.phase, Phase::Open) || !self.wants(&event) {
            return Put::Stray;
        }
        match event {
            SubscriptionEvent::ResourceUpdated(uri) => self.note_resource(uri),
            list => {
                // Whoever takes the one that waits fetches a list that is newer than this change.
                if !self.waiting.iter().any(|waiting| is_same_list(waiting, &list)) {
                    self.waiting.push_back(list);
                }
            }
        }
        Put::Taken
    }

    fn on_end(&mut self, end: SubscriptionEnd) -> Put {
        if !matches!(self.phase, Phase::Opening | Phase::Open) {
            return Put::Stray;
        }
        self.phase = Phase::Ended(end);
        Put::Taken
    }

    fn on_closed(&mut self) -> Put {
        let put = self.on_end(SubscriptionEnd::Closed);
        if put == Put::Taken {
            self.waiting.clear();
            (self.resources, self.bytes) = (0, 0);
        }
        put
    }

    fn take(&mut self) -> Poll<Option<SubscriptionEvent>> {
        if let Some(event) = self.waiting.pop_front() {
            if let SubscriptionEvent::ResourceUpdated(uri) = &event {
                self.resources -= 1;
                self.bytes -= uri.len();
            }
            return Poll::Ready(Some(event));
        }
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Ended(end) => Poll::Ready(Some(SubscriptionEvent::Ended(end))),
            Phase::Over => Poll::Ready(None),
            goes_on => {
                self.phase = goes_on;
                Poll::Pending
            }
        }
    }

    /// A change of a resource below a wanted one is wanted too, and which are below is the server's to
    /// know.
    fn wants(&self, event: &SubscriptionEvent) -> bool {
        match event {
            SubscriptionEvent::ListChanged(ListKind::Prompts) => self.wanted.prompts_list_changed,
            SubscriptionEvent::ListChanged(ListKind::Resources) => self.wanted.resources_list_changed,
            SubscriptionEvent::ListChanged(ListKind::Tools) => self.wanted.tools_list_changed,
            SubscriptionEvent::ResourceUpdated(_) => !self.wanted.resource_subscriptions.is_empty(),
            SubscriptionEvent::Ended(_) | SubscriptionEvent::Lagged => false,
        }
    }

    fn note_resource(&mut self, uri: String) {
        let covers = |waiting: &SubscriptionEvent| match waiting {
            SubscriptionEvent::Lagged => true,
            SubscriptionEvent::ResourceUpdated(waiting) => *waiting == uri,
            _ => false,
        };
        if self.waiting.iter().any(covers) {
            return;
        }
        if self.resources >= self.max_resources || self.bytes + uri.len() > MAX_BYTES {
            self.waiting.retain(|waiting| !matches!(waiting, SubscriptionEvent::ResourceUpdated(_)));
            (self.resources, self.bytes) = (0, 0);
            self.waiting.push_back(SubscriptionEvent::Lagged);
            return;
        }
        self.resources += 1;
        self.bytes += uri.len();
        self.waiting.push_back(SubscriptionEvent::ResourceUpdated(uri));
    }
}

fn is_same_list(one: &SubscriptionEvent, other: &SubscriptionEvent) -> bool {
    matches!(
        (one, other),
        (SubscriptionEvent::ListChanged(one), SubscriptionEvent::ListChanged(other)) if one == other
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const TOOLS: SubscriptionEvent = SubscriptionEvent::ListChanged(ListKind::Tools);
    const PROMPTS: SubscriptionEvent = SubscriptionEvent::ListChanged(ListKind::Prompts);

    fn updated(uri: &str) -> SubscriptionEvent {
        SubscriptionEvent::ResourceUpdated(uri.to_owned())
    }

    fn wanted() -> SubscriptionFilter {
        let mut wanted = SubscriptionFilter::default();
        wanted.tools_list_changed = true;
        wanted.resource_subscriptions = vec!["a:".to_owned()];
        wanted
    }

    fn opening() -> Events {
        Events::new(wanted(), Phase::Opening, 2)
    }

    fn open() -> Events {
        Events::new(wanted(), Phase::Open, 2)
    }

    /// All that can be taken now, as text; `-` stands for the end of everything.
    fn taken(events: &mut Events) -> Vec<String> {
        let mut taken = Vec::new();
        while let Poll::Ready(next) = events.take() {
            let Some(event) = next else {
                taken.push("-".to_owned());
                break;
            };
            taken.push(match event {
                SubscriptionEvent::Ended(end) => format!("{end:?}"),
                SubscriptionEvent::ListChanged(kind) => format!("{kind:?}"),
                SubscriptionEvent::Lagged => "Lagged".to_owned(),
                SubscriptionEvent::ResourceUpdated(uri) => uri,
            });
        }
        taken
    }

    #[test]
    fn nothing_counts_before_the_acknowledgement_and_that_comes_once() {
        let mut events = opening();
        assert_eq!(events.on_event(TOOLS), Put::Stray);
        assert_eq!(events.on_acknowledged(SubscriptionFilter::default()), Put::Taken);
        assert_eq!(events.on_event(TOOLS), Put::Taken);
        assert_eq!(events.on_acknowledged(wanted()), Put::Stray);
        assert!(events.honoured.as_ref().unwrap().is_empty(), "the first one counts");
        assert_eq!(taken(&mut events), ["Tools"]);
    }

    #[test]
    fn what_was_not_wanted_is_nobodys() {
        let mut events = open();
        assert_eq!(events.on_event(PROMPTS), Put::Stray);
        assert_eq!(events.on_event(updated("b:below")), Put::Taken, "it may be below a wanted one");
        events.wanted.resource_subscriptions.clear();
        assert_eq!(events.on_event(updated("a:")), Put::Stray);
        assert_eq!(taken(&mut events), ["b:below"]);
    }

    #[test]
    fn each_list_and_each_resource_waits_once_in_the_order_of_its_first_change() {
        let mut events = open();
        for event in [updated("b"), TOOLS, updated("a"), TOOLS, updated("b")] {
            assert_eq!(events.on_event(event), Put::Taken);
        }
        assert_eq!(taken(&mut events), ["b", "Tools", "a"]);
        events.on_event(updated("b"));
        assert_eq!(taken(&mut events), ["b"], "a change after that is told again");
    }

    #[test]
    fn more_resources_than_can_wait_become_one_lag_that_covers_all() {
        let mut events = open();
        for event in [updated("a"), TOOLS, updated("b"), updated("c"), updated("d"), updated("a")] {
            assert_eq!(events.on_event(event), Put::Taken);
        }
        assert_eq!(taken(&mut events), ["Tools", "Lagged"]);
        for event in [updated("a"), updated("b")] {
            events.on_event(event);
        }
        assert_eq!(taken(&mut events), ["a", "b"], "after it the subscription goes on");
    }

    #[test]
    fn long_addresses_lag_before_they_fill_the_memory() {
        let mut events = Events::new(wanted(), Phase::Open, 1000);
        for letter in ["a", "b", "c"] {
            events.on_event(updated(&letter.repeat(MAX_BYTES / 2)));
        }
        assert_eq!(taken(&mut events), ["Lagged"]);
        events.on_event(updated(&"a".repeat(MAX_BYTES + 1)));
        assert_eq!(taken(&mut events), ["Lagged"]);
        assert_eq!((events.resources, events.bytes), (0, 0));
    }

    #[test]
    fn the_first_end_counts_and_is_told_once_after_what_came_before_it() {
        let mut events = open();
        events.on_event(TOOLS);
        events.on_end(SubscriptionEnd::Cancelled);
        events.on_end(SubscriptionEnd::Completed);
        events.on_closed();
        assert_eq!(events.on_event(updated("a")), Put::Stray);
        assert_eq!(taken(&mut events), ["Tools", "Cancelled", "-"]);
        events.on_end(SubscriptionEnd::Lost);
        assert_eq!(taken(&mut events), ["-"]);
    }

    #[test]
    fn who_closes_it_is_told_nothing_but_the_end() {
        let mut events = open();
        events.on_event(TOOLS);
        events.on_closed();
        assert_eq!(taken(&mut events), ["Closed", "-"]);
    }

    #[test]
    fn an_end_may_come_before_the_beginning() {
        let mut events = opening();
        events.on_end(SubscriptionEnd::Completed);
        assert_eq!(events.on_acknowledged(wanted()), Put::Stray);
        assert_eq!(taken(&mut events), ["Completed", "-"]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Acknowledge,
        Close,
        End,
        Tools,
        Take,
        Update(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => Just(Step::Acknowledge),
            1 => (0..8_u8).prop_map(|rare| if rare == 0 { Step::Close } else { Step::Take }),
            1 => (0..4_u8).prop_map(|rare| if rare == 0 { Step::End } else { Step::Take }),
            3 => Just(Step::Tools),
            4 => Just(Step::Take),
            9 => (0..6_u8).prop_map(Step::Update),
        ]
    }

    proptest! {
        /// In any order of events: whatever was taken in is told before the end, by its name or as a lag;
        /// little waits; the end is told once.
        #[test]
        fn nothing_that_was_taken_in_is_lost(steps in prop::collection::vec(step(), 1..200)) {
            let mut events = opening();
            let mut untold: BTreeSet<String> = BTreeSet::new();
            let mut ends = 0;
            let mut is_closed = false;
            for step in steps.into_iter().chain([Step::End]).chain(std::iter::repeat_n(Step::Take, 8)) {
                match step {
                    Step::Acknowledge => {
                        events.on_acknowledged(wanted());
                    }
                    Step::Close => is_closed |= events.on_closed() == Put::Taken,
                    Step::End => {
                        events.on_end(SubscriptionEnd::Lost);
                    }
                    Step::Tools => {
                        if events.on_event(TOOLS) == Put::Taken {
                            untold.insert("Tools".to_owned());
                        }
                    }
                    Step::Update(uri) => {
                        if events.on_event(updated(&uri.to_string())) == Put::Taken {
                            untold.insert(uri.to_string());
                        }
                    }
                    Step::Take => match events.take() {
                        Poll::Ready(Some(SubscriptionEvent::Ended(_))) => {
                            ends += 1;
                            prop_assert!(is_closed || untold.is_empty(), "never told: {untold:?}");
                        }
                        Poll::Ready(Some(SubscriptionEvent::Lagged)) => untold.retain(|name| name == "Tools"),
                        Poll::Ready(Some(SubscriptionEvent::ListChanged(_))) => {
                            prop_assert!(untold.remove("Tools"));
                        }
                        Poll::Ready(Some(SubscriptionEvent::ResourceUpdated(uri))) => {
                            prop_assert!(untold.remove(&uri), "told twice: {uri}");
                        }
                        Poll::Ready(None) => prop_assert_eq!(ends, 1),
                        Poll::Pending => prop_assert!(untold.is_empty(), "not told: {untold:?}"),
                    },
                }
                prop_assert!(events.waiting.len() <= 4, "two resources, a list and a lag");
                let bytes: usize = events.waiting.iter().map(|event| match event {
                    SubscriptionEvent::ResourceUpdated(uri) => uri.len(),
                    _ => 0,
                }).sum();
                prop_assert_eq!(events.bytes, bytes);
            }
            prop_assert_eq!(ends, 1);
        }
    }
}
