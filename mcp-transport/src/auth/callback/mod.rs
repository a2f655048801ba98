//! The answer of an authorization comes back here: a listener on loopback, for as long as a login runs.
//!
//! `request.rs` judges what comes in and `page.rs` has the fixed texts that go out; neither does I/O.
//! `hub.rs` listens, and hands each answer to the login whose state it bears. `loopback_ui.rs` makes an
//! [`AuthUi`](super::AuthUi) of it, and `paste.rs` reads answers that a person pastes.

mod hub;
mod loopback_ui;
mod page;
mod paste;
mod request;

pub use hub::CallbackHub;
pub use loopback_ui::{LoopbackUi, Presenter};
pub use paste::Pasted;
pub use request::{CallbackRefusal, read_callback};
