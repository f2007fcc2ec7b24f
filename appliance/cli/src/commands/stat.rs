//! `weir stat`: the attributes of a file in a pool, like stat(1) or as JSON; for statistics, see
//! [`super::statistic`].

use super::statistic;
use crate::exit_code::{SOME_FAILED, USAGE};
use crate::report;
use crate::source::{self, Opener, Spec};
use crate::text::{kind_words, mode_string, time_full};
use crate::tree;
use anyhow::{Context, Result};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use files::vfs::{Attr, FileKind, Time, Vfs};
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// Options of `weir stat`.
pub fn command() -> clap::Command {
    clap::Command::new("stat")
        .about("Show a statistic of the running daemon, or the attributes of a file in a pool")
        .long_about(
            "NAME is a statistic, such as nfs3.ops, nfs3.ops[client] or nfs3.ops[op=read][latency]: its values of the last \
             minute, or with INTERVAL from now on; 'weir analytics statistics' lists them. Names have a dot, and no slash, \
             colon or @ before a bracket. Everything else is a file in a pool, which is shown as stat(1) does; a pool whose \
             name looks like a statistic's is written with a colon: POOL.NAME:/",
        )
        .override_usage(
            "weir stat [OPTIONS] NAME [INTERVAL [COUNT]]\n       weir stat [OPTIONS] POOL/DATASET[@SNAPSHOT][:/path]...",
        )
        .arg(
            Arg::new("source")
                .value_name("NAME|POOL/DATASET[@SNAPSHOT][:/path]")
.help("A statistic with interval and count, or files")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(OsString)),
        )
        .arg(Arg::new("dereference").long("dereference").action(ArgAction::SetTrue).help("Follow a symbolic link"))
        .arg(
            Arg::new("step")
                .long("step")
                .value_name("SECONDS")
                .value_parser(value_parser!(u64).range(1..))
                .help("Seconds per row of a statistic's history [default: one row for all]"),
        )
        .args(statistic::span_args())
        .args(report::args())
        .args(source::args())
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let words: Option<Vec<String>> = (matches.get_many::<OsString>("source").into_iter().flatten())
        .map(|word| word.to_str().map(str::to_owned))
        .collect();
    if let Some(words) = words.filter(|words| words.first().is_some_and(|word| statistic::is_name(word))) {
        return report::quiet(statistic::run(&words, matches)).map(|()| ExitCode::SUCCESS);
    }
    let mut opener = Opener::new(matches);
    let mut failed = false;
    let mut out = io::stdout().lock();
    for argument in source::operands(matches, "source") {
        let spec = match Spec::parse_or_root(&argument) {
            Ok(spec) => spec,
            Err(e) => {
                eprintln!("weir stat: {e:#}");
                return Ok(ExitCode::from(USAGE));
            }
        };
        let text = opener.open(&spec.dataset).and_then(|vfs| {
            let attr = tree::resolve(&*vfs, &spec.path, matches.get_flag("dereference"))?;
            if matches.get_flag("json") { as_json(&*vfs, &spec, &attr) } else { as_text(&*vfs, &spec, &attr) }
        });
        match text.map(|t| out.write_all(t.as_bytes())) {
            Ok(Ok(())) => {}
            Ok(Err(e)) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            Ok(Err(e)) => return Err(e.into()),
            Err(e) => {
                eprintln!("weir stat: {spec}: {e:#}");
                failed = true;
            }
        }
    }
    Ok(if failed { ExitCode::from(SOME_FAILED) } else { ExitCode::SUCCESS })
}

fn as_text(vfs: &dyn Vfs, spec: &Spec, a: &Attr) -> Result<String> {
    let mut name = spec.to_string();
    if a.kind == FileKind::Symlink {
        let target = vfs.read_link(a.node).with_context(|| name.clone())?;
        name = format!("{name} -> {}", String::from_utf8_lossy(&tree::shown(&target, true)));
    }
    let device = match a.kind {
        FileKind::CharDevice | FileKind::BlockDevice => format!(" Device type: {},{}", a.rdev_major, a.rdev_minor),
        _ => String::new(),
    };
    Ok(format!(
        "  File: {name}\n  Size: {:<15} Blocks: {:<10} IO Block: {:<6} {}\n\
         Object: {:<13} Generation: {:<6} Links: {}{device}\n\
         Access: ({:04o}/{})  Uid: {:<7} Gid: {:<7} Project: {}\n\
         Access: {}\nModify: {}\nChange: {}\n Birth: {}\n",
        a.size,
        a.blocks_512,
        a.block_bytes,
        kind_words(a),
        a.ino,
        a.generation,
        a.links,
        a.mode,
        mode_string(a.kind, a.mode),
        a.uid,
        a.gid,
        a.project,
        time_full(a.atime),
        time_full(a.mtime),
        time_full(a.ctime),
        time_full(a.btime),
    ))
}

/// Bytes as text if they are text, else as `{"hex": "…"}`, so that nothing is lost.
fn bytes(value: &[u8]) -> Value {
    match std::str::from_utf8(value) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": value.iter().map(|b| format!("{b:02x}")).collect::<String>() }),
    }
}

fn as_json(vfs: &dyn Vfs, spec: &Spec, a: &Attr) -> Result<String> {
    let kind = match a.kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
    };
    let time = |t: Time| json!({ "seconds": t.seconds, "nanoseconds": t.nanoseconds });
    let mut object = json!({
        "dataset": spec.dataset, "path": bytes(&spec.path), "object": a.ino, "generation": a.generation, "kind": kind,
        "mode": a.mode, "links": a.links, "uid": a.uid, "gid": a.gid, "project": a.project,
        "size_bytes": a.size, "allocated_bytes": a.blocks_512.saturating_mul(512), "block_bytes": a.block_bytes,
        "accessed": time(a.atime), "modified": time(a.mtime), "changed": time(a.ctime), "born": time(a.btime),
    });
    match a.kind {
        FileKind::Symlink => object["target"] = bytes(&vfs.read_link(a.node)?),
        FileKind::CharDevice | FileKind::BlockDevice => {
            object["device"] = json!({ "major": a.rdev_major, "minor": a.rdev_minor });
        }
        _ => {}
    }
    let mut xattrs = Map::new();
    for name in vfs.list_xattr(a.node)? {
        let value = vfs.get_xattr(a.node, &name)?.unwrap_or_default();
        xattrs.insert(String::from_utf8_lossy(&name).into_owned(), bytes(&value));
    }
    object["xattrs"] = Value::Object(xattrs);
    Ok(format!("{object}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::memory::MemoryVfs;

    #[test]
    fn json_keeps_what_is_not_text() {
        let mut t = MemoryVfs::new();
        let file = t.add_file(t.root(), "f", "abc");
        t.put_xattr(file, "user.a", b"\xff\x00");
        t.put_xattr(file, "user.b", "text");
        let spec = Spec { dataset: "tank".into(), path: b"/f".to_vec() };
        let attr = tree::resolve(&t, &spec.path, false).expect("there");
        let value: Value = serde_json::from_str(&as_json(&t, &spec, &attr).expect("json")).expect("parses");
        assert_eq!(value["xattrs"], json!({ "user.a": { "hex": "ff00" }, "user.b": "text" }));
        assert_eq!((&value["size_bytes"], &value["kind"]), (&json!(3), &json!("file")));
        assert!(as_text(&t, &spec, &attr).expect("text").contains("(0644/-rw-r--r--)"));
    }
}
