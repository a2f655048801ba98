//! The command `mcpctl`.

fn main() {}
