//! The man pages weir(8), weir-zpool(8), weir-zfs(8), weir-beadm(8) and weir-bectl(8), in the
//! language of groff_man(7). Weir's own commands have a page each, made by `clap_mangen`.

use crate::completions::{Node, programs};
use crate::help;
use crate::verb::Verb;
use crate::{beadm, zfs, zpool};
use std::fmt::Write;

/// A program with a page of its verbs.
struct Face {
    name: &'static str,
    about: &'static str,
    description: &'static str,
    verbs: &'static [&'static Verb],
}

static FACES: [Face; 4] = [
    Face {
        name: "zpool",
        about: "manage storage pools",
        description: "A pool is a set of devices that store datasets. The commands, their output and their exit codes are \
                      those of OpenZFS's zpool(8). Called through a link named zpool, the program is this command.",
        verbs: zpool::VERBS,
    },
    Face {
        name: "zfs",
        about: "manage file systems, volumes and snapshots",
        description: "A dataset is a file system, a volume or a snapshot of one in a pool. The commands, their output and \
                      their exit codes are those of OpenZFS's zfs(8). Called through a link named zfs, the program is this \
                      command.",
        verbs: zfs::VERBS,
    },
    Face {
        name: "beadm",
        about: "manage boot environments as illumos does",
        description: "A boot environment is a set of file systems that a machine can boot.",
        verbs: beadm::VERBS,
    },
    Face {
        name: "bectl",
        about: "manage boot environments as FreeBSD does",
        description: "A boot environment is a set of file systems that a machine can boot.",
        verbs: beadm::BECTL,
    },
];

/// Whether a command of `weir` has a page here.
pub fn has_page(command: &str) -> bool {
    FACES.iter().any(|face| face.name == command)
}

/// The pages with their file names. `weir`: the command line of the program.
pub fn pages(weir: &clap::Command) -> Vec<(String, String)> {
    let faces = FACES.iter().map(|face| (format!("weir-{}.8", face.name), of_face(face)));
    std::iter::once(("weir.8".to_owned(), of_weir(weir))).chain(faces).collect()
}

/// Text in which groff finds no requests and no escapes.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

fn head(page: &mut String, name: &str, about: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(page, ".TH {} 8 \"\" \"Weir {version}\" \"System Manager\\(aqs Manual\"", name.to_uppercase());
    let _ = writeln!(page, ".SH NAME\n{} \\- {}", plain(name), plain(about));
}

fn of_face(face: &Face) -> String {
    let mut page = String::new();
    let name = face.name;
    head(&mut page, &format!("weir-{name}"), face.about);
    let _ = writeln!(page, ".SH SYNOPSIS");
    for verb in face.verbs.iter().filter(|verb| verb.run.is_some() && verb.alias_of.is_none()) {
        synopsis(&mut page, name, verb);
    }
    let _ = writeln!(page, ".SH DESCRIPTION\n{}", plain(face.description));
    let _ = writeln!(
        page,
        ".PP\nWhile weir\\-serve(1) or weir\\-mount(1) has a pool open, commands on it run in that process. Options may \
         follow operands, and long options may be shortened as long as they are unambiguous.\n.SH COMMANDS"
    );
    for verb in face.verbs.iter().filter(|verb| verb.run.is_some()) {
        of_verb(&mut page, name, verb);
    }
    let missing: Vec<&&Verb> = face.verbs.iter().filter(|verb| verb.run.is_none()).collect();
    if !missing.is_empty() {
        let _ = writeln!(page, ".SH NOT SUPPORTED");
        for verb in missing {
            let _ = writeln!(page, ".TP\n.B {}\n{}.", plain(verb.name), plain(verb.about));
        }
    }
    exit_status(&mut page);
    let others = FACES.iter().filter(|other| other.name != name).map(|other| format!("weir\\-{}(8)", other.name));
    let others: Vec<String> = std::iter::once("weir(8)".to_owned()).chain(others).collect();
    let _ = writeln!(page, ".SH SEE ALSO\n{}", others.join(", "));
    page
}

/// The usage lines: each is indented where it is longer than the page is wide.
fn synopsis(page: &mut String, program: &str, verb: &Verb) {
    let lines = verb.usage.iter().map(|line| format!("\\fB{program} {}\\fR {}", plain(verb.name), plain(line)));
    hanging(page, lines);
}

fn hanging(page: &mut String, lines: impl Iterator<Item = String>) {
    page.push_str(".nh\n.ad l\n.in +4n\n");
    for line in lines {
        let _ = writeln!(page, ".ti -4n\n{}\n.br", line.trim_end());
    }
    page.push_str(".in -4n\n.ad b\n.hy\n");
}

fn of_verb(page: &mut String, program: &str, verb: &Verb) {
    let _ = writeln!(page, ".SS \"{} \\- {}\"", plain(verb.name), plain(verb.about));
    if let Some(other) = verb.alias_of {
        let _ = writeln!(page, "Another name of \\fB{}\\fR.", plain(other));
        return;
    }
    synopsis(page, program, verb);
    for option in verb.options {
        let _ = writeln!(page, ".TP\n\\fB{}\\fR\n{}", plain(&option.forms()), plain(&help::sentences(option)));
    }
    let _ = writeln!(page, ".PP\n{}", plain(help::callers(verb)));
    if !verb.exits.is_empty() {
        let exits = verb.exits.iter().map(|(code, meaning)| format!("{code}: {meaning}"));
        let _ = writeln!(page, ".PP\nExit status {}", plain(&exits.collect::<Vec<_>>().join(" ")));
    }
    if !verb.examples.is_empty() {
        let _ = writeln!(page, ".PP\nExamples:");
        for (line, what) in verb.examples {
            let _ = writeln!(page, ".PP\n{}\n.RS 4\n.nf\n{}\n.fi\n.RE", plain(what), plain(line));
        }
    }
}

fn exit_status(page: &mut String) {
    page.push_str(".SH EXIT STATUS\n");
    for (code, meaning) in help::COMMON_EXITS {
        let _ = writeln!(page, ".TP\n.B {code}\n{meaning}");
    }
}

fn of_weir(weir: &clap::Command) -> String {
    let mut page = String::new();
    head(&mut page, "weir", "OpenZFS pools in user space");
    page.push_str(
        ".SH SYNOPSIS\n\\fBweir\\fR [\\fB\\-\\-state\\fR \\fIDIR\\fR] \\fIcommand\\fR [\\fIargument\\fR ...]\n.SH DESCRIPTION\n\
         Opens, reads, mounts, checks and changes OpenZFS pools without a kernel module. \\fBweir serve\\fR is the daemon: it \
         imports pools, mounts and shares their file systems, and serves a web page.\n.PP\n\
         Called through a link named zpool, zfs, beadm, bectl, arcstat, arc_summary, zilstat or nicstat, the program is that \
         command.\n.SH OPTIONS\n.TP\n\\fB\\-\\-state\\fR \\fIDIR\\fR\n\
         The state folder, which lists the imported pools. Must come first. The default is $WEIR_STATE, and without that \
         variable /var/lib/weir for root and ~/.local/state/weir for other users.\n.SH COMMANDS\n",
    );
    let tree = programs(weir.clone());
    for child in tree.first().into_iter().flat_map(|node| &node.children).filter(|child| child.name != "help") {
        of_command(&mut page, weir, child);
    }
    exit_status(&mut page);
    page.push_str(
        ".PP\nweir\\-verify(1) has exit codes of its own.\n.SH ENVIRONMENT\n.TP\n.B WEIR_STATE\nThe state folder.\n.TP\n\
         .B ZPOOL_IMPORT_PATH\nFolders that \\fBzpool import\\fR searches, with colons between them.\n.SH FILES\n.TP\n\
         .I /var/lib/weir\nThe state folder of root.\n.SH SEE ALSO\nweir\\-zpool(8), weir\\-zfs(8), weir\\-beadm(8), \
         weir\\-bectl(8), weir\\-serve(1), weir\\-mount(1), weir\\-completions(1)\n",
    );
    page
}

fn of_command(page: &mut String, weir: &clap::Command, node: &Node) {
    let name = &node.name;
    let about = node.about.trim_end_matches('.');
    let _ = writeln!(page, ".SS \"{} \\- {}\"", plain(name), plain(about));
    if has_page(name) {
        let _ = writeln!(page, "See weir\\-{name}(8).");
        return;
    }
    if let Some(command) = weir.find_subcommand(name) {
        let usage = command.clone().render_usage().to_string();
        hanging(page, usage.trim_start_matches("Usage: ").lines().map(|line| plain(line.trim())));
    }
    for option in &node.options {
        let forms = option.words().collect::<Vec<_>>().join(", ");
        let argument = plain(&option.argument_name);
        let forms = format!("\\fB{}\\fR \\fI{argument}\\fR", plain(&forms));
        let _ = writeln!(page, ".TP\n{}\n{}", forms.trim_end_matches(" \\fI\\fR"), plain(&option.about));
    }
    for child in node.children.iter().filter(|child| child.name != "help") {
        let _ = writeln!(page, ".TP\n\\fB{} {}\\fR\n{}", plain(name), plain(&child.name), plain(&child.about));
    }
    let _ = writeln!(page, ".PP\nSee weir\\-{}(1).", plain(name));
}
