use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{Either, select};
use tokio::sync::oneshot;

use super::super::authorization::AuthorizationRequest;
use super::super::error::LoginEnd;
use super::super::ui::{AuthUi, Consent, Delivery, RedirectWish};
use super::super::web_url::WebUrl;
use super::hub::{CallbackHub, Loopback, Place, Port};
use super::paste::Pasted;

/// The path of the redirect URI, unless a user says otherwise.
const CALLBACK_PATH: &str = "/callback";

/// Shows a login to a person and takes what they paste: the part that only a program can do.
#[async_trait]
pub trait Presenter: Send + Sync + fmt::Debug {
    /// Shows where to grant access, such as by printing the URL and opening a browser.
    ///
    /// The URL has the scheme `http` or `https` and no character outside RFC 3986; hand it to a program
    /// as one argument, never to a shell.
    ///
    /// # Errors
    ///
    /// There is no way to show it at all. A browser that does not open is no error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the request shown.
    async fn show(&self, request: &AuthorizationRequest) -> Result<(), LoginEnd>;

    /// Waits until the person pastes something; for ever where nobody can.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future must leave nobody who reads: what is pasted later belongs to somebody else.
    async fn pasted(&self) -> Pasted;
}

/// An [`AuthUi`] whose answers come to a listener on loopback, or are pasted.
#[derive(Debug, Clone)]
pub struct LoopbackUi {
    hub: CallbackHub,
    presenter: Arc<dyn Presenter>,
    host: &'static str,
}

impl LoopbackUi {
    /// Listens through `hub` and shows through `presenter`.
    #[must_use]
    pub fn new(hub: CallbackHub, presenter: Arc<dyn Presenter>) -> Self {
        Self { hub, presenter, host: "127.0.0.1" }
    }

    /// Calls this machine `localhost` in redirect URIs, for servers that refuse its address.
    #[must_use]
    pub fn with_localhost(mut self) -> Self {
        self.host = "localhost";
        self
    }

    /// Listens where the wish says, best port first.
    async fn listen(&self, wish: &RedirectWish, on: Loopback) -> Result<Arc<Port>, LoginEnd> {
        for port in &wish.ports {
            match self.hub.listen(*port, on).await {
                Ok(port) => return Ok(port),
                Err(error) => tracing::debug!(port, %error, "a port for the answer is taken"),
            }
        }
        if wish.is_binding {
            return Err(LoginEnd::NoListener);
        }
        self.hub.listen(0, on).await.map_err(|_| LoginEnd::NoListener)
    }
}

#[async_trait]
impl AuthUi for LoopbackUi {
    async fn open(&self, wish: &RedirectWish) -> Result<Box<dyn Consent>, LoginEnd> {
        let fixed = wish.uri.as_deref().map(WebUrl::parse).transpose().map_err(|_| LoginEnd::NoListener)?;
        let host = fixed.as_ref().map_or(self.host, |url| url.origin().host.as_str());
        let on = if host == "127.0.0.1" { Loopback::Four } else { Loopback::Both };
        let mut wish = wish.clone();
        if let Some(url) = &fixed {
            let is_here = matches!(host, "127.0.0.1" | "::1" | "localhost");
            match (is_here, wish.ports.is_empty()) {
                (true, _) => wish.ports = vec![url.origin().port],
                // Something forwards answers from elsewhere: it has to know a port.
                (false, true) => return Err(LoginEnd::NoListener),
                (false, false) => {}
            }
            wish.is_binding = true;
        }
        let port = self.listen(&wish, on).await?;
        let path =
            fixed.as_ref().map_or(CALLBACK_PATH, |url| if url.path().is_empty() { "/" } else { url.path() });
        Ok(Box::new(LoopbackConsent {
            redirect_uri: match &fixed {
                Some(url) => url.as_str().to_owned(),
                None => format!("http://{host}:{}{path}", port.number()),
            },
            path: path.to_owned(),
            presenter: Arc::clone(&self.presenter),
            port,
            place: None,
        }))
    }
}

struct LoopbackConsent {
    redirect_uri: String,
    path: String,
    presenter: Arc<dyn Presenter>,
    port: Arc<Port>,
    /// Where the answer comes to, once it has been asked for.
    place: Option<Place>,
}

#[async_trait]
impl Consent for LoopbackConsent {
    fn redirect_uri(&self) -> String {
        self.redirect_uri.clone()
    }

    async fn show(&mut self, request: &AuthorizationRequest) -> Result<(), LoginEnd> {
        // First the place, then the URL: an answer can be quick.
        self.place = Some(self.port.expect(request.state(), &self.path));
        self.presenter.show(request).await
    }

    async fn answer(&mut self) -> Result<Delivery, LoginEnd> {
        let place = self.place.as_mut().ok_or(LoginEnd::NoListener)?;
        loop {
            let pasted = match select(Box::pin(place.answer()), self.presenter.pasted()).await {
                Either::Left((Some(delivery), _)) => return Ok(delivery),
                Either::Left((None, _)) => return Err(LoginEnd::NoListener),
                Either::Right((pasted, _)) => pasted,
            };
            match pasted {
                Pasted::Answer(parameters) => {
                    // The person sees the outcome in the terminal.
                    let (verdict, _) = oneshot::channel();
                    return Ok(Delivery { parameters, verdict });
                }
                Pasted::Skip => return Err(LoginEnd::Skipped),
                Pasted::Unreadable => {}
            }
        }
    }
}

impl fmt::Debug for LoopbackConsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopbackConsent").field("redirect_uri", &self.redirect_uri).finish_non_exhaustive()
    }
}
