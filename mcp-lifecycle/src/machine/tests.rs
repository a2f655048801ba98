use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn policy() -> Policy {
    Policy {
        backoff: BackoffOptions::default(),
        park_after: 5,
        park_probe: 300 * SECOND,
        stable_for: 30 * SECOND,
        leave: 300 * SECOND,
        hurried: 5 * SECOND,
        recess: RecessOptions::default(),
    }
}

/// A machine with a clock of its own, and what it has asked for so far.
struct Bench {
    machine: Machine,
    now: Instant,
    connects: Vec<(u64, Option<Era>)>,
}

impl Bench {
    fn new() -> Self {
        Self { machine: Machine::new(policy(), Jitter::new(1)), now: Instant::now(), connects: Vec::new() }
    }

    /// A machine whose first connection is being made.
    fn connecting() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.on(Event::Enable(Begin::Now)), vec![connect(1)]);
        bench
    }

    fn ready() -> Self {
        let mut bench = Self::connecting();
        bench.up();
        bench
    }

    #[track_caller]
    fn on(&mut self, event: Event) -> Vec<Action> {
        let actions = self.machine.on(event, self.now).unwrap();
        for action in &actions {
            if let Action::Connect { generation, era, .. } = action {
                self.connects.push((*generation, *era));
            }
        }
        actions
    }

    #[track_caller]
    fn up(&mut self) {
        let generation = self.machine.generation();
        assert_eq!(self.on(Event::Up(generation, Era::Legacy)), vec![Action::Publish(generation)]);
    }

    /// The present connection is lost, and nothing of it is left.
    #[track_caller]
    fn lose(&mut self, loss: Loss) {
        let generation = self.machine.generation();
        self.on(Event::Lost(generation, loss));
        self.on(Event::Gone(generation));
    }

    /// Lets the timer run out; how long that took.
    #[track_caller]
    fn wait(&mut self) -> Duration {
        let deadline = self.machine.next_deadline().unwrap();
        let waited = deadline.saturating_duration_since(self.now);
        self.now = self.now.max(deadline);
        self.on(Event::Tick);
        waited
    }

    fn state(&self) -> State {
        self.machine.state()
    }
}

fn connect(generation: u64) -> Action {
    Action::Connect { generation, era: None, haste: Haste::AtOnce }
}

#[test]
fn f033_five_attempts_that_never_prove_healthy_park_the_server() {
    let mut bench = Bench::connecting();
    for attempt in 1..5 {
        bench.lose(Loss::Transient);
        assert!(matches!(bench.state(), State::Backoff { attempt: next, .. } if next == attempt + 1));
        bench.wait();
    }
    bench.lose(Loss::Transient);
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Unproven { attempts: 5 }, .. }));
    for _ in 0..20 {
        let waited = bench.wait();
        assert!((240 * SECOND..=360 * SECOND).contains(&waited), "{waited:?}");
        bench.lose(Loss::Transient);
        assert!(matches!(bench.state(), State::Parked { .. }));
    }
    assert_eq!(bench.connects.len(), 25);
}

#[test]
fn a_server_that_was_ready_and_cannot_be_reached_is_tried_early_when_it_is_parked() {
    let mut bench = Bench::ready();
    let generation = bench.machine.generation();
    bench.on(Event::Proven(generation));
    bench.lose(Loss::Transient);
    while let State::Backoff { .. } = bench.state() {
        bench.wait();
        bench.lose(Loss::Unreachable);
    }
    for seconds in [5, 15, 60, 300, 300] {
        assert!(matches!(bench.state(), State::Parked { why: ParkReason::Unproven { .. }, .. }));
        let waited = bench.wait();
        assert!(waited >= seconds * SECOND * 4 / 5 && waited <= seconds * SECOND * 6 / 5, "{waited:?}");
        bench.lose(Loss::Unreachable);
    }
}

#[test]
fn only_a_server_that_was_ready_and_cannot_be_reached_is_tried_early() {
    // Whether it was ever ready, and what it fails with after that.
    for (was_ready, loss) in [(true, Loss::Transient), (false, Loss::Unreachable)] {
        let mut bench = if was_ready { Bench::ready() } else { Bench::connecting() };
        while !matches!(bench.state(), State::Parked { .. }) {
            bench.lose(loss);
            if let State::Backoff { .. } = bench.state() {
                bench.wait();
            }
        }
        assert!(bench.wait() >= 240 * SECOND, "was ready: {was_ready}");
    }
}

#[test]
fn health_that_is_proved_brings_the_early_probes_back() {
    let mut bench = Bench::ready();
    for _ in 0..2 {
        let generation = bench.machine.generation();
        bench.on(Event::Proven(generation));
        bench.lose(Loss::Transient);
        while let State::Backoff { .. } = bench.state() {
            bench.wait();
            bench.lose(Loss::Unreachable);
        }
        assert!(bench.wait() <= 6 * SECOND);
        bench.lose(Loss::Unreachable);
        assert!(bench.wait() >= 12 * SECOND);
        bench.up();
    }
}

#[test]
fn connections_are_numbered_from_where_the_server_before_has_stopped() {
    let mut bench = Bench::new();
    bench.machine.count_from(7);
    assert_eq!(bench.on(Event::Enable(Begin::Now)), vec![connect(8)]);
    assert_eq!(bench.state(), State::Connecting { generation: 8, attempt: 1 });
}

#[test]
fn a_server_counts_as_well_that_was_ready_and_healthy_or_that_somebody_asks_for() {
    let mut bench = Bench::connecting();
    assert_eq!(bench.machine.standing(), Standing::Unknown, "nobody has reached it yet");
    bench.lose(Loss::Transient);
    bench.on(Event::Wake);
    assert_eq!(bench.machine.standing(), Standing::Unknown, "asking for it makes no difference");
    bench.up();
    let generation = bench.machine.generation();
    bench.on(Event::Proven(generation));
    bench.lose(Loss::Transient);
    bench.wait();
    assert_eq!(bench.machine.standing(), Standing::Well, "it was healthy");
    bench.lose(Loss::Unreachable);
    bench.wait();
    assert_eq!(bench.machine.standing(), Standing::Unknown, "it is not any more");
    bench.lose(Loss::Unreachable);
    bench.on(Event::Wake);
    assert_eq!(bench.machine.standing(), Standing::Well, "somebody asks for it");
}

#[test]
fn i17_a_handshake_alone_does_not_clear_the_budget() {
    let mut bench = Bench::connecting();
    for _ in 0..5 {
        bench.up();
        bench.lose(Loss::Transient);
        if let State::Backoff { .. } = bench.state() {
            bench.wait();
        }
    }
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Unproven { attempts: 5 }, .. }));
}

#[test]
fn i16_how_often_a_server_is_tried_does_not_depend_on_how_it_was_connected_before() {
    let attempts_until_parked = |prepare: fn(&mut Bench)| {
        let mut bench = Bench::ready();
        bench.wait(); // stable
        prepare(&mut bench);
        let before = bench.connects.len();
        bench.lose(Loss::Transient);
        while let State::Backoff { .. } = bench.state() {
            bench.wait();
            bench.lose(Loss::Transient);
        }
        assert!(matches!(bench.state(), State::Parked { .. }), "{:?}", bench.state());
        bench.connects.len() - before
    };
    let reconnect = |bench: &mut Bench| {
        let generation = bench.machine.generation();
        bench.on(Event::Reconnect(generation));
        bench.on(Event::Gone(generation));
        bench.up();
        bench.wait(); // stable again
    };
    let off_and_on = |bench: &mut Bench| {
        let generation = bench.machine.generation();
        bench.on(Event::Disable);
        bench.on(Event::Gone(generation));
        bench.on(Event::Enable(Begin::Now));
        bench.up();
        bench.wait();
    };
    // The one that was lost had proved healthy: five that do not, follow.
    assert_eq!(attempts_until_parked(|_| {}), 5);
    assert_eq!(attempts_until_parked(reconnect), 5);
    assert_eq!(attempts_until_parked(off_and_on), 5);
}

#[test]
fn one_successful_call_clears_the_budget_but_not_the_delays() {
    let mut bench = Bench::connecting();
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        bench.up();
        let generation = bench.machine.generation();
        bench.on(Event::Proven(generation));
        bench.now += 5 * SECOND;
        bench.on(Event::Tick);
        bench.lose(Loss::Transient);
        assert!(matches!(bench.state(), State::Backoff { attempt: 1, .. }));
        longest = longest.max(bench.wait());
    }
    assert!(longest > 30 * SECOND, "f034: the delays grow to the cap: {longest:?}");
}

#[test]
fn f033_a_call_that_succeeds_in_the_moment_of_the_loss_clears_the_budget_as_well() {
    let mut bench = Bench::connecting();
    for generation in 1..20 {
        bench.up();
        bench.lose(Loss::Transient);
        assert!(matches!(bench.state(), State::Backoff { attempt: 2, .. }));
        bench.on(Event::Proven(generation));
        bench.wait();
        assert_eq!(bench.state(), State::Connecting { generation: generation + 1, attempt: 1 });
        bench.on(Event::Proven(generation.saturating_sub(1)));
    }
}

#[test]
fn f062_an_expired_session_is_begun_anew_at_once_and_costs_nothing() {
    let mut bench = Bench::ready();
    for generation in 1..20 {
        bench.on(Event::Proven(generation));
        assert_eq!(bench.on(Event::Lost(generation, Loss::Expired)), vec![Action::Retract(generation)]);
        assert_eq!(bench.state(), State::Connecting { generation: generation + 1, attempt: 1 });
        let next =
            Action::Connect { generation: generation + 1, era: Some(Era::Legacy), haste: Haste::AtOnce };
        assert_eq!(bench.on(Event::Gone(generation)), vec![next]);
        bench.up();
    }
    bench.lose(Loss::Transient);
    assert!(bench.wait() < SECOND, "the first failure");
}

#[test]
fn f062_a_server_that_lets_nothing_but_handshakes_succeed_is_parked() {
    let mut bench = Bench::ready();
    bench.lose(Loss::Expired);
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 }, "once");
    bench.up();
    for attempt in 2..6 {
        bench.lose(Loss::Expired);
        assert!(matches!(bench.state(), State::Backoff { attempt: next, .. } if next == attempt));
        bench.wait();
        bench.up();
    }
    bench.lose(Loss::Expired);
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Unproven { attempts: 5 }, .. }));

    let mut bench = Bench::connecting();
    bench.lose(Loss::Expired);
    assert!(matches!(bench.state(), State::Backoff { attempt: 2, .. }), "it was never ready");
}

#[test]
fn f155_limits_without_end_are_no_panic() {
    let mut bench = Bench::new();
    let recess = RecessOptions::default().with_idle(Some(Duration::MAX)).with_age(Some(Duration::MAX));
    let backoff = BackoffOptions::default().with_first(Duration::MAX).with_cap(Duration::MAX);
    let policy = Policy {
        backoff,
        park_probe: Duration::MAX,
        stable_for: Duration::MAX,
        leave: Duration::MAX,
        hurried: Duration::MAX,
        recess,
        ..policy()
    };
    bench.machine = Machine::new(policy, Jitter::new(1));
    bench.on(Event::Enable(Begin::Now));
    bench.up();
    bench.lose(Loss::Transient);
    bench.on(Event::Wake);
    bench.lose(Loss::Permanent);
    bench.on(Event::Wake);
    bench.up();
    bench.on(Event::Unauthorized(3));
    bench.on(Event::Wake);
    bench.on(Event::Tick);
    assert_eq!(bench.state(), State::Connecting { generation: 4, attempt: 3 });
}

#[test]
fn f034_thirty_stable_seconds_start_the_delays_over() {
    let mut bench = Bench::connecting();
    for _ in 0..4 {
        bench.lose(Loss::Transient);
        bench.wait();
    }
    bench.up();
    assert_eq!(bench.wait(), 30 * SECOND);
    bench.lose(Loss::Transient);
    assert!(matches!(bench.state(), State::Backoff { attempt: 1, .. }));
    assert!(bench.wait() < SECOND);
}

#[test]
fn a_proven_process_that_exits_is_restarted_without_delay_once() {
    let mut bench = Bench::ready();
    bench.on(Event::Proven(1));
    bench.on(Event::Lost(1, Loss::Exited));
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    assert_eq!(
        bench.on(Event::Gone(1)),
        vec![Action::Connect { generation: 2, era: Some(Era::Legacy), haste: Haste::Paced }]
    );
    bench.up();
    bench.on(Event::Proven(2));
    bench.lose(Loss::Exited);
    assert!(matches!(bench.state(), State::Backoff { .. }), "the second time in a row it backs off");
}

/// A ready server with these limits.
fn resting(idle: Option<Duration>, age: Option<Duration>) -> Bench {
    let recess = RecessOptions::default().with_idle(idle).with_age(age);
    let mut bench = Bench::new();
    bench.machine = Machine::new(Policy { recess, ..policy() }, Jitter::new(1));
    bench.on(Event::Enable(Begin::Now));
    bench.up();
    bench.wait(); // thirty stable seconds
    bench
}

#[test]
fn a_server_that_nobody_uses_is_let_go_and_a_call_wakes_it() {
    for (idle, age, why) in
        [(Some(60 * SECOND), None, DormantReason::Idle), (None, Some(60 * SECOND), DormantReason::Age)]
    {
        let mut bench = resting(idle, age);
        bench.now += 29 * SECOND;
        assert_eq!(bench.on(Event::Tick), vec![], "not yet");
        bench.now += SECOND;
        assert_eq!(bench.on(Event::Tick), vec![Action::Look(1)]);
        let free = Usage::Free { since: None };
        assert_eq!(bench.on(Event::Used(1, free)), vec![Action::Retract(1), Action::Drain(1)]);
        assert_eq!(bench.state(), State::Dormant { why });
        assert_eq!(bench.on(Event::Drained(1)), vec![Action::Close(1)]);
        assert_eq!(bench.machine.next_deadline(), None);
        assert_eq!(bench.on(Event::Demand), vec![], "the one before ends first");
        assert_eq!(bench.on(Event::Gone(1)).len(), 1);
        bench.up();
        bench.lose(Loss::Transient);
        assert!(matches!(bench.state(), State::Backoff { attempt: 2, .. }), "it was no failure");
    }
}

#[test]
fn i23_an_old_server_in_use_is_replaced_when_its_last_call_has_ended() {
    let mut bench = resting(None, Some(60 * SECOND));
    bench.wait_for_deadline();
    assert_eq!(bench.on(Event::Tick), vec![Action::Look(1)]);
    assert_eq!(bench.on(Event::Used(1, Usage::Busy)), vec![Action::Retract(1), Action::Drain(1)]);
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    assert_eq!(bench.on(Event::Drained(1)), vec![Action::Close(1)]);
    let next = Action::Connect { generation: 2, era: Some(Era::Legacy), haste: Haste::Paced };
    assert_eq!(bench.on(Event::Gone(1)), vec![next]);
}

#[test]
fn i23_a_call_that_slipped_in_before_a_rest_has_its_time_and_a_new_one_waits_for_it() {
    let mut bench = resting(Some(60 * SECOND), None);
    bench.wait_for_deadline();
    bench.on(Event::Tick);
    bench.on(Event::Used(1, Usage::Free { since: None }));
    bench.now += 20 * SECOND;
    assert_eq!(bench.on(Event::Demand), vec![]);
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    bench.now += 20 * SECOND;
    assert_eq!(bench.on(Event::Tick), vec![], "its call goes on");
    assert_eq!(bench.on(Event::Drained(1)), vec![Action::Close(1)]);
    assert_eq!(bench.on(Event::Gone(1)).len(), 1);
}

#[test]
fn a_connection_that_is_left_has_a_limit_that_a_wake_shortens_and_a_reconnect_ends() {
    let leaving = || {
        let mut bench = resting(None, Some(60 * SECOND));
        bench.wait_for_deadline();
        bench.on(Event::Tick);
        bench.on(Event::Used(1, Usage::Busy));
        bench
    };
    let end = |mut bench: Bench| {
        let began = bench.now;
        bench.wait_for_deadline();
        assert_eq!(bench.on(Event::Tick), vec![Action::Close(1)]);
        assert_eq!(bench.machine.next_deadline(), None);
        assert_eq!(bench.on(Event::Gone(1)).len(), 1);
        bench.up();
        bench.now - began
    };
    assert_eq!(end(leaving()), 300 * SECOND);
    let mut bench = leaving();
    assert_eq!(bench.on(Event::Wake), vec![], "nothing is cut off");
    bench.now += 2 * SECOND;
    assert_eq!(bench.on(Event::Wake), vec![]);
    assert_eq!(end(bench), 3 * SECOND, "from the first wake");
    let mut bench = leaving();
    assert_eq!(bench.on(Event::Reconnect(1)), vec![], "that is over already");
    assert_eq!(bench.on(Event::Reconnect(2)), vec![Action::Close(1)]);
    assert_eq!(bench.on(Event::Drained(1)), vec![]);
    assert_eq!(bench.on(Event::Gone(1)).len(), 1);
}

#[test]
fn an_old_server_that_breaks_while_its_calls_end_is_replaced_without_a_strike() {
    let mut bench = resting(None, Some(60 * SECOND));
    bench.wait_for_deadline();
    bench.on(Event::Tick);
    bench.on(Event::Used(1, Usage::Busy));
    assert_eq!(bench.on(Event::Lost(1, Loss::Transient)), vec![]);
    assert_eq!(bench.on(Event::Drained(1)), vec![], "nothing is left to close");
    assert_eq!(bench.on(Event::Gone(1)).len(), 1);
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
}

#[test]
fn stopping_an_old_server_that_is_being_replaced_leaves_its_calls_their_time() {
    let mut bench = resting(None, Some(60 * SECOND));
    bench.wait_for_deadline();
    bench.on(Event::Tick);
    bench.on(Event::Used(1, Usage::Busy));
    assert_eq!(bench.on(Event::Stop), vec![Action::Refuse]);
    assert_eq!(bench.on(Event::Drained(1)), vec![Action::Close(1)]);
    assert_eq!(bench.on(Event::Gone(1)), vec![Action::Finish]);
}

#[test]
fn a_permanent_failure_parks_at_once() {
    for loss in [Loss::Permanent, Loss::Refused] {
        let mut bench = Bench::connecting();
        bench.lose(loss);
        assert!(matches!(bench.state(), State::Parked { why: ParkReason::Permanent, .. }));
        bench.on(Event::Wake);
        assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 2 });
    }
}

#[test]
fn f021_an_output_without_messages_parks_only_what_was_never_ready() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::NotMcp);
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Permanent, .. }));
    let mut bench = Bench::ready();
    bench.lose(Loss::Transient);
    for attempt in 3..=5 {
        bench.wait();
        bench.lose(Loss::NotMcp);
        assert!(matches!(bench.state(), State::Backoff { attempt: next, .. } if next == attempt));
    }
    bench.wait();
    bench.lose(Loss::NotMcp);
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Unproven { attempts: 5 }, .. }));
}

#[test]
fn i25_missing_credentials_wait_and_cost_nothing() {
    let mut bench = Bench::connecting();
    for generation in 1..20 {
        bench.lose(Loss::Auth);
        assert_eq!(bench.state(), State::NeedsAuth);
        assert_eq!(bench.machine.next_deadline(), None);
        bench.on(Event::Wake);
        assert_eq!(bench.state(), State::Connecting { generation: generation + 1, attempt: 1 });
    }
}

#[test]
fn f060_a_call_refused_for_want_of_credentials_is_no_loss_and_leaves_the_other_calls_their_time() {
    let mut bench = Bench::ready();
    assert_eq!(bench.on(Event::Unauthorized(7)), vec![], "of another connection");
    assert_eq!(bench.on(Event::Unauthorized(1)), vec![Action::Retract(1), Action::Drain(1)]);
    assert_eq!(bench.state(), State::NeedsAuth);
    assert_eq!(bench.on(Event::Unauthorized(1)), vec![], "once");
    assert_eq!(bench.on(Event::Drained(1)), vec![Action::Close(1)]);
    assert_eq!(bench.on(Event::Gone(1)), vec![]);
    bench.on(Event::Wake);
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 }, "no strike");
}

#[test]
fn a_call_refused_for_its_configuration_parks_and_leaves_the_other_calls_their_time() {
    let mut bench = Bench::ready();
    bench.machine.policy.leave = 100 * SECOND;
    assert_eq!(bench.on(Event::Misconfigured(7)), vec![], "of another connection");
    assert_eq!(bench.on(Event::Misconfigured(1)), vec![Action::Retract(1), Action::Drain(1)]);
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Permanent, .. }));
    bench.wait_for_deadline();
    assert_eq!(bench.on(Event::Tick), vec![Action::Close(1)], "their time is over");
    assert!(matches!(bench.state(), State::Parked { .. }));
    assert_eq!(bench.on(Event::Gone(1)), vec![]);
    bench.wait_for_deadline();
    assert_eq!(bench.on(Event::Tick).len(), 1, "tried again");
}

#[test]
fn a_server_that_asks_for_time_gets_it() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::Later(250 * SECOND));
    let State::Backoff { until, .. } = bench.state() else { panic!("{:?}", bench.state()) };
    assert_eq!(until, bench.now + 250 * SECOND);
}

#[test]
fn new_credentials_do_not_wait_long_for_calls_on_the_connection_that_was_refused() {
    let mut bench = Bench::ready();
    bench.on(Event::Unauthorized(1));
    assert_eq!(bench.on(Event::Wake), vec![], "they may end");
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    bench.now += 5 * SECOND;
    assert_eq!(bench.on(Event::Tick), vec![Action::Close(1)]);
    assert_eq!(bench.on(Event::Gone(1)).len(), 1);
    bench.up();
}

#[test]
fn after_a_sleep_a_connection_is_probed_and_who_waits_is_tried_in_turn() {
    let mut bench = Bench::ready();
    assert_eq!(bench.on(Event::Resumed), vec![Action::Probe(1)]);
    bench.lose(Loss::Transient);
    let paced = |generation, era| vec![Action::Connect { generation, era: Some(era), haste: Haste::Paced }];
    assert_eq!(bench.on(Event::Resumed), paced(2, Era::Legacy));
    assert_eq!(bench.on(Event::Resumed), vec![], "it connects");
    while !matches!(bench.state(), State::Parked { .. }) {
        bench.lose(Loss::Transient);
        if let State::Backoff { .. } = bench.state() {
            bench.wait();
        }
    }
    let next = bench.machine.generation() + 1;
    assert_eq!(bench.on(Event::Resumed), paced(next, Era::Legacy));
    bench.lose(Loss::Permanent);
    assert_eq!(bench.on(Event::Resumed), vec![], "it would not start any better");
}

#[test]
fn f015_a_killing_probe_is_followed_by_the_legacy_handshake_and_never_repeated() {
    let mut bench = Bench::connecting();
    bench.on(Event::Lost(1, Loss::ProbeKilled));
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    bench.on(Event::Gone(1));
    bench.up();
    for _ in 0..3 {
        bench.lose(Loss::Transient);
        bench.wait();
    }
    assert_eq!(bench.connects[0], (1, None));
    assert!(bench.connects[1..].iter().all(|(_, era)| *era == Some(Era::Legacy)), "{:?}", bench.connects);
}

#[test]
fn v35_a_remembered_era_that_is_refused_is_asked_for_again() {
    for loss in [Loss::Refused, Loss::Rejected] {
        let mut bench = Bench::connecting();
        bench.on(Event::Up(1, Era::Modern));
        bench.lose(Loss::Transient);
        bench.wait();
        bench.lose(loss);
        assert_eq!(bench.connects, [(1, None), (2, Some(Era::Modern)), (3, None)]);
        bench.lose(Loss::Refused);
        assert!(matches!(bench.state(), State::Parked { why: ParkReason::Permanent, .. }));
    }
}

#[test]
fn a_modern_server_that_fails_before_it_is_ready_is_asked_again_what_it_speaks() {
    let mut bench = Bench::connecting();
    bench.on(Event::Up(1, Era::Modern));
    for _ in 0..2 {
        bench.lose(Loss::Transient);
        bench.wait();
    }
    assert_eq!(bench.connects, [(1, None), (2, Some(Era::Modern)), (3, None)]);
}

#[test]
fn what_a_server_seemed_to_speak_is_forgotten_when_it_is_parked_before_it_was_ever_ready() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::ProbeKilled);
    bench.lose(Loss::Permanent);
    bench.on(Event::Wake);
    assert_eq!(bench.connects, [(1, None), (2, Some(Era::Legacy)), (3, None)]);
}

#[test]
fn an_era_that_was_guessed_and_is_refused_is_asked_for_again_after_a_pause() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::ProbeKilled); // by chance: it is a modern server
    bench.lose(Loss::Refused);
    assert!(matches!(bench.state(), State::Backoff { attempt: 2, .. }), "{:?}", bench.state());
    bench.wait();
    assert_eq!(bench.connects, [(1, None), (2, Some(Era::Legacy)), (3, None)]);
    bench.lose(Loss::Refused);
    assert!(matches!(bench.state(), State::Parked { why: ParkReason::Permanent, .. }));
}

#[test]
fn an_era_that_was_guessed_may_be_corrected_once_the_server_is_switched_on_again() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::ProbeKilled);
    bench.on(Event::Disable);
    bench.on(Event::Gone(2));
    bench.on(Event::Enable(Begin::Now));
    bench.lose(Loss::Refused);
    assert_eq!(bench.state(), State::Connecting { generation: 4, attempt: 1 });
    let eras: Vec<_> = bench.connects.iter().map(|(_, era)| *era).collect();
    assert_eq!(eras, [None, Some(Era::Legacy), Some(Era::Legacy), None]);
}

#[test]
fn each_attempt_may_correct_the_era_once() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::ProbeKilled);
    bench.lose(Loss::Transient); // it was no matter of the era
    bench.wait();
    bench.lose(Loss::Refused);
    assert_eq!(bench.state(), State::Connecting { generation: 4, attempt: 2 });
    let eras: Vec<_> = bench.connects.iter().map(|(_, era)| *era).collect();
    assert_eq!(eras, [None, Some(Era::Legacy), Some(Era::Legacy), None]);
}

#[test]
fn a_server_that_wants_neither_era_does_not_spin() {
    let mut bench = Bench::connecting();
    for _ in 0..100 {
        match bench.state() {
            State::Connecting { .. } if bench.connects.last().unwrap().1.is_none() => {
                bench.lose(Loss::ProbeKilled)
            }
            State::Connecting { .. } => bench.lose(Loss::Refused),
            _ => break,
        }
    }
    assert!(bench.connects.len() <= 3, "{:?}", bench.connects);
}

#[test]
fn i14_a_reconnect_names_the_generation_it_rejects() {
    let mut bench = Bench::ready();
    bench.lose(Loss::Transient);
    bench.on(Event::Reconnect(1));
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 2 });
    assert_eq!(bench.on(Event::Reconnect(1)), vec![]);
    bench.up();
    assert_eq!(bench.on(Event::Reconnect(1)), vec![]);
    assert_eq!(bench.state(), State::Ready { generation: 2 });
    assert_eq!(bench.connects.len(), 2);
}

#[test]
fn a_reconnect_retracts_before_it_closes_and_waits_for_the_end() {
    let mut bench = Bench::ready();
    assert_eq!(bench.on(Event::Reconnect(1)), vec![Action::Retract(1), Action::Close(1)]);
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    assert_eq!(bench.on(Event::Reconnect(2)), vec![], "not begun yet");
    assert_eq!(bench.state(), State::Connecting { generation: 2, attempt: 1 });
    assert_eq!(bench.on(Event::Lost(1, Loss::Transient)), vec![], "wished for");
    assert_eq!(bench.on(Event::Gone(1)).len(), 1);
    bench.up();
}

#[test]
fn a_loss_of_an_unproven_connection_after_a_reconnect_is_the_first() {
    let mut bench = Bench::ready();
    for generation in 1..20 {
        bench.on(Event::Reconnect(generation));
        bench.on(Event::Gone(generation));
        bench.up();
    }
    bench.lose(Loss::Transient);
    assert!(matches!(bench.state(), State::Backoff { attempt: 2, .. }), "reconnects are not strikes");
}

#[test]
fn i15_many_demands_wake_a_dormant_server_once() {
    let mut bench = Bench::new();
    assert_eq!(bench.on(Event::Enable(Begin::OnDemand)), vec![]);
    let actions: Vec<_> = (0..20).flat_map(|_| bench.on(Event::Demand)).collect();
    assert_eq!(actions, vec![connect(1)]);
}

#[test]
fn a_demand_does_not_shorten_a_backoff() {
    let mut bench = Bench::connecting();
    bench.lose(Loss::Transient);
    assert_eq!(bench.on(Event::Demand), vec![]);
}

#[test]
fn f151_a_connection_made_after_the_server_was_switched_off_is_discarded() {
    for order in [Event::Disable, Event::Stop] {
        let mut bench = Bench::connecting();
        assert!(bench.on(order).contains(&Action::Close(1)));
        assert_eq!(bench.on(Event::Up(1, Era::Legacy)), vec![]);
        bench.on(Event::Gone(1));
        assert!(matches!(bench.state(), State::Disabled | State::Stopped));
        assert_eq!(bench.connects.len(), 1);
    }
}

#[test]
fn switching_on_again_waits_for_the_old_connection() {
    let mut bench = Bench::ready();
    assert_eq!(bench.on(Event::Disable), vec![Action::Retract(1), Action::Drain(1)]);
    assert_eq!(bench.on(Event::Enable(Begin::Now)), vec![]);
    bench.now += 5 * SECOND;
    assert_eq!(bench.on(Event::Tick), vec![Action::Close(1)], "the time of its calls is over");
    assert_eq!(
        bench.on(Event::Gone(1)),
        vec![Action::Connect { generation: 2, era: Some(Era::Legacy), haste: Haste::AtOnce }]
    );
}

#[test]
fn switching_off_hurries_a_connection_that_is_left_and_closes_none_that_has_calls() {
    let mut bench = resting(None, Some(60 * SECOND));
    bench.wait_for_deadline();
    bench.on(Event::Tick);
    bench.on(Event::Used(1, Usage::Busy));
    assert_eq!(bench.on(Event::Disable), vec![], "its calls have their time");
    assert_eq!(bench.state(), State::Disabled);
    bench.now += 4 * SECOND;
    assert_eq!(bench.on(Event::Disable), vec![]);
    assert_eq!(bench.wait(), SECOND, "less of it, from the first order");
    assert_eq!(bench.machine.next_deadline(), None);
    assert_eq!(bench.on(Event::Gone(1)), vec![]);
}

#[test]
fn who_stops_is_switched_neither_off_nor_on() {
    let mut bench = Bench::ready();
    bench.on(Event::Stop);
    for order in [Event::Disable, Event::Enable(Begin::Now), Event::Wake, Event::Reconnect(1)] {
        assert_eq!(bench.on(order), vec![]);
        assert_eq!(bench.state(), State::Draining, "{order:?}");
    }
    bench.on(Event::Drained(1));
    bench.on(Event::Gone(1));
    for order in [Event::Disable, Event::Enable(Begin::Now), Event::Wake, Event::Stop] {
        assert_eq!(bench.on(order), vec![]);
        assert_eq!(bench.state(), State::Stopped, "{order:?}");
    }
}

#[test]
fn i13_stopping_waits_for_a_connection_and_for_nothing_else() {
    let idle: [fn(&mut Bench); 5] = [
        |_| {},
        |bench| drop(bench.on(Event::Enable(Begin::OnDemand))),
        |bench| {
            bench.on(Event::Enable(Begin::Now));
            bench.lose(Loss::Transient);
        },
        |bench| {
            bench.on(Event::Enable(Begin::Now));
            bench.lose(Loss::Permanent);
        },
        |bench| {
            bench.on(Event::Enable(Begin::Now));
            bench.lose(Loss::Auth);
        },
    ];
    for prepare in idle {
        let mut bench = Bench::new();
        prepare(&mut bench);
        assert_eq!(bench.on(Event::Stop), vec![Action::Refuse, Action::Finish]);
        assert_eq!(bench.state(), State::Stopped);
    }
}

#[test]
fn stopping_a_ready_server_refuses_drains_retracts_and_closes_in_this_order() {
    let mut bench = Bench::ready();
    assert_eq!(bench.on(Event::Stop), vec![Action::Refuse, Action::Drain(1)]);
    assert_eq!(bench.on(Event::Stop), vec![]);
    assert_eq!(bench.on(Event::Drained(1)), vec![Action::Retract(1), Action::Close(1)]);
    assert_eq!(bench.on(Event::Gone(1)), vec![Action::Finish]);
}

#[test]
fn a_connection_that_ends_while_draining_ends_the_server() {
    let mut bench = Bench::ready();
    bench.on(Event::Stop);
    assert_eq!(bench.on(Event::Lost(1, Loss::Exited)), vec![Action::Retract(1)]);
    assert_eq!(bench.on(Event::Gone(1)), vec![Action::Finish]);
    assert_eq!(bench.on(Event::Drained(1)), vec![]);
}

#[test]
fn an_end_that_was_never_announced_is_a_loss() {
    let mut bench = Bench::ready();
    assert_eq!(bench.on(Event::Gone(1)), vec![Action::Retract(1), Action::Strike(1)]);
    assert!(matches!(bench.state(), State::Backoff { .. }));
}

#[test]
fn what_is_not_drawn_is_an_error() {
    let mut bench = Bench::ready();
    let now = bench.now;
    for event in [
        Event::Up(1, Era::Legacy),
        Event::Up(2, Era::Legacy),
        Event::Gone(2),
        Event::Lost(7, Loss::Transient),
    ] {
        let error = bench.machine.on(event, now).unwrap_err();
        assert_eq!(error, Illegal { event, state: State::Ready { generation: 1 } });
    }
    bench.on(Event::Stop);
    bench.on(Event::Drained(1));
    bench.on(Event::Gone(1));
    assert!(bench.machine.on(Event::Gone(1), now).is_err());
}

/// One step of the world around the machine.
#[derive(Debug, Clone, Copy)]
enum Step {
    Order(Event),
    ReconnectCurrent,
    ReconnectStale,
    CallIsMisconfigured,
    CallIsUnauthorized,
    ConnectionComesUp(Era),
    ConnectionIsLost(Loss),
    ConnectionIsGone,
    CallSucceeds,
    /// Something that cannot happen: news of a connection that is not there, or not any more.
    Impossible(u64, Loss),
    Drained,
    TimePasses(u64),
    TimerRunsOut,
    UsedFromNowOn(Usage),
}

fn step() -> impl Strategy<Value = Step> {
    let loss = prop_oneof![
        Just(Loss::Auth),
        Just(Loss::Exited),
        Just(Loss::Expired),
        Just(Loss::Later(90 * SECOND)),
        Just(Loss::NotMcp),
        Just(Loss::Permanent),
        Just(Loss::ProbeKilled),
        Just(Loss::Refused),
        Just(Loss::Rejected),
        Just(Loss::Transient),
        Just(Loss::Unreachable),
    ];
    prop_oneof![
        1 => Just(Step::Order(Event::Demand)),
        1 => Just(Step::Order(Event::Disable)),
        2 => Just(Step::Order(Event::Enable(Begin::Now))),
        1 => Just(Step::Order(Event::Enable(Begin::OnDemand))),
        1 => Just(Step::Order(Event::Wake)),
        1 => Just(Step::Order(Event::Resumed)),
        1 => Just(Step::Order(Event::Tick)),
        1 => Just(Step::ReconnectCurrent),
        1 => Just(Step::ReconnectStale),
        6 => prop_oneof![Just(Era::Legacy), Just(Era::Modern)].prop_map(Step::ConnectionComesUp),
        6 => loss.clone().prop_map(Step::ConnectionIsLost),
        8 => Just(Step::ConnectionIsGone),
        1 => Just(Step::CallIsMisconfigured),
        1 => Just(Step::CallIsUnauthorized),
        2 => Just(Step::CallSucceeds),
        1 => Just(Step::Drained),
        1 => (0_u64..3, loss.clone()).prop_map(|(behind, loss)| Step::Impossible(behind, loss)),
        2 => (0_u64..100).prop_map(Step::TimePasses),
        4 => Just(Step::TimerRunsOut),
        1 => prop_oneof![Just(Usage::Busy), Just(Usage::Awaited), Just(Usage::Free { since: None })]
            .prop_map(Step::UsedFromNowOn),
    ]
}

/// What the world knows about the one connection that may exist.
#[derive(Debug, Clone, Copy)]
struct Connection {
    generation: u64,
    up: bool,
    lost: bool,
}

/// The world around a machine: it makes only events that can happen, and checks every answer.
struct World {
    bench: Bench,
    connection: Option<Connection>,
    published: Option<u64>,
    /// It takes no more calls, and those on it have their time.
    is_leaving: bool,
    refused: bool,
    finished: bool,
    newest: u64,
    usage: Usage,
    budget: Budget,
}

/// What the machine must count, counted in another way: by what happens to connections alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Budget {
    /// Attempts in a row that ended without proof of health.
    unproven: u32,
    /// Whether the published connection has proved healthy.
    proven: bool,
    /// The connection that came up last.
    last_up: u64,
    /// An expired session was begun anew since there was proof of health.
    renewed: bool,
    /// When it came up.
    up_at: Option<Instant>,
    ever_ready: bool,
}

impl Budget {
    fn prove(&mut self) {
        *self = Self { unproven: 0, proven: true, renewed: false, ..*self };
    }
}

impl World {
    fn new() -> Self {
        let recess = RecessOptions::default().with_idle(Some(40 * SECOND)).with_age(Some(200 * SECOND));
        let mut bench = Bench::new();
        bench.machine = Machine::new(Policy { recess, ..policy() }, Jitter::new(1));
        Self {
            bench,
            connection: None,
            published: None,
            is_leaving: false,
            refused: false,
            finished: false,
            newest: 0,
            usage: Usage::Busy,
            budget: Budget::default(),
        }
    }

    fn take(&mut self, step: Step) {
        let event = match (step, self.connection) {
            (Step::Order(event), _) => event,
            (Step::ReconnectCurrent, _) => Event::Reconnect(self.bench.machine.generation()),
            (Step::ReconnectStale, _) => Event::Reconnect(self.bench.machine.generation().saturating_sub(1)),
            (Step::ConnectionComesUp(era), Some(connection)) if !connection.up && !connection.lost => {
                self.connection = Some(Connection { up: true, ..connection });
                Event::Up(connection.generation, era)
            }
            (Step::ConnectionIsLost(loss), Some(connection)) if !connection.lost => {
                self.connection = Some(Connection { lost: true, ..connection });
                Event::Lost(connection.generation, loss)
            }
            (Step::ConnectionIsGone, Some(connection)) => {
                self.connection = None;
                Event::Gone(connection.generation)
            }
            (Step::CallIsMisconfigured, Some(connection)) => Event::Misconfigured(connection.generation),
            (Step::CallIsUnauthorized, Some(connection)) => Event::Unauthorized(connection.generation),
            (Step::CallSucceeds, Some(connection)) => Event::Proven(connection.generation),
            (Step::Drained, Some(connection)) => Event::Drained(connection.generation),
            (Step::Impossible(behind, loss), present) => return self.refuse(behind, loss, present),
            (Step::TimePasses(seconds), _) => {
                self.bench.now += Duration::from_secs(seconds);
                return;
            }
            (Step::TimerRunsOut, _) if self.bench.machine.next_deadline().is_some() => {
                self.bench.wait_for_deadline();
                Event::Tick
            }
            (Step::UsedFromNowOn(usage), _) => {
                self.usage = usage;
                return;
            }
            _ => return,
        };
        self.feed(event);
    }

    /// Tells the machine of what cannot be: it says so, and stays what it was.
    fn refuse(&mut self, behind: u64, loss: Loss, present: Option<Connection>) {
        let generation = self.newest.saturating_sub(behind);
        let mut events = vec![Event::Gone(self.newest + 1), Event::Lost(self.newest + 1, loss)];
        if present.is_none_or(|connection| connection.generation != generation) {
            events.extend([Event::Gone(generation), Event::Lost(generation, loss)]);
            events.push(Event::Up(generation, Era::Modern));
        }
        let before = format!("{:?}", self.bench.machine);
        for event in events {
            let state = self.bench.state();
            assert_eq!(self.bench.machine.on(event, self.bench.now), Err(Illegal { event, state }));
            assert_eq!(format!("{:?}", self.bench.machine), before);
        }
    }

    /// Keeps the books, before the machine is asked.
    fn count(&mut self, event: Event, before: State) {
        let was_lost = self.connection.is_some_and(|connection| connection.lost);
        match event {
            Event::Up(generation, _) if is_wanted(generation, before) && !was_lost => {
                let up_at = Some(self.bench.now);
                self.budget =
                    Budget { proven: false, last_up: generation, up_at, ever_ready: true, ..self.budget };
            }
            Event::Proven(generation) if self.budget.last_up == generation => self.budget.prove(),
            Event::Tick if before.is_ready() && self.is_stable() => self.budget.prove(),
            _ => {}
        }
    }

    fn is_stable(&self) -> bool {
        let stable_for = self.bench.machine.policy.stable_for;
        self.budget.up_at.is_some_and(|up_at| self.bench.now >= up_at + stable_for)
    }

    /// A connection that was wanted has ended: what follows is a matter of what is on the books.
    fn check_loss(&mut self, loss: Loss, before: State) {
        let state = self.bench.state();
        if loss == Loss::Expired && before.is_ready() && !std::mem::replace(&mut self.budget.renewed, true) {
            let attempt = self.budget.unproven + 1;
            let renewed = matches!(state, State::Connecting { attempt: next, .. } if next == attempt);
            return assert!(renewed, "an expired session leads to {state:?}");
        }
        let was_proven = before.is_ready() && self.budget.proven;
        if let (State::Connecting { attempt, .. }, false) = (state, loss == Loss::Exited && was_proven) {
            assert!(!before.is_ready(), "{loss:?} in {before:?} leads to {state:?}");
            assert_eq!(attempt, self.budget.unproven + 1, "the wrong era is no strike");
            return;
        }
        if loss == Loss::Auth {
            return assert_eq!(state, State::NeedsAuth);
        }
        self.budget.unproven += u32::from(!was_proven);
        let (unproven, limit) = (self.budget.unproven, self.bench.machine.policy.park_after);
        match state {
            State::Parked { why: ParkReason::Permanent, .. } => {
                let is_foreign = loss == Loss::NotMcp && !self.budget.ever_ready;
                assert!(is_foreign || matches!(loss, Loss::Permanent | Loss::Refused), "{loss:?}");
            }
            State::Parked { why: ParkReason::Unproven { attempts }, .. } => {
                assert_eq!((attempts, unproven >= limit), (unproven, true), "parked too early");
            }
            State::Backoff { attempt, .. } => {
                assert_eq!((attempt, unproven < limit), (unproven + 1, true), "parked too late");
            }
            State::Connecting { attempt, .. } => assert_eq!(attempt, unproven + 1, "at once"),
            state => panic!("{loss:?} in {before:?} leads to {state:?}"),
        }
    }

    fn feed(&mut self, event: Event) {
        let before = self.bench.state();
        let mut asked = None;
        self.count(event, before);
        self.is_leaving &= !matches!(event, Event::Gone(_) | Event::Lost(..));
        for action in self.bench.on(event) {
            match action {
                Action::Look(generation) => {
                    assert_eq!(self.published, Some(generation), "only what stands is looked at");
                    asked = Some(generation);
                }
                Action::Connect { generation, .. } => {
                    assert!(self.connection.is_none(), "two connections after {event:?} in {before:?}");
                    assert!(generation > self.newest, "generations grow");
                    assert!(!self.refused, "nothing begins after the stop");
                    self.newest = generation;
                    self.connection = Some(Connection { generation, up: false, lost: false });
                }
                Action::Publish(generation) => {
                    assert!(self.connection.is_some_and(|c| c.generation == generation && !c.lost));
                    assert_eq!(self.published.replace(generation), None);
                }
                Action::Retract(generation) => assert_eq!(self.published.take(), Some(generation)),
                Action::Close(generation) | Action::Drain(generation) => {
                    assert!(self.connection.is_some_and(|c| c.generation == generation));
                    self.is_leaving = matches!(action, Action::Drain(_));
                }
                Action::Strike(generation) => {
                    assert!(!matches!(event, Event::Lost(_, Loss::Expired)), "nothing against the server");
                    assert_eq!(
                        (before, event),
                        (State::Ready { generation }, event),
                        "only a ready server is struck"
                    );
                }
                Action::Probe(generation) => assert_eq!(self.published, Some(generation)),
                Action::Refuse => assert!(!std::mem::replace(&mut self.refused, true)),
                Action::Finish => {
                    assert!(self.connection.is_none(), "finished with a connection");
                    assert!(!std::mem::replace(&mut self.finished, true));
                }
            }
        }
        match event {
            Event::Lost(generation, loss) if is_wanted(generation, before) => self.check_loss(loss, before),
            // An end that was not announced is a loss.
            Event::Gone(generation) if is_wanted(generation, before) => {
                self.check_loss(Loss::Transient, before);
            }
            _ => {}
        }
        match asked {
            Some(generation) => self.feed(Event::Used(generation, self.usage)),
            None => self.check(event, before),
        }
    }

    fn check(&self, event: Event, before: State) {
        let state = self.bench.state();
        let machine = &self.bench.machine;
        let parks_again = machine.policy.park_after;
        match state {
            State::Ready { generation } => assert_eq!(self.published, Some(generation)),
            State::Draining => assert!(self.refused && self.connection.is_some()),
            _ => assert_eq!(self.published, None, "published in {state:?}"),
        }
        assert_eq!(state == State::Stopped, self.finished);
        assert_eq!(machine.ever_ready(), self.budget.ever_ready);
        // A ready server is looked at again and again: nobody may use it, and it grows old.
        let is_leaving = self.is_leaving && !matches!(state, State::Draining | State::Stopped);
        let has_timer =
            is_leaving || matches!(state, State::Backoff { .. } | State::Parked { .. } | State::Ready { .. });
        assert_eq!(machine.next_deadline().is_some(), has_timer, "a timer where one is due: {state:?}");
        if let Event::Tick | Event::Used(..) = event {
            let is_over = machine.next_deadline().is_none_or(|deadline| deadline > self.bench.now);
            assert!(is_over, "a timer that has run out is set to the same time again: {state:?}");
        }
        if let State::Connecting { generation, .. } = state {
            let waits = self.connection.is_some_and(|present| present.generation != generation);
            assert_eq!(machine.generation(), generation);
            assert!(generation == self.newest || waits, "{state:?} is not being made");
        }
        if let (State::Backoff { attempt, .. }, false) = (state, before == state) {
            assert!(attempt <= parks_again, "backs off after {attempt} attempts");
        }
        let is_new = before != state || event == Event::Tick;
        if let (true, false, Some(deadline)) = (is_new, is_leaving, machine.next_deadline()) {
            assert!(deadline >= self.bench.now, "a timer in the past after {event:?} in {before:?}");
            assert!(deadline <= self.bench.now + 360 * SECOND);
        }
    }
}

/// Whether the connection is the one that the server is about.
fn is_wanted(generation: u64, state: State) -> bool {
    match state {
        State::Connecting { generation: wanted, .. } | State::Ready { generation: wanted } => {
            wanted == generation
        }
        _ => false,
    }
}

impl Bench {
    fn wait_for_deadline(&mut self) {
        self.now = self.now.max(self.machine.next_deadline().unwrap_or(self.now));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    #[test]
    fn any_order_of_events_keeps_the_promises(steps in prop::collection::vec(step(), 0..200)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        // From wherever it is, a stop ends it.
        world.feed(Event::Stop);
        if let Some(connection) = world.connection {
            world.feed(Event::Drained(connection.generation));
            world.take(Step::ConnectionIsGone);
        }
        prop_assert_eq!(world.bench.state(), State::Stopped);
    }
}
