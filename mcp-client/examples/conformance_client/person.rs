use std::time::Duration;

use async_trait::async_trait;
use mcp_transport::auth::{
    AuthUi, AuthorizationRequest, Consent, Delivery, LoginEnd, OAuthClient, OAuthHttp, OAuthRequest, Pasted,
    RedirectWish, WebUrl,
};
use mcp_transport::http::{HeaderMap, TlsRoots};
use tokio::sync::oneshot;

/// The port of the redirect URI where none is wished for. Nothing listens there: the suite redirects at
/// once, and where to is all there is to know.
const PORT: u16 = 27890;

/// How long the suite may take to redirect.
const LIMIT: Duration = Duration::from_secs(5);

/// A person who grants whatever is asked for, with a browser that stops at the redirect.
#[derive(Debug)]
pub(crate) struct Person;

#[derive(Debug)]
struct Browser {
    redirect_uri: String,
    /// Where the redirect has led to, until it is told.
    location: Option<String>,
}

#[async_trait]
impl AuthUi for Person {
    async fn open(&self, wish: &RedirectWish) -> Result<Box<dyn Consent>, LoginEnd> {
        let port = wish.ports.first().copied().unwrap_or(PORT);
        let redirect_uri = wish.uri.clone().unwrap_or_else(|| format!("http://127.0.0.1:{port}/callback"));
        Ok(Box::new(Browser { redirect_uri, location: None }))
    }
}

#[async_trait]
impl Consent for Browser {
    fn redirect_uri(&self) -> String {
        self.redirect_uri.clone()
    }

    async fn show(&mut self, request: &AuthorizationRequest) -> Result<(), LoginEnd> {
        let url = WebUrl::parse(request.url().expose()).map_err(|_| LoginEnd::NoListener)?;
        let http = OAuthClient::new(TlsRoots::Platform);
        // The person looks at the URL first.
        let request = OAuthRequest::get(url, HeaderMap::new(), LIMIT).named_by_user();
        let response = http.send(request).await;
        let response = response.map_err(|_| LoginEnd::NoListener)?;
        let location = response.headers.get("location").and_then(|location| location.to_str().ok());
        self.location = location.map(str::to_owned);
        Ok(())
    }

    async fn answer(&mut self) -> Result<Delivery, LoginEnd> {
        // There is one answer; whoever finds fault with it waits for another in vain.
        let location = self.location.take().ok_or(LoginEnd::Skipped)?;
        match Pasted::read(&location) {
            Pasted::Answer(parameters) => Ok(Delivery { parameters, verdict: oneshot::channel().0 }),
            _ => Err(LoginEnd::Skipped),
        }
    }
}
