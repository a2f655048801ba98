use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use crate::host::Host;

/// The program that opens a URL in the browser of the desktop.
const OPENER: &str = "xdg-open";

/// What was started to open a URL. It belongs to the person: it is not ended with this program, and reaped
/// if it is over by then.
#[derive(Debug)]
pub(crate) struct Opened(Child);

/// Opens a URL, if there is a desktop at which the person sits; `None` if there is none.
///
/// The URL is one argument of the opener, and no shell reads it.
pub(crate) fn open(host: &Host, url: &str) -> Option<io::Result<Opened>> {
    let has = |name| host.variable(name).is_some_and(|value| !value.is_empty());
    let is_far_away = has("SSH_CONNECTION") || has("SSH_TTY");
    if is_far_away || !(has("DISPLAY") || has("WAYLAND_DISPLAY")) {
        return None;
    }
    // Nothing but a URL may reach a program that opens files too.
    if !(url.starts_with("https://") || url.starts_with("http://")) {
        return None;
    }
    let mut command = Command::new(OPENER);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Apart from ours: an interrupt of this program must not close the browser.
    command.process_group(0);
    Some(command.spawn().map(Opened))
}

impl Drop for Opened {
    fn drop(&mut self) {
        // Never waits; whoever still runs is taken over by the system.
        let _ = self.0.try_wait();
    }
}
