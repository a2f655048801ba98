use serde::Deserialize;

use crate::allowance;
use crate::entries::Entries;
use crate::member::Member;
use crate::param_headers::{InvalidAnnotation, ParamHeaders, may_be_annotated};
use crate::payload::{Payload, decode_with};
use crate::raw_json::RawJson;

/// A tool that is left out of a list because its annotations break the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RejectedTool {
    /// Its name, as the server wrote it; untrusted.
    pub name: String,
    /// What is wrong with it.
    pub why: InvalidAnnotation,
}

/// A page of a tool list, taken apart by the header annotations of its tools.
///
/// # Source
///
/// MCP 2026-07-28, basic/transports/streamable-http: a client must leave a tool with an invalid
/// annotation out of the list, and keep the others.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SievedTools {
    /// The page without the tools that are rejected; the very same one if none is.
    pub page: Payload,
    /// The other tools by name, in the order of the server, with the headers that they ask for.
    pub tools: Vec<(String, ParamHeaders)>,
    /// The tools that were left out.
    pub rejected: Vec<RejectedTool>,
}

impl RejectedTool {
    /// A tool that is left out, and why.
    #[must_use]
    pub fn new(name: String, why: InvalidAnnotation) -> Self {
        Self { name, why }
    }
}

#[derive(Deserialize)]
struct Head {
    name: String,
    #[serde(rename = "inputSchema", default = "RawJson::null")]
    input_schema: RawJson,
}

impl SievedTools {
    /// Whether a page can have any annotation. A quick look, which may say yes without need.
    #[must_use]
    pub fn is_needed(page: &Payload) -> bool {
        may_be_annotated(page.as_str())
    }

    /// Looks at each tool in the result of `tools/list`. What is no tool stays for the reader to judge.
    ///
    /// Takes at most eight times the length of the page, and 4 MiB. A page with more entries than that
    /// accounts for stays as it is, its tools unjudged.
    #[must_use]
    pub fn of_page(page: Payload) -> Self {
        let mut sieved = Self { page, tools: Vec::new(), rejected: Vec::new() };
        let Some(mut tools) = tools_of(&sieved.page) else { return sieved };
        tools.retain(|tool| sieved.keeps(tool));
        if !sieved.rejected.is_empty()
            && let Ok(kept) = RawJson::encode(&tools)
            && let Ok(mut members) = sieved.page.decode::<Entries<RawJson>>()
        {
            members.insert("tools", kept);
            // An object of texts that were JSON before is JSON again.
            sieved.page = Payload::encode(&members).unwrap_or(sieved.page);
        }
        sieved
    }

    fn keeps(&mut self, tool: &RawJson) -> bool {
        let Ok(Head { name, input_schema }) = tool.decode() else { return true };
        match ParamHeaders::of_schema(&input_schema) {
            Ok(headers) => self.tools.push((name, headers)),
            Err(why) => {
                self.rejected.push(RejectedTool { name, why });
                return false;
            }
        }
        true
    }
}

/// The tools of a page, within one [allowance] with what is to be said of each.
fn tools_of(page: &Payload) -> Option<Vec<RawJson>> {
    allowance::within(page.as_bytes().len(), || {
        let members: Entries<RawJson> = page.decode().ok()?;
        let tools: Vec<RawJson> =
            decode_with(members.get("tools")?.get(), |reader| Vec::read(reader)).ok()?;
        let said = size_of::<(String, ParamHeaders)>().max(size_of::<RejectedTool>());
        allowance::take(said * tools.len()).then_some(tools)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sieve(page: &Value) -> SievedTools {
        SievedTools::of_page(Payload::encode(page).unwrap())
    }

    fn tool(name: &str, header: &str) -> Value {
        json!({"name": name, "vendor": 1, "inputSchema": {"type": "object", "properties": {
            "p": {"type": "string", "x-mcp-header": header},
        }}})
    }

    #[test]
    fn m84_invalid_tools_are_left_out_and_the_rest_is_kept_as_it_came() {
        let page =
            json!({"tools": [tool("a", "A"), tool("b", "b b"), 7, {"name": "c"}], "nextCursor": "", "x": 1});
        let sieved = sieve(&page);
        let expected = json!({"tools": [tool("a", "A"), 7, {"name": "c"}], "nextCursor": "", "x": 1});
        assert_eq!(sieved.page.decode::<Value>().unwrap(), expected);
        let names: Vec<(&str, bool)> =
            sieved.tools.iter().map(|(name, headers)| (name.as_str(), headers.is_empty())).collect();
        assert_eq!(names, [("a", false), ("c", true)]);
        let why = InvalidAnnotation::Token("b b".into());
        assert_eq!(sieved.rejected, [RejectedTool::new("b".into(), why)]);
    }

    #[test]
    fn a_page_of_valid_tools_is_the_same_page() {
        for page in [
            json!({"tools": [tool("a", "A")]}),
            json!({"tools": []}),
            json!({"tools": 5}),
            json!({}),
            json!([]),
        ] {
            let page = Payload::encode(&page).unwrap();
            let sieved = SievedTools::of_page(page.clone());
            assert_eq!(sieved.page, page);
            assert_eq!(sieved.page.as_bytes().as_ptr(), page.as_bytes().as_ptr(), "nothing is copied");
        }
    }
}
