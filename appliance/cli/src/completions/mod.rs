//! Completions for shells: of `weir`, and of the commands that it is called as.
//!
//! ```text
//!   tree    every command with its options and operands, from the rows of verbs and from clap
//!   bash, zsh, fish    a script from that tree
//! ```
//! Names of pools and datasets come from `zpool list` and `zfs list` when the user presses tab.

mod bash;
mod fish;
mod tree;
mod zsh;

pub use tree::{Node, NodeOption, Offer, programs};

/// The shells.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The script for a shell.
pub fn script(shell: &str, weir: clap::Command) -> Option<String> {
    let programs = programs(weir);
    match shell {
        "bash" => Some(bash::script(&programs)),
        "zsh" => Some(zsh::script(&programs)),
        "fish" => Some(fish::script(&programs)),
        _ => None,
    }
}
