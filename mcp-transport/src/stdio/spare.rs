//! Room to read into, one for each thread, which the connection has that is being read: one that waits has
//! none, however many there are.

use std::cell::Cell;

use crate::frame::Room;

thread_local! {
    static SPARE: Cell<Option<Room>> = const { Cell::new(None) };
}

/// Takes the room of this thread, or makes new room if it is in use or gone with a long frame.
pub(super) fn take() -> Room {
    SPARE.try_with(Cell::take).ok().flatten().unwrap_or_else(Room::new)
}

/// Keeps the room for whoever reads next.
pub(super) fn keep(room: Room) {
    if room.is_whole() {
        // A thread that is ending keeps nothing.
        let _ = SPARE.try_with(|spare| spare.set(Some(room)));
    }
}
