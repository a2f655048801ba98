use std::slice;

use serde::{Deserialize, Serialize};

use crate::content::{Content, Role};
use crate::member::Member;
use crate::message::message;
use crate::method::Method;
use crate::open_enum::open_enum;
use crate::payload::decode_with;
use crate::raw_json::RawJson;
use crate::request::Request;
use crate::tasks::TaskRequest;
use crate::tools::Tool;
use crate::version::ProtocolVersion;
use crate::versioned::{NotInVersion, Versioned};

message! {
    /// Asks the client to run a model.
    ///
    /// In all versions; since 2026-07-28 it travels in an [`InputRequired`](crate::InputRequired).
    ///
    /// # Source
    ///
    /// MCP 2025-11-25, client/sampling.
    #[derive(Debug, Clone, Default, PartialEq)]
    CreateMessage {
        /// The conversation so far.
        messages: Vec<SamplingMessage> = "messages", List;
        /// Which model is wished for.
        model_preferences: Option<ModelPreferences> = "modelPreferences", Hint;
        /// The system prompt that is wished for; untrusted.
        system_prompt: Option<String> = "systemPrompt", Optional;
        /// What of the servers' own content is to be added.
        include_context: Option<IncludeContext> = "includeContext", Optional;
        /// The temperature that is wished for.
        temperature: Option<f64> = "temperature", Hint;
        /// How many tokens the answer may have.
        max_tokens: u64 = "maxTokens", Required;
        /// Texts that end the answer.
        stop_sequences: Option<Vec<String>> = "stopSequences", Optional;
        /// What is to be handed to the provider of the model, as received.
        metadata: Option<RawJson> = "metadata", Optional;
        /// The tools that the model may use.
        tools: Option<Vec<Tool>> = "tools", Optional, since V2025_11_25;
        /// Whether the model must use one.
        tool_choice: Option<ToolChoice> = "toolChoice", Optional, since V2025_11_25;
        /// Asks for a task instead of an answer.
        task: Option<TaskRequest> = "task", Optional, only V2025_11_25;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

message! {
    /// One turn of a conversation with a model.
    #[derive(Debug, Clone, PartialEq)]
    SamplingMessage {
        /// Who speaks.
        role: Role = "role", Required;
        /// What is said.
        content: SamplingContent = "content", Required;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional, since V2025_11_25;
    }
}

/// What one turn says: one block, or several of them (since 2025-11-25).
#[derive(Debug, Clone, PartialEq)]
pub enum SamplingContent {
    /// Several blocks, or none.
    Many(Vec<Content>),
    /// One block.
    One(Box<Content>),
}

message! {
    /// Which model a server wishes for; the client chooses.
    #[derive(Debug, Clone, Default, PartialEq)]
    ModelPreferences {
        /// Names of models or families, the best one first.
        hints: Option<Vec<ModelHint>> = "hints", Hint;
        /// How much a low price matters, from 0 to 1 by the specification, unchecked.
        cost_priority: Option<f64> = "costPriority", Hint;
        /// How much speed matters, from 0 to 1 by the specification, unchecked.
        speed_priority: Option<f64> = "speedPriority", Hint;
        /// How much ability matters, from 0 to 1 by the specification, unchecked.
        intelligence_priority: Option<f64> = "intelligencePriority", Hint;
    }
}

message! {
    /// Names a model that a server wishes for.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ModelHint {
        /// A part of the model's name.
        name: Option<String> = "name", Hint;
    }
}

message! {
    /// Whether a model must use a tool (since 2025-11-25).
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    ToolChoice {
        /// `None` means [`ToolChoiceMode::Auto`].
        mode: Option<ToolChoiceMode> = "mode", Optional;
    }
}

open_enum! {
    /// Whether a model must use a tool.
    ToolChoiceMode {
        /// It may.
        Auto = "auto",
        /// It must not.
        None = "none",
        /// It must.
        Required = "required",
    }
}

open_enum! {
    /// Which servers' content is to be added to a conversation.
    ///
    /// All but [`IncludeContext::None`] need the capability `sampling.context` (since 2025-11-25).
    IncludeContext {
        /// That of every server.
        AllServers = "allServers",
        /// None.
        None = "none",
        /// That of the server that asks.
        ThisServer = "thisServer",
    }
}

message! {
    /// The answer to [`CreateMessage`].
    #[derive(Debug, Clone, PartialEq)]
    CreateMessageResult {
        /// Who speaks: [`Role::Assistant`].
        role: Role = "role", Required;
        /// What the model says.
        content: SamplingContent = "content", Required;
        /// The name of the model.
        model: String = "model", Required;
        /// Why it ended.
        stop_reason: Option<StopReason> = "stopReason", Optional;
        /// Metadata, as received.
        meta: Option<RawJson> = "_meta", Optional;
    }
}

open_enum! {
    /// Why a model has ended its turn; an open set in every version.
    StopReason {
        /// It had said all.
        EndTurn = "endTurn",
        /// It has said as much as it may.
        MaxTokens = "maxTokens",
        /// It has said a text that ends the answer.
        StopSequence = "stopSequence",
        /// It wants to use a tool (since 2025-11-25).
        ToolUse = "toolUse",
    }
}

impl SamplingContent {
    /// One text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::One(Box::new(Content::text(text)))
    }

    /// The blocks, whichever way they are written.
    #[must_use]
    pub fn blocks(&self) -> &[Content] {
        match self {
            Self::Many(blocks) => blocks,
            Self::One(block) => slice::from_ref(block),
        }
    }
}

impl CreateMessageResult {
    /// Answers with what `model` says.
    pub fn new(model: impl Into<String>, content: SamplingContent) -> Self {
        Self {
            role: Role::Assistant,
            content,
            model: model.into(),
            stop_reason: None,
            meta: None,
            other: crate::OtherMembers::default(),
        }
    }

    /// Says why the model has ended.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: StopReason) -> Self {
        self.stop_reason = Some(reason);
        self
    }
}

impl Request for CreateMessage {
    const METHOD: Method = Method::SAMPLING_CREATE_MESSAGE;
    type Result = CreateMessageResult;
}

impl Member for SamplingContent {}

impl Versioned for SamplingContent {
    fn fits(&self, version: ProtocolVersion) -> bool {
        match self {
            Self::Many(blocks) => version >= ProtocolVersion::V2025_11_25 && blocks.fits(version),
            Self::One(block) => block.fits(version),
        }
    }

    fn fit(&mut self, version: ProtocolVersion) -> Result<(), NotInVersion> {
        if version < ProtocolVersion::V2025_11_25
            && let Self::Many(blocks) = self
        {
            let one = if blocks.len() == 1 { blocks.pop() } else { None };
            *self =
                Self::One(Box::new(one.ok_or(NotInVersion { what: "content of several blocks", version })?));
        }
        match self {
            Self::Many(blocks) => blocks.fit(version),
            Self::One(block) => block.fit(version),
        }
    }
}

impl Serialize for SamplingContent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Many(blocks) => blocks.serialize(serializer),
            Self::One(block) => block.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SamplingContent {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        let read = match raw.is_object() {
            true => raw.decode().map(Self::One),
            false => decode_with(raw.get(), |reader| Vec::read(reader)).map(Self::Many),
        };
        read.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::for_version;

    const ASKED: &str = r#"{"messages":[{"role":"user","content":{"type":"text","text":"?"}},
        {"role":"assistant","content":[{"type":"tool_use","id":"1","name":"w","input":{"a":1.0}}]},
        {"role":"user","content":[{"type":"tool_result","toolUseId":"1","content":[{"type":"text","text":"!"}],
            "structuredContent":null,"isError":true}]}],
        "modelPreferences":{"hints":[{"name":"m"}],"costPriority":0.5},"systemPrompt":"s",
        "includeContext":"thisServer","temperature":0.25,"maxTokens":9,"stopSequences":["."],
        "metadata":{"k":1},"tools":[{"name":"w","inputSchema":{"type":"object"}}],
        "toolChoice":{"mode":"required"},"task":{"ttl":5},"_meta":{"progressToken":1}}"#;

    #[test]
    fn a_request_with_everything_survives() {
        let read: CreateMessage = serde_json::from_str(ASKED).unwrap();
        assert_eq!(read.max_tokens, 9);
        assert_eq!(read.tool_choice.as_ref().unwrap().mode, Some(ToolChoiceMode::Required));
        assert_eq!(read.include_context, Some(IncludeContext::ThisServer));
        let Content::ToolUse(used) = &read.messages[1].content.blocks()[0] else { panic!("no tool use") };
        assert_eq!((used.name.as_str(), used.input.get()), ("w", r#"{"a":1.0}"#));
        let Content::ToolResult(result) = &read.messages[2].content.blocks()[0] else { panic!("no result") };
        assert!(result.is_error && result.structured_content == Some(RawJson::null()));
        let original: serde_json::Value = serde_json::from_str(ASKED).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), original);
    }

    #[test]
    fn odd_wishes_cost_nothing_and_a_missing_limit_does() {
        let text =
            r#"{"messages":null,"maxTokens":1,"modelPreferences":7,"temperature":"hot","systemPrompt":null}"#;
        let read: CreateMessage = serde_json::from_str(text).unwrap();
        assert_eq!((read.model_preferences, read.temperature, read.system_prompt), (None, None, None));
        assert!(serde_json::from_str::<CreateMessage>(r#"{"messages":[]}"#).is_err());
        assert!(serde_json::from_str::<CreateMessage>(r#"{"messages":[7],"maxTokens":1}"#).is_err());
    }

    #[test]
    fn an_answer_keeps_the_form_of_its_content() {
        let result =
            CreateMessageResult::new("m", SamplingContent::text("a")).with_stop_reason(StopReason::EndTurn);
        let text =
            r#"{"role":"assistant","content":{"type":"text","text":"a"},"model":"m","stopReason":"endTurn"}"#;
        assert_eq!(serde_json::to_string(&result).unwrap(), text);
        for content in [r#"[{"type":"text","text":"a"}]"#, "[]", r#"{"type":"hologram","x":1.50}"#] {
            let read: SamplingContent = serde_json::from_str(content).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), content);
        }
    }

    #[test]
    fn what_an_older_version_cannot_say_is_left_out_or_refused() {
        let fitted = |content: &str, version| {
            let content: SamplingContent = serde_json::from_str(content).unwrap();
            let result = CreateMessageResult::new("m", content);
            for_version(&result, version).map(|result| serde_json::to_string(&result.content).unwrap())
        };
        let text = r#"{"type":"text","text":"a"}"#;
        let audio = r#"{"type":"audio","data":"","mimeType":"audio/x"}"#;
        let used = r#"{"type":"tool_use","id":"1","name":"w","input":{}}"#;
        for version in ProtocolVersion::ALL.iter().copied() {
            let has_arrays = version >= ProtocolVersion::V2025_11_25;
            assert_eq!(fitted(text, version).unwrap(), text);
            let one = if has_arrays { format!("[{text}]") } else { text.to_owned() };
            assert_eq!(fitted(&format!("[{text}]"), version).unwrap(), one);
            assert_eq!(fitted(&format!("[{text},{text}]"), version).is_ok(), has_arrays);
            assert_eq!(fitted("[]", version).is_ok(), has_arrays);
            assert_eq!(fitted(used, version).is_ok(), has_arrays);
            assert_eq!(fitted(audio, version).is_ok(), version >= ProtocolVersion::V2025_03_26);
        }
        let read: CreateMessage = serde_json::from_str(ASKED).unwrap();
        assert!(for_version(&read, ProtocolVersion::V2025_06_18).is_err());
        let modern = for_version(&read, ProtocolVersion::V2026_07_28).unwrap();
        assert!(modern.task.is_none() && modern.tools.is_some());
    }

    #[test]
    fn a_stop_reason_of_a_provider_survives() {
        let text = r#"{"role":"assistant","content":[],"model":"m","stopReason":"refusal"}"#;
        let read: CreateMessageResult = serde_json::from_str(text).unwrap();
        assert_eq!(read.stop_reason, Some(StopReason::Other("refusal".to_owned())));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
