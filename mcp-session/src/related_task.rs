use mcp_proto::{
    CreateMessageResult, Elicit, ElicitResult, Entries, ListRootsResult, ProtocolVersion, RawJson,
    ServerRequest, meta_key,
};
use serde::{Deserialize, Serialize};

/// The task on whose behalf a server asks something (2025-11-25): what it is answered names the task too.
///
/// # Source
///
/// MCP 2025-11-25, basic/utilities/tasks: associating messages with a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RelatedTask {
    task_id: String,
}

/// An answer to a server, with its metadata.
pub(crate) trait HasMeta {
    fn meta(&mut self) -> &mut Option<RawJson>;
}

macro_rules! has_meta {
    ($($answer:ident),*) => {
        $(impl HasMeta for $answer {
            fn meta(&mut self) -> &mut Option<RawJson> {
                &mut self.meta
            }
        })*
    };
}

has_meta!(CreateMessageResult, ElicitResult, ListRootsResult);

impl RelatedTask {
    /// The task that a request names in its metadata, in the version that has such.
    pub(crate) fn of(request: &ServerRequest, version: Option<ProtocolVersion>) -> Option<Self> {
        let meta = match request {
            _ if version != Some(ProtocolVersion::V2025_11_25) => None,
            ServerRequest::CreateMessage(request) => request.meta.as_ref(),
            ServerRequest::Elicit(request) => match &**request {
                Elicit::Form(form) => form.meta.as_ref(),
                Elicit::Url(url) => url.meta.as_ref(),
                _ => None,
            },
            ServerRequest::ListRoots(request) => request.meta.as_ref(),
            _ => None,
        };
        meta?.decode::<Entries<RawJson>>().ok()?.get(meta_key::RELATED_TASK)?.decode().ok()
    }

    /// Names the task in an answer, beside what its metadata says already.
    pub(crate) fn name_in(&self, answer: &mut impl HasMeta) {
        let meta = answer.meta();
        let said = meta.as_ref().and_then(|meta| meta.decode::<Entries<RawJson>>().ok());
        let mut members = said.unwrap_or_default();
        if members.get(meta_key::RELATED_TASK).is_some() {
            return;
        }
        // A text always has a JSON form.
        if let Ok(task) = RawJson::encode(self) {
            members.insert(meta_key::RELATED_TASK, task);
            *meta = RawJson::encode(&members).ok();
        }
    }
}
