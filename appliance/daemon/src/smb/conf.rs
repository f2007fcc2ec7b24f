//! The configuration of Samba: what `smb.conf` says.
//!
//! Invariants:
//!   * nothing of a property or a path can end its line or begin another section
//!   * all that Samba keeps is in the folder, so that it runs as any user

use super::SmbShare;
use crate::config::SmbConfig;
use anyhow::{Result, ensure};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Folders that Samba wants to have.
pub const FOLDERS: [&str; 6] = ["private", "lock", "state", "cache", "pid", "ncalrpc"];

/// Whether a path can stand in the file.
pub fn fits(path: &str) -> bool {
    // A percent sign would be replaced by something, and white space at the ends is lost.
    !path.contains(char::is_control) && path.trim() == path && !path.contains(['%', '"', ';', '#'])
}

/// Modules of Samba that shares need.
fn modules(is_root: bool) -> &'static [&'static str] {
    if is_root { &["acl_xattr", "streams_xattr"] } else { &["streams_xattr"] }
}

/// Fails where this smbd lacks a module: it would answer every client that there is no such share.
pub fn check_modules(program: &Path) -> Result<()> {
    // What cannot be run is told by who runs it to serve.
    let Ok(built) = Command::new(program).arg("-b").stdin(Stdio::null()).output() else { return Ok(()) };
    let built = String::from_utf8_lossy(&built.stdout);
    let Some(folder) = built.lines().find_map(|line| line.trim().strip_prefix("MODULESDIR:")) else { return Ok(()) };
    let folder = Path::new(folder.trim()).join("vfs");
    for name in modules(rustix::process::geteuid().is_root()) {
        let file = folder.join(name).with_extension("so");
        ensure!(
            file.exists(),
            "{}: Samba's modules are not installed (apt-get install samba-vfs-modules)",
            file.display()
        );
    }
    Ok(())
}

/// The whole file.
pub fn text(config: &SmbConfig, folder: &Path, shares: &[SmbShare]) -> String {
    let is_root = rustix::process::geteuid().is_root();
    let place = |name: &str| folder.join(name).display().to_string();
    let mut text = String::from(
        "# Made by weir serve from the property sharesmb, and made anew when that changes.\n# What is to be added: smb.include of \
         weir.toml.\n[global]\n",
    );
    let mut set = |key: &str, value: &str| {
        let _ = writeln!(text, "\t{key} = {value}");
    };
    let addresses: Vec<String> = config.listen.iter().map(|a| a.ip().to_string()).collect();
    let anywhere = config.listen.iter().any(|a| a.ip().is_unspecified());
    set("server role", "standalone server");
    set("workgroup", &config.workgroup);
    set("smb ports", &config.listen.first().map_or(445, |a| a.port()).to_string());
    if !anywhere {
        set("interfaces", &addresses.join(" "));
        set("bind interfaces only", "yes");
    }
    set("disable netbios", "yes");
    set("dns proxy", "no");
    set("multicast dns register", "no");
    set("server min protocol", "SMB2_10");
    set("private dir", &place("private"));
    set("passdb backend", &format!("tdbsam:{}", place("private/passdb.tdb")));
    set("lock directory", &place("lock"));
    set("state directory", &place("state"));
    set("cache directory", &place("cache"));
    set("pid directory", &place("pid"));
    set("ncalrpc dir", &place("ncalrpc"));
    set("load printers", "no");
    set("printing", "bsd");
    set("printcap name", "/dev/null");
    set("disable spoolss", "yes");
    set("usershare max shares", "0");
    set("log level", "0");
    set("logging", "file");
    set("log file", &place("smbd.log"));
    set("max log size", "1024");
    set("map to guest", if shares.iter().any(|s| s.options.guests) { "bad user" } else { "never" });
    if !is_root {
        // It can be nobody else.
        if let Some(user) = super::user_name() {
            set("guest account", &user);
        }
    }
    // What Windows and macOS keep beside a file is in its extended attributes; only root may set those of the system.
    set("ea support", "yes");
    set("store dos attributes", "yes");
    set("map archive", "no");
    set("vfs objects", &modules(is_root).join(" "));
    if let Some(include) = config.include.as_deref().map(|p| p.display().to_string()).filter(|p| fits(p)) {
        set("include", &include);
    }
    for share in shares {
        let (Some(path), None) = (&share.path, &share.problem) else { continue };
        let comment = share.options.description.as_deref().unwrap_or(&share.dataset);
        let yes = |is: bool| if is { "yes" } else { "no" };
        let _ = write!(
            text,
            "\n[{}]\n\tcomment = {}\n\tpath = {path}\n\tread only = {}\n\tguest ok = {}\n\thide unreadable = {}\n\tbrowseable = yes\n",
            share.name,
            comment.replace(['%', ';', '#', '\\'], "_"),
            yes(share.options.read_only),
            yes(share.options.guests),
            yes(share.options.hides_unreadable),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb::SmbOptions;

    fn share(name: &str, path: &str, options: &str) -> SmbShare {
        SmbShare {
            dataset: format!("tank/{name}"),
            name: name.to_owned(),
            path: Some(path.to_owned()),
            text: options.to_owned(),
            options: SmbOptions::parse(options).expect("right").expect("on"),
            inherited_from: None,
            problem: None,
        }
    }

    #[test]
    fn shares_are_sections_and_those_with_a_problem_are_left_out() {
        let mut config = crate::Config::default().smb;
        config.listen = vec!["127.0.0.1:4450".parse().expect("an address")];
        let mut away = share("away", "/away", "on");
        away.problem = Some("it is not mounted".to_owned());
        let all = [share("docs", "/tank/docs", "ro,guestok=true,description=50% off"), away];
        let text = text(&config, Path::new("/state/smb"), &all);
        for line in
            ["smb ports = 4450", "interfaces = 127.0.0.1", "bind interfaces only = yes", "map to guest = bad user"]
        {
            assert!(text.contains(&format!("\t{line}\n")), "{line}\n{text}");
        }
        assert!(text.ends_with(
            "\n[docs]\n\tcomment = 50_ off\n\tpath = /tank/docs\n\tread only = yes\n\tguest ok = yes\n\thide unreadable = no\n\t\
             browseable = yes\n"
        ), "{text}");
    }

    #[test]
    fn paths_that_would_mean_something_else_do_not_fit() {
        assert!(fits("/tank/a b") && fits("/tank/ü"));
        for path in ["/a\n[x]", "/a%U", "/a ", "/a;b", "/a\"b"] {
            assert!(!fits(path), "{path:?}");
        }
    }
}
