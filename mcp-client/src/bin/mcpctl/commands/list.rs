use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_client::registry::scan;
use mcp_client::{ConfigError, ToolFilter};
use mcp_lifecycle::{Lists, ServerHandle, State};
use mcp_proto::{PeerInfo, RejectedTool};
use mcp_session::Listed;
use serde_json::{Value, json};

use super::Context;
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::output::{Output, Tone, safe};
use crate::problem::{Problem, concluded};
use crate::running::{Limit, Persistence, ready, with_client};
use crate::source::Source;

/// Longest part of a description that stands in a table, in characters.
const DESCRIPTION: usize = 72;

/// What one server offers, or why it cannot be asked.
struct Section {
    server: String,
    outcome: Result<Offer, Problem>,
}

/// What a server offers, how it introduced itself, and which of its tools the configuration leaves.
struct Offer {
    filter: ToolFilter,
    lists: Arc<Lists>,
    peer: Arc<PeerInfo>,
}

/// Lists what every server offers. Servers that cannot be reached are shown with their reason, and the
/// others all the same.
pub(crate) async fn run(context: &Context, target: &TargetArgs) -> Result<Exit, Problem> {
    let Context { global, host, output } = context;
    let name = match target.words.as_slice() {
        [] => None,
        [name] => Some(name.as_str()),
        [_, extra, ..] => return Err(Problem::usage(format!("{extra:?} is one word too many"))),
    };
    let Source { servers, refused } = Source::all(global, host, output, &target.program, name)?;
    let is_for_one = name.is_some() || !target.program.is_empty();
    let filters: BTreeMap<String, ToolFilter> =
        servers.iter().map(|server| (server.name.clone(), server.settings.tools.clone())).collect();
    let limit = Limit::begin(target.timeout);
    let mut sections: Vec<Section> = with_client(host, output, Persistence::Once, servers, async |client| {
        let mut sections = Vec::new();
        for server in client.servers() {
            if name.is_none() && matches!(server.status().state, State::Disabled) {
                continue;
            }
            let filter = filters.get(server.name()).cloned().unwrap_or_default();
            let outcome = offer(&server, filter, limit).await;
            sections.push(Section { server: server.name().to_owned(), outcome });
        }
        Ok(sections)
    })
    .await?;
    sections.extend(refused.into_iter().map(Section::refused));
    let failed = sections.iter().find_map(|section| Some(section.outcome.as_ref().err()?.exit));
    let exit = match failed {
        None => Exit::Success,
        Some(exit) if is_for_one => exit,
        // Each section says what is wrong with its server.
        Some(_) => Exit::Unreachable,
    };
    let printed = if output.is_json() {
        let servers: Vec<Value> = sections.iter().map(Section::document).collect();
        output.document(&json!({"servers": servers})).map_err(Problem::from)
    } else {
        print(output, &sections)
    };
    concluded(printed, exit)
}

async fn offer(server: &ServerHandle, filter: ToolFilter, limit: Limit) -> Result<Offer, Problem> {
    ready(server, limit).await?;
    match (server.lists(), server.peer()) {
        (Some(lists), Some(peer)) => Ok(Offer { filter, lists, peer }),
        // Between "ready" and this line the server has gone again.
        _ => {
            let message = format!("server \"{}\" went away", safe(server.name()));
            Err(Problem::new(Exit::Unreachable, message).retryable(true))
        }
    }
}

impl Section {
    fn refused(error: ConfigError) -> Self {
        let server = error.server().unwrap_or_default().to_owned();
        // The others can be shown: this one counts as out of reach.
        Self { server, outcome: Err(Problem::new(Exit::Unreachable, error.to_string())) }
    }

    fn document(&self) -> Value {
        match &self.outcome {
            Ok(Offer { filter, lists, peer }) => json!({
                "server": self.server,
                "ok": true,
                "info": peer.server,
                "protocol": peer.version,
                "suspicious": suspicious(lists),
                "excluded": excluded(lists, filter),
                "invalid": invalid(lists),
                "tools": lists.tools.items,
                "resources": lists.resources.items,
                "resourceTemplates": lists.templates.items,
                "prompts": lists.prompts.items,
                "truncated": is_truncated(lists),
            }),
            Err(problem) => json!({"server": self.server, "ok": false, "error": problem.document()}),
        }
    }
}

fn is_truncated(lists: &Lists) -> bool {
    lists.tools.truncated.is_some()
        || lists.resources.truncated.is_some()
        || lists.templates.truncated.is_some()
        || lists.prompts.truncated.is_some()
}

fn print(output: &Output, sections: &[Section]) -> Result<(), Problem> {
    for section in sections {
        let name = output.tone(Tone::Strong, safe(&section.server));
        match &section.outcome {
            Ok(Offer { filter, lists, peer }) => {
                output.line(format!("{name}  {}", output.tone(Tone::Quiet, introduction(peer))))?;
                print_lists(output, lists, filter)?;
            }
            Err(problem) => output.line(format!("{name}  {}", output.tone(Tone::Bad, &problem.message)))?,
        }
    }
    if sections.is_empty() {
        output.line("no servers are configured")?;
    }
    Ok(())
}

/// Name and version of the program as it claims them, and what is spoken with it.
fn introduction(peer: &PeerInfo) -> String {
    let claimed = safe(&format!("{} {}", peer.server.name, peer.server.version));
    format!("{} · {}", claimed.trim(), peer.version)
}

/// Tools whose descriptions try to steer a model or to hide from a person, with the kinds of it.
fn suspicious(lists: &Lists) -> Vec<Value> {
    let findings =
        lists.tools.items.iter().map(|tool| (tool, scan(tool.description.as_deref().unwrap_or_default())));
    let found = findings.filter(|(_, findings)| !findings.is_empty());
    found.map(|(tool, findings)| json!({"tool": tool.name, "findings": findings})).collect()
}

/// Tools that the server has and the configuration keeps from being called.
fn excluded<'a>(lists: &'a Lists, filter: &ToolFilter) -> Vec<&'a str> {
    lists.tools.items.iter().map(|tool| tool.name.as_str()).filter(|name| !filter.allows(name)).collect()
}

/// Tools that are left out because their definitions break the rules, with what is wrong with them.
fn invalid(lists: &Lists) -> Vec<Value> {
    let document = |tool: &RejectedTool| json!({"tool": tool.name, "reason": tool.why.to_string()});
    lists.rejected_tools.iter().map(document).collect()
}

fn print_lists(output: &Output, lists: &Lists, filter: &ToolFilter) -> Result<(), Problem> {
    print_list(output, "tools", &lists.tools, |tool| (&tool.name, tool.description.as_deref()))?;
    for suspect in suspicious(lists) {
        let warning = format!("    ! hidden instructions? {}", safe(&suspect.to_string()));
        output.line(output.tone(Tone::Bad, warning))?;
    }
    let excluded = excluded(lists, filter);
    if !excluded.is_empty() {
        let note = format!("    excluded by the configuration: {}", safe(&excluded.join(", ")));
        output.line(output.tone(Tone::Quiet, note))?;
    }
    for RejectedTool { name, why, .. } in &lists.rejected_tools {
        let warning = format!("    ! {} cannot be called over HTTP: {}", safe(name), safe(&why.to_string()));
        output.line(output.tone(Tone::Bad, warning))?;
    }
    print_list(output, "resources", &lists.resources, |item| (&item.uri, Some(item.name.as_str())))?;
    print_list(output, "templates", &lists.templates, |item| (&item.uri_template, Some(item.name.as_str())))?;
    print_list(output, "prompts", &lists.prompts, |prompt| (&prompt.name, prompt.description.as_deref()))
}

fn print_list<T>(
    output: &Output,
    title: &str,
    list: &Listed<T>,
    columns: impl Fn(&T) -> (&String, Option<&str>),
) -> Result<(), Problem> {
    if list.items.is_empty() {
        return Ok(());
    }
    output.line(format!("  {}", output.tone(Tone::Quiet, title)))?;
    let row = |item: &T| {
        let (name, description) = columns(item);
        vec![safe(name), first_line(description.unwrap_or_default())]
    };
    for line in output.rows(&list.items.iter().map(row).collect::<Vec<_>>()) {
        output.line(format!("    {line}"))?;
    }
    if let Some(truncated) = list.truncated {
        output.line(format!("    … {truncated}"))?;
    }
    Ok(())
}

/// The first line of a description, cut to what a table can take.
fn first_line(text: &str) -> String {
    let line = safe(text.lines().next().unwrap_or_default());
    match line.char_indices().nth(DESCRIPTION) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}
