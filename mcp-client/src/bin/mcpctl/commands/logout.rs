use mcp_transport::auth::Revocation;
use serde_json::json;

use super::Context;
use super::login::problem;
use crate::args::LogoutArgs;
use crate::exit::Exit;
use crate::output::safe;
use crate::problem::{Problem, concluded};
use crate::running::{Persistence, with_client};
use crate::source::Source;

/// Forgets the credentials of one server.
pub(crate) async fn run(context: &Context, args: &LogoutArgs) -> Result<Exit, Problem> {
    let Context { global, host, output } = context;
    let mut server = Source::one(global, host, output, &[], Some(&args.server))?;
    // It is not needed for that.
    server.settings.enabled = false;
    let name = server.name.clone();
    let revocation = with_client(host, output, Persistence::Once, vec![server], async |client| {
        client.logout(&name).await.map_err(problem)
    })
    .await?;
    if let Revocation::Failed(error) = &revocation {
        let why = safe(&error.to_string());
        output.message(format!(
            "warning: the tokens are forgotten, and good until they end by themselves: {why}"
        ));
    }
    if output.is_json() {
        return concluded(output.document(&json!({"server": name, "ok": true})), Exit::Success);
    }
    concluded(output.line(format!("logged out of server \"{}\"", safe(&name))), Exit::Success)
}
