//! Handlers that call the server that asks them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

mod support;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use mcp_proto::{
    CallTool, ClientCapabilities, ErrorObject, ListRootsResult, ReadResource, Root, RootsCapability,
};
use mcp_session::{
    Asker, CallError, CallOptions, ClientHandler, Gate, GateError, HandlerLimits, Session, SessionOptions,
};
use mcp_transport::testing::MemoryOptions;
use serde_json::json;
use support::*;
use tokio::time::Instant;

/// Before it names a folder, it reads a resource: through the gate, and past it.
#[derive(Default)]
struct Caller {
    server: OnceLock<(Arc<Gate>, Session)>,
    found: Mutex<Vec<Result<(), GateError>>>,
}

#[async_trait]
impl ClientHandler for Caller {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapability::default());
        capabilities
    }

    async fn list_roots(&self, _: &Asker) -> Result<ListRootsResult, ErrorObject> {
        let (gate, session) = self.server.get().unwrap();
        let entered = gate.enter(Instant::now() + seconds(2)).await;
        self.found.lock().unwrap().push(entered.map(drop));
        let read = session.call(ReadResource::new("a:b"), CallOptions::default()).await;
        read.map_err(|error| ErrorObject::new(-32603, error.to_string()))?;
        Ok(ListRootsResult::new(vec![Root::new("file:///work")]))
    }
}

/// The gate lets one call through at a time, and the call that holds it waits for the handler.
#[tokio::test(start_paused = true)]
async fn f148_a_handler_that_calls_its_own_server_one_call_at_a_time_is_no_deadlock() {
    for is_legacy in [true, false] {
        let caller = Arc::new(Caller::default());
        let options = SessionOptions::default().with_handler(Arc::clone(&caller) as _);
        let it = match is_legacy {
            true => legacy_with(options, MemoryOptions::default()).await,
            false => modern_with(options, MemoryOptions::default()).await,
        };
        let gate = Gate::alone(it.session.clone(), NonZeroUsize::MIN, 8);
        assert!(caller.server.set((Arc::clone(&gate), it.session.clone())).is_ok());
        let began = Instant::now();
        let live = gate.enter(soon()).await.unwrap();
        let calling = tokio::spawn(live.call(CallTool::new("any"), CallOptions::default()));
        let mut request = it.peer.expect("tools/call").await;
        if is_legacy {
            it.peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})).await;
        } else {
            let asked = json!({"q": {"method": "roots/list"}});
            let result = json!({"resultType": "input_required", "inputRequests": asked});
            it.peer.respond(request.id(), result).await;
        }
        let nested = it.peer.expect("resources/read").await;
        it.peer.respond(nested.id(), json!({"contents": []})).await;
        let roots = json!([{"uri": "file:///work"}]);
        if is_legacy {
            assert_eq!(it.peer.receive().await.value["result"]["roots"], roots);
        } else {
            request = it.peer.expect("tools/call").await;
            assert_eq!(request.params()["inputResponses"]["q"]["roots"], roots);
        }
        it.peer.respond(request.id(), said("done")).await;
        calling.await.unwrap().unwrap();
        let found = std::mem::take(&mut *caller.found.lock().unwrap());
        let [Err(refused)] = found.as_slice() else { panic!("the gate let two calls through") };
        let refused = refused.into_call_error(seconds(2));
        assert!(matches!(refused, CallError::QueueTimeout { .. }), "{refused:?}");
        assert_eq!(began.elapsed(), seconds(2), "nothing but the queue was waited for");
        assert_gate_quiescent(&gate);
        assert_quiescent(&it.session);
    }
}

/// Whenever it is asked for roots, it calls the tool of its server once more, past the gate.
#[derive(Default)]
struct Recursive {
    server: OnceLock<Session>,
    asked: Mutex<u32>,
}

#[async_trait]
impl ClientHandler for Recursive {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapability::default());
        capabilities
    }

    async fn list_roots(&self, _: &Asker) -> Result<ListRootsResult, ErrorObject> {
        *self.asked.lock().unwrap() += 1;
        let session = self.server.get().unwrap();
        match session.call(CallTool::new("any"), CallOptions::default()).await {
            Ok(_) => Ok(ListRootsResult::new(Vec::new())),
            Err(error) => Err(ErrorObject::new(-32603, error.to_string())),
        }
    }
}

/// The only place for a question is taken by the handler that the nested call is made in.
#[tokio::test(start_paused = true)]
async fn f148_a_nested_question_never_waits_for_the_handler_it_is_asked_inside() {
    let handler = Arc::new(Recursive::default());
    let limits = HandlerLimits::default().with_at_once(1);
    let options =
        SessionOptions::default().with_handler(Arc::clone(&handler) as _).with_handler_limits(limits);
    let it = modern_with(options, MemoryOptions::default()).await;
    handler.server.set(it.session.clone()).unwrap();
    let began = Instant::now();
    let calling = tokio::spawn(it.session.call(CallTool::new("any"), CallOptions::default()));
    let asking = json!({"resultType": "input_required", "inputRequests": {"q": {"method": "roots/list"}}});
    let serving = async {
        for _ in 0..2 {
            let call = it.peer.expect("tools/call").await;
            it.peer.respond(call.id(), asking.clone()).await;
        }
        for _ in 0..3 {
            let call = it.peer.expect("tools/call").await;
            it.peer.respond(call.id(), said("done")).await;
        }
    };
    tokio::time::timeout(seconds(1), serving).await.expect("a question waits for the handler around it");
    calling.await.unwrap().unwrap();
    assert_eq!((*handler.asked.lock().unwrap(), began.elapsed()), (2, seconds(0)));
    assert_quiescent(&it.session);
}

/// One at once is the limit of each depth.
#[tokio::test(start_paused = true)]
async fn f121_a_handler_is_asked_three_deep_and_no_deeper() {
    for is_legacy in [true, false] {
        let handler = Arc::new(Recursive::default());
        let limits = HandlerLimits::default().with_at_once(1);
        let options =
            SessionOptions::default().with_handler(Arc::clone(&handler) as _).with_handler_limits(limits);
        let it = match is_legacy {
            true => legacy_with(options, MemoryOptions::default()).await,
            false => modern_with(options, MemoryOptions::default()).await,
        };
        handler.server.set(it.session.clone()).unwrap();
        let calling = tokio::spawn(it.session.call(CallTool::new("any"), CallOptions::default()));
        for depth in 1..=4 {
            let call = it.peer.expect("tools/call").await;
            if is_legacy {
                it.peer.send(json!({"jsonrpc": "2.0", "id": depth, "method": "roots/list"})).await;
            } else {
                let asked = json!({"q": {"method": "roots/list"}});
                it.peer
                    .respond(call.id(), json!({"resultType": "input_required", "inputRequests": asked}))
                    .await;
            }
        }
        if is_legacy {
            let refused = it.peer.receive().await.value;
            assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(4), &json!(-32603)), "{refused}");
            it.session.close(soon()).await;
        }
        let ended = calling.await.unwrap().unwrap_err();
        assert_eq!(is_legacy, ended.is_session_gone(), "{ended}");
        assert_eq!(*handler.asked.lock().unwrap(), 3);
        assert_quiescent(&it.session);
    }
}
