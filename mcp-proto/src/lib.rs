#![doc = include_str!("../README.md")]

mod encode;
mod envelope;
mod error;
mod escape;
mod id;
mod method;
mod payload;
mod request;
mod sniff;
mod version;

pub use encode::{MetaMembers, encode_error, encode_notification, encode_request, encode_result};
pub use envelope::{EnvelopeError, EnvelopeFault, Frame, Message, Outcome, parse_frame};
pub use error::{ErrorObject, code};
pub use escape::escape;
pub use id::RequestId;
pub use method::Method;
pub use payload::{DecodeError, Payload};
pub use request::{Notification, Paginated, Request};
pub use sniff::sniff_id;
pub use version::{Era, ProtocolVersion};
