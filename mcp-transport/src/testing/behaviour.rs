use std::pin::Pin;

use bytes::Bytes;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::error::CloseReason;
use crate::testing::connector::MemoryConnector;
use crate::testing::peer::{Received, ScriptedPeer};
use crate::transport::Broken;

/// A server as a state machine: events and the time in, actions out. It has no I/O and no clock.
///
/// [`ServerScript`](super::ServerScript) makes a well-behaved one; faults are other behaviours, or ones
/// that wrap it and change its actions.
pub trait Behaviour: Send {
    /// The connection was opened.
    fn on_open(&mut self, now: Instant) -> Vec<Action> {
        let _ = now;
        Vec::new()
    }

    /// A frame has arrived.
    fn on_frame(&mut self, frame: &Received, now: Instant) -> Vec<Action>;

    /// The time that [`next_deadline`](Self::next_deadline) named has come.
    fn on_deadline(&mut self, now: Instant) -> Vec<Action> {
        let _ = now;
        Vec::new()
    }

    /// When it wants to be called without a frame.
    fn next_deadline(&self) -> Option<Instant> {
        None
    }
}

/// What a [`Behaviour`] wants done, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// End the connection; what follows in the list is not done.
    Close(CloseReason),
    /// Let no further frame leave the client.
    PauseReading,
    /// Undo [`PauseReading`](Self::PauseReading).
    ResumeReading,
    /// Send a message.
    Send(Value),
    /// Report a frame that could not be read.
    SendBroken(Broken),
    /// Send bytes as one frame.
    SendRaw(Bytes),
}

/// Plays `behaviour` on one connection until that ends; returns it with whatever it has seen.
///
/// # Cancel safety
///
/// Dropping the future drops the peer: the server has closed its output.
pub async fn serve<B: Behaviour>(peer: ScriptedPeer, mut behaviour: B) -> B {
    let mut actions = behaviour.on_open(Instant::now());
    loop {
        for action in actions {
            match action {
                Action::Close(reason) => {
                    peer.close(reason);
                    return behaviour;
                }
                Action::PauseReading => peer.pause_reading(),
                Action::ResumeReading => peer.resume(),
                Action::Send(message) => peer.send(message).await,
                Action::SendBroken(broken) => peer.send_broken(broken).await,
                Action::SendRaw(frame) => peer.send_raw(frame).await,
            }
        }
        actions = match next_event(&peer, behaviour.next_deadline()).await {
            Event::Deadline => behaviour.on_deadline(Instant::now()),
            Event::End => return behaviour,
            Event::Frame(frame) => behaviour.on_frame(&frame, Instant::now()),
        };
    }
}

/// Plays one behaviour for each connection of `connector`, all at once, for ever.
///
/// `make` gets the number of the connection, from 0. Nothing is spawned: everything runs inside this
/// future, in a fixed order.
///
/// # Cancel safety
///
/// Dropping the future ends all connections.
pub async fn serve_all<B: Behaviour>(connector: &MemoryConnector, mut make: impl FnMut(usize) -> B) {
    let mut connections: Vec<Pin<Box<dyn Future<Output = B> + Send + '_>>> = Vec::new();
    for number in 0.. {
        let mut next = std::pin::pin!(connector.next_peer());
        let peer = std::future::poll_fn(|cx| {
            connections.retain_mut(|connection| connection.as_mut().poll(cx).is_pending());
            next.as_mut().poll(cx)
        })
        .await;
        connections.push(Box::pin(serve(peer, make(number))));
    }
}

enum Event {
    Deadline,
    End,
    Frame(Received),
}

async fn next_event(peer: &ScriptedPeer, deadline: Option<Instant>) -> Event {
    let next = async { peer.next().await.map_or(Event::End, Event::Frame) };
    match deadline {
        // Checked first, so that a client that sends without a pause cannot hold a deadline up.
        Some(deadline) if deadline <= Instant::now() => Event::Deadline,
        Some(deadline) => timeout_at(deadline, next).await.unwrap_or(Event::Deadline),
        None => next.await,
    }
}
