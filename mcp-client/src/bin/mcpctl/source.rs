use std::path::Path;

use mcp_client::{ConfigError, ConfigFile, HttpServer, ServerConfig, ServerSettings, StdioServer};

use crate::args::Global;
use crate::config_path;
use crate::host::Host;
use crate::output::{Output, safe};
use crate::problem::Problem;

/// The servers that a command works on.
#[derive(Debug)]
pub(crate) struct Source {
    /// Those that can be started.
    pub(crate) servers: Vec<ServerConfig>,
    /// Those whose configuration is wrong.
    pub(crate) refused: Vec<ConfigError>,
}

/// A configuration file that was read.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Its path, as messages name it.
    pub(crate) path: String,
    pub(crate) file: ConfigFile,
}

impl Source {
    /// The one server that was asked for: the ad-hoc one, or the one called `name`.
    pub(crate) fn one(
        global: &Global,
        host: &Host,
        output: &Output,
        program: &[String],
        name: Option<&str>,
    ) -> Result<ServerConfig, Problem> {
        if let Some(server) = ad_hoc(program)? {
            output.learn(server.secrets());
            return Ok(server);
        }
        let name = name.ok_or_else(|| Problem::usage("give SERVER, a URL, or -- COMMAND"))?;
        if let Some(server) = at_url(name)? {
            output.learn(server.secrets());
            return Ok(server);
        }
        let Loaded { path, file } = load(global, host)?;
        if let Some(error) = file.refusal(name) {
            return Err(error.clone().into());
        }
        let Some(server) = file.server(name).cloned() else {
            return Err(unknown(name, &path, &file));
        };
        output.learn(server.secrets());
        warn(output, &file, Some(name));
        Ok(server)
    }

    /// Every server there is, or the one that was asked for.
    pub(crate) fn all(
        global: &Global,
        host: &Host,
        output: &Output,
        program: &[String],
        name: Option<&str>,
    ) -> Result<Self, Problem> {
        if name.is_some() || !program.is_empty() {
            let server = Self::one(global, host, output, program, name)?;
            return Ok(Self { servers: vec![server], refused: Vec::new() });
        }
        let Loaded { file, .. } = load(global, host)?;
        file.servers.iter().for_each(|server| output.learn(server.secrets()));
        warn(output, &file, None);
        Ok(Self { servers: file.servers, refused: file.refused })
    }
}

/// Finds and reads the configuration.
pub(crate) fn load(global: &Global, host: &Host) -> Result<Loaded, Problem> {
    let lookup = |name: &str| host.variable(name);
    let path = match (&global.config, &host.directory) {
        (Some(path), _) => path.clone(),
        (None, Some(directory)) => config_path::find(directory, &lookup).ok_or_else(|| {
            Problem::usage(
                "no configuration found: write .mcp.json, name a file with --config, or give a URL or -- COMMAND",
            )
        })?,
        (None, None) => return Err(Problem::usage("the working directory is gone; name a file with --config")),
    };
    let shown = safe(&path.display().to_string());
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Problem::usage(format!("{shown}: cannot be read: {error}")))?;
    let absolute = std::path::absolute(&path).unwrap_or(path);
    let file = ConfigFile::parse(
        &shown,
        absolute.parent().filter(|folder| *folder != Path::new("")),
        &text,
        &lookup,
    )?;
    Ok(Loaded { path: shown, file })
}

/// A server from the command line, named after its program.
fn ad_hoc(program: &[String]) -> Result<Option<ServerConfig>, Problem> {
    let [command, args @ ..] = program else { return Ok(None) };
    let name = Path::new(command).file_name().map_or(command.as_str().into(), |name| name.to_string_lossy());
    let server = StdioServer::new(command.as_str()).args(args.iter().map(String::as_str));
    Ok(Some(ServerConfig::new(name, server, ServerSettings::default())?))
}

/// A server from the command line that a URL names, called after its host.
fn at_url(word: &str) -> Result<Option<ServerConfig>, Problem> {
    let is_url = word.starts_with("http://") || word.starts_with("https://");
    if !is_url {
        return Ok(None);
    }
    let server =
        HttpServer::new(word).map_err(|error| Problem::usage(format!("the URL cannot be used: {error}")))?;
    let name = server.endpoint().origin().authority();
    Ok(Some(ServerConfig::new(name, server, ServerSettings::default())?))
}

fn unknown(name: &str, path: &str, file: &ConfigFile) -> Problem {
    let mut known: Vec<&str> = file.servers.iter().map(|server| server.name.as_str()).collect();
    known.extend(file.refused.iter().filter_map(ConfigError::server));
    known.sort_unstable();
    let known = match known.as_slice() {
        [] => "it names none".to_owned(),
        known => format!("it names {}", safe(&known.join(", "))),
    };
    Problem::usage(format!("there is no server \"{}\" in {path}; {known}", safe(name)))
}

fn warn(output: &Output, file: &ConfigFile, name: Option<&str>) {
    for warning in &file.warnings {
        if name.is_none() || warning.place.server.as_deref() == name {
            output.message(format!("warning: {warning}"));
        }
    }
}
