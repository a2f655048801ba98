//! Packages of npm, at exact versions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::shell;

/// How long an installation may take.
const LIMIT: Duration = Duration::from_secs(600);

/// A copy of the lock file that an installation was made from, written when it was complete.
const INSTALLED: &str = "installed-lock.json";

/// Installs what `package.json` and `package-lock.json` in `pins` say into `folder`, unless it is there
/// already, down to the last line of the lock file.
///
/// # Errors
///
/// `npm` is missing, something cannot be installed in time, or another version than the pinned one is
/// there.
pub(crate) fn install(pins: &Path, folder: &Path) -> Result<(), Failure> {
    let pinned = read_json(&pins.join("package.json"))?;
    let installed = |name: &str| read_json(&folder.join("node_modules").join(name).join("package.json"));
    if is_of(&pins.join("package-lock.json"), folder)? && verify(&pinned, installed).is_ok() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
    for file in ["package.json", "package-lock.json"] {
        fs::copy(pins.join(file), folder.join(file)).map_err(Failure::io("write", &folder.join(file)))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    shell::capture_within(&mut npm, LIMIT, &folder.join("npm.txt"))?;
    verify(&pinned, installed)?;
    let (lock, mark) = (pins.join("package-lock.json"), folder.join(INSTALLED));
    fs::copy(lock, &mark).map(drop).map_err(Failure::io("write", &mark))
}

/// Whether `folder` holds what this lock file says: an indirect dependency changes there alone.
fn is_of(lock: &Path, folder: &Path) -> Result<bool, Failure> {
    let wanted = fs::read(lock).map_err(Failure::io("read", lock))?;
    Ok(fs::read(folder.join(INSTALLED)).is_ok_and(|installed| installed == wanted))
}

/// Compares the pins of a `package.json` with the manifests of what is installed.
fn verify(pinned: &Value, installed: impl Fn(&str) -> Result<Value, Failure>) -> Result<(), Failure> {
    let pins = pinned["dependencies"].as_object().ok_or_else(|| Failure::new("package.json pins nothing"))?;
    for (name, pin) in pins {
        let pin = pin.as_str().unwrap_or_default();
        // A package under another name is pinned as `npm:NAME@VERSION`.
        let version = pin.strip_prefix("npm:").and_then(|alias| alias.rsplit('@').next()).unwrap_or(pin);
        let found = installed(name)?;
        if found["version"] != *version {
            let found = &found["version"];
            return Err(Failure::new(format!("{name} {version} is pinned, {found} is installed")));
        }
    }
    Ok(())
}

fn read_json(path: &Path) -> Result<Value, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::io("read", path))?;
    serde_json::from_str(&text).map_err(|error| Failure::new(format!("not JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_installation_is_of_the_lock_file_it_was_made_from() {
        let folder = std::env::temp_dir().join(format!("xtask-npm-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let lock = folder.join("package-lock.json");
        fs::write(&lock, "{}").unwrap();
        assert!(!is_of(&lock, &folder).unwrap(), "an installation that was never completed");
        fs::write(folder.join(INSTALLED), "{}").unwrap();
        assert!(is_of(&lock, &folder).unwrap());
        fs::write(&lock, "{ }").unwrap();
        assert!(!is_of(&lock, &folder).unwrap(), "a lock file that has changed since");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn another_version_is_named() {
        let version = |version: &'static str| move |_: &str| Ok(json!({ "version": version }));
        for pin in ["2.0.0", "npm:@scope/server@2.0.0"] {
            let pins = json!({"dependencies": {"server": pin}});
            assert!(verify(&pins, version("2.0.0")).is_ok());
            assert!(verify(&pins, version("2.0.1")).unwrap_err().to_string().contains("2.0.1"));
        }
        assert!(verify(&json!({}), version("2.0.0")).is_err());
    }
}
