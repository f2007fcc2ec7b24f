//! The options of one call of `zfs send`.

use crate::context::Context;
use crate::getopt::Parsed;
use crate::number::nice_bytes;
use dataset::send;

/// The options of one call.
pub(super) struct Asked {
    pub(super) options: send::Options,
    pub(super) is_dry: bool,
    pub(super) verbose: usize,
    pub(super) progress: bool,
    pub(super) parsable: bool,
}

impl Asked {
    pub(super) fn new(parsed: &Parsed) -> Self {
        let raw = parsed.has('w');
        let progress = parsed.has('v');
        let verbose = parsed.given.iter().filter(|(letter, _)| *letter == 'v').count();
        Self {
            options: send::Options {
                large_blocks: raw || parsed.has('L'),
                embedded: raw || parsed.has('e'),
                compressed: raw || parsed.has('c'),
                raw,
            },
            is_dry: parsed.has('n'),
            verbose: verbose.max(usize::from(parsed.has('P') || parsed.has('V'))),
            progress,
            parsable: parsed.has('P'),
        }
    }

    /// Prints information for the user: to standard output in a dry run, which exists to show it,
    /// and to standard error otherwise.
    pub(super) fn tell(&self, cx: &mut Context<'_>, line: &str) {
        if self.is_dry { cx.print(&format!("{line}\n")) } else { cx.complain(line) }
    }

    pub(super) fn tell_stream(&self, cx: &mut Context<'_>, to: &str, from: Option<&str>, bytes: u64) {
        let line = match (self.parsable, from) {
            (true, Some(from)) => format!("incremental\t{from}\t{to}\t{bytes}"),
            (true, None) => format!("full\t{to}\t{bytes}"),
            (false, from) => {
                let size = if bytes == 0 { String::new() } else { format!(" estimated size is {}", nice_bytes(bytes)) };
                match from {
                    Some(from) if from.contains(['@', '#']) => format!("send from {from} to {to}{size}"),
                    Some(from) => format!("send from @{from} to {to}{size}"),
                    None => format!("full send of {to}{size}"),
                }
            }
        };
        self.tell(cx, &line);
    }
}
