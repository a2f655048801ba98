use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use mcp_proto::{InvalidAnnotation, ParamHeaders, Payload, RawJson, RejectedTool, SievedTools, escape};
use mcp_transport::MirroredHeader;
use serde::Deserialize;

use crate::error::{CallError, HeaderFault};

/// How much is remembered of the tools of one session, in bytes of names of tools, parameters and
/// headers. A tool that has no room is called without headers, and the server says what it misses.
const MAX_BYTES: usize = 1024 * 1024;

/// Most rejected tools that are remembered.
const MAX_REJECTED: usize = 1000;

/// Most rejected tools of one session that the log names.
const LOGGED: usize = 10;

/// What the tools of one session want mirrored into headers, learned from every `tools/list` that the
/// session reads.
///
/// It lives and dies with its session: a new connection begins with nothing, so that nothing here can
/// belong to an earlier one. It stays empty in the legacy era and where requests have no headers.
#[derive(Debug, Default)]
pub(crate) struct ToolHeaders(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Only tools with annotations.
    tools: BTreeMap<String, Tool>,
    bytes: usize,
    rejected: usize,
    /// How many times a whole list was begun.
    listing: u64,
    /// How many rejections were news, and were told to the log unless there were too many.
    logged: usize,
}

#[derive(Debug)]
struct Tool {
    /// The list that told of it last.
    listing: u64,
    headers: Result<Arc<ParamHeaders>, InvalidAnnotation>,
}

/// What of a request's frame is mirrored.
#[derive(Deserialize)]
struct Frame {
    params: BTreeMap<String, RawJson>,
}

impl ToolHeaders {
    /// The headers of a call of `tool`, whose arguments are read from the frame that is about to be sent.
    pub(crate) fn mirrored(&self, tool: &str, frame: &Bytes) -> Result<Vec<MirroredHeader>, CallError> {
        let known = self.known().tools.get(tool).map(|tool| tool.headers.clone());
        let Some(headers) = known else { return Ok(Vec::new()) };
        let headers = headers.map_err(|why| CallError::Header(HeaderFault::Tool(why)))?;
        let frame: Option<Frame> = serde_json::from_slice(frame).ok();
        let arguments = frame.and_then(|mut frame| frame.params.remove("arguments"));
        let mirrored = headers
            .mirror(arguments.as_ref())
            .map_err(|error| CallError::Header(HeaderFault::Arguments(error)))?;
        let header = |(name, value)| MirroredHeader { name: Cow::Owned(name), value };
        Ok(mirrored.into_iter().map(header).collect())
    }

    /// Learns from one page of the list, and gives it back without the tools that are rejected.
    pub(crate) fn learn(&self, page: Payload, server: &str) -> Payload {
        if !SievedTools::is_needed(&page) && self.known().tools.is_empty() {
            return page;
        }
        let SievedTools { page, tools, rejected, .. } = SievedTools::of_page(page);
        let mut known = self.known();
        let logged = known.logged;
        // A list is read again and again: what was said once is not said again.
        let news: Vec<_> = rejected.into_iter().filter(|tool| known.reject(tool)).collect();
        // The other way round: of several tools with one name, the first counts.
        for (name, headers) in tools.into_iter().rev() {
            known.learn(name, Ok(Arc::new(headers)));
        }
        drop(known);
        report(server, &news, logged);
        page
    }

    /// Notes that the whole list is read; [`end_listing`](Self::end_listing) takes the answer.
    pub(crate) fn begin_listing(&self) -> u64 {
        let mut known = self.known();
        known.listing += 1;
        known.listing
    }

    /// The list has been read to its end: what it did not tell of is gone.
    pub(crate) fn end_listing(&self, listing: u64) {
        let mut known = self.known();
        let is_gone = |(name, tool): (&String, &Tool)| (tool.listing < listing).then(|| name.clone());
        let gone: Vec<String> = known.tools.iter().filter_map(is_gone).collect();
        gone.iter().for_each(|name| known.forget(name));
    }

    pub(crate) fn rejected(&self) -> Vec<RejectedTool> {
        let known = self.known();
        let rejected = |(name, tool): (&String, &Tool)| {
            let why = tool.headers.as_ref().err()?.clone();
            Some(RejectedTool::new(name.clone(), why))
        };
        known.tools.iter().filter_map(rejected).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Each change is small and complete before the next, so a panic elsewhere does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Notes a tool that cannot be used; `true` if that is news.
    fn reject(&mut self, RejectedTool { name, why, .. }: &RejectedTool) -> bool {
        let before = self.tools.get(name).and_then(|tool| tool.headers.as_ref().err());
        let is_news = before != Some(why);
        self.logged += usize::from(is_news);
        self.learn(name.clone(), Err(why.clone()));
        is_news
    }

    fn learn(&mut self, name: String, headers: Result<Arc<ParamHeaders>, InvalidAnnotation>) {
        self.forget(&name);
        let tool = Tool { listing: self.listing, headers };
        if tool.headers.as_ref().is_ok_and(|headers| headers.is_empty()) {
            return;
        }
        let bytes = tool.bytes(&name);
        let is_rejected = tool.headers.is_err();
        if self.bytes + bytes > MAX_BYTES || (is_rejected && self.rejected == MAX_REJECTED) {
            tracing::debug!(tool = %escape(&name, 128), "no room to remember the headers of a tool");
            return;
        }
        self.bytes += bytes;
        self.rejected += usize::from(is_rejected);
        self.tools.insert(name, tool);
    }

    fn forget(&mut self, name: &str) {
        if let Some(tool) = self.tools.remove(name) {
            self.bytes -= tool.bytes(name);
            self.rejected -= usize::from(tool.headers.is_err());
        }
    }
}

impl Tool {
    fn bytes(&self, name: &str) -> usize {
        name.len() + self.headers.as_ref().map_or(0, |headers| headers.size_bytes())
    }
}

/// Says which tools cannot be used, and why, after so many of the session were told of before.
fn report(server: &str, news: &[RejectedTool], before: usize) {
    let server = escape(server, 128);
    let room = LOGGED.saturating_sub(before);
    for RejectedTool { name, why, .. } in news.iter().take(room) {
        let tool = escape(name, 128);
        tracing::warn!(%server, %tool, %why, "a tool is left out: it asks for headers that break the rules");
    }
    if before <= LOGGED && news.len() > room {
        tracing::warn!(%server, "further tools are left out for the same kind of reason");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn tool(name: &str, header: &str) -> Value {
        json!({"name": name, "inputSchema": {"properties": {"p": {"type": "string", "x-mcp-header": header}}}})
    }

    fn learn(headers: &ToolHeaders, tools: &[Value]) {
        headers.learn(Payload::encode(&json!({"tools": tools})).unwrap(), "server");
    }

    fn sent(headers: &ToolHeaders, name: &str) -> Result<Vec<String>, CallError> {
        let frame = json!({"id": 1, "params": {"name": name, "arguments": {"p": "v"}}}).to_string();
        let mirrored = headers.mirrored(name, &frame.into())?;
        Ok(mirrored.into_iter().map(|header| header.name.into_owned()).collect())
    }

    fn rejected(headers: &ToolHeaders) -> Vec<String> {
        headers.rejected().into_iter().map(|tool| tool.name).collect()
    }

    #[test]
    fn the_newest_definition_counts() {
        let headers = ToolHeaders::default();
        learn(&headers, &[tool("a", "One"), tool("b", "b b")]);
        assert_eq!(sent(&headers, "a").unwrap(), ["Mcp-Param-One"]);
        assert!(matches!(sent(&headers, "b"), Err(CallError::Header(HeaderFault::Tool(_)))));
        assert_eq!(rejected(&headers), ["b"]);

        learn(&headers, &[tool("a", "Two"), tool("b", "B")]);
        assert_eq!(sent(&headers, "a").unwrap(), ["Mcp-Param-Two"]);
        assert_eq!(sent(&headers, "b").unwrap(), ["Mcp-Param-B"]);
        assert!(rejected(&headers).is_empty());

        learn(&headers, &[json!({"name": "a", "inputSchema": {}})]);
        assert!(sent(&headers, "a").unwrap().is_empty());
        assert!(sent(&headers, "unknown").unwrap().is_empty());
    }

    #[test]
    fn the_log_is_told_of_a_rejected_tool_once() {
        let headers = ToolHeaders::default();
        for _ in 0..3 {
            learn(&headers, &[tool("a", "a a"), tool("b", "")]);
        }
        assert_eq!(headers.known().logged, 2);
        learn(&headers, &[tool("a", "")]);
        assert_eq!(headers.known().logged, 3, "for another reason");
    }

    #[test]
    fn of_several_tools_with_one_name_the_first_valid_one_counts() {
        let headers = ToolHeaders::default();
        learn(&headers, &[tool("a", ""), tool("a", "One"), tool("a", "Two")]);
        assert_eq!(sent(&headers, "a").unwrap(), ["Mcp-Param-One"]);
        assert!(rejected(&headers).is_empty());
    }

    #[test]
    fn what_a_whole_list_does_not_tell_of_is_gone() {
        let headers = ToolHeaders::default();
        let listing = headers.begin_listing();
        learn(&headers, &[tool("a", "A"), tool("b", "")]);
        headers.end_listing(listing);
        let listing = headers.begin_listing();
        learn(&headers, &[tool("c", "C")]);
        assert_eq!(sent(&headers, "a").unwrap(), ["Mcp-Param-A"], "known until the list has ended");
        headers.end_listing(listing);
        assert!(sent(&headers, "a").unwrap().is_empty());
        assert!(rejected(&headers).is_empty());
        assert_eq!(sent(&headers, "c").unwrap(), ["Mcp-Param-C"]);
        let known = headers.known();
        assert_eq!(
            (known.tools.len(), known.rejected, known.bytes),
            (1, 0, "c".len() + "pMcp-Param-C".len())
        );
    }

    #[test]
    fn memory_is_limited() {
        let (long, invalid) = (ToolHeaders::default(), ToolHeaders::default());
        for round in 0..3 {
            let name = |n: usize| format!("{round}-{n}-{}", "x".repeat(1000));
            learn(&long, &(0..600).map(|n| tool(&name(n), "A")).collect::<Vec<_>>());
            learn(&invalid, &(0..600).map(|n| tool(&format!("{round}-{n}"), "")).collect::<Vec<_>>());
        }
        assert_eq!(invalid.rejected().len(), MAX_REJECTED);
        let known = long.known();
        assert!(known.bytes > MAX_BYTES / 2 && known.bytes <= MAX_BYTES, "{}", known.bytes);
    }
}
