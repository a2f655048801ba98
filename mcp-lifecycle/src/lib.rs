#![doc = include_str!("../README.md")]

mod account;
mod actor;
mod aside;
mod authorizer;
mod backoff;
mod bell;
mod breaker;
mod budget;
mod call;
mod call_counters;
mod connection;
mod errands;
mod error;
mod event;
mod failure;
mod follow;
mod following;
mod handle;
mod interruption;
mod jitter;
mod keepalive;
mod latch;
mod lists;
mod login_desk;
mod machine;
mod meter;
mod openings;
mod options;
mod orders;
mod pace;
mod park_probes;
mod recess;
mod refresh;
mod registry;
mod report;
mod root;
mod runtime;
mod server;
mod sleep_watch;
mod state;
mod status;
mod stop_plan;
mod succession;
mod supervisor;
mod timer;
mod tool_refresh;
mod uses;
mod wire;

// Owning servers.
pub use options::{KillHook, ServerOptions, ServerSpec, Startup, SupervisorOptions};
pub use supervisor::{Removal, Shutdown, Supervisor};

// Who logs in.
pub use authorizer::{Authorizer, LoginFailed};

// Using one.
pub use following::{FollowEnd, FollowEvent, Following};
pub use handle::ServerHandle;
pub use interruption::Interruption;
pub use lists::Lists;

// Where it stands and what happens to it.
pub use call_counters::CallCounters;
pub use event::ServerEvent;
pub use report::{Exceeded, ServerReport, ShutdownReport, StopStep};
pub use state::{DormantReason, EndReason, ParkReason, State};
pub use status::ServerStatus;

// Limits.
pub use backoff::BackoffOptions;
pub use breaker::{BreakerOptions, BreakerState};
pub use keepalive::KeepaliveOptions;
pub use recess::RecessOptions;
pub use refresh::RefreshOptions;

// What can go wrong.
pub use error::{AddError, CallError, StillDraining, WaitingFor};
pub use failure::{Failure, Stage};
