#![doc = include_str!("../README.md")]

mod alarm;
mod call;
mod counters;
mod depth;
mod driver;
mod ending;
mod era;
mod error;
mod gate;
mod handler;
mod handshake;
mod in_flight;
mod inbound;
mod inbox;
mod list;
mod next_round;
mod options;
mod pace;
mod pending;
mod progress;
mod quota;
mod raw_params;
mod related_task;
mod roots;
mod rounds;
mod served;
mod service;
mod session;
mod shared;
mod slot;
mod start;
mod subscription;
mod task;
mod tool_headers;
mod urls;
mod wakes;

// Opening a connection.
pub use driver::Driver;
pub use handshake::{Opening, open};
pub use options::{EraPolicy, IdSource, SessionOptions};

// Using it.
pub use call::{Call, RawCall};
pub use counters::Counters;
pub use inbox::{ListKind, SessionEvent};
pub use list::{ListLimits, Listed, Truncated};
pub use options::{CallOptions, ProgressHandler};
pub use session::Session;

// Work that outlives the call that began it.
pub use task::{StartedTask, TaskHandle};

// Being told of changes.
pub use subscription::{SubscribeOptions, Subscription, SubscriptionEnd, SubscriptionEvent};

// Serving what the server asks.
pub use handler::{Asker, ClientHandler, HandlerLimits};
pub use quota::HandlerQuota;

// Sharing a server among many callers.
pub use gate::{Gate, GateError, LiveSession};

// What can go wrong.
pub use error::{
    CallError, CallOutcome, HandshakeError, HeaderFault, MetaError, ProtocolFault, TaskFault, UnsupportedWhy,
    UrlsUnopened,
};
pub use urls::UrlsRequired;
