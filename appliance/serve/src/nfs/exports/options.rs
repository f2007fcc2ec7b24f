//! `sharenfs`, with the syntax of OpenZFS on Linux: `on`, `off`, or options of exports(5) with host
//! lists in the form of Solaris.
//!
//! ```text
//!   rw=@10.0.0.0/8:admin.example,ro=*.example,root=admin.example,anonuid=65534,insecure
//! ```
//! The most specific entry that matches a client applies: its address or name, then a network or
//! domain, then everyone. Among equals, `-host` wins over `rw`, and `rw` over `ro`. With `rw` or
//! `ro` without a list, or neither, all clients have access.

use super::hosts::{HostNames, HostPattern};
use std::net::IpAddr;

/// User and group of squashed users unless `anonuid` and `anongid` are given.
const NOBODY: u32 = 65534;

/// Clients and options of a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareOptions {
    rules: Vec<Rule>,
    root: Vec<HostPattern>,
    /// Which users are squashed.
    pub squash: Squash,
    /// uid of squashed users.
    pub anon_uid: u32,
    /// gid of squashed users.
    pub anon_gid: u32,
    /// Clients must use ports below 1024 (`secure`), or need not (`insecure`); `None`: the server's
    /// default.
    pub secure: Option<bool>,
    /// AUTH_NONE is accepted too, as `nobody`, unless `sec=` requires authentication.
    pub takes_nobody: bool,
    /// Writes that the client wants on stable storage may be deferred (`async`). Only on explicit
    /// request, since it is dangerous.
    pub is_async: bool,
}

/// What a client may do with a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    pub read_only: bool,
    /// Root is not squashed.
    pub trusts_root: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    who: HostPattern,
    /// `-host`: refuses these clients.
    refuses: bool,
    read_only: bool,
}

/// Which users are squashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Squash {
    /// Root (`root_squash`).
    Root,
    /// None (`no_root_squash`).
    None,
    /// All (`all_squash`).
    All,
}

impl Default for ShareOptions {
    /// The options of `sharenfs=on`.
    fn default() -> Self {
        Self {
            rules: vec![Rule { who: HostPattern::Everyone, refuses: false, read_only: false }],
            root: Vec::new(),
            squash: Squash::Root,
            anon_uid: NOBODY,
            anon_gid: NOBODY,
            secure: None,
            takes_nobody: true,
            is_async: false,
        }
    }
}

impl ShareOptions {
    /// Parses the value of the property; `None` for `off`.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let mut this = Self::default();
        match text.trim() {
            "off" => return Ok(None),
            "on" => return Ok(Some(this)),
            _ => this.rules.clear(),
        }
        let mut everyone = None;
        for option in text.split([',', ' ']).filter(|o| !o.is_empty()) {
            let (name, value) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
            match (name, value) {
                ("rw" | "ro", None) => everyone = Some(name == "ro"),
                ("rw" | "ro", Some(list)) => this.add_rules(list, name == "ro")?,
                ("root", Some(list)) => {
                    for host in hosts(list) {
                        this.root.push(HostPattern::parse(host)?);
                    }
                }
                ("root_squash", None) => this.squash = Squash::Root,
                ("no_root_squash", None) => this.squash = Squash::None,
                ("all_squash", None) => this.squash = Squash::All,
                ("no_all_squash", None) if this.squash == Squash::All => this.squash = Squash::Root,
                ("anonuid", Some(id)) => this.anon_uid = number(option, id)?,
                ("anongid", Some(id)) => this.anon_gid = number(option, id)?,
                // Solaris: sets only the user. -1 denies access to users that would be squashed;
                // here they become `nobody`, because NFS cannot tell them apart.
                ("anon", Some(id)) => this.anon_uid = number(option, id)?,
                ("secure", None) => this.secure = Some(true),
                ("insecure", None) => this.secure = Some(false),
                ("async", None) => this.is_async = true,
                ("sec", Some(flavours)) => {
                    this.takes_nobody = false;
                    for flavour in flavours.split(':') {
                        match flavour {
                            "sys" => {}
                            "none" => this.takes_nobody = true,
                            _ => {
                                return Err(format!(
                                    "'{option}': security flavour '{flavour}' is not supported (sys is)"
                                ));
                            }
                        }
                    }
                }
                // These are the defaults anyway: calls are answered when done, handles are checked
                // by their MAC, child datasets are separate shares, ACLs are enforced.
                (
                    "sync" | "no_subtree_check" | "crossmnt" | "nohide" | "hide" | "no_all_squash" | "wdelay"
                    | "no_wdelay" | "acl" | "no_acl" | "auth_nlm" | "no_auth_nlm" | "secure_locks" | "insecure_locks"
                    | "mountpoint" | "mp" | "pnfs" | "no_pnfs" | "nosub" | "sub" | "nosuid" | "suid" | "public"
                    | "aclok" | "index" | "log",
                    None,
                ) => {}
                // Handles identify file systems by their own GUIDs.
                ("fsid" | "mountpoint" | "mp" | "index" | "log", Some(_)) => {}
                _ => return Err(format!("'{option}' is not a known option of NFS shares")),
            }
        }
        if let Some(read_only) = everyone {
            this.rules.push(Rule { who: HostPattern::Everyone, refuses: false, read_only });
        } else if this.rules.is_empty() {
            this.rules = Self::default().rules;
        }
        Ok(Some(this))
    }

    fn add_rules(&mut self, list: &str, read_only: bool) -> Result<(), String> {
        for host in hosts(list) {
            let (refuses, host) = host.strip_prefix('-').map_or((false, host), |h| (true, h));
            self.rules.push(Rule { who: HostPattern::parse(host)?, refuses, read_only });
        }
        Ok(())
    }

    /// What a client may do; `None`: nothing.
    pub fn granted(&self, client: IpAddr, names: &HostNames) -> Option<Granted> {
        let closeness = |who: &HostPattern| match who {
            HostPattern::Everyone => 0,
            HostPattern::Wildcard(_) => 1,
            HostPattern::Network(ip, bits) if *bits == if ip.is_ipv4() { 32 } else { 128 } => 200,
            HostPattern::Network(_, bits) => 2 + u32::from(*bits),
            HostPattern::Name(_) => 200,
        };
        let mut best: Option<(u32, &Rule)> = None;
        for rule in &self.rules {
            let close = closeness(&rule.who);
            let beats = best.is_none_or(|(so_far, before)| {
                close > so_far
                    || close == so_far && !before.refuses && (rule.refuses || before.read_only && !rule.read_only)
            });
            // Only entries that could win are matched, because resolving names is expensive.
            if beats && rule.who.matches(client, names) {
                best = Some((close, rule));
            }
        }
        let (_, rule) = best.filter(|(_, rule)| !rule.refuses)?;
        let trusts_root = match self.squash {
            Squash::None => true,
            Squash::All => false,
            Squash::Root => self.root.iter().any(|who| who.matches(client, names)),
        };
        Some(Granted { read_only: rule.read_only, trusts_root })
    }

    /// The host lists, for `showmount -e`; empty for everyone.
    pub fn groups(&self) -> Vec<String> {
        if self.rules.iter().any(|r| r.who == HostPattern::Everyone && !r.refuses) {
            return Vec::new();
        }
        let mut groups: Vec<String> = Vec::new();
        for rule in self.rules.iter().filter(|r| !r.refuses) {
            let group = match &rule.who {
                HostPattern::Everyone => "*".to_owned(),
                HostPattern::Network(ip, bits) if *bits == if ip.is_ipv4() { 32 } else { 128 } => ip.to_string(),
                HostPattern::Network(ip, bits) => format!("{ip}/{bits}"),
                HostPattern::Name(name) | HostPattern::Wildcard(name) => name.clone(),
            };
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups
    }
}

/// Splits at colons outside brackets, because IPv6 addresses are written in brackets.
fn hosts(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    list.split(move |c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ':' && depth == 0
    })
    .filter(|h| !h.is_empty())
}

fn number(option: &str, text: &str) -> Result<u32, String> {
    // -1 and -2 mean `nobody`.
    let signed = text.parse::<i64>().map_err(|_| format!("'{option}': expected a number"))?;
    match signed {
        -2..0 => Ok(NOBODY),
        _ => u32::try_from(signed).map_err(|_| format!("'{option}': expected a number below 2^32")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(options: &str, client: &str) -> Option<(bool, bool)> {
        let options = ShareOptions::parse(options).expect(options).expect("shared");
        let names =
            HostNames::of_test(|name| if name == "box" { vec![[10, 0, 0, 9].into()] } else { Vec::new() }, |_| None);
        options.granted(client.parse().expect("address"), &names).map(|g| (g.read_only, g.trusts_root))
    }

    #[test]
    fn shares_accept_the_syntax_of_exports_and_solaris() {
        let (write, read) = (Some((false, false)), Some((true, false)));
        assert_eq!(ShareOptions::parse("off"), Ok(None));
        assert_eq!(granted("on", "1.2.3.4"), write);
        assert_eq!(granted("rw", "1.2.3.4"), write);
        assert_eq!(granted("ro", "1.2.3.4"), read);
        assert_eq!(granted("no_subtree_check,crossmnt", "1.2.3.4"), write);
        assert_eq!(granted("rw=@10.0.0.0/8", "10.5.5.5"), write);
        assert_eq!(granted("rw=@10.0.0.0/8", "11.5.5.5"), None);
        assert_eq!(granted("ro,rw=10.0.0.9", "10.0.0.9"), write);
        assert_eq!(granted("ro,rw=10.0.0.9", "10.0.0.8"), read);
        assert_eq!(granted("rw=10.0.0.0/8,ro=10.0.0.9", "10.0.0.9"), read, "the closer one");
        assert_eq!(granted("ro=box,rw=box", "10.0.0.9"), write);
        assert_eq!(granted("rw=-10.0.0.9:10.0.0.0/8", "10.0.0.9"), None);
        assert_eq!(granted("rw=-10.0.0.9:10.0.0.0/8", "10.0.0.8"), write);
        assert_eq!(granted("rw=[fd00::1]:10.0.0.1", "fd00::1"), write);
        assert_eq!(granted("no_root_squash", "1.2.3.4"), Some((false, true)));
        assert_eq!(granted("root=10.0.0.9", "10.0.0.9"), Some((false, true)));
        assert_eq!(granted("root=10.0.0.9", "10.0.0.8"), write);
        assert_eq!(granted("root=10.0.0.9,all_squash", "10.0.0.9"), write);
    }

    #[test]
    fn unknown_options_are_refused_by_name() {
        for (bad, word) in [
            ("rw,quick", "quick"),
            ("rw=@friends", "netgroup"),
            ("sec=krb5", "krb5"),
            ("anonuid=x", "anonuid=x"),
            ("rw=10.0.0.0/99", "network"),
        ] {
            let why = ShareOptions::parse(bad).expect_err(bad);
            assert!(why.contains(word), "{why}");
        }
    }

    #[test]
    fn squashed_users_become_the_users_of_the_options() {
        let o =
            ShareOptions::parse("all_squash,anonuid=99,anongid=-2,insecure,sec=sys").expect("known").expect("shared");
        assert_eq!((o.squash, o.anon_uid, o.anon_gid, o.secure), (Squash::All, 99, NOBODY, Some(false)));
    }

    #[test]
    fn showmount_gets_the_lists_or_nothing_for_everyone() {
        let groups = |text: &str| ShareOptions::parse(text).expect(text).expect("shared").groups();
        assert_eq!(groups("on"), Vec::<String>::new());
        assert_eq!(groups("rw=@10.0.0.0/8:box,ro=box:[fd00::1]"), ["10.0.0.0/8", "box", "fd00::1"]);
    }
}
