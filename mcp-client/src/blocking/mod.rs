//! The client for threads that have no async runtime.

mod runtime;
mod wait;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_lifecycle::{ServerStatus, ShutdownReport, StillDraining};
use tokio::time::Instant;

use crate::builder::{ClientBuilder, StartError};

pub use runtime::{BackgroundRuntime, GaveUp, RuntimeError};
pub use wait::{Interrupt, Wait};

use runtime::rest;

/// What is longer than this is for ever: 30 years, more than any clock of the runtime can overflow with.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// How much longer than a call itself a thread waits for its answer: the runtime may be busy.
const SLACK: Duration = Duration::from_secs(1);

/// The client with a runtime of its own, for ordinary threads.
///
/// Never use it inside an async runtime: its methods block the thread. Any number of threads may use it.
///
/// End it with [`end`](Self::end). Dropping it kills its servers at once, unless [`shutdown`](Self::shutdown)
/// has begun: that goes on to its own end, whoever has stopped waiting for it. One of the
/// [`inner`](Self::inner) client does not.
#[derive(Debug)]
#[must_use = "dropping the client kills its servers"]
pub struct Client {
    // Dropped first: it kills children by itself and needs no runtime for that.
    client: crate::Client,
    runtime: BackgroundRuntime,
    is_shutting_down: AtomicBool,
}

impl Client {
    /// Starts a runtime, and the servers of `builder` on it.
    ///
    /// # Errors
    ///
    /// The runtime or the client could not be started; nothing was left behind.
    pub fn start(builder: ClientBuilder) -> Result<Self, StartError> {
        let runtime = BackgroundRuntime::start()?;
        let client = builder.start(runtime.handle())?;
        Ok(Self { client, runtime, is_shutting_down: AtomicBool::new(false) })
    }

    /// The async client, for everything that does not wait.
    pub fn inner(&self) -> &crate::Client {
        &self.client
    }

    /// The runtime that everything runs on.
    pub fn runtime(&self) -> &BackgroundRuntime {
        &self.runtime
    }

    /// The state of every server.
    #[must_use]
    pub fn status(&self) -> Vec<ServerStatus> {
        self.client.status()
    }

    /// Waits until `server` has settled, at most `limit`; `None` if there is no such server.
    ///
    /// # Errors
    ///
    /// [`GaveUp`]: the runtime does not answer.
    pub fn settled(&self, server: &str, limit: Duration) -> Result<Option<ServerStatus>, GaveUp> {
        let Some(handle) = self.client.server(server) else { return Ok(None) };
        let settled = async move {
            let by = Instant::now();
            handle.settled(by.checked_add(limit.min(LONGEST)).unwrap_or(by)).await
        };
        self.runtime.run(limit.saturating_add(SLACK), settled).map(Some)
    }

    /// Shuts down and waits for the report, at most `limit`.
    ///
    /// # Errors
    ///
    /// The sequence is not over; it goes on, and calling again waits for it.
    pub fn shutdown(&self, limit: Duration) -> Result<Arc<ShutdownReport>, StillDraining> {
        self.begin_shutdown();
        // The waiting is the thread's own: a blocked runtime delays the report, never the caller.
        self.client.shutdown().wait(limit)
    }

    /// Shuts down, then ends the runtime and its thread, and waits for all of that, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`GaveUp::StillRunning`]: it is not over; it goes on in its order, and nothing overtakes the shutdown.
    pub fn end(self, limit: Duration) -> Result<Arc<ShutdownReport>, GaveUp> {
        let began = Instant::now();
        let report = self.shutdown(limit).map_err(|_| GaveUp::StillRunning(limit))?;
        let Self { client, runtime, .. } = self;
        drop(client);
        runtime.end(rest(limit, began)).map_err(|_| GaveUp::StillRunning(limit))?;
        Ok(report)
    }

    /// From here on the runtime does not end before the shutdown has, whatever becomes of the client.
    fn begin_shutdown(&self) {
        if !self.is_shutting_down.swap(true, Ordering::AcqRel) {
            let shutdown = self.client.shutdown();
            self.runtime.see_out(async move { drop(shutdown.await) });
        }
    }
}

/// The five operations; see [`Handlers`](crate::Handlers) for what goes in and comes out.
///
/// Each waits for the answer no longer than `wait` says, whatever the runtime does; a call that nobody waits
/// for any more is cancelled.
macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        impl Client {
            $($(#[$doc])*
            ///
            /// # Errors
            ///
            /// [`GaveUp`]: no answer came while the thread waited. The call is cancelled, and its server told;
            /// or the runtime has ended, and everything with it.
            pub fn $name(
                &self,
                arguments: impl Into<String>,
                wait: impl Into<Wait>,
            ) -> Result<String, GaveUp> {
                let (handlers, arguments) = (self.client.handlers(), arguments.into());
                self.runtime.run_or_cancel(wait, async move { handlers.$name(&arguments).await })
            })*
        }
    };
}

operations! {
    /// Calls a tool.
    call_tool;
    /// Fills a prompt in.
    get_prompt;
    /// Lists prompts.
    list_prompts;
    /// Lists resources.
    list_resources;
    /// Reads a resource.
    read_resource;
}
