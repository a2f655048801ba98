use std::fmt;

use mcp_proto::{Era, ProtocolVersion};
use mcp_session::EraPolicy;
use mcp_transport::auth::OAuthSettings;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::credentials::Credentials;

/// What scenarios are called in which no person logs in and no other data says so.
const FOR_ITSELF: &str = "auth/client-credentials";

/// What the suite wants done, from the command line and the environment that it starts a client with.
#[derive(Debug)]
pub(crate) struct Order {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Where its server is.
    pub(crate) url: String,
    /// Which vocabulary is spoken: that of the version under test, or whatever the server speaks where
    /// the suite names none.
    pub(crate) era: EraPolicy,
    /// How to be authorized, should the server ask for it.
    pub(crate) authorization: OAuthSettings,
    pub(crate) flow: Flow,
}

/// What is done with the server.
#[derive(Debug)]
pub(crate) enum Flow {
    /// Use all that it offers.
    Everything,
    /// Send a schema back to it.
    SchemaEcho,
    /// Make the calls that the suite gives.
    ToolCalls(Vec<ToolCall>),
}

/// One call that the suite gives.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) arguments: Option<Box<RawValue>>,
}

/// Why nothing is done.
#[derive(Debug)]
pub(crate) enum Refusal {
    NotUnderstood(String),
    NotYet(&'static str),
}

/// The data of a scenario, as far as it is of use.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Context {
    tool_calls: Option<Vec<ToolCall>>,
}

impl Order {
    /// Reads the order; `variable` looks into the environment.
    pub(crate) fn read(
        url: Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Refusal> {
        let wrong = |what: &str| Refusal::NotUnderstood(what.to_owned());
        let url = url.ok_or_else(|| wrong("the URL of a server is missing"))?;
        let scenario = variable("MCP_CONFORMANCE_SCENARIO")
            .ok_or_else(|| wrong("MCP_CONFORMANCE_SCENARIO names no scenario"))?;
        let era = match variable("MCP_CONFORMANCE_PROTOCOL_VERSION") {
            None => EraPolicy::Auto,
            Some(version) => era_of(&version).ok_or_else(|| wrong(&format!("no such version: {version}")))?,
        };
        let context = variable("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|| "{}".to_owned());
        let unclear = |error: serde_json::Error| wrong(&format!("the context: {error}"));
        let credentials: Credentials = serde_json::from_str(&context).map_err(unclear)?;
        let context: Context = serde_json::from_str(&context).map_err(unclear)?;
        let authorization = credentials.settings(scenario.starts_with(FOR_ITSELF));
        let authorization = authorization.map_err(|error| wrong(&format!("the context: {error}")))?;
        let flow = match (scenario.as_str(), context.tool_calls) {
            (name, _) if name.starts_with("sep-2640-") => {
                return Err(Refusal::NotYet("skills are not there yet"));
            }
            ("json-schema-2020-12-preservation", _) => Flow::SchemaEcho,
            (_, Some(calls)) => Flow::ToolCalls(calls),
            (_, None) => Flow::Everything,
        };
        Ok(Self { scenario, url, era, authorization, flow })
    }
}

fn era_of(version: &str) -> Option<EraPolicy> {
    Some(match ProtocolVersion::parse(version)?.era() {
        Era::Legacy => EraPolicy::Legacy,
        Era::Modern => EraPolicy::Modern,
    })
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderstood(what) => f.write_str(what),
            Self::NotYet(what) => f.write_str(what),
        }
    }
}
