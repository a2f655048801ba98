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
    all! {
        CallToolResult DiscoverResult EmptyResult GetPromptResult InitializeResult ListPromptsResult
        ListResourceTemplatesResult ListResourcesResult ListToolsResult ReadResourceResult
        InputRequired CreateMessage Elicit ListRoots
        CreateMessageResult ElicitResult ListRootsResult
        Cancelled ElicitationComplete LogMessage Progress PromptListChanged ResourceListChanged ToolListChanged
        ClientCapabilities ServerCapabilities Content ErrorObject RequestId UrlElicitationRequired
    }
    macro_rules! asked {
        ($($name:ident)*) => { $(same::<mcp_proto::$name>(&raw);)* };
    }
    asked! { CallTool GetPrompt Initialize ListPrompts ListResourceTemplates ListResources ListTools ReadResource }
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
