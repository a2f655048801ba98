use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::SubscriptionFilter;

use crate::inbox::ListKind;
use crate::subscription::{SubscriptionEnd, SubscriptionEvent};

/// Most bytes of addresses and tasks that wait in one subscription.
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
/// Pure. Bounded: at most one change of each list, resource and named task waits, and of resources a limited
/// number, of resources and tasks a limited number of bytes; what goes beyond that is told as one
/// [`SubscriptionEvent::Lagged`].
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
    waiting: VecDeque<Waiting>,
    /// How many of those are resources.
    resources: usize,
    /// The bytes of all of them.
    bytes: usize,
    max_resources: usize,
}

#[derive(Debug)]
struct Waiting {
    event: SubscriptionEvent,
    bytes: usize,
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
    pub(crate) fn acknowledge(&self, honoured: &SubscriptionFilter) -> Put {
        self.change(|events| events.on_acknowledged(honoured))
    }

    /// Puts an event; a resource or a task takes `bytes` of those that may wait.
    pub(crate) fn put(&self, event: SubscriptionEvent, bytes: usize) -> Put {
        self.change(|events| events.on_event(event, bytes))
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

    fn on_acknowledged(&mut self, honoured: &SubscriptionFilter) -> Put {
        if !matches!(self.phase, Phase::Opening) {
            return Put::Stray;
        }
        self.phase = Phase::Open;
        // Of what a server acknowledges, only what was wanted is kept.
        self.honoured = Some(self.wanted.within(honoured));
        Put::Taken
    }

    fn on_event(&mut self, event: SubscriptionEvent, bytes: usize) -> Put {
        if !matches!(self.phase, Phase::Open) || !self.wants(&event) {
            return Put::Stray;
        }
        if let Some(index) = self.waiting.iter().position(|waiting| covers(&waiting.event, &event)) {
            // Whoever takes the one that waits reads what is newer than this change; but a task is told as
            // it was last.
            if let Some(waiting) = self.waiting.get_mut(index)
                && let SubscriptionEvent::TaskChanged(_) = waiting.event
            {
                self.bytes = self.bytes - waiting.bytes + bytes;
                *waiting = Waiting { event, bytes };
            }
        } else {
            self.resources += usize::from(matches!(event, SubscriptionEvent::ResourceUpdated(_)));
            self.bytes += bytes;
            self.waiting.push_back(Waiting { event, bytes });
        }
        if self.resources > self.max_resources || self.bytes > MAX_BYTES {
            self.lag();
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
        if let Some(Waiting { event, bytes }) = self.waiting.pop_front() {
            self.resources -= usize::from(matches!(event, SubscriptionEvent::ResourceUpdated(_)));
            self.bytes -= bytes;
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
            SubscriptionEvent::TaskChanged(task) => self.wanted.task_ids.contains(&task.task_id),
            SubscriptionEvent::Ended(_) | SubscriptionEvent::Lagged => false,
        }
    }

    /// Has one lag stand for all that waits but lists.
    fn lag(&mut self) {
        self.waiting.retain(|waiting| matches!(waiting.event, SubscriptionEvent::ListChanged(_)));
        (self.resources, self.bytes) = (0, 0);
        self.waiting.push_back(Waiting { event: SubscriptionEvent::Lagged, bytes: 0 });
    }
}

/// Whether an event that waits stands for a new one too.
fn covers(waiting: &SubscriptionEvent, new: &SubscriptionEvent) -> bool {
    use SubscriptionEvent::{Lagged, ListChanged, ResourceUpdated, TaskChanged};
    match (waiting, new) {
        (Lagged, new) => !matches!(new, ListChanged(_)),
        (ListChanged(waiting), ListChanged(new)) => waiting == new,
        (ResourceUpdated(waiting), ResourceUpdated(new)) => waiting == new,
        (TaskChanged(waiting), TaskChanged(new)) => waiting.task_id == new.task_id,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mcp_proto::tasks::Task;
    use proptest::prelude::*;

    use super::*;

    const TOOLS: SubscriptionEvent = SubscriptionEvent::ListChanged(ListKind::Tools);
    const PROMPTS: SubscriptionEvent = SubscriptionEvent::ListChanged(ListKind::Prompts);

    fn updated(uri: &str) -> SubscriptionEvent {
        SubscriptionEvent::ResourceUpdated(uri.to_owned())
    }

    /// A change of the task `id`, which says `message`.
    fn task(id: &str, message: &str) -> SubscriptionEvent {
        let mut task = Task::default();
        task.task_id = id.to_owned();
        task.status_message = Some(message.to_owned());
        SubscriptionEvent::TaskChanged(Box::new(task))
    }

    fn wanted() -> SubscriptionFilter {
        let mut wanted = SubscriptionFilter::default();
        wanted.tools_list_changed = true;
        wanted.resource_subscriptions = vec!["a:".to_owned()];
        wanted.task_ids = vec!["t0".to_owned(), "t1".to_owned()];
        wanted
    }

    fn bytes(event: &SubscriptionEvent) -> usize {
        match event {
            SubscriptionEvent::ResourceUpdated(uri) => uri.len(),
            SubscriptionEvent::TaskChanged(task) => task.status_message.as_ref().map_or(0, String::len),
            _ => 0,
        }
    }

    fn put(events: &mut Events, event: SubscriptionEvent) -> Put {
        let bytes = bytes(&event);
        events.on_event(event, bytes)
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
                SubscriptionEvent::TaskChanged(task) => {
                    format!("{} {}", task.task_id, task.status_message.unwrap_or_default())
                }
            });
        }
        taken
    }

    #[test]
    fn nothing_counts_before_the_acknowledgement_and_that_comes_once() {
        let mut events = opening();
        assert_eq!(put(&mut events, TOOLS), Put::Stray);
        assert_eq!(events.on_acknowledged(&SubscriptionFilter::default()), Put::Taken);
        assert_eq!(put(&mut events, TOOLS), Put::Taken);
        assert_eq!(events.on_acknowledged(&wanted()), Put::Stray);
        assert!(events.honoured.as_ref().unwrap().is_empty(), "the first one counts");
        assert_eq!(taken(&mut events), ["Tools"]);
    }

    #[test]
    fn what_was_not_wanted_is_nobodys() {
        let mut events = open();
        assert_eq!(put(&mut events, PROMPTS), Put::Stray);
        assert_eq!(put(&mut events, updated("b:below")), Put::Taken, "it may be below a wanted one");
        events.wanted.resource_subscriptions.clear();
        assert_eq!(put(&mut events, updated("a:")), Put::Stray);
        assert_eq!(taken(&mut events), ["b:below"]);
    }

    #[test]
    fn each_list_and_each_resource_waits_once_in_the_order_of_its_first_change() {
        let mut events = open();
        for event in [updated("b"), TOOLS, updated("a"), TOOLS, updated("b")] {
            assert_eq!(put(&mut events, event), Put::Taken);
        }
        assert_eq!(taken(&mut events), ["b", "Tools", "a"]);
        put(&mut events, updated("b"));
        assert_eq!(taken(&mut events), ["b"], "a change after that is told again");
    }

    #[test]
    fn more_resources_than_can_wait_become_one_lag_that_covers_all() {
        let mut events = open();
        for event in [updated("a"), TOOLS, updated("b"), updated("c"), updated("d"), updated("a")] {
            assert_eq!(put(&mut events, event), Put::Taken);
        }
        assert_eq!(taken(&mut events), ["Tools", "Lagged"]);
        for event in [updated("a"), updated("b")] {
            put(&mut events, event);
        }
        assert_eq!(taken(&mut events), ["a", "b"], "after it the subscription goes on");
    }

    #[test]
    fn long_addresses_lag_before_they_fill_the_memory() {
        let mut events = Events::new(wanted(), Phase::Open, 1000);
        for letter in ["a", "b", "c"] {
            put(&mut events, updated(&letter.repeat(MAX_BYTES / 2)));
        }
        assert_eq!(taken(&mut events), ["Lagged"]);
        put(&mut events, updated(&"a".repeat(MAX_BYTES + 1)));
        assert_eq!(taken(&mut events), ["Lagged"]);
        assert_eq!((events.resources, events.bytes), (0, 0));
    }

    #[test]
    fn each_named_task_waits_once_as_it_was_last() {
        let mut events = open();
        for event in [task("t0", "a"), TOOLS, task("t1", "b"), task("t0", "c")] {
            assert_eq!(put(&mut events, event), Put::Taken);
        }
        assert_eq!(put(&mut events, task("t2", "d")), Put::Stray, "not named");
        assert_eq!(taken(&mut events), ["t0 c", "Tools", "t1 b"]);
    }

    #[test]
    fn large_tasks_lag_before_they_fill_the_memory_and_so_does_one_that_grows() {
        let mut events = open();
        let half = "x".repeat(MAX_BYTES / 2);
        for event in [updated("a"), task("t0", &half), task("t1", ""), TOOLS, task("t1", &half)] {
            assert_eq!(put(&mut events, event), Put::Taken);
        }
        assert_eq!((events.resources, events.bytes), (0, 0));
        put(&mut events, task("t0", ""));
        assert_eq!(taken(&mut events), ["Tools", "Lagged"], "it stands for resources and tasks");
        for text in [half.as_str(), "small", half.as_str()] {
            put(&mut events, task("t0", text));
        }
        assert_eq!(events.bytes, half.len());
    }

    #[test]
    fn the_first_end_counts_and_is_told_once_after_what_came_before_it() {
        let mut events = open();
        put(&mut events, TOOLS);
        events.on_end(SubscriptionEnd::Cancelled);
        events.on_end(SubscriptionEnd::Completed);
        events.on_closed();
        assert_eq!(put(&mut events, updated("a")), Put::Stray);
        assert_eq!(taken(&mut events), ["Tools", "Cancelled", "-"]);
        events.on_end(SubscriptionEnd::Lost);
        assert_eq!(taken(&mut events), ["-"]);
    }

    #[test]
    fn who_closes_it_is_told_nothing_but_the_end() {
        let mut events = open();
        put(&mut events, TOOLS);
        events.on_closed();
        assert_eq!(taken(&mut events), ["Closed", "-"]);
    }

    #[test]
    fn an_end_may_come_before_the_beginning() {
        let mut events = opening();
        events.on_end(SubscriptionEnd::Completed);
        assert_eq!(events.on_acknowledged(&wanted()), Put::Stray);
        assert_eq!(taken(&mut events), ["Completed", "-"]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Acknowledge,
        Close,
        End,
        Tools,
        Take,
        Task(u8),
        Update(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            2 => Just(Step::Acknowledge),
            1 => (0..8_u8).prop_map(|rare| if rare == 0 { Step::Close } else { Step::Take }),
            1 => (0..4_u8).prop_map(|rare| if rare == 0 { Step::End } else { Step::Take }),
            3 => Just(Step::Tools),
            4 => Just(Step::Take),
            3 => (0..2_u8).prop_map(Step::Task),
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
            for step in steps.into_iter().chain([Step::End]).chain(std::iter::repeat_n(Step::Take, 10)) {
                match step {
                    Step::Acknowledge => {
                        events.on_acknowledged(&wanted());
                    }
                    Step::Close => is_closed |= events.on_closed() == Put::Taken,
                    Step::End => {
                        events.on_end(SubscriptionEnd::Lost);
                    }
                    Step::Tools => {
                        if put(&mut events, TOOLS) == Put::Taken {
                            untold.insert("Tools".to_owned());
                        }
                    }
                    Step::Task(id) => {
                        let id = format!("t{id}");
                        if put(&mut events, task(&id, "changed")) == Put::Taken {
                            untold.insert(id);
                        }
                    }
                    Step::Update(uri) => {
                        if put(&mut events, updated(&uri.to_string())) == Put::Taken {
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
                        Poll::Ready(Some(SubscriptionEvent::TaskChanged(task))) => {
                            prop_assert!(untold.remove(&task.task_id), "told twice: {}", task.task_id);
                        }
                        Poll::Ready(None) => prop_assert_eq!(ends, 1),
                        Poll::Pending => prop_assert!(untold.is_empty(), "not told: {untold:?}"),
                    },
                }
                prop_assert!(events.waiting.len() <= 6, "two resources, two tasks, a list and a lag");
                let bytes: usize = events.waiting.iter().map(|waiting| bytes(&waiting.event)).sum();
                prop_assert_eq!(events.bytes, bytes);
            }
            prop_assert_eq!(ends, 1);
        }
    }
}
