//! The official examples of 2026-07-28 that belong to messages of this crate, read and written again.
//!
//! They are not part of the crate: where the folder with them is missing, the test says so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test code; a skipped test must be seen"
)]

mod schema;

use std::path::{Path, PathBuf};

use mcp_proto::{
    CallTool, CallToolResult, Cancelled, ClientCapabilities, Complete, CompleteResult, Content,
    CreateMessage, CreateMessageResult, Discover, DiscoverResult, Elicit, ElicitResult, Entries, ErrorObject,
    FieldSchema, Frame, GetPrompt, GetPromptResult, InputRequest, InputRequired, ListPrompts,
    ListPromptsResult, ListResourceTemplates, ListResourceTemplatesResult, ListResources,
    ListResourcesResult, ListRootsResult, ListTools, ListToolsResult, Listen, ListenResult, LogMessage,
    Message, ModelPreferences, Notification, Payload, Progress, PromptListChanged, ProtocolVersion, RawJson,
    ReadResource, ReadResourceResult, Request, Resource, ResourceContents, ResourceListChanged,
    ResourceUpdated, ResultType, Root, SamplingMessage, ServerCapabilities, ServerRequest,
    SubscriptionAcknowledged, Tool, ToolListChanged, parse_frame, probe::ProbeOutcome,
};
use schema::Schema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

#[test]
fn every_official_example_of_our_messages_is_read_and_written_again() {
    let folder = schema::official_folder().join("2026-07-28/examples");
    let Some(schema) = Schema::official(ProtocolVersion::V2026_07_28).filter(|_| folder.is_dir()) else {
        eprintln!("SKIPPED: no official examples at {}", folder.display());
        return;
    };
    let mut read = 0;
    for kind in entries(&folder) {
        let name = kind.file_name().unwrap().to_str().unwrap();
        for file in entries(&kind) {
            let text = std::fs::read_to_string(&file).unwrap();
            // What is written is compared with what was read: if one is valid, so is the other.
            schema.assert_valid(name, &serde_json::from_str(&text).unwrap());
            Example { name: file.display().to_string(), text }.check(name);
            read += 1;
        }
    }
    assert!(read >= 129, "only {read} examples were read");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

struct Example {
    name: String,
    text: String,
}

impl Example {
    fn check(&self, kind: &str) {
        match kind {
            "AudioContent" => self.content(|content| matches!(content, Content::Audio(_))),
            "EmbeddedResource" => self.content(|content| matches!(content, Content::Resource(_))),
            "ImageContent" => self.content(|content| matches!(content, Content::Image(_))),
            "ResourceLink" => self.content(|content| matches!(content, Content::ResourceLink(_))),
            "TextContent" => self.content(|content| matches!(content, Content::Text(_))),
            "ToolResultContent" => self.content(|content| matches!(content, Content::ToolResult(_))),
            "ToolUseContent" => self.content(|content| matches!(content, Content::ToolUse(_))),
            "BooleanSchema" => self.field(|field| matches!(field, FieldSchema::Boolean(_))),
            "NumberSchema" => self.field(|field| matches!(field, FieldSchema::Number(_))),
            "StringSchema" => self.field(|field| matches!(field, FieldSchema::Text(_))),
            "TitledMultiSelectEnumSchema" | "UntitledMultiSelectEnumSchema" => {
                self.field(|field| matches!(field, FieldSchema::MultiSelect(_)));
            }
            "TitledSingleSelectEnumSchema" | "UntitledSingleSelectEnumSchema" => {
                self.field(|field| matches!(field, FieldSchema::SingleSelect(_)));
            }
            "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" => {
                let asked: InputRequest = self.payload().decode().unwrap();
                self.asked(&asked);
                self.value::<InputRequest>();
            }
            "InputRequests" => {
                let asked: Entries<InputRequest> = self.payload().decode().unwrap();
                asked.iter().for_each(|(_, asked)| self.asked(asked));
                self.value::<Entries<InputRequest>>();
            }
            "InputResponses" => self.value::<Entries<RawJson>>(),
            "CreateMessageRequestParams" => self.value::<CreateMessage>(),
            "ElicitRequestFormParams" | "ElicitRequestURLParams" => self.value::<Elicit>(),
            "CreateMessageResult" => self.value::<CreateMessageResult>(),
            "ElicitResult" => self.value::<ElicitResult>(),
            "ListRootsResult" => self.value::<ListRootsResult>(),
            "ModelPreferences" => self.value::<ModelPreferences>(),
            "CompleteRequest" => self.request::<Complete>(),
            "CompleteRequestParams" => self.params::<Complete>(),
            "CompleteResult" => self.value::<CompleteResult>(),
            "CompleteResultResponse" => self.response::<CompleteResult>(),
            "ResourceUpdatedNotification" => self.notification::<ResourceUpdated>(),
            "ResourceUpdatedNotificationParams" => self.value::<ResourceUpdated>(),
            "SubscriptionsAcknowledgedNotification" => self.notification::<SubscriptionAcknowledged>(),
            "SubscriptionsListenRequest" => self.request::<Listen>(),
            "SubscriptionsListenResult" => self.value::<ListenResult>(),
            "SubscriptionsListenResultResponse" => self.response::<ListenResult>(),
            "Root" => self.value::<Root>(),
            "SamplingMessage" => self.value::<SamplingMessage>(),
            "BlobResourceContents" | "TextResourceContents" => self.value::<ResourceContents>(),
            "ClientCapabilities" => self.value::<ClientCapabilities>(),
            "ServerCapabilities" => self.value::<ServerCapabilities>(),
            "Resource" => self.value::<Resource>(),
            "Tool" => self.value::<Tool>(),
            "CallToolRequestParams" => self.params::<CallTool>(),
            "GetPromptRequestParams" => self.params::<GetPrompt>(),
            "PaginatedRequestParams" => self.params::<ListTools>(),
            "ReadResourceRequestParams" => self.params::<ReadResource>(),
            "CancelledNotificationParams" => self.value::<Cancelled>(),
            "LoggingMessageNotificationParams" => self.value::<LogMessage>(),
            "ProgressNotificationParams" => self.value::<Progress>(),
            "CallToolRequest" => self.request::<CallTool>(),
            "DiscoverRequest" => self.request::<Discover>(),
            "GetPromptRequest" => self.request::<GetPrompt>(),
            "ListPromptsRequest" => self.request::<ListPrompts>(),
            "ListResourceTemplatesRequest" => self.request::<ListResourceTemplates>(),
            "ListResourcesRequest" => self.request::<ListResources>(),
            "ListToolsRequest" => self.request::<ListTools>(),
            "ReadResourceRequest" => self.request::<ReadResource>(),
            "CancelledNotification" => self.notification::<Cancelled>(),
            "LoggingMessageNotification" => self.notification::<LogMessage>(),
            "ProgressNotification" => self.notification::<Progress>(),
            "PromptListChangedNotification" => self.notification::<PromptListChanged>(),
            "ResourceListChangedNotification" => self.notification::<ResourceListChanged>(),
            "ToolListChangedNotification" => self.notification::<ToolListChanged>(),
            "CallToolResult" => self.value::<CallToolResult>(),
            "DiscoverResult" => self.value::<DiscoverResult>(),
            "GetPromptResult" => self.value::<GetPromptResult>(),
            "ListPromptsResult" => self.value::<ListPromptsResult>(),
            "ListResourceTemplatesResult" => self.value::<ListResourceTemplatesResult>(),
            "ListResourcesResult" => self.value::<ListResourcesResult>(),
            "ListToolsResult" => self.value::<ListToolsResult>(),
            "ReadResourceResult" => self.value::<ReadResourceResult>(),
            "CallToolResultResponse" => self.response::<CallToolResult>(),
            "DiscoverResultResponse" => self.response::<DiscoverResult>(),
            "GetPromptResultResponse" => self.response::<GetPromptResult>(),
            "ListPromptsResultResponse" => self.response::<ListPromptsResult>(),
            "ListResourceTemplatesResultResponse" => self.response::<ListResourceTemplatesResult>(),
            "ListResourcesResultResponse" => self.response::<ListResourcesResult>(),
            "ListToolsResultResponse" => self.response::<ListToolsResult>(),
            "ReadResourceResultResponse" => self.response::<ReadResourceResult>(),
            "InputRequiredResult" => {
                assert_eq!(ResultType::of(&self.payload()), Ok(ResultType::InputRequired), "{}", self.name);
                let required = InputRequired::read(&self.payload()).unwrap();
                required
                    .input_requests
                    .iter()
                    .flat_map(Entries::iter)
                    .for_each(|(_, asked)| self.asked(asked));
                self.value::<InputRequired>();
            }
            "HeaderMismatchError"
            | "InternalError"
            | "InvalidParamsError"
            | "MethodNotFoundError"
            | "MissingRequiredClientCapabilityError"
            | "ParseError"
            | "UnsupportedProtocolVersionError" => self.error(),
            other => panic!("{other} is not known to this test"),
        }
    }

    fn payload(&self) -> Payload {
        Payload::encode(&serde_json::from_str::<Value>(&self.text).unwrap()).unwrap()
    }

    fn message(&self) -> Message {
        match parse_frame(&self.text.clone().into_bytes().into()) {
            Ok(Frame::Single(message)) => message,
            other => panic!("{}: {other:?}", self.name),
        }
    }

    fn value<T: DeserializeOwned + Serialize>(&self) {
        self.same::<T>(&self.payload());
    }

    fn request<R: Request + DeserializeOwned>(&self) {
        let Message::Request { method, params, .. } = self.message() else { panic!("{}", self.name) };
        assert_eq!(method, R::METHOD, "{}", self.name);
        self.same::<R>(&without_meta(&params));
    }

    fn params<R: Request + DeserializeOwned>(&self) {
        self.same::<R>(&without_meta(&self.payload()));
    }

    fn notification<N: Notification + DeserializeOwned>(&self) {
        let Message::Notification { method, params } = self.message() else { panic!("{}", self.name) };
        assert_eq!(method, N::METHOD, "{}", self.name);
        self.same::<N>(&params);
    }

    fn response<T: DeserializeOwned + Serialize>(&self) {
        let Message::Response { outcome: Ok(result), .. } = self.message() else { panic!("{}", self.name) };
        assert_eq!(ResultType::of(&result), Ok(ResultType::Complete), "{}", self.name);
        self.same::<T>(&result);
    }

    fn content(&self, is_right: impl Fn(&Content) -> bool) {
        let content: Content = self.payload().decode().unwrap();
        assert!(is_right(&content), "{}: {content:?}", self.name);
        self.value::<Content>();
    }

    fn field(&self, is_right: impl Fn(&FieldSchema) -> bool) {
        let field: FieldSchema = self.payload().decode().unwrap();
        assert!(is_right(&field), "{}: {field:?}", self.name);
        self.value::<FieldSchema>();
    }

    /// A request inside a result is one that this crate has a type for.
    fn asked(&self, asked: &InputRequest) {
        let read = ServerRequest::of_input(asked).unwrap_or_else(|error| panic!("{}: {error}", self.name));
        assert!(!matches!(read, ServerRequest::Other(_)), "{}", self.name);
    }

    /// Some examples are whole responses, some the error object alone.
    fn error(&self) {
        let value: Value = serde_json::from_str(&self.text).unwrap();
        let (error, object) = if value.get("jsonrpc").is_some() {
            let Message::Response { outcome: Err(error), .. } = self.message() else {
                panic!("{}", self.name)
            };
            (error, &value["error"])
        } else {
            (self.payload().decode::<ErrorObject>().unwrap(), &value)
        };
        assert_eq!(serde_json::to_value(&error).unwrap(), *object, "{}", self.name);
        let _ = ProbeOutcome::Rejected { error, status: None };
    }

    /// Reads `payload` as `T` and writes it again: nothing may be lost.
    #[track_caller]
    fn same<T: DeserializeOwned + Serialize>(&self, payload: &Payload) {
        let read: T = payload.decode().unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let mut written = serde_json::to_value(&read).unwrap();
        let mut original: Value = payload.decode().unwrap();
        for value in [&mut written, &mut original] {
            // An absent flag is a false one.
            value.as_object_mut().expect("an object").entry("isError").or_insert(Value::Bool(false));
            floats(value);
        }
        assert_eq!(written, original, "{}", self.name);
    }
}

/// The parameters as the caller gives them: their `_meta` is added and taken off by a session.
fn without_meta(params: &Payload) -> Payload {
    let mut members: Value = params.decode().unwrap();
    members.as_object_mut().expect("an object").remove("_meta");
    Payload::encode(&members).unwrap()
}

/// Makes every number a float: 50 and 50.0 are the same in JSON.
fn floats(value: &mut Value) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(floats),
        Value::Number(number) => *value = number.as_f64().unwrap().into(),
        Value::Object(members) => members.values_mut().for_each(floats),
        _ => {}
    }
}
