//! Targets of a load: a path; `nfs://HOST[:PORT]/PATH[?nfsport=N&mountport=N&uid=N&gid=N]`, as in
//! libnfs; or `nbd://HOST[:PORT]/EXPORT` and `nbd+unix:///EXPORT?socket=PATH`, as in libnbd.

use anyhow::{Context, Result, bail, ensure};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// Default port of NFS.
const PORT: u16 = 2049;

/// A target; see the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A local file (with [`crate::Kind::Meta`]: a directory).
    Path(PathBuf),
    /// A file or directory on an NFS server.
    Nfs(Nfs),
    /// An export of an NBD server.
    Nbd(Nbd),
}

/// An export of an NBD server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nbd {
    /// Address of the server.
    pub server: Place,
    /// Name of the export.
    pub export: String,
}

/// Address of an NBD server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

fn nbd(text: &str) -> Result<Option<Nbd>> {
    if let Some(rest) = text.strip_prefix("nbd+unix://") {
        let (export, query) = rest.split_once('?').unwrap_or((rest, ""));
        let socket = query.split('&').find_map(|p| p.strip_prefix("socket="));
        let socket = socket.with_context(|| format!("{text}: no ?socket=PATH"))?;
        return Ok(Some(Nbd { server: Place::Unix(socket.into()), export: export.trim_start_matches('/').to_owned() }));
    }
    let Some(rest) = text.strip_prefix("nbd://") else { return Ok(None) };
    let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
        Some((host, port)) => (host, port.parse().with_context(|| format!("{text}: port {port}"))?),
        None => (authority, serve::nbd::PORT),
    };
    Ok(Some(Nbd { server: Place::Tcp(resolve(host, port)?), export: export.to_owned() }))
}

/// A file or directory on an NFS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nfs {
    /// Address of the NFS service.
    pub server: SocketAddr,
    /// Address of the MOUNT service.
    pub mount: SocketAddr,
    /// Path on the server, starting with `/`.
    pub path: String,
    /// User ID of the requests.
    pub uid: u32,
    /// Group ID of the requests.
    pub gid: u32,
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (host, port)
        .to_socket_addrs()
        .with_context(|| host.to_owned())?
        .next()
        .with_context(|| format!("{host} has no address"))
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(nbd) = nbd(text)? {
            return Ok(Self::Nbd(nbd));
        }
        let Some(rest) = text.strip_prefix("nfs://") else {
            ensure!(
                !text.contains("://"),
                "{text}: expected a path, nfs://HOST/PATH, nbd://HOST/EXPORT and nbd+unix:///EXPORT?socket=PATH"
            );
            return Ok(Self::Path(text.into()));
        };
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').with_context(|| format!("{text}: no path after the host"))?;
        // A colon inside brackets is part of the address.
        let (host, mut port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().with_context(|| format!("{text}: port {port}"))?),
            None => (authority, PORT),
        };
        let (mut mount, mut uid, mut gid) = (None, 0, 0);
        for pair in query.split('&').filter(|p| !p.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let number = || value.parse::<u32>().with_context(|| format!("{text}: {key}={value}"));
            let a_port = || u16::try_from(number()?).with_context(|| format!("{text}: {key}={value}"));
            match key {
                "nfsport" => port = a_port()?,
                "mountport" => mount = Some(a_port()?),
                "uid" => uid = number()?,
                "gid" => gid = number()?,
                "version" => ensure!(value == "3", "{text}: only version 3 is supported"),
                _ => bail!("{text}: '{key}' is none of nfsport, mountport, uid, gid, version"),
            }
        }
        let path = format!("/{}", path.trim_matches('/'));
        Ok(Self::Nfs(Nfs {
            server: resolve(host, port)?,
            mount: resolve(host, mount.unwrap_or(port))?,
            path,
            uid,
            gid,
        }))
    }
}

impl Target {
    /// A file or directory below this one.
    pub(crate) fn below(&self, path: &str) -> Self {
        match self {
            Self::Path(root) => Self::Path(root.join(path)),
            Self::Nfs(nfs) => {
                Self::Nfs(Nfs { path: format!("{}/{path}", nfs.path.trim_end_matches('/')), ..nfs.clone() })
            }
            Self::Nbd(nbd) => Self::Nbd(nbd.clone()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Nfs(nfs) => write!(f, "nfs://{}{}", nfs.server, nfs.path),
            Self::Nbd(Nbd { server: Place::Tcp(address), export }) => write!(f, "nbd://{address}/{export}"),
            Self::Nbd(Nbd { server: Place::Unix(path), export }) => {
                write!(f, "nbd+unix:///{export}?socket={}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_libnfs_reads_them_and_mistakes_are_named() {
        let Ok(Target::Nfs(nfs)) = "nfs://127.0.0.1/tank/a/b?nfsport=12049&mountport=12050&uid=7&version=3".parse()
        else {
            panic!("an URL")
        };
        assert_eq!((nfs.server.port(), nfs.mount.port(), nfs.uid, nfs.path.as_str()), (12049, 12050, 7, "/tank/a/b"));
        let Ok(Target::Nfs(nfs)) = "nfs://[::1]:99/tank/".parse() else { panic!("an URL") };
        assert_eq!((nfs.server.to_string().as_str(), nfs.mount.port(), nfs.path.as_str()), ("[::1]:99", 99, "/tank"));
        let Ok(Target::Nbd(nbd)) = "nbd://127.0.0.1/tank/v".parse() else { panic!("an URL") };
        assert_eq!((nbd.server, nbd.export.as_str()), (Place::Tcp(([127, 0, 0, 1], 10809).into()), "tank/v"));
        let text = "nbd+unix:///tank/v?socket=/run/nbd";
        assert_eq!(text.parse::<Target>().map(|t| t.to_string()).ok().as_deref(), Some(text));
        assert_eq!("a/b".parse::<Target>().ok(), Some(Target::Path("a/b".into())));
        for wrong in [
            "nfs://127.0.0.1",
            "nfs://127.0.0.1/a?colour=1",
            "nfs://127.0.0.1:x/a",
            "ftp://x/y",
            "nfs://127.0.0.1/a?version=4",
            "nbd://127.0.0.1:x/a",
            "nbd+unix:///a",
        ] {
            let error = wrong.parse::<Target>().expect_err(wrong).to_string();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
