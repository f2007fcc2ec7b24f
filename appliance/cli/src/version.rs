//! `zpool version` and `zfs version`.

use crate::context::{Context, Outcome};
use crate::getopt::Opt;
use crate::shared_options::JSON;
use crate::verb::{Call, Verb, for_anyone};

/// The row of `zpool version`.
pub static ZPOOL: Verb = for_anyone("version", "Show versions", |cx, call| version(cx, "zpool", call))
    .usage(&["[-j]"])
    .options(OPTIONS)
    .examples(&[("zpool version", "Show which OpenZFS release the commands behave like.")]);

/// The row of `zfs version`.
pub static ZFS: Verb = for_anyone("version", "Show versions", |cx, call| version(cx, "zfs", call))
    .usage(&["[-j]"])
    .options(OPTIONS)
    .examples(&[("zfs version", "Show which OpenZFS release the commands behave like.")]);

const OPTIONS: &[Opt] = &[JSON];

/// The OpenZFS release that Weir models, and Weir's own.
pub const VERSIONS: [&str; 2] =
    [concat!("zfs-2.3.2-weir", env!("CARGO_PKG_VERSION")), concat!("zfs-kmod-2.3.2-weir", env!("CARGO_PKG_VERSION"))];

fn version(cx: &mut Context<'_>, program: &str, call: &Call) -> Outcome {
    if call.parsed.has('j') {
        let mut document = crate::json::document(&format!("{program} version"));
        let versions = serde_json::json!({"userland": VERSIONS[0], "kernel": VERSIONS[1]});
        document.insert("zfs_version".into(), versions);
        cx.print(&crate::json::line(document));
    } else {
        cx.print(&format!("{}\n{}\n", VERSIONS[0], VERSIONS[1]));
    }
    Ok(0)
}
