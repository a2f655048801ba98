use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Talks to Model Context Protocol servers and keeps them healthy.
#[derive(Debug, Parser)]
#[command(name = "mcpctl", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Options that stand before or after any command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Read servers from this file [default: the nearest .mcp.json, then the user's config folder].
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print one JSON document on standard output, for machines.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log on standard error: -v what is lost, -vv state changes, -vvv calls, -vvvv frames.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the main job on servers of its own: nothing is needed but this program.
    Demo(DemoArgs),
    /// Lists tools, resources, templates and prompts.
    #[command(override_usage = "mcpctl list [SERVER | URL]\n       mcpctl list -- COMMAND [ARG]…")]
    List(TargetArgs),
    /// Calls a tool.
    #[command(override_usage = "mcpctl call SERVER|URL TOOL [JSON | KEY=VALUE …]\n       \
                                mcpctl call TOOL [JSON | KEY=VALUE …] -- COMMAND [ARG]…")]
    Call(TargetArgs),
    /// Reads a resource.
    #[command(override_usage = "mcpctl read SERVER|URL URI\n       mcpctl read URI -- COMMAND [ARG]…")]
    Read(TargetArgs),
    /// Fills a prompt in.
    #[command(override_usage = "mcpctl prompt SERVER|URL NAME [KEY=VALUE …]\n       \
                                mcpctl prompt NAME [KEY=VALUE …] -- COMMAND [ARG]…")]
    Prompt(TargetArgs),
    /// Starts the servers, waits until each has settled, and shows their state.
    #[command(override_usage = "mcpctl status [--watch] [SERVER | URL]\n       \
                                mcpctl status [--watch] -- COMMAND [ARG]…")]
    Status(StatusArgs),
    /// Logs in to a server over HTTP that asks for it.
    ///
    /// Prints a URL and waits until somebody has granted access there. Credentials are kept in the user's
    /// folder for state, and renewed by themselves.
    Login(LoginArgs),
    /// Forgets the credentials of a server.
    Logout(LogoutArgs),
    /// Looks after the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Is a demo server: the demo starts this program again with it.
    #[command(hide = true)]
    Fixture(FixtureArgs),
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Checks the configuration file; names line and key of what is wrong.
    Check,
}

/// What a command works on: words first, and an ad-hoc server after `--`.
#[derive(Debug, Args)]
pub(crate) struct TargetArgs {
    /// Server, name and arguments; see the usage above.
    #[arg(value_name = "WORD")]
    pub(crate) words: Vec<String>,
    /// How long it may take, connecting included: 500ms, 2s, 5m [default: the limits of the server].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Start this program as the server; nothing is read from the configuration.
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) program: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Stay, and show every change until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server, by its name or URL.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
    /// Open no browser, and wait although nobody may be at the terminal.
    #[arg(long)]
    pub(crate) no_browser: bool,
    /// Open no browser, and take the URL at which it ends from standard input.
    #[arg(long)]
    pub(crate) paste: bool,
    /// Log in also if nothing is known to be wrong with the credentials.
    #[arg(long)]
    pub(crate) force: bool,
    /// Ask for these scopes, separated by spaces, in place of what the server wants; implies --force.
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
    /// How long it may take, connecting included: 500ms, 2s, 5m [default: 5m for the person].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct LogoutArgs {
    /// The server, by its name or URL.
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Disable one guarantee on purpose; `list` prints their names.
    #[arg(long = "break", value_name = "NAME", hide = true)]
    pub(crate) broken: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct FixtureArgs {
    /// The script of the server.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    pub(crate) script: Vec<String>,
}

fn duration(text: &str) -> Result<Duration, mcp_client::config::DurationFault> {
    mcp_client::config::parse_duration(text)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_ad_hoc_server_follows_the_dashes() {
        let cli = Cli::try_parse_from([
            "mcpctl",
            "call",
            "add",
            "a=1",
            "--timeout",
            "2s",
            "--json",
            "--",
            "npx",
            "-y",
            "server",
            "--json",
        ])
        .unwrap();
        assert!(cli.global.json);
        let Command::Call(target) = cli.command else { panic!("not a call") };
        assert_eq!(target.words, ["add", "a=1"]);
        assert_eq!(target.program, ["npx", "-y", "server", "--json"]);
        assert_eq!(target.timeout, Some(Duration::from_secs(2)));
    }
}
