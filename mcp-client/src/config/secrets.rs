use mcp_proto::{Redactor, Secret};

/// Words in the name of an option that say that its value is a secret.
const TELLING_WORDS: &[&str] =
    &["token", "secret", "password", "passwd", "api-key", "apikey", "api_key", "access-key", "access_key"];

/// A secret that was written into the arguments of a command.
#[derive(Debug)]
pub(super) struct ExposedSecret {
    /// Which argument, counted from 1.
    pub(super) argument: usize,
    /// The secret part, where it can be told from the rest of the argument.
    pub(super) value: Option<Secret>,
}

/// Finds secrets in arguments, where every user of the machine can read them.
///
/// Two kinds are found: the value of an option whose name says so (`--api-key X`, `--token=X`), and
/// anything that has the shape of a known kind of credential.
pub(super) fn exposed(args: &[String], shapes: &Redactor) -> Vec<ExposedSecret> {
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

fn is_telling(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    TELLING_WORDS.iter().any(|word| option.trim_start_matches('-').ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(args: &[&str]) -> Vec<(usize, Option<String>)> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let exposed = exposed(&args, &Redactor::default());
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
}
