use std::path::PathBuf;

use mcp_client::Authorization;

use crate::host::Host;

/// The folder for credentials inside the user's folder for state.
const FOLDER: &str = "mcpctl/credentials";

/// Where credentials are kept: in the user's folder for state, or nowhere if there is none.
pub(crate) fn authorization(host: &Host) -> Authorization {
    match folder(&|name| host.variable(name)) {
        Some(folder) => Authorization::in_folder(folder),
        None => Authorization::in_memory(),
    }
}

/// `variable` gives environment variables.
fn folder(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    // A relative one is to be ignored (XDG base directory specification).
    let set = |name: &str| variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join(FOLDER))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn credentials_are_kept_in_the_folder_for_state() {
        let with = |set: &[(&str, &str)]| {
            let value = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            folder(&value)
        };
        let home = ("HOME", "/home/me");
        assert_eq!(with(&[home]).as_deref(), Some(Path::new("/home/me/.local/state/mcpctl/credentials")));
        let own = with(&[home, ("XDG_STATE_HOME", "/state")]);
        assert_eq!(own.as_deref(), Some(Path::new("/state/mcpctl/credentials")));
        assert_eq!(with(&[home, ("XDG_STATE_HOME", "")]), with(&[home]));
        assert_eq!(with(&[("HOME", "here")]), None);
    }
}
