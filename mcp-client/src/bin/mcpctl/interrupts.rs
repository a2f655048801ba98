use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The wish of the person at the terminal, or of the system, that this program ends.
///
/// Servers lead process groups of their own, so the terminal's signal does not reach them: they are
/// stopped in order, by this program.
#[derive(Debug)]
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Takes over the signals; from now on they do not end the program by themselves.
    ///
    /// # Errors
    ///
    /// The system refused the handlers.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}
