#![doc = include_str!("../README.md")]

mod allowance;
mod cache;
mod cancelled;
mod capabilities;
mod completion;
mod content;
mod discover;
mod elicitation;
mod encode;
mod entries;
mod envelope;
mod error;
mod error_meaning;
mod escape;
pub mod extension;
mod form;
mod header_value;
mod id;
mod implementation;
mod initialize;
mod input_required;
mod json;
mod last_wins;
mod list;
mod logging;
mod member;
mod members;
mod message;
mod meta;
mod method;
pub mod negotiation;
mod open_enum;
mod other_members;
mod param_headers;
mod payload;
mod peer;
mod ping;
pub mod probe;
mod progress;
mod prompts;
mod raw_json;
mod redact;
mod request;
mod resources;
mod result_type;
mod roots;
mod rule;
mod sampling;
mod secret;
mod server_request;
pub mod skills;
mod sniff;
mod subscriptions;
pub mod tasks;
mod tool_sieve;
mod tools;
mod trace_context;
mod version;
mod versioned;

// Envelopes: what every message is wrapped in.
pub use encode::{
    MetaMembers, encode_error, encode_notification, encode_request, encode_result, encode_round,
};
pub use entries::Entries;
pub use envelope::{EnvelopeError, EnvelopeFault, Frame, Message, Outcome, parse_frame};
pub use error::{ErrorObject, code};
pub use error_meaning::{ErrorMeaning, MissingClientCapability, UnsupportedVersion};
pub use id::RequestId;
pub use meta::meta_key;
pub use method::Method;
pub use other_members::OtherMembers;
pub use payload::{DecodeError, Payload};
pub use raw_json::RawJson;
pub use request::{Notification, Paginated, Request};
pub use result_type::ResultType;
pub use sniff::sniff_id;
pub use trace_context::{TraceContext, TraceContextError};
pub use version::{Era, ProtocolVersion};
pub use versioned::{NotInVersion, Versioned, for_version};

// Opening a connection; the rules for it are in `negotiation` and `probe`.
pub use capabilities::{
    ClientCapabilities, ElicitationCapability, ListCapability, ResourcesCapability, RootsCapability,
    SamplingCapability, ServerCapabilities, TasksCapability,
};
pub use discover::{Discover, DiscoverResult};
pub use implementation::{Icon, Implementation};
pub use initialize::{Initialize, InitializeResult, Initialized};
pub use peer::PeerInfo;
pub use ping::{EmptyResult, Ping};

// Operations; those of extensions are in `skills` and `tasks`.
pub use cache::CacheScope;
pub use completion::{
    Complete, CompleteResult, Completion, CompletionArgument, CompletionContext, CompletionReference,
    PromptReference, ResourceReference,
};
pub use content::{
    Annotations, Content, EmbeddedResource, MediaContent, Role, TextContent, ToolResultContent,
    ToolUseContent,
};
pub use logging::{LogLevel, LogMessage, SetLogLevel};
pub use prompts::{
    GetPrompt, GetPromptResult, ListPrompts, ListPromptsResult, Prompt, PromptArgument, PromptMessage,
};
pub use resources::{
    ListResourceTemplates, ListResourceTemplatesResult, ListResources, ListResourcesResult, ReadResource,
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
pub use tools::{
    CallTool, CallToolResult, ListTools, ListToolsResult, TaskSupport, Tool, ToolAnnotations, ToolExecution,
};

// What a server asks of its client.
pub use elicitation::{
    Elicit, ElicitAction, ElicitForm, ElicitMode, ElicitResult, ElicitUrl, ElicitationComplete,
    UrlElicitationRequired,
};
pub use form::{
    BooleanSchema, Choice, FieldSchema, FieldValue, FormKind, FormSchema, MultiSelectItems,
    MultiSelectSchema, NumberKind, NumberSchema, SingleSelectSchema, TextFormat, TextSchema, TitledValue,
};
pub use input_required::{InputAnswers, InputRequest, InputRequired};
pub use roots::{ListRoots, ListRootsResult, Root, RootsListChanged};
pub use sampling::{
    CreateMessage, CreateMessageResult, IncludeContext, ModelHint, ModelPreferences, SamplingContent,
    SamplingMessage, StopReason, ToolChoice, ToolChoiceMode,
};
pub use server_request::ServerRequest;

// Requests and what goes on beside them.
pub use cancelled::Cancelled;
pub use progress::Progress;
pub use subscriptions::{
    Listen, ListenResult, PromptListChanged, ResourceListChanged, ResourceUpdated, SubscribeResource,
    SubscriptionAcknowledged, SubscriptionFilter, ToolListChanged, UnsubscribeResource, subscription_id,
};

// What a request mirrors into HTTP headers.
pub use header_value::encode_header_value;
pub use param_headers::{InvalidAnnotation, MirrorError, ParamHeaders};
pub use tool_sieve::{RejectedTool, SievedTools};

// Showing what came from outside.
pub use escape::escape;
pub use redact::Redactor;
pub use secret::Secret;
