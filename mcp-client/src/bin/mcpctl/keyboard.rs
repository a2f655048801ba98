use std::io::{self, IsTerminal as _};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// How often standard input is looked at while somebody waits for a line. No thread waits there, as it could
/// not be called back.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Longest line that is read, in bytes; the rest of a longer one counts as another line.
const LONGEST_LINE: usize = 16 * 1024;

/// Standard input, read only while somebody waits for a line: what is typed later is left to whoever comes
/// next.
#[derive(Debug, Default)]
pub(crate) struct Keyboard {
    typed: Mutex<Vec<u8>>,
}

impl Keyboard {
    /// Whether a person types.
    pub(crate) fn is_terminal() -> bool {
        io::stdin().is_terminal()
    }

    /// Waits for the next line; `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing that was typed.
    pub(crate) async fn line(&self) -> Option<String> {
        let mut typed = self.typed.lock().await;
        loop {
            let end = typed.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            if let Some(end) = end.or((typed.len() >= LONGEST_LINE).then_some(typed.len())) {
                let line: Vec<u8> = typed.drain(..end).collect();
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            while !is_ready() {
                sleep(LOOK_EVERY).await;
            }
            let mut some = [0; 4096];
            match rustix::io::read(io::stdin(), &mut some) {
                Ok(0) if typed.is_empty() => return None,
                Ok(0) => typed.push(b'\n'),
                Ok(length) => typed.extend_from_slice(some.get(..length).unwrap_or_default()),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }
}

/// Whether reading would not wait: something is there, or it is the end.
fn is_ready() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    // What cannot be asked about is read, which tells what is wrong with it.
    poll(&mut polled, Some(&Timespec::default())).map_or_else(|error| error != Errno::INTR, |ready| ready > 0)
}
