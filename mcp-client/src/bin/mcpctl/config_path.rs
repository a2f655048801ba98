use std::path::{Path, PathBuf};

/// The file that projects keep beside their code.
const PROJECT_FILE: &str = ".mcp.json";

/// The file in the user's configuration folder.
const USER_FILE: &str = "mcpctl/mcp.json";

/// Finds the configuration: the nearest `.mcp.json` from `start` upwards, then the user's folder.
///
/// `variable` gives environment variables.
pub(crate) fn find(start: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let in_project = start.ancestors().map(|folder| folder.join(PROJECT_FILE)).find(|file| file.is_file());
    in_project.or_else(|| user_file(variable).filter(|file| file.is_file()))
}

fn user_file(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(folder.join(USER_FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_project_file_wins_over_the_user_file() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let deep = root.join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir_all(root.join("config/mcpctl")).unwrap();
        let variable = |name: &str| {
            (name == "XDG_CONFIG_HOME").then(|| root.join("config").to_string_lossy().into_owned())
        };
        assert_eq!(find(&deep, &variable), None);
        std::fs::write(root.join("config/mcpctl/mcp.json"), "{}").unwrap();
        assert_eq!(find(&deep, &variable), Some(root.join("config/mcpctl/mcp.json")));
        std::fs::write(root.join(".mcp.json"), "{}").unwrap();
        std::fs::write(root.join("a/b/.mcp.json"), "{}").unwrap();
        assert_eq!(find(&deep, &variable), Some(root.join("a/b/.mcp.json")));
        assert_eq!(find(root, &variable), Some(root.join(".mcp.json")));
    }
}
