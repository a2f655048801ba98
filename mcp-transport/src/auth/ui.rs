use std::fmt;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::authorization::{AuthorizationRequest, ForeignAnswer};
use super::error::LoginEnd;
use super::form::Form;

/// Brings authorization requests before a person, and their answers back.
#[async_trait]
pub trait AuthUi: Send + Sync + fmt::Debug {
    /// Makes a place to which the answer can come, before anything is registered or shown.
    ///
    /// # Errors
    ///
    /// There is no such place, or the person does not want to.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no listener behind.
    async fn open(&self, wish: &RedirectWish) -> Result<Box<dyn Consent>, LoginEnd>;
}

/// One login, as a person sees it. Dropping it closes what it listens on.
#[async_trait]
pub trait Consent: Send + fmt::Debug {
    /// Where answers come to, byte for byte as the authorization server will know it.
    fn redirect_uri(&self) -> String;

    /// Shows the request. Called once; a browser that does not open is no error.
    ///
    /// # Errors
    ///
    /// The request cannot be shown at all.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the request shown.
    async fn show(&mut self, request: &AuthorizationRequest) -> Result<(), LoginEnd>;

    /// Waits for the next answer, which may turn out not to be the one.
    ///
    /// # Errors
    ///
    /// The person does not want to, or the answer takes too long.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no answer.
    async fn answer(&mut self) -> Result<Delivery, LoginEnd>;
}

/// Where a login would like its answer to come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedirectWish {
    /// The whole URI, if it must be this one.
    pub uri: Option<String>,
    /// Ports on loopback, best first; any free one if there are none.
    pub ports: Vec<u16>,
    /// Whether a port that is not among those will not do.
    pub is_binding: bool,
}

/// An answer that came in.
#[derive(Debug)]
pub struct Delivery {
    /// Its parameters.
    pub parameters: Form,
    /// Where to say what it was worth.
    pub verdict: oneshot::Sender<AnswerVerdict>,
}

/// What an answer was worth, for the page that the person sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerVerdict {
    /// It was the answer, and access is granted.
    Granted,
    /// It was the answer, and access is denied.
    Denied,
    /// It was not the answer; the login waits on.
    Foreign(ForeignAnswer),
}
