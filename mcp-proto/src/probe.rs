//! Which era a server speaks: a pure judgement of what a probe with `server/discover` has brought.
//!
//! The caller sends the probe, tells [`classify`] what came of it, and does what the verdict says.
//! A verdict never depends on particular codes of legacy servers, which answer a method they do not
//! know with anything at all.

use crate::error::{ErrorObject, code};
use crate::negotiation::{VersionError, offer, pick, versions_in};
use crate::version::{Era, ProtocolVersion};

/// What a probe has brought.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// A complete discovery.
    Discovered {
        /// Its `supportedVersions`, as received.
        versions: Vec<String>,
    },
    /// The child has exited or its pipe was closed; over HTTP, the connection failed or broke.
    Ended,
    /// A JSON-RPC error.
    Rejected {
        /// The error.
        error: ErrorObject,
        /// The HTTP status it came with; `None` on a byte stream.
        status: Option<u16>,
    },
    /// Nothing until the limit.
    Silence,
    /// An HTTP status whose body is no JSON-RPC message.
    Status(u16),
    /// A JSON-RPC success that is no discovery: whoever answers so does not know the method.
    Undiscovered,
    /// A success that is no complete JSON-RPC result.
    Unreadable,
}

/// How the server is reached, as far as the judgement depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeTransport {
    /// Requests over HTTP.
    Http,
    /// A byte stream: a child process, a socket, memory.
    Stdio,
}

/// What has happened before this outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbePhase {
    /// The fallback to `initialize` has begun: the outcome is late.
    FellBack,
    /// The first probe of a server of which nothing is known.
    First,
    /// The server was modern the last time.
    Remembered,
    /// A [`ProbeVerdict::Retry`] was followed.
    Retried,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ProbeVerdict {
    /// Give up this attempt; the era stays unknown.
    Failed(ProbeFailure),
    /// Do nothing: the outcome came too late.
    Ignore,
    /// Send `initialize`.
    Legacy(Fallback),
    /// Go on in this modern version.
    Modern(ProtocolVersion),
    /// Forget that the server was modern, and probe again as for the first time.
    Reprobe,
    /// Send the same again in this version, and judge its outcome as [`ProbePhase::Retried`].
    Retry(ProtocolVersion),
}

/// Where `initialize` is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fallback {
    /// To a new process: the probe has ended the old one, which is no failure of the server.
    NewProcess,
    /// To the server that was probed.
    SameServer,
}

/// Why a probe has led nowhere.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeFailure {
    /// Credentials are needed; probe again once they are there.
    #[error("the server asks for authorization (HTTP status {0})")]
    Authorization(u16),
    /// The server speaks only the legacy era, in which no version is supported by configuration.
    #[error("the server does not speak the modern protocol, and no older version is allowed")]
    LegacyOnly,
    /// The server cannot be reached or is overloaded; try again later.
    #[error("the connection failed before the server answered")]
    Outage,
    /// The server is modern and refuses the request for a reason that can be fixed.
    #[error("the server refused the discovery: {0}")]
    Refused(ErrorObject),
    /// The server is overloaded or broken; try again later.
    #[error("the server answered with HTTP status {0}")]
    Status(u16),
    /// Nothing came until the limit; try again later.
    #[error("the server did not answer the discovery in time")]
    Timeout,
    /// The answer is not of the protocol.
    #[error("the server answered the discovery with something that is no discovery")]
    Unreadable,
    /// No version in common.
    #[error(transparent)]
    Version(#[from] VersionError),
}

/// How to begin with a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstStep {
    /// Send `server/discover`.
    Discover(ProbePhase),
    /// Send `initialize`; the era is known.
    Initialize,
}

/// How to begin, given the era that is remembered of the last connection.
///
/// A remembered legacy verdict never fails by itself; how long it is kept is up to the caller.
#[must_use]
pub fn first_step(remembered: Option<Era>) -> FirstStep {
    match remembered {
        None => FirstStep::Discover(ProbePhase::First),
        Some(Era::Legacy) => FirstStep::Initialize,
        Some(Era::Modern) => FirstStep::Discover(ProbePhase::Remembered),
    }
}

/// Judges what a probe has brought.
///
/// Total: each combination of arguments has a verdict.
///
/// # Source
///
/// MCP 2026-07-28, basic/transports: backward compatibility of stdio and Streamable HTTP.
#[must_use]
pub fn classify(
    outcome: &ProbeOutcome,
    transport: ProbeTransport,
    phase: ProbePhase,
    supported: &[ProtocolVersion],
) -> ProbeVerdict {
    if phase == ProbePhase::FellBack {
        return ProbeVerdict::Ignore;
    }
    match judge(outcome, transport, phase, supported) {
        ProbeVerdict::Legacy(_) if phase == ProbePhase::Remembered => ProbeVerdict::Reprobe,
        ProbeVerdict::Legacy(_) if offer(supported).is_none() => {
            ProbeVerdict::Failed(ProbeFailure::LegacyOnly)
        }
        verdict => verdict,
    }
}

/// Judges an error that `initialize` was answered with.
///
/// A slow server may have been locked to the modern era by a probe that was given up: it then lists
/// its versions in an error −32022. The version of the verdict tells the era to go on in.
#[must_use]
pub fn classify_initialize(
    error: &ErrorObject,
    phase: ProbePhase,
    supported: &[ProtocolVersion],
) -> ProbeVerdict {
    let refused = || ProbeVerdict::Failed(ProbeFailure::Refused(error.clone()));
    let Some(versions) = versions_in(error) else { return refused() };
    if phase == ProbePhase::Retried {
        return refused();
    }
    pick(&versions, supported, Era::Modern)
        .or_else(|| pick(&versions, supported, Era::Legacy))
        .map_or_else(|| no_common_version(&versions, supported), ProbeVerdict::Retry)
}

/// Whether a server that has refused `initialize` over HTTP may speak the older HTTP+SSE transport.
#[must_use]
pub fn may_speak_sse(status: u16, error: Option<&ErrorObject>) -> bool {
    matches!(status, 400 | 404 | 405) && !error.is_some_and(is_modern)
}

fn judge(
    outcome: &ProbeOutcome,
    transport: ProbeTransport,
    phase: ProbePhase,
    supported: &[ProtocolVersion],
) -> ProbeVerdict {
    use {ProbeFailure as Failure, ProbeOutcome as Came, ProbeTransport as Over, ProbeVerdict as Do};
    match (outcome, transport) {
        (Came::Discovered { versions }, _) => pick(versions, supported, Era::Modern)
            .map(Do::Modern)
            .or_else(|| pick(versions, supported, Era::Legacy).map(|_| Do::Legacy(Fallback::SameServer)))
            .unwrap_or_else(|| no_common_version(versions, supported)),
        (Came::Ended, Over::Stdio) => Do::Legacy(Fallback::NewProcess),
        (Came::Ended, Over::Http) => Do::Failed(Failure::Outage),
        (Came::Undiscovered, _) | (Came::Silence | Came::Unreadable, Over::Stdio) => {
            Do::Legacy(Fallback::SameServer)
        }
        (Came::Silence, Over::Http) => Do::Failed(Failure::Timeout),
        (Came::Unreadable, Over::Http) => Do::Failed(Failure::Unreadable),
        (Came::Rejected { error, status }, _) => {
            status.and_then(no_evidence).map_or_else(|| judge_error(error, phase, supported), Do::Failed)
        }
        (Came::Status(status), _) => no_evidence(*status).map_or(
            match status {
                400..=499 => Do::Legacy(Fallback::SameServer),
                200..=299 => Do::Failed(Failure::Unreadable),
                _ => Do::Failed(Failure::Status(*status)),
            },
            Do::Failed,
        ),
    }
}

/// A status that says nothing about the era, whatever the body holds.
fn no_evidence(status: u16) -> Option<ProbeFailure> {
    match status {
        401 | 403 => Some(ProbeFailure::Authorization(status)),
        429 | 500..=599 => Some(ProbeFailure::Status(status)),
        _ => None,
    }
}

fn judge_error(error: &ErrorObject, phase: ProbePhase, supported: &[ProtocolVersion]) -> ProbeVerdict {
    if matches!(error.code, code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY) {
        return ProbeVerdict::Failed(ProbeFailure::Refused(error.clone()));
    }
    let legacy = ProbeVerdict::Legacy(Fallback::SameServer);
    let Some(versions) = versions_in(error) else { return legacy };
    match pick(&versions, supported, Era::Modern) {
        // A server that refuses the version it has just listed would be asked for ever.
        Some(_) if phase == ProbePhase::Retried => ProbeVerdict::Failed(ProbeFailure::Refused(error.clone())),
        Some(version) => ProbeVerdict::Retry(version),
        None if pick(&versions, supported, Era::Legacy).is_some() => legacy,
        None if !versions.iter().any(|name| is_modern_name(name)) => legacy,
        None => no_common_version(&versions, supported),
    }
}

fn no_common_version(versions: &[String], supported: &[ProtocolVersion]) -> ProbeVerdict {
    ProbeVerdict::Failed(VersionError::new(versions, supported).into())
}

/// Whether only a server of the modern era answers with this error.
fn is_modern(error: &ErrorObject) -> bool {
    matches!(error.code, code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY)
        || versions_in(error).is_some()
}

/// Whether a version that may be unknown here belongs to the modern era: versions are dates.
fn is_modern_name(name: &str) -> bool {
    let is_date = name.len() == 10 && name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    is_date && name >= ProtocolVersion::V2026_07_28.as_str()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::raw_json::RawJson;

    const ALL: &[ProtocolVersion] = ProtocolVersion::ALL;
    const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;
    const SAME: ProbeVerdict = ProbeVerdict::Legacy(Fallback::SameServer);
    use {ProbePhase::First, ProbePhase::Retried, ProbeTransport::Http, ProbeTransport::Stdio};

    fn names(versions: &[&str]) -> Vec<String> {
        versions.iter().map(ToString::to_string).collect()
    }

    fn discovered(versions: &[&str]) -> ProbeOutcome {
        ProbeOutcome::Discovered { versions: names(versions) }
    }

    fn error(code: i64, data: Option<&str>) -> ErrorObject {
        let mut error = ErrorObject::new(code, "no");
        error.data = data.map(|text| RawJson::from_text(text).unwrap());
        error
    }

    fn unsupported(versions: &[&str]) -> ErrorObject {
        error(-32022, Some(&serde_json::json!({ "supported": versions }).to_string()))
    }

    fn rejected(error: ErrorObject, status: Option<u16>) -> ProbeOutcome {
        ProbeOutcome::Rejected { error, status }
    }

    fn no_common(versions: &[&str]) -> ProbeVerdict {
        ProbeVerdict::Failed(ProbeFailure::Version(VersionError::new(versions, ALL)))
    }

    #[track_caller]
    fn assert_verdict(outcome: &ProbeOutcome, transport: ProbeTransport, expected: &ProbeVerdict) {
        assert_eq!(classify(outcome, transport, First, ALL), *expected, "{outcome:?} over {transport:?}");
    }

    /// The same outcome on both transports; an error comes with status 400 over HTTP.
    #[track_caller]
    fn assert_both(error: &ErrorObject, expected: &ProbeVerdict) {
        assert_verdict(&rejected(error.clone(), None), Stdio, expected);
        assert_verdict(&rejected(error.clone(), Some(400)), Http, expected);
    }

    #[test]
    fn row_01_a_discovery_with_a_mutual_modern_version_is_modern() {
        for transport in [Stdio, Http] {
            let outcome = discovered(&["2025-11-25", "2026-07-28", "2031-01-01"]);
            assert_verdict(&outcome, transport, &ProbeVerdict::Modern(MODERN));
        }
    }

    #[test]
    fn row_02_a_discovery_of_legacy_versions_alone_is_legacy() {
        for transport in [Stdio, Http] {
            assert_verdict(&discovered(&["2024-11-05", "2025-11-25"]), transport, &SAME);
        }
    }

    #[test]
    fn row_03_a_discovery_without_a_mutual_version_fails_and_names_both_lists() {
        for transport in [Stdio, Http] {
            for versions in [&["2031-01-01"][..], &["1999-01-01"], &[]] {
                assert_verdict(&discovered(versions), transport, &no_common(versions));
            }
        }
    }

    #[test]
    fn row_04_an_unreadable_success_is_legacy_on_stdio_and_fails_over_http() {
        assert_verdict(&ProbeOutcome::Unreadable, Stdio, &SAME);
        let unreadable = ProbeVerdict::Failed(ProbeFailure::Unreadable);
        assert_verdict(&ProbeOutcome::Unreadable, Http, &unreadable);
        assert_verdict(&ProbeOutcome::Status(200), Http, &unreadable);
        assert_verdict(&ProbeOutcome::Status(202), Http, &unreadable);
    }

    #[test]
    fn row_04_a_success_that_is_no_discovery_is_legacy() {
        for transport in [Stdio, Http] {
            assert_verdict(&ProbeOutcome::Undiscovered, transport, &SAME);
        }
    }

    #[test]
    fn row_05_a_listed_modern_version_is_tried_once() {
        let listed = unsupported(&["2026-07-28", "2025-11-25"]);
        assert_both(&listed, &ProbeVerdict::Retry(MODERN));
        let again = classify(&rejected(listed.clone(), None), Stdio, Retried, ALL);
        assert_eq!(again, ProbeVerdict::Failed(ProbeFailure::Refused(listed)));
    }

    #[test]
    fn row_06_a_list_of_legacy_versions_alone_is_legacy() {
        assert_both(&unsupported(&["2025-11-25", "2024-11-05"]), &SAME);
        assert_both(&unsupported(&["2024-10-07"]), &SAME);
    }

    #[test]
    fn row_07_a_list_of_foreign_modern_versions_fails() {
        assert_both(&unsupported(&["2031-01-01"]), &no_common(&["2031-01-01"]));
    }

    #[test]
    fn row_08_a_version_error_without_a_usable_list_is_legacy() {
        for data in
            [None, Some("null"), Some("{}"), Some(r#"{"supported":[]}"#), Some(r#"{"supported":[4]}"#)]
        {
            assert_both(&error(-32022, data), &SAME);
        }
    }

    #[test]
    fn row_09_other_errors_of_the_modern_era_keep_it_and_fail() {
        for code in [-32020, -32021] {
            let refused = error(code, None);
            assert_both(&refused, &ProbeVerdict::Failed(ProbeFailure::Refused(refused.clone())));
        }
    }

    #[test]
    fn row_10_any_other_error_is_legacy() {
        for code in [-32601, -32602, -32000, -32001, 0, 404, i64::MIN] {
            assert_both(&error(code, None), &SAME);
            assert_verdict(&rejected(error(code, None), Some(200)), Http, &SAME);
        }
    }

    #[test]
    fn row_11_silence_is_legacy_on_stdio_and_fails_over_http() {
        assert_verdict(&ProbeOutcome::Silence, Stdio, &SAME);
        assert_verdict(&ProbeOutcome::Silence, Http, &ProbeVerdict::Failed(ProbeFailure::Timeout));
    }

    #[test]
    fn row_12_a_child_that_exits_is_legacy_and_started_anew() {
        assert_verdict(&ProbeOutcome::Ended, Stdio, &ProbeVerdict::Legacy(Fallback::NewProcess));
    }

    #[test]
    fn row_13_a_broken_http_connection_is_an_outage() {
        assert_verdict(&ProbeOutcome::Ended, Http, &ProbeVerdict::Failed(ProbeFailure::Outage));
    }

    #[test]
    fn row_14_missing_authorization_is_no_evidence() {
        for status in [401, 403] {
            let expected = ProbeVerdict::Failed(ProbeFailure::Authorization(status));
            assert_verdict(&ProbeOutcome::Status(status), Http, &expected);
            assert_verdict(&rejected(unsupported(&["2025-11-25"]), Some(status)), Http, &expected);
        }
    }

    #[test]
    fn row_15_an_overloaded_or_broken_server_is_no_evidence() {
        for status in [429, 500, 502, 503, 599] {
            let expected = ProbeVerdict::Failed(ProbeFailure::Status(status));
            assert_verdict(&ProbeOutcome::Status(status), Http, &expected);
            assert_verdict(&rejected(error(-32601, None), Some(status)), Http, &expected);
        }
    }

    #[test]
    fn row_16_a_client_error_with_an_unrecognised_body_is_legacy_and_perhaps_sse() {
        for status in [400, 404, 405, 406, 415] {
            assert_verdict(&ProbeOutcome::Status(status), Http, &SAME);
        }
        for (status, expected) in
            [(400, true), (404, true), (405, true), (406, false), (500, false), (200, false)]
        {
            assert_eq!(may_speak_sse(status, None), expected, "{status}");
            assert_eq!(may_speak_sse(status, Some(&error(-32601, None))), expected, "{status}");
            assert!(!may_speak_sse(status, Some(&unsupported(&["2026-07-28"]))), "{status}");
        }
    }

    #[test]
    fn row_17_a_missing_discovery_is_legacy() {
        assert_verdict(&rejected(error(-32601, None), Some(404)), Http, &SAME);
    }

    #[test]
    fn row_18_an_outcome_after_the_fallback_is_ignored() {
        for outcome in [discovered(&["2026-07-28"]), ProbeOutcome::Silence, rejected(error(0, None), None)] {
            for transport in [Stdio, Http] {
                let verdict = classify(&outcome, transport, ProbePhase::FellBack, ALL);
                assert_eq!(verdict, ProbeVerdict::Ignore);
            }
        }
    }

    #[test]
    fn row_19_initialize_refused_for_its_version_is_tried_once_in_a_listed_one() {
        let modern = unsupported(&["2026-07-28"]);
        assert_eq!(classify_initialize(&modern, First, ALL), ProbeVerdict::Retry(MODERN));
        let refused = ProbeVerdict::Failed(ProbeFailure::Refused(modern.clone()));
        assert_eq!(classify_initialize(&modern, Retried, ALL), refused);
        let older = unsupported(&["2025-03-26"]);
        let expected = ProbeVerdict::Retry(ProtocolVersion::V2025_03_26);
        assert_eq!(classify_initialize(&older, First, ALL), expected);
        assert_eq!(
            classify_initialize(&unsupported(&["2031-01-01"]), First, ALL),
            no_common(&["2031-01-01"])
        );
        let other = error(-32602, Some(r#"{"supported":["2026-07-28"]}"#));
        let expected = ProbeVerdict::Failed(ProbeFailure::Refused(other.clone()));
        assert_eq!(classify_initialize(&other, First, ALL), expected);
    }

    #[test]
    fn row_20_a_remembered_modern_server_that_looks_legacy_is_probed_again() {
        for outcome in [ProbeOutcome::Ended, ProbeOutcome::Silence, rejected(error(-32601, None), None)] {
            let verdict = classify(&outcome, Stdio, ProbePhase::Remembered, ALL);
            assert_eq!(verdict, ProbeVerdict::Reprobe);
        }
        let verdict = classify(&discovered(&["2026-07-28"]), Stdio, ProbePhase::Remembered, ALL);
        assert_eq!(verdict, ProbeVerdict::Modern(MODERN));
    }

    #[test]
    fn row_21_a_remembered_legacy_server_is_not_probed() {
        assert_eq!(first_step(Some(Era::Legacy)), FirstStep::Initialize);
        assert_eq!(first_step(Some(Era::Modern)), FirstStep::Discover(ProbePhase::Remembered));
        assert_eq!(first_step(None), FirstStep::Discover(First));
    }

    #[test]
    fn a_client_of_one_era_alone_does_not_leave_it() {
        let verdict = classify(&ProbeOutcome::Silence, Stdio, First, &[MODERN]);
        assert_eq!(verdict, ProbeVerdict::Failed(ProbeFailure::LegacyOnly));
    }

    fn any_outcome() -> impl Strategy<Value = ProbeOutcome> {
        let version =
            prop::sample::select(vec!["2024-11-05", "2025-11-25", "2026-07-28", "2031-01-01", "x", ""]);
        let versions = prop::collection::vec(version, 0..4);
        let code = prop_oneof![-32030_i64..-32010, -32700_i64..-32000, any::<i64>()];
        let data = (versions.clone(), 0..4_u8).prop_map(|(versions, shape)| match shape {
            0 => None,
            1 => Some("[]".to_owned()),
            _ => Some(serde_json::json!({ "supported": versions }).to_string()),
        });
        let status = prop_oneof![200..600_u16, any::<u16>()];
        prop_oneof![
            versions.prop_map(|versions| discovered(&versions)),
            Just(ProbeOutcome::Ended),
            Just(ProbeOutcome::Silence),
            Just(ProbeOutcome::Undiscovered),
            Just(ProbeOutcome::Unreadable),
            status.clone().prop_map(ProbeOutcome::Status),
            (code, data, prop::option::of(status))
                .prop_map(|(code, data, status)| rejected(error(code, data.as_deref()), status)),
        ]
    }

    proptest! {
        #[test]
        fn every_outcome_has_a_verdict_within_its_bounds(
            outcome in any_outcome(),
            transport in prop::sample::select(vec![Http, Stdio]),
            phase in prop::sample::select(vec![ProbePhase::FellBack, First, ProbePhase::Remembered, Retried]),
            supported in prop::sample::subsequence(ALL.to_vec(), 0..=ALL.len()),
        ) {
            match classify(&outcome, transport, phase, &supported) {
                ProbeVerdict::Ignore => prop_assert_eq!(phase, ProbePhase::FellBack),
                ProbeVerdict::Legacy(fallback) => {
                    prop_assert!(offer(&supported).is_some());
                    prop_assert!(phase == First || phase == Retried);
                    prop_assert_eq!(fallback == Fallback::NewProcess, outcome == ProbeOutcome::Ended);
                }
                ProbeVerdict::Modern(version) => {
                    prop_assert!(supported.contains(&version) && version.era() == Era::Modern);
                    let is_discovered = matches!(outcome, ProbeOutcome::Discovered { .. });
                    prop_assert!(is_discovered);
                }
                ProbeVerdict::Retry(version) => {
                    prop_assert!(supported.contains(&version) && phase != Retried);
                }
                ProbeVerdict::Reprobe => prop_assert_eq!(phase, ProbePhase::Remembered),
                ProbeVerdict::Failed(failure) => prop_assert!(!failure.to_string().is_empty()),
            }
        }

        #[test]
        fn v32_the_fallback_depends_on_no_particular_code(code in any::<i64>(), status in 400..=499_u16) {
            prop_assume!(!(-32022..=-32020).contains(&code));
            prop_assume!(![401, 403, 429].contains(&status));
            prop_assert_eq!(classify(&rejected(error(code, None), None), Stdio, First, ALL), SAME);
            prop_assert_eq!(classify(&rejected(error(code, None), Some(status)), Http, First, ALL), SAME);
        }
    }
}
