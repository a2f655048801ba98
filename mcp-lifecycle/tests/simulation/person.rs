use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use mcp_proto::{
    ClientCapabilities, Elicit, ElicitResult, ElicitationCapability, Entries, ErrorObject, ListRootsResult,
    RootsCapability,
};
use mcp_session::{Asker, ClientHandler};
use tokio::time::sleep;

use crate::random::Random;

/// Answers what servers ask: at once, later, much later, or with a refusal.
pub(crate) struct Person(Mutex<Random>);

impl Person {
    pub(crate) fn new(random: Random) -> Self {
        Self(Mutex::new(random))
    }

    async fn think(&self) -> bool {
        let (time, agrees) = {
            let mut random = self.0.lock().unwrap();
            (random.time(Duration::from_secs(60)), random.percent(80))
        };
        sleep(time).await;
        agrees
    }
}

#[async_trait]
impl ClientHandler for Person {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::form());
        capabilities.roots = Some(RootsCapability::default());
        capabilities
    }

    async fn list_roots(&self, _: &Asker) -> Result<ListRootsResult, ErrorObject> {
        self.think().await;
        Ok(ListRootsResult::new(Vec::new()))
    }

    async fn elicit(&self, _: &Asker, _: Elicit) -> Result<ElicitResult, ErrorObject> {
        let agrees = self.think().await;
        Ok(if agrees { ElicitResult::accept(Entries::default()) } else { ElicitResult::cancel() })
    }
}

impl fmt::Debug for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Person")
    }
}
