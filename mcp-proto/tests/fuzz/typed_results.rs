//! Any text as whatever a server sends.

use mcp_proto::RawJson;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Fails if reading `data` as one of our types breaks a promise.
pub(crate) fn run(data: &[u8]) {
    let Some(raw) = std::str::from_utf8(data).ok().and_then(|text| RawJson::from_text(text).ok()) else {
        return;
    };
    macro_rules! all {
        ($($name:ident)*) => { $(same::<mcp_proto::$name>(&raw);)* };
    }
    // Results.
    all! {
        CallToolResult CompleteResult DiscoverResult EmptyResult GetPromptResult InitializeResult
        InputRequired ListenResult ListPromptsResult ListResourceTemplatesResult ListResourcesResult
        ListToolsResult ReadResourceResult
    }
    // What a server asks, and what it is answered.
    all! {
        CreateMessage CreateMessageResult Elicit ElicitResult ListRoots ListRootsResult UrlElicitationRequired
    }
    // Notifications.
    all! {
        Cancelled ElicitationComplete LogMessage Progress PromptListChanged ResourceListChanged
        ResourceUpdated SubscriptionAcknowledged ToolListChanged
    }
    // Parts.
    all! { ClientCapabilities Content ErrorObject RequestId ServerCapabilities }
    // What a client asks.
    all! {
        CallTool Complete GetPrompt Initialize Listen ListPrompts ListResourceTemplates ListResources
        ListTools ReadResource SetLogLevel SubscribeResource UnsubscribeResource
    }
    // Extensions.
    same::<mcp_proto::skills::GetSkillResult>(&raw);
    same::<mcp_proto::skills::ListSkillsResult>(&raw);
    same::<mcp_proto::tasks::CancelTaskResult>(&raw);
    same::<mcp_proto::tasks::CreateTaskResult>(&raw);
    same::<mcp_proto::tasks::ListTasksResult>(&raw);
    same::<mcp_proto::tasks::Task>(&raw);
}

/// What was read is written as something that can be read, and is then written as the same.
fn same<T: DeserializeOwned + Serialize>(raw: &RawJson) {
    let name = std::any::type_name::<T>();
    match raw.decode::<T>() {
        Ok(read) => {
            let written = RawJson::encode(&read).unwrap_or_else(|error| panic!("{name}: {error}"));
            let again: T =
                written.decode().unwrap_or_else(|error| panic!("{name}: {error}: {}", written.get()));
            let twice = RawJson::encode(&again).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(twice.get(), written.get(), "{name}");
        }
        Err(error) => {
            let shown = error.to_string();
            assert!(shown.len() < 1024 && !shown.chars().any(char::is_control), "{name}: {shown:?}");
        }
    }
}
