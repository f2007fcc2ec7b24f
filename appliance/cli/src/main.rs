//! `weir`: one program for everything that can be done with a pool.

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::program::main()
}
