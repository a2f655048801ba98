use std::sync::Arc;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::authorizer::{Authorizer, LoginFailed};

/// What a server's owner has done about credentials, in tasks of its own: at most one login, and one watch
/// for what others bring about. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Errands {
    authorizer: Option<Arc<dyn Authorizer>>,
    tasks: JoinSet<Errand>,
    login: Option<AbortHandle>,
    watch: Option<AbortHandle>,
}

/// One that is done.
#[derive(Debug)]
pub(crate) enum Errand {
    Login(Result<(), LoginFailed>),
    /// Somebody has brought credentials about.
    Renewed,
}

impl Errands {
    pub(crate) fn new(authorizer: Option<Arc<dyn Authorizer>>) -> Self {
        Self { authorizer, tasks: JoinSet::new(), login: None, watch: None }
    }

    /// Begins a login if one is wanted, and ends the one that goes on if none is.
    pub(crate) fn have_login(&mut self, is_wanted: bool) {
        if !is_wanted {
            end(&mut self.login);
        } else if let (None, Some(authorizer)) = (&self.login, &self.authorizer) {
            let authorizer = Arc::clone(authorizer);
            self.login = Some(self.tasks.spawn(async move { Errand::Login(authorizer.login().await) }));
        }
    }

    /// Begins to watch for credentials, or ends that.
    pub(crate) fn watch_credentials(&mut self, is_wanted: bool) {
        if !is_wanted {
            end(&mut self.watch);
        } else if let (None, Some(authorizer)) = (&self.watch, &self.authorizer) {
            let authorizer = Arc::clone(authorizer);
            self.watch = Some(self.tasks.spawn(async move {
                authorizer.renewed().await;
                Errand::Renewed
            }));
        }
    }

    /// Waits for the next one that is done.
    ///
    /// Cancel safe: one is taken in the last step.
    pub(crate) async fn next(&mut self) -> Errand {
        loop {
            let Some(joined) = self.tasks.join_next_with_id().await else {
                return std::future::pending().await;
            };
            let id = match &joined {
                Ok((id, _)) => *id,
                Err(error) => error.id(),
            };
            let is_login = self.login.take_if(|login| login.id() == id).is_some();
            let is_watch = self.watch.take_if(|watch| watch.id() == id).is_some();
            match joined {
                // One that was ended and had come to its end before is of interest to nobody any more.
                Ok((_, errand)) if is_login || is_watch => return errand,
                Err(error) if error.is_panic() => {
                    tracing::error!(%error, "an authorizer panicked");
                    if is_login {
                        return Errand::Login(Err(LoginFailed("the login panicked".to_owned())));
                    }
                }
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// Ends all of them.
    pub(crate) fn drop_all(&mut self) {
        end(&mut self.login);
        end(&mut self.watch);
    }

    /// Ends everything; answers with the number of tasks that have not ended by then. What the authorizer
    /// does not answer to by `end_by` counts as one.
    pub(crate) async fn close(&mut self, by: Instant, end_by: Instant) -> usize {
        self.drop_all();
        let closing = async {
            while self.tasks.join_next().await.is_some() {}
            match &self.authorizer {
                Some(authorizer) => authorizer.close(by).await,
                None => 0,
            }
        };
        timeout_at(end_by, closing).await.unwrap_or(1)
    }
}

fn end(task: &mut Option<AbortHandle>) {
    if let Some(task) = task.take() {
        task.abort();
    }
}
