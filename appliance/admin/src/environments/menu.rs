//! Boot loader formats: `menu.lst`, and entries of the Boot Loader Specification. Pure text
//! functions.
//!
//! For a new environment, an existing entry is copied with the dataset's name replaced, so that the
//! kernels and options written by its owner are kept.

use super::{Environment, last};

/// Keyword that starts an entry in a `menu.lst`.
const TITLE: &str = "title";
/// Keyword for the dataset that an entry boots.
const BOOTFS: &str = "bootfs";

/// A change to the environments of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new environment was created as a copy.
    Made {
        /// Root of the new environment.
        root: String,
        /// Root of the environment that it copies.
        like: String,
        /// Title of the menu entry, for people.
        title: String,
    },
    /// An environment was renamed.
    Renamed {
        /// Name of its root before the change.
        from: String,
        /// Name of its root after the change.
        to: String,
    },
    /// An environment was destroyed.
    Gone { root: String },
    /// An environment was activated.
    Activated { root: String },
}

/// The value after a keyword of a line.
fn value<'a>(line: &'a str, keyword: &str) -> Option<&'a str> {
    let rest = line.trim_start().strip_prefix(keyword)?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// A parsed `menu.lst`: the lines before the first entry, and the entries, each with all lines up
/// to the next one.
struct Menu {
    head: Vec<String>,
    entries: Vec<Vec<String>>,
}

impl Menu {
    fn parse(text: &str) -> Self {
        let mut menu = Self { head: Vec::new(), entries: Vec::new() };
        for line in text.lines() {
            if value(line, TITLE).is_some() {
                menu.entries.push(vec![line.to_owned()]);
            } else {
                menu.entries.last_mut().unwrap_or(&mut menu.head).push(line.to_owned());
            }
        }
        menu
    }

    fn starts(entry: &[String]) -> Option<&str> {
        entry.iter().find_map(|line| value(line, BOOTFS))
    }

    fn of(&self, root: &str) -> Option<usize> {
        self.entries.iter().position(|entry| Self::starts(entry) == Some(root))
    }

    fn text(&self) -> String {
        self.head.iter().chain(self.entries.iter().flatten()).map(|line| format!("{line}\n")).collect()
    }

    /// Sets GRUB's number of the default entry, if the menu has one.
    fn set_default(&mut self, number: usize) {
        for line in self.head.iter_mut().filter(|line| value(line, "default").is_some()) {
            *line = format!("default {number}");
        }
    }

    fn default(&self) -> Option<usize> {
        self.head.iter().find_map(|line| value(line, "default"))?.parse().ok()
    }
}

fn minimal(root: &str, title: &str) -> Vec<String> {
    vec![format!("{TITLE} {title}"), format!("{BOOTFS} {root}")]
}

/// Copies an entry for another dataset.
fn like(entry: &[String], root: &str, title: &str) -> Vec<String> {
    let line = |line: &String| {
        if value(line, TITLE).is_some() {
            format!("{TITLE} {title}")
        } else if value(line, BOOTFS).is_some() {
            format!("{BOOTFS} {root}")
        } else {
            line.clone()
        }
    };
    entry.iter().map(line).collect()
}

/// Applies a change to a `menu.lst`.
pub fn lst(text: &str, change: &Change) -> String {
    let mut menu = Menu::parse(text);
    match change {
        Change::Made { root, like: other, title } => {
            let entry = match menu.of(other) {
                Some(at) => like(&menu.entries[at], root, title),
                None => minimal(root, title),
            };
            match menu.of(root) {
                Some(at) => menu.entries[at] = entry,
                None => menu.entries.push(entry),
            }
        }
        Change::Renamed { from, to } => {
            if let Some(at) = menu.of(from) {
                let title = menu.entries[at].first().and_then(|l| value(l, TITLE)).unwrap_or_default().to_owned();
                let title = if title == last(from) { last(to).to_owned() } else { title };
                menu.entries[at] = like(&menu.entries[at], to, &title);
            }
        }
        Change::Gone { root } => {
            if let Some(at) = menu.of(root) {
                let default = menu.default();
                menu.entries.remove(at);
                if let Some(number) = default.filter(|number| *number > at) {
                    menu.set_default(number - 1);
                }
            }
        }
        Change::Activated { root } => {
            if let Some(at) = menu.of(root) {
                menu.set_default(at);
            }
        }
    }
    menu.text()
}

/// Generates a `menu.lst` for all environments of a pool.
pub fn new_lst(environments: &[Environment]) -> String {
    environments.iter().flat_map(|e| minimal(e.root(), &e.name)).map(|line| format!("{line}\n")).collect()
}

/// Whether an entry of the Boot Loader Specification boots `root`, according to its options or the
/// path of its kernel.
pub fn names(entry: &str, root: &str) -> bool {
    let inside = path_in_pool(root);
    entry.lines().any(|line| match value(line, "options") {
        Some(options) => options.split_whitespace().any(|word| root_of(word) == Some(root)),
        None => ["linux", "initrd"].iter().filter_map(|k| value(line, k)).any(|path| path.starts_with(&inside)),
    })
}

/// GRUB's path of a dataset's files: `/ROOT/debian@/`.
fn path_in_pool(root: &str) -> String {
    format!("/{}@/", root.split_once('/').map_or("", |(_, inside)| inside))
}

/// The root dataset in a kernel option.
fn root_of(word: &str) -> Option<&str> {
    ["root=ZFS=", "root=zfs:", "zfs=", "root=zfs="].iter().find_map(|form| word.strip_prefix(form))
}

/// Copies an entry for another dataset.
pub fn entry_like(entry: &str, from: &str, to: &str, title: Option<&str>) -> String {
    let (old, new) = (path_in_pool(from), path_in_pool(to));
    let word = |word: &str| match root_of(word) {
        Some(root) if root == from => format!("{}{to}", &word[..word.len() - root.len()]),
        _ => word.to_owned(),
    };
    let line = |line: &str| {
        if let Some(options) = value(line, "options") {
            return format!("options {}", options.split(' ').map(word).collect::<Vec<_>>().join(" "));
        }
        if let (Some(_), Some(title)) = (value(line, TITLE), title) {
            return format!("{TITLE} {title}");
        }
        match ["linux", "initrd"].iter().find(|k| value(line, k).is_some()) {
            Some(_) => line.replacen(&old, &new, 1),
            None => line.to_owned(),
        }
    };
    entry.lines().map(|l| line(l) + "\n").collect()
}

/// Generates an entry for a kernel of an environment.
pub fn new_entry(title: &str, root: &str, version: &str, initrd: Option<&str>, options: &str) -> String {
    let path = path_in_pool(root);
    let initrd = initrd.map(|name| format!("initrd {path}boot/{name}\n")).unwrap_or_default();
    let options = format!("root=ZFS={root} {options}");
    format!(
        "title {title}\nversion {version}\nlinux {path}boot/vmlinuz-{version}\n{initrd}options {}\n",
        options.trim()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRUB: &str = "default 1\ntimeout 5\n# kept\ntitle one\nfindroot (pool_rpool,0,a)\nbootfs rpool/ROOT/one\nkernel$ /platform/i86pc/kernel/$ISADIR/unix -B $ZFS-BOOTFS\n\
        #=== End ===\ntitle Long name of two\nbootfs rpool/ROOT/two\n";

    #[test]
    fn a_new_environment_gets_the_entry_of_the_one_it_is_like() {
        let made = Change::Made {
            root: "rpool/ROOT/three".into(),
            like: "rpool/ROOT/one".into(),
            title: "before the update".into(),
        };
        let text = lst(GRUB, &made);
        assert!(text.starts_with(GRUB), "{text}");
        assert_eq!(
            &text[GRUB.len()..],
            "title before the update\nfindroot (pool_rpool,0,a)\nbootfs rpool/ROOT/three\nkernel$ \
             /platform/i86pc/kernel/$ISADIR/unix -B $ZFS-BOOTFS\n#=== End ===\n"
        );
        assert_eq!(lst(&text, &made), text, "once more changes nothing");
    }

    #[test]
    fn names_and_defaults_follow() {
        let (one, two) = ("rpool/ROOT/one".to_owned(), "rpool/ROOT/two".to_owned());
        let text = lst(GRUB, &Change::Renamed { from: one.clone(), to: "rpool/ROOT/first".into() });
        assert!(text.contains("title first\n") && text.contains("bootfs rpool/ROOT/first\n"), "{text}");
        let text = lst(GRUB, &Change::Renamed { from: two.clone(), to: "rpool/ROOT/second".into() });
        assert!(text.contains("title Long name of two\nbootfs rpool/ROOT/second\n"), "{text}");
        let text = lst(GRUB, &Change::Gone { root: one.clone() });
        assert_eq!(text, "default 0\ntimeout 5\n# kept\ntitle Long name of two\nbootfs rpool/ROOT/two\n");
        assert!(lst(GRUB, &Change::Activated { root: one }).starts_with("default 0\n"));
        let unknown = Change::Gone { root: "rpool/ROOT/none".into() };
        assert_eq!(lst(GRUB, &unknown), GRUB);
    }

    #[test]
    fn entries_of_the_specification_are_copied_for_another_dataset() {
        let entry = new_entry("one", "rpool/ROOT/one", "6.1.0-28", Some("initrd.img-6.1.0-28"), "ro quiet");
        assert_eq!(
            entry,
            "title one\nversion 6.1.0-28\nlinux /ROOT/one@/boot/vmlinuz-6.1.0-28\ninitrd /ROOT/one@/boot/initrd.img-6.1.0-28\n\
             options root=ZFS=rpool/ROOT/one ro quiet\n"
        );
        assert!(names(&entry, "rpool/ROOT/one") && !names(&entry, "rpool/ROOT/on"));
        let other = entry_like(&entry, "rpool/ROOT/one", "rpool/ROOT/two", Some("two"));
        assert_eq!(other, entry.replace("ROOT/one", "ROOT/two").replace("title one", "title two"));
        assert!(names("linux /vmlinuz\noptions quiet root=zfs:rpool/ROOT/one\n", "rpool/ROOT/one"));
    }
}
