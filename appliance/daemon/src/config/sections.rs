//! The sections of the configuration, and their defaults.

use super::value::{LogFormat, NbdTls, Portmap, Size};
use api::SettingSource;
use host::device::Io;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Configuration of `weir serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Directory for state such as the list of imported pools; `None`: the default.
    pub state: Option<PathBuf>,
    /// Limit for the cached blocks of each pool.
    pub arc_max: Size,
    /// Mount file systems according to their properties.
    pub mount: bool,
    /// How devices are read and written: past the page cache or through it.
    pub io: Io,
    /// Use io_uring between mounts and the kernel where available.
    pub mount_uring: bool,
    /// The HTTP interface over TCP.
    pub api: ApiConfig,
    pub nfs: NfsConfig,
    pub nbd: NbdConfig,
    pub smb: SmbConfig,
    pub log: LogConfig,
    pub analytics: AnalyticsConfig,
    pub alerts: AlertsConfig,
    /// Push of metrics to an OpenTelemetry collector.
    pub otlp: OtlpConfig,
    /// Programs and webhooks for pool events.
    pub events: EventsConfig,
    pub import: ImportConfig,
    pub multihost: MultihostConfig,
    pub shares: SharesConfig,
    /// Keys that were set, and their source.
    pub sources: BTreeMap<&'static str, SettingSource>,
}

/// The HTTP interface over TCP. (The Unix socket always exists: `run/weir.sock` in the state
/// directory.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiConfig {
    /// Addresses to listen on; empty: none.
    pub listen: Vec<SocketAddr>,
    /// Host names that browsers may use, besides addresses, `localhost` and this machine's name.
    pub hosts: Vec<String>,
    /// HTTP instead of HTTPS; only on loopback addresses.
    pub plain_http: bool,
    /// Certificate chain, PEM; `None`: a self-signed one.
    pub certificate: Option<PathBuf>,
    /// Private key of the certificate, PEM. Set if and only if `certificate` is.
    pub key: Option<PathBuf>,
    /// Idle time in hours after which a session ends.
    pub session_hours: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NfsConfig {
    /// Addresses to listen on; empty: none.
    pub listen: Vec<SocketAddr>,
    /// Versions: `3`, `4.0`, `4.1`, `4.2`.
    pub versions: Vec<String>,
    /// Lease time: for reclaiming locks after a restart, and for silent clients.
    pub lease_seconds: u64,
    /// How clients find the ports.
    pub portmap: Portmap,
    /// Number of threads; 0: chosen for this machine.
    pub threads: u64,
    /// By default, shares require clients to use source ports below 1024.
    pub secure: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdConfig {
    /// TCP addresses to listen on; empty: none.
    pub listen: Vec<SocketAddr>,
    /// Whether it listens on `run/nbd.sock` in the state directory, for this process's user.
    pub local: bool,
    /// Hosts from which TCP connections are accepted.
    pub hosts: Vec<String>,
    /// Use of TLS over TCP.
    pub tls: NbdTls,
}

/// The SMB server: Samba, run by this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmbConfig {
    /// Addresses to listen on; empty: none.
    pub listen: Vec<SocketAddr>,
    /// Path of Samba's server.
    pub program: PathBuf,
    /// Workgroup that clients see.
    pub workgroup: String,
    /// A file with further lines for `[global]`.
    pub include: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// Minimum level, or a filter such as `info,daemon=debug`.
    pub level: String,
    /// Format of log lines.
    pub format: LogFormat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnalyticsConfig {
    /// Whether anything is recorded at all.
    pub enabled: bool,
    /// Disk space for records of single operations.
    pub operations: Size,
    /// Whether viewers see file names.
    pub viewers_see_files: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlertsConfig {
    /// A program and its arguments, which gets a mail on its standard input; empty: no mail.
    pub mail_command: Vec<String>,
    /// Path of a datagram socket, or address and port.
    pub syslog: String,
    /// Hosts in otherwise refused networks that webhooks may reach.
    pub webhook_hosts: Vec<String>,
}

/// Programs and webhooks for pool events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventsConfig {
    /// A directory of programs.
    pub programs: Option<PathBuf>,
    /// Time limit for one program.
    pub program_seconds: u64,
    /// Limit for programs running at a time.
    pub programs_at_once: u64,
    /// Addresses to which events are posted.
    pub webhooks: Vec<String>,
    /// Classes of events that are posted.
    pub webhook_classes: Vec<String>,
    /// Duration from which an operation of a device is reported as slow.
    pub slow_ms: u64,
}

impl Default for EventsConfig {
    fn default() -> Self {
        const CLASSES: [&str; 13] = [
            "statechange",
            "io",
            "checksum",
            "data",
            "delay",
            "io_failure",
            "scrub_finish",
            "resilver_finish",
            "vdev_remove_dev",
            "vdev_spare",
            "pool_import",
            "pool_export",
            "pool_destroy",
        ];
        Self {
            programs: None,
            program_seconds: 10,
            programs_at_once: 16,
            webhooks: Vec::new(),
            webhook_classes: CLASSES.map(str::to_owned).to_vec(),
            slow_ms: 30_000,
        }
    }
}

/// Imports of damaged pools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportConfig {
    /// Number of top-level devices that may be missing in a read-only import.
    pub missing_vdevs: u64,
}

/// Protection of pools that several hosts can reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MultihostConfig {
    /// Time in which each device gets a heartbeat.
    pub interval_ms: u64,
    /// Intervals without a heartbeat after which a pool is suspended.
    pub fail_intervals: u64,
    /// Intervals for which an import waits if the last owner of the pool recorded none.
    pub import_intervals: u64,
    /// Number of heartbeats that are listed for each pool.
    pub history: u64,
}

impl Default for MultihostConfig {
    fn default() -> Self {
        let pool::mmp::Settings { interval_ms, fail_intervals, import_intervals, history } = Default::default();
        Self {
            interval_ms: interval_ms.into(),
            fail_intervals: fail_intervals.into(),
            import_intervals: import_intervals.into(),
            history: history.into(),
        }
    }
}

impl MultihostConfig {
    /// For the pools of this process. The values were checked.
    pub fn settings(&self) -> pool::mmp::Settings {
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        pool::mmp::Settings {
            interval_ms: number(self.interval_ms),
            fail_intervals: u16::try_from(self.fail_intervals).unwrap_or(u16::MAX),
            import_intervals: number(self.import_intervals),
            history: number(self.history),
        }
    }
}

/// Export of statistics by OTLP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Address of a collector; empty: none.
    pub endpoint: String,
    pub interval_seconds: u64,
    /// Headers for each request: `NAME: VALUE`.
    pub headers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharesConfig {
    /// Options for `sharenfs=on`, as in exports(5).
    pub options: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            state: None,
            arc_max: Size(256 << 20),
            mount: true,
            io: Io::Auto,
            mount_uring: false,
            api: ApiConfig {
                listen: Vec::new(),
                hosts: Vec::new(),
                plain_http: false,
                certificate: None,
                key: None,
                session_hours: 12,
            },
            nfs: NfsConfig {
                listen: Vec::new(),
                versions: ["3", "4.0", "4.1", "4.2"].map(str::to_owned).to_vec(),
                lease_seconds: 90,
                portmap: Portmap::Off,
                threads: 0,
                secure: true,
            },
            nbd: NbdConfig { listen: Vec::new(), local: true, hosts: vec!["*".to_owned()], tls: NbdTls::Off },
            smb: SmbConfig {
                listen: Vec::new(),
                program: PathBuf::from("/usr/sbin/smbd"),
                workgroup: "WORKGROUP".to_owned(),
                include: None,
            },
            alerts: AlertsConfig { mail_command: Vec::new(), syslog: "/dev/log".to_owned(), webhook_hosts: Vec::new() },
            otlp: OtlpConfig { endpoint: String::new(), interval_seconds: 15, headers: Vec::new() },
            analytics: AnalyticsConfig { enabled: true, operations: Size(1 << 30), viewers_see_files: true },
            log: LogConfig { level: "info".to_owned(), format: LogFormat::Text },
            events: EventsConfig::default(),
            import: ImportConfig::default(),
            multihost: MultihostConfig::default(),
            shares: SharesConfig { options: "rw,root_squash".to_owned() },
            sources: BTreeMap::new(),
        }
    }
}
