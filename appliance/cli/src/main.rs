//! `weir`: one program for all operations on pools.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::program::main()
}
