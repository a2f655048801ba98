use crate::encode::MetaMembers;
use crate::meta::meta_key;
use crate::payload::DecodeError;

/// Where a request belongs in a distributed trace, in the form of W3C.
///
/// Its parts are written into `_meta` under the only names that the protocol reserves without a prefix.
/// They are harmless in every version, and specified since 2026-07-28.
///
/// # Source
///
/// W3C Trace Context, W3C Baggage; MCP 2026-07-28, basic: `_meta` (SEP-414).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    traceparent: String,
    tracestate: Option<String>,
    baggage: Option<String>,
}

/// A part of a trace context is not of the form that W3C gives it.
///
/// The caller is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not of the form that W3C gives it")]
pub struct TraceContextError(&'static str);

/// Longest `tracestate` that is written, in bytes: what every implementation of W3C must pass on.
const MAX_TRACESTATE_BYTES: usize = 512;

/// Longest `baggage` that is written, in bytes: what every implementation of W3C must pass on.
const MAX_BAGGAGE_BYTES: usize = 8192;

impl TraceContext {
    /// Takes a `traceparent`, such as `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
    ///
    /// # Errors
    ///
    /// It is not of that form, or an id in it is zero.
    pub fn new(traceparent: impl Into<String>) -> Result<Self, TraceContextError> {
        let traceparent = traceparent.into();
        if !is_traceparent(&traceparent) {
            return Err(TraceContextError("traceparent"));
        }
        Ok(Self { traceparent, tracestate: None, baggage: None })
    }

    /// Adds what single vendors say, at most 512 bytes and 32 entries.
    ///
    /// # Errors
    ///
    /// It is not a list of `key=value`, or it is too long.
    pub fn with_tracestate(mut self, tracestate: impl Into<String>) -> Result<Self, TraceContextError> {
        let tracestate = tracestate.into();
        if tracestate.len() > MAX_TRACESTATE_BYTES
            || tracestate.split(',').count() > 32
            || !is_list(&tracestate)
        {
            return Err(TraceContextError("tracestate"));
        }
        self.tracestate = Some(tracestate);
        Ok(self)
    }

    /// Adds what the application says, at most 8192 bytes.
    ///
    /// # Errors
    ///
    /// It is not a list of `key=value`, or it is too long.
    pub fn with_baggage(mut self, baggage: impl Into<String>) -> Result<Self, TraceContextError> {
        let baggage = baggage.into();
        if baggage.len() > MAX_BAGGAGE_BYTES || !is_list(&baggage) {
            return Err(TraceContextError("baggage"));
        }
        self.baggage = Some(baggage);
        Ok(self)
    }
}

impl MetaMembers {
    /// These members and `trace`.
    ///
    /// # Errors
    ///
    /// Never: a text always has a JSON form.
    pub fn with_trace(&self, trace: &TraceContext) -> Result<Self, DecodeError> {
        let mut members = self.clone();
        members.push(meta_key::TRACEPARENT, &trace.traceparent)?;
        for (key, part) in [(meta_key::TRACESTATE, &trace.tracestate), (meta_key::BAGGAGE, &trace.baggage)] {
            if let Some(part) = part {
                members.push(key, part)?;
            }
        }
        Ok(members)
    }
}

fn is_traceparent(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [version, trace, parent, flags] = parts.as_slice() else { return false };
    let is_hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, length: usize| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
    is_hex(version, 2) && *version != "ff" && is_id(trace, 32) && is_id(parent, 16) && is_hex(flags, 2)
}

/// Whether a text is a list of `key=value` in printable ASCII.
fn is_list(text: &str) -> bool {
    let is_entry = |entry: &str| {
        let entry = entry.trim_matches([' ', '\t']);
        entry.split_once('=').is_some_and(|(key, _)| !key.is_empty())
            && entry.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    };
    text.split(',').all(is_entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, encode_notification};

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_trace_is_written_under_its_three_names() {
        let trace = TraceContext::new(PARENT).unwrap();
        let trace = trace.with_tracestate("rojo=00f0, congo=t61").unwrap().with_baggage("a=1;p").unwrap();
        let meta = MetaMembers::new().with_trace(&trace).unwrap();
        let frame = encode_notification(&Method::INITIALIZED, &(), &meta).unwrap();
        let expected = format!(
            r#""params":{{"_meta":{{"traceparent":"{PARENT}","tracestate":"rojo=00f0, congo=t61","baggage":"a=1;p"}}}}}}"#
        );
        assert!(std::str::from_utf8(&frame).unwrap().ends_with(&expected));
    }

    #[test]
    fn what_is_not_of_the_form_is_refused() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        ] {
            assert_eq!(TraceContext::new(text), Err(TraceContextError("traceparent")), "{text}");
        }
        let trace = TraceContext::new(PARENT).unwrap();
        for list in ["", "a", "=1", "a=ü", "a=1\n", &format!("a={}", "x".repeat(511)), &"a=1,".repeat(33)] {
            assert!(trace.clone().with_tracestate(list).is_err(), "{list}");
        }
        assert!(trace.clone().with_baggage(format!("a={}", "x".repeat(8190))).is_ok());
        assert!(trace.with_baggage(format!("a={}", "x".repeat(8191))).is_err());
    }
}
