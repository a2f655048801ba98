//! Streamable HTTP, in both eras.
//!
//! A [`HttpConnector`] opens connections to one [`Endpoint`] through a [`HttpBackend`]. Each request
//! is a POST; its answer is read where it was sent if it is one JSON body, and by the receiving half
//! if it is a stream of events.

mod authorizer;
mod backend;
mod body;
mod closing;
mod connector;
mod dial;
mod endpoint;
mod error;
mod exchange;
mod hyper_backend;
mod limits;
mod link;
mod receive;
mod resolve;
mod retry_after;
mod stream;
mod tls;
mod transport;
mod watched;

pub use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};

pub use authorizer::{AfterChallenge, AuthProvider, AuthStamp};
pub use backend::{DispatchMark, HttpBackend, HttpBody, HttpPool, HttpRequest, HttpResponse, Origin, Scheme};
pub use connector::HttpConnector;
pub use endpoint::{Endpoint, EndpointError};
pub use error::{HttpConnectError, HttpError};
pub use hyper_backend::HyperBackend;
pub use limits::HttpLimits;
pub use resolve::{Resolve, SystemResolver};
pub use tls::{TlsError, TlsRoots};

#[cfg(feature = "oauth")]
pub(crate) use body::{Whole, read_whole};
#[cfg(feature = "oauth")]
pub(crate) use retry_after::retry_after_without_clock;
