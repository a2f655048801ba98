use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use mcp_proto::{
    ClientCapabilities, CreateMessage, CreateMessageResult, Elicit, ElicitForm, ElicitResult, ElicitUrl,
    ElicitationCapability, ErrorObject, ListRootsResult, RawJson, Root, RootsCapability, SamplingCapability,
    code,
};
use mcp_session::{Asker, ClientHandler};

/// Answers one kind of request.
type Answering<Q, A> = Arc<dyn Fn(Asker, Q) -> Answer<A> + Send + Sync>;

/// An answer in the making.
type Answer<A> = Pin<Box<dyn Future<Output = Result<A, ErrorObject>> + Send>>;

/// What the builder was told to do when a server asks: each kind on its own, a handler for the rest.
#[derive(Clone, Default)]
pub(crate) struct Serving {
    /// The same list in every handler: it may change.
    roots: Option<Arc<Mutex<Vec<Root>>>>,
    sampling: Option<Answering<CreateMessage, CreateMessageResult>>,
    form: Option<Answering<ElicitForm, ElicitResult>>,
    url: Option<Answering<ElicitUrl, ElicitResult>>,
    rest: Option<Arc<dyn ClientHandler>>,
}

impl Serving {
    pub(crate) fn set_roots(&mut self, roots: Vec<Root>) {
        self.roots = Some(Arc::new(Mutex::new(roots)));
    }

    /// Answers with other roots from now on; `false` if there were none to be answered with.
    pub(crate) fn change_roots(&self, roots: Vec<Root>) -> bool {
        let Some(all) = &self.roots else { return false };
        *all.lock().unwrap_or_else(PoisonError::into_inner) = roots;
        true
    }

    pub(crate) fn set_sampling<F, Fut>(&mut self, answer: F)
    where
        F: Fn(Asker, CreateMessage) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CreateMessageResult, ErrorObject>> + Send + 'static,
    {
        self.sampling = Some(boxed(answer));
    }

    pub(crate) fn set_form<F, Fut>(&mut self, answer: F)
    where
        F: Fn(Asker, ElicitForm) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.form = Some(boxed(answer));
    }

    pub(crate) fn set_url<F, Fut>(&mut self, answer: F)
    where
        F: Fn(Asker, ElicitUrl) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<ElicitResult, ErrorObject>> + Send + 'static,
    {
        self.url = Some(boxed(answer));
    }

    pub(crate) fn set_rest(&mut self, handler: Arc<dyn ClientHandler>) {
        self.rest = Some(handler);
    }

    /// The handler for the sessions; `None` if nothing is served.
    pub(crate) fn handler(&self) -> Option<Arc<dyn ClientHandler>> {
        let Self { roots, sampling, form, url, rest } = self;
        if roots.is_some() || sampling.is_some() || form.is_some() || url.is_some() {
            return Some(Arc::new(self.clone()));
        }
        rest.clone()
    }
}

#[async_trait]
impl ClientHandler for Serving {
    fn capabilities(&self) -> ClientCapabilities {
        let mut all = self.rest.as_ref().map(|rest| rest.capabilities()).unwrap_or_default();
        if self.roots.is_some() {
            let mut roots = RootsCapability::default();
            roots.list_changed = true;
            all.roots = Some(roots);
        }
        if self.sampling.is_some() {
            all.sampling = Some(SamplingCapability::default());
        }
        let (has_form, has_url) = (self.form.is_some(), self.url.is_some());
        if has_form || has_url {
            let rest = all.elicitation.take();
            let also_form = has_form || rest.as_ref().is_some_and(ElicitationCapability::has_form);
            let also_url = has_url || rest.as_ref().is_some_and(ElicitationCapability::has_url);
            let mut elicitation = ElicitationCapability::default();
            elicitation.form = also_form.then(RawJson::empty_object);
            elicitation.url = also_url.then(RawJson::empty_object);
            all.elicitation = Some(elicitation);
        }
        all
    }

    async fn list_roots(&self, asker: &Asker) -> Result<ListRootsResult, ErrorObject> {
        match (&self.roots, &self.rest) {
            (Some(roots), _) => {
                let roots = roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Ok(ListRootsResult::new(roots))
            }
            (None, Some(rest)) => rest.list_roots(asker).await,
            (None, None) => Err(not_served()),
        }
    }

    async fn create_message(
        &self,
        asker: &Asker,
        request: CreateMessage,
    ) -> Result<CreateMessageResult, ErrorObject> {
        match (&self.sampling, &self.rest) {
            (Some(answer), _) => answer(asker.clone(), request).await,
            (None, Some(rest)) => rest.create_message(asker, request).await,
            (None, None) => Err(not_served()),
        }
    }

    async fn elicit(&self, asker: &Asker, request: Elicit) -> Result<ElicitResult, ErrorObject> {
        match (request, &self.form, &self.url, &self.rest) {
            (Elicit::Form(form), Some(answer), ..) => answer(asker.clone(), form).await,
            (Elicit::Url(url), _, Some(answer), _) => answer(asker.clone(), url).await,
            (request, _, _, Some(rest)) => rest.elicit(asker, request).await,
            _ => Ok(ElicitResult::decline()),
        }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Serving").field(&self.capabilities()).finish()
    }
}

fn boxed<Q: 'static, A: 'static, F, Fut>(answer: F) -> Answering<Q, A>
where
    F: Fn(Asker, Q) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<A, ErrorObject>> + Send + 'static,
{
    Arc::new(move |asker, request| Box::pin(answer(asker, request)))
}

fn not_served() -> ErrorObject {
    ErrorObject::new(code::METHOD_NOT_FOUND, "this client does not serve that method")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(serving: &Serving) -> String {
        serde_json::to_string(&serving.capabilities()).unwrap()
    }

    /// Serves URLs and, unlike the others, a model with tools.
    struct Rest;

    impl ClientHandler for Rest {
        fn capabilities(&self) -> ClientCapabilities {
            let mut all = ClientCapabilities::default();
            let mut elicitation = ElicitationCapability::default();
            elicitation.url = Some(RawJson::empty_object());
            all.elicitation = Some(elicitation);
            let mut sampling = SamplingCapability::default();
            sampling.tools = Some(RawJson::empty_object());
            all.sampling = Some(sampling);
            all
        }
    }

    #[test]
    fn what_is_declared_is_what_was_set() {
        let mut serving = Serving::default();
        assert!(serving.handler().is_none());
        serving.set_roots(vec![Root::new("file:///a")]);
        assert_eq!(declared(&serving), r#"{"roots":{"listChanged":true}}"#);
        serving.set_form(async |_, _| Ok(ElicitResult::decline()));
        assert_eq!(declared(&serving), r#"{"elicitation":{"form":{}},"roots":{"listChanged":true}}"#);
        serving.set_rest(Arc::new(Rest));
        let rest =
            r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{"tools":{}}}"#;
        assert_eq!(declared(&serving), rest);
        assert!(serving.handler().is_some());
        // Whoever answers instead of the rest knows of no tools.
        serving.set_sampling(async |_, _| Err(not_served()));
        assert_eq!(declared(&serving), rest.replace(r#"{"tools":{}}"#, "{}"));

        let mut serving = Serving::default();
        serving.set_url(async |_, _| Ok(ElicitResult::accept_url()));
        serving.set_sampling(async |_, _| Err(not_served()));
        assert_eq!(declared(&serving), r#"{"elicitation":{"url":{}},"sampling":{}}"#);
    }
}
