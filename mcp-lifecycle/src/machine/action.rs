use mcp_proto::Era;

/// What the driver must do, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// End the connection; `Gone` follows.
    Close(u64),
    /// Make a connection; `Lost` or `Up` follows, and at last `Gone`.
    Connect { generation: u64, era: Option<Era>, haste: Haste },
    /// Give the calls on the connection their time; `Drained` follows.
    Drain(u64),
    /// Everything has ended.
    Finish,
    /// See whether anybody uses the connection; `Used` follows at once.
    Look(u64),
    /// Let calls onto the connection.
    Publish(u64),
    /// See whether the connection still stands, now.
    Probe(u64),
    /// Refuse new calls for good.
    Refuse,
    /// Let no more calls onto the connection.
    Retract(u64),
    /// The connection broke while it was in use: that counts against the server.
    Strike(u64),
}

/// What is known of a server that is about to be connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody has reached it yet, or not any more.
    Unknown,
    /// It was ready before, and either it proved healthy then or somebody asks for it.
    Well,
}

/// Whether a connection may have to wait because many others begin as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Somebody asked for it.
    AtOnce,
    /// It follows a loss.
    Paced,
}
