use mcp_proto::{Redactor, Secret};

use super::server::StdioServer;

/// Words in the name of an option that say that its value is a secret.
const TELLING_WORDS: &[&str] =
    &["token", "secret", "password", "passwd", "api-key", "apikey", "api_key", "access-key", "access_key"];

/// Endings of the names of variables whose values are no secrets, and would shred messages as such.
const HARMLESS_ENDINGS: &[&str] = &["DIR", "HOME", "LANG", "LEVEL", "PATH", "PORT", "TERM", "TZ"];

/// Values that are no secrets whatever their variable is called.
const HARMLESS_VALUES: &[&str] =
    &["debug", "development", "error", "false", "info", "localhost", "none", "production", "true", "warn"];

/// Values of fewer bytes hide nothing: taken out of a message, they would only make it unreadable.
pub(super) const SHORTEST_BYTES: usize = 4;

/// A secret that was written into the arguments of a command.
#[derive(Debug)]
pub(super) struct ExposedSecret {
    /// Which argument, counted from 1.
    pub(super) argument: usize,
    /// The secret part, where it can be told from the rest of the argument.
    pub(super) value: Option<Secret>,
}

/// What must never be shown of a program: the values of its variables, and secrets in its arguments.
pub(super) fn of(program: &StdioServer) -> Vec<Secret> {
    let variables = program.env.iter().filter(|(name, value)| !is_harmless(name, value.expose()));
    let variables = variables.map(|(_, value)| value.clone());
    let arguments = exposed(&program.args).into_iter().filter_map(|found| found.value);
    variables.chain(arguments).collect()
}

fn is_harmless(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    value.len() < SHORTEST_BYTES
        || HARMLESS_VALUES.contains(&value.to_ascii_lowercase().as_str())
        || HARMLESS_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Finds secrets in arguments, where every user of the machine can read them.
///
/// Two kinds are found: the value of an option whose name says so (`--api-key X`, `--token=X`), and
/// anything that has the shape of a known kind of credential.
pub(super) fn exposed(args: &[String]) -> Vec<ExposedSecret> {
    let shapes = Redactor::default();
    let mut found = Vec::new();
    let mut value_follows = false;
    for (index, arg) in args.iter().enumerate() {
        let argument = index + 1;
        let is_value = std::mem::take(&mut value_follows) && !arg.starts_with('-');
        let assigned = arg.split_once('=').filter(|(name, _)| is_telling(name)).map(|(_, value)| value);
        if is_value && !arg.is_empty() {
            found.push(ExposedSecret { argument, value: Some(Secret::new(arg.as_str())) });
        } else if let Some(value) = assigned.filter(|value| !value.is_empty()) {
            found.push(ExposedSecret { argument, value: Some(Secret::new(value)) });
        } else if arg.starts_with('-') && is_telling(arg) {
            value_follows = true;
        } else if shapes.redact(arg) != *arg {
            found.push(ExposedSecret { argument, value: None });
        }
    }
    found
}

pub(super) fn is_telling(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    TELLING_WORDS.iter().any(|word| option.trim_start_matches('-').ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(args: &[&str]) -> Vec<(usize, Option<String>)> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let exposed = exposed(&args);
        exposed.into_iter().map(|e| (e.argument, e.value.map(|v| v.expose().to_owned()))).collect()
    }

    #[test]
    fn f159_secrets_in_arguments_are_found() {
        assert_eq!(found(&["--port", "80", "--api-key", "hunter22"]), [(4, Some("hunter22".to_owned()))]);
        assert_eq!(found(&["--token=hunter22"]), [(1, Some("hunter22".to_owned()))]);
        assert_eq!(found(&["serve", "ghp_0123456789abcdefghijABCDEFGHIJ012345"]), [(2, None)]);
    }

    #[test]
    fn ordinary_arguments_are_left_alone() {
        assert_eq!(found(&["-y", "some-server", "/srv/data", "--tokens-per-minute", "5", "--token"]), []);
        assert_eq!(found(&["--password", "--verbose"]), []);
    }

    #[test]
    fn values_of_variables_are_secrets_unless_they_are_plainly_none() {
        let program = StdioServer::new("server")
            .args(["--token", "from-arguments"])
            .env("API_KEY", "canary-1")
            .env("MODE", "canary-2")
            .env("DEBUG", "1")
            .env("LOG_LEVEL", "verbose")
            .env("data_dir", "/srv/data")
            .env("NODE_ENV", "Production");
        let secrets = of(&program);
        let shown: Vec<&str> = secrets.iter().map(Secret::expose).collect();
        assert_eq!(shown, ["canary-1", "canary-2", "from-arguments"]);
    }
}
