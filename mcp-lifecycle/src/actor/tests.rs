use std::sync::Arc;
use std::time::Duration;

use mcp_proto::CallTool;
use mcp_session::{CallOptions, EraPolicy, SessionOptions};
use mcp_transport::testing::{MemoryConnector, ServerScript, ToolBehaviour, serve_all};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::keepalive::KeepaliveOptions;
use crate::options::{ServerOptions, ServerSpec, SupervisorOptions};
use crate::recess::RecessOptions;
use crate::registry::Registry;
use crate::root::Root;
use crate::runtime::Runtime;
use crate::state::State;

const SECOND: Duration = Duration::from_secs(1);

/// A call on another thread may begin after the look that finds nobody and before the gate is shut. Here it
/// begins earlier and nobody counts it, which is the same for the look.
#[tokio::test(start_paused = true)]
async fn i23_a_call_that_no_look_has_seen_ends_in_its_own_time_when_the_server_rests() {
    let runtime = Arc::new(Runtime::new(SupervisorOptions::default().with_seed(1)));
    let registry = Arc::new(Registry::new(runtime));
    let mut tasks = JoinSet::new();
    tasks.spawn(Root::new(Arc::clone(&registry)).run());
    let script = ServerScript::legacy().with_tool("slow", ToolBehaviour::Slow(20 * SECOND));
    let (connector, served) = (MemoryConnector::new(), script.clone());
    let serving = connector.clone();
    tasks.spawn(async move { serve_all(&serving, |_| served.start()).await });
    let options = ServerOptions::default()
        .with_session(SessionOptions::default().with_era(EraPolicy::Legacy))
        .with_keepalive(KeepaliveOptions::default().with_interval(None))
        .with_recess(RecessOptions::default().with_idle(Some(60 * SECOND)));
    let server = registry.add(ServerSpec::new("one", Arc::new(connector)).with_options(options)).unwrap();
    server.until_state(|state| state.is_ready()).await;

    sleep(59 * SECOND).await;
    let live = server.gate.enter(Instant::now() + SECOND).await.unwrap();
    let mut unseen = Box::pin(live.call(CallTool::new("slow"), CallOptions::default()));
    tokio::select! {
        ended = &mut unseen => panic!("before the server rests: {ended:?}"),
        () = server.until_state(|state| matches!(state, State::Dormant { .. })) => {}
    }
    unseen.await.unwrap();
    assert_eq!((script.log().runs("slow"), script.log().cancelled().len()), (1, 0));

    registry.stop();
    assert!(registry.report.wait().await.is_clean());
}

/// Who retires a server may be faster than an owner on another thread that is still in the middle of a step.
#[tokio::test(start_paused = true)]
async fn stopped_is_final_also_for_an_owner_that_is_late() {
    let registry = Registry::new(Arc::new(Runtime::new(SupervisorOptions::default())));
    let mut events = registry.runtime.events();
    let server = registry.add(ServerSpec::new("one", Arc::new(MemoryConnector::new()))).unwrap();
    server.retire("as asked");
    server.announce(|status| status.state = State::Ready { generation: 1 });
    server.retire("once more");
    assert_eq!(server.state(), State::Stopped);
    assert!(events.try_recv().is_ok());
    assert!(events.try_recv().is_err(), "told once");
}
