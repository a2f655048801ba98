//! Builds, tests and releases the workspace.

fn main() {}
