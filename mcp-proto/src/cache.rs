use crate::open_enum::open_enum;

open_enum! {
    /// Who may be given a cached result (since 2026-07-28).
    CacheScope {
        /// Only the caller who asked.
        Private = "private",
        /// Everyone.
        Public = "public",
    }
}
