use std::io;

use mcp_client::ConfigFile;
use serde_json::json;

use super::Context;
use crate::exit::Exit;
use crate::output::Output;
use crate::problem::{Problem, concluded};
use crate::source::{Loaded, load};

/// Checks the configuration file and names line and key of what is wrong.
pub(crate) fn run(context: &Context) -> Result<Exit, Problem> {
    let Context { global, host, output } = context;
    let loaded = load(global, host);
    if output.is_json() {
        let document = match &loaded {
            Ok(Loaded { path, file }) => {
                let texts = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>();
                json!({
                    "ok": file.refused.is_empty(),
                    "file": path,
                    "servers": texts(&mut file.servers.iter().map(|server| server.name.clone())),
                    "errors": texts(&mut file.refused.iter().map(ToString::to_string)),
                    "warnings": texts(&mut file.warnings.iter().map(ToString::to_string)),
                })
            }
            Err(problem) => json!({"ok": false, "errors": [problem.message], "warnings": [], "servers": []}),
        };
        let exit = match loaded {
            Ok(loaded) if loaded.file.refused.is_empty() => Exit::Success,
            _ => Exit::Usage,
        };
        return concluded(output.document(&document), exit);
    }
    let Loaded { path, file } = loaded?;
    concluded(print(output, &path, &file), Exit::Success)?;
    match file.refused.len() {
        0 => Ok(Exit::Success),
        count => Err(Problem::usage(format!(
            "{path}: {count} of {} servers cannot be started",
            count + file.servers.len()
        ))),
    }
}

fn print(output: &Output, path: &str, file: &ConfigFile) -> io::Result<()> {
    for warning in &file.warnings {
        output.line(format!("warning: {warning}"))?;
    }
    for error in &file.refused {
        output.line(format!("error: {error}"))?;
    }
    if file.refused.is_empty() {
        output.line(format!("{path}: {} servers, no errors", file.servers.len()))?;
    }
    Ok(())
}
