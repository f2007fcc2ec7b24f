//! `weir load` on its own, without the rest of the program: builds in seconds, for machines that
//! only generate load.

use std::process::ExitCode;

fn main() -> ExitCode {
    match load::command::run(&load::command::command().get_matches()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("load: {error:#}");
            ExitCode::from(2)
        }
    }
}
