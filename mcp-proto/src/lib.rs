#![doc = include_str!("../README.md")]

mod cache;
mod capabilities;
mod content;
mod discover;
mod encode;
mod envelope;
mod error;
mod escape;
mod header_value;
mod id;
mod implementation;
mod initialize;
mod last_wins;
mod lenient;
mod members;
mod meta;
mod method;
pub mod negotiation;
mod notifications;
mod open_enum;
mod payload;
mod peer;
mod ping;
pub mod probe;
mod prompts;
mod raw_json;
mod redact;
mod request;
mod resources;
mod result_type;
mod secret;
mod sniff;
mod tools;
mod version;

// Envelopes: what every message is wrapped in.
pub use encode::{MetaMembers, encode_error, encode_notification, encode_request, encode_result};
pub use envelope::{EnvelopeError, EnvelopeFault, Frame, Message, Outcome, parse_frame};
pub use error::{ErrorObject, code};
pub use header_value::encode_header_value;
pub use id::RequestId;
pub use meta::meta_key;
pub use method::Method;
pub use payload::{DecodeError, Payload};
pub use raw_json::RawJson;
pub use request::{Notification, Paginated, Request};
pub use result_type::ResultType;
pub use sniff::sniff_id;
pub use version::{Era, ProtocolVersion};

// Opening a connection; the rules for it are in `negotiation` and `probe`.
pub use capabilities::{ClientCapabilities, ListCapability, ResourcesCapability, ServerCapabilities};
pub use discover::{Discover, DiscoverResult};
pub use implementation::{Icon, Implementation};
pub use initialize::{Initialize, InitializeResult, Initialized};
pub use peer::PeerInfo;
pub use ping::{EmptyResult, Ping};

// Operations.
pub use cache::CacheScope;
pub use content::{Annotations, Content, EmbeddedResource, MediaContent, Role, TextContent};
pub use prompts::{
    GetPrompt, GetPromptResult, ListPrompts, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resources::{
    ListResourceTemplates, ListResourceTemplatesResult, ListResources, ListResourcesResult, ReadResource,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
pub use tools::{CallTool, CallToolResult, ListTools, ListToolsResult, Tool, ToolAnnotations};

// Notifications.
pub use notifications::{
    Cancelled, LogLevel, LogMessage, Progress, PromptListChanged, ResourceListChanged, ToolListChanged,
};

// Showing what came from outside.
pub use escape::escape;
pub use redact::Redactor;
pub use secret::Secret;
