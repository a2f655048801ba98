//! The fixture server that the process tests of this crate start.

fn main() -> std::process::ExitCode {
    mcp_transport::testing::fixture::run(std::env::args_os().skip(1))
}
