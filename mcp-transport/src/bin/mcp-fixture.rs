//! A server process that does what a test tells it: see `mcp_transport::testing::fixture`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcp_transport::testing::fixture::run(std::env::args_os().skip(1))
}
