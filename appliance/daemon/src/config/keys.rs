//! The table of configuration keys.

use super::sections::Config;
use super::value::Read;
use toml::de::DeValue;

/// A key of the configuration file.
pub struct Key {
    /// `section.name`, or `name` at the top level.
    pub name: &'static str,
    pub help: &'static str,
    /// Accepted values, in words.
    pub expected: &'static str,
    /// Whether it can change while the daemon runs.
    pub live: bool,
    /// Value in the commented file, instead of the default.
    pub(super) example: Option<&'static str>,
    pub(super) copy: fn(&mut Config, &Config),
    pub(super) set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    pub(super) get: fn(&Config) -> String,
}

/// When a change takes effect.
enum When {
    Now,
    Restart,
}

macro_rules! key {
    ($name:literal, $when:ident, $($field:ident).+, $expected:literal, $example:expr, $help:literal) => {
        Key {
            name: $name,
            help: $help,
            expected: $expected,
            live: matches!(When::$when, When::Now),
            example: $example,
            copy: |to, from| to.$($field).+.clone_from(&from.$($field).+),
            set: |config, value| {
                config.$($field).+ = Read::read(value)?;
                Ok(())
            },
            get: |config| Read::write(&config.$($field).+),
        }
    };
}

const KEYS: &[Key] = &[
    key!(
        "state",
        Restart,
        state,
        "an absolute path",
        Some("\"/var/lib/weir\""),
        "The state folder: the list of imported pools, users, the audit log and the control socket\n\
         (run/weir.sock). Default: /var/lib/weir for root, ~/.local/state/weir for other users."
    ),
    key!(
        "arc_max",
        Now,
        arc_max,
        "bytes, or a number with K, M, G or T",
        None,
        "Maximum memory for cached blocks, for each pool. It also determines the limit of dirty data when a pool is opened."
    ),
    key!(
        "mount",
        Now,
        mount,
        "true or false",
        None,
        "Mount file systems according to their properties when pools are opened or file systems are created."
    ),
    key!(
        "io",
        Restart,
        io,
        "\"auto\", \"direct\" or \"buffered\"",
        None,
        "How devices are read and written: \"direct\" past Linux's page cache, so that contents are cached once, in the\n\
         ARC; \"buffered\" through it; \"auto\" directly for block devices and buffered for files. Where a file system\n\
         does not support direct I/O, its files are buffered. GET /v1/pools/POOL says for each device which it is."
    ),
    key!(
        "mount_uring",
        Now,
        mount_uring,
        "true or false",
        None,
        "Use io_uring for new FUSE mounts where Linux supports it. This is faster, but if the daemon is killed as the\n\
         last process of a container with its own mount namespace, sync(2) may hang until the machine is restarted."
    ),
    key!(
        "api.listen",
        Restart,
        api.listen,
        "addresses with ports, such as [\"127.0.0.1:8215\", \"[::1]:8215\"]",
        None,
        "Addresses on which the web page and the HTTP API are served. Empty: only on the control socket."
    ),
    key!(
        "api.hosts",
        Now,
        api.hosts,
        "a list of names",
        None,
        "Host names that browsers may use, in addition to addresses, localhost and this machine's name. Requests\n\
         for other hosts are refused, which prevents DNS rebinding."
    ),
    key!(
        "api.plain_http",
        Restart,
        api.plain_http,
        "true or false",
        None,
        "Serve HTTP instead of HTTPS. Requires that api.listen contains only loopback addresses."
    ),
    key!(
        "api.certificate",
        Now,
        api.certificate,
        "the absolute path of a file in PEM",
        None,
        "Certificate for HTTPS, followed by its chain. If not set, a self-signed one is created at the first start\n\
         and kept in the state folder under tls/."
    ),
    key!("api.key", Now, api.key, "the absolute path of a file in PEM", None, "The private key of api.certificate."),
    key!(
        "api.session_hours",
        Now,
        api.session_hours,
        "a number of hours",
        None,
        "Idle time after which a session ends."
    ),
    key!(
        "nfs.listen",
        Restart,
        nfs.listen,
        "addresses with ports, such as [\"0.0.0.0:2049\"]",
        None,
        "Addresses on which file systems with sharenfs are served over NFS. Empty: none."
    ),
    key!(
        "nfs.versions",
        Restart,
        nfs.versions,
        "a list of \"3\", \"4.0\", \"4.1\", \"4.2\"",
        None,
        "NFS versions that are offered."
    ),
    key!(
        "nfs.lease_seconds",
        Restart,
        nfs.lease_seconds,
        "a number from 10 to 3600",
        None,
        "Grace period in which clients can reclaim locks after a restart, while no new ones are granted; and the\n\
         lease time after which the state of a silent NFSv4 client may be revoked for others."
    ),
    key!(
        "nfs.portmap",
        Restart,
        nfs.portmap,
        "\"off\", \"register\" or \"answer\"",
        None,
        "How NFSv3 clients find the ports of MOUNT and locking: not at all (they mount with port= and\n\
         mountport=), from the system's rpcbind, or from this process on port 111."
    ),
    key!(
        "nfs.threads",
        Restart,
        nfs.threads,
        "a number; 0 chooses one for this machine",
        None,
        "Number of NFS server threads."
    ),
    key!(
        "nfs.secure",
        Restart,
        nfs.secure,
        "true or false",
        None,
        "Whether shares without secure or insecure require client ports below 1024, which only root can use.\n\
         Clients that run as a user need false, or insecure in sharenfs."
    ),
    key!(
        "nbd.listen",
        Restart,
        nbd.listen,
        "addresses with ports, such as [\"127.0.0.1:10809\"]",
        None,
        "Addresses on which all volumes whose volmode is not none are served over NBD. Any client that can connect can\n\
         read and write them; on a loopback address, every user of this machine. Empty: none."
    ),
    key!(
        "nbd.local",
        Restart,
        nbd.local,
        "true or false",
        None,
        "Serve volumes on the socket run/nbd.sock in the state folder, accessible only to the daemon's user."
    ),
    key!(
        "nbd.hosts",
        Restart,
        nbd.hosts,
        "a list of addresses, networks and names of hosts, such as [\"10.0.0.0/8\", \"*.example.org\"]",
        None,
        "Clients that may connect to nbd.listen; other connections are closed at once."
    ),
    key!(
        "nbd.tls",
        Restart,
        nbd.tls,
        "\"off\", \"offered\" or \"required\"",
        None,
        "TLS on nbd.listen with api.certificate: off, on request of the client, or required. The certificate\n\
         identifies the server; clients are identified by nbd.hosts only."
    ),
    key!(
        "smb.listen",
        Restart,
        smb.listen,
        "addresses with one port, such as [\"0.0.0.0:445\"]",
        None,
        "Addresses on which file systems with sharesmb are served over SMB, by Samba's smbd. Empty: none."
    ),
    key!(
        "smb.program",
        Restart,
        smb.program,
        "an absolute path",
        None,
        "Samba's smbd (apt-get install samba). Passwords of users are set with pdbedit."
    ),
    key!(
        "smb.workgroup",
        Restart,
        smb.workgroup,
        "a name of at most 15 characters",
        None,
        "The workgroup of the server."
    ),
    key!(
        "smb.include",
        Restart,
        smb.include,
        "the absolute path of a file",
        None,
        "A file with more settings for the section [global] of smb.conf(5), such as encryption."
    ),
    key!(
        "analytics.enabled",
        Now,
        analytics.enabled,
        "true or false",
        None,
        "Count and record operations. If false, Analytics costs nothing and the time counts as not recorded."
    ),
    key!(
        "analytics.operations",
        Restart,
        analytics.operations,
        "bytes, or a number with K, M, G or T",
        None,
        "Maximum disk space, in the state folder, for the record of single operations, which allows any breakdown in\n\
         retrospect. An operation takes about 25 bytes: 1G holds 10 minutes at 70,000 operations per second."
    ),
    key!(
        "analytics.viewers_see_files",
        Now,
        analytics.viewers_see_files,
        "true or false",
        None,
        "Whether users with the role viewer see file names in statistics. If false, all files are shown as <hidden>."
    ),
    key!(
        "alerts.mail_command",
        Restart,
        alerts.mail_command,
        "a program with its arguments, such as [\"/usr/sbin/sendmail\", \"-t\", \"-i\"]",
        None,
        "Program that sends mail for alerts. It reads the mail with headers from standard input; no shell is used.\n\
         Empty: alerts send no mail."
    ),
    key!(
        "alerts.syslog",
        Restart,
        alerts.syslog,
        "the path of a socket, or an address with a port, such as \"192.0.2.1:514\"",
        None,
        "Destination of alerts to the system log (RFC 5424): a datagram socket, or a UDP address."
    ),
    key!(
        "alerts.webhook_hosts",
        Restart,
        alerts.webhook_hosts,
        "addresses and networks, such as [\"127.0.0.1\", \"169.254.7.0/24\"]",
        None,
        "Loopback and link-local addresses that webhooks of alerts may reach. By default they reach none of them, nor\n\
         cloud metadata services, because operators define alerts and such services trust requests from this\n\
         machine. All other addresses are allowed."
    ),
    key!(
        "events.programs",
        Restart,
        events.programs,
        "the absolute path of a folder, such as \"/etc/weir/events.d\"; empty: none",
        None,
        "A folder of programs to run for pool events, as zed runs zedlets: statechange-mail.sh\n\
         for each event of that class, all-log.sh for all, with the event in ZEVENT_ variables. They run as the user of\n\
         the daemon; folder and programs must belong to that user or root, and must not be writable by others."
    ),
    key!(
        "events.program_seconds",
        Restart,
        events.program_seconds,
        "a number from 1 to 3600",
        None,
        "Seconds after which a program is killed, with all processes that it started."
    ),
    key!(
        "events.programs_at_once",
        Restart,
        events.programs_at_once,
        "a number from 1 to 256",
        None,
        "Number of programs that run at the same time; others wait."
    ),
    key!(
        "events.webhooks",
        Restart,
        events.webhooks,
        "a list of addresses, such as [\"https://chat.example.org/hook\"]",
        None,
        "URLs to which events are posted, as one JSON document each."
    ),
    key!(
        "events.webhook_classes",
        Restart,
        events.webhook_classes,
        "a list of classes, such as [\"statechange\", \"io_failure\"], or [\"all\"]",
        None,
        "Classes of events to post."
    ),
    key!(
        "events.slow_ms",
        Now,
        events.slow_ms,
        "a number from 1 to 3600000",
        None,
        "A read, write or flush of a device that takes this many milliseconds counts as slow (`zpool status -s`) and\n\
         causes a delay event."
    ),
    key!(
        "import.missing_vdevs",
        Now,
        import.missing_vdevs,
        "a number from 0 to 65536",
        None,
        "Pools are imported read-only also if this many of their top-level devices are missing; what was on them cannot\n\
         be read (zfs_max_missing_tvds)."
    ),
    key!(
        "multihost.interval_ms",
        Now,
        multihost.interval_ms,
        "a number from 100 to 16777215",
        None,
        "Pools with multihost=on get one heartbeat for each device in this many milliseconds\n\
         (zfs_multihost_interval)."
    ),
    key!(
        "multihost.fail_intervals",
        Now,
        multihost.fail_intervals,
        "a number from 0 to 65535",
        None,
        "A pool is suspended after this many intervals without a heartbeat, at least 2. 0: never; other hosts then wait\n\
         longer, and cannot be certain (zfs_multihost_fail_intervals)."
    ),
    key!(
        "multihost.import_intervals",
        Now,
        multihost.import_intervals,
        "a number from 1 to 10000",
        None,
        "An import waits for a heartbeat for this many intervals, if the pool does not record how long its last owner\n\
         would keep it without one (zfs_multihost_import_intervals)."
    ),
    key!(
        "multihost.history",
        Now,
        multihost.history,
        "a number from 0 to 100000",
        None,
        "Number of heartbeats of each pool that are listed (zfs_multihost_history)."
    ),
    key!(
        "otlp.endpoint",
        Now,
        otlp.endpoint,
        "an address, such as \"http://127.0.0.1:4318\"",
        None,
        "The OpenTelemetry collector to which all metrics are pushed, by OTLP over HTTP (at /v1/metrics below\n\
         this address). Empty: none."
    ),
    key!(
        "otlp.interval_seconds",
        Now,
        otlp.interval_seconds,
        "a number from 1 to 3600",
        None,
        "Seconds between pushes of metrics."
    ),
    key!(
        "otlp.headers",
        Now,
        otlp.headers,
        "a list of headers, such as [\"Authorization: Bearer SECRET\"]",
        None,
        "Headers of each push. Administrators can read them."
    ),
    key!(
        "log.level",
        Now,
        log.level,
        "error, warn, info, debug, trace, or a filter such as info,daemon=debug",
        None,
        "What is logged to standard error."
    ),
    key!("log.format", Restart, log.format, "\"text\" or \"json\"", None, "Format of log lines."),
    key!("shares.options", Now, shares.options, "options as in exports(5)", None, "Options that sharenfs=on means."),
];

/// All keys, in the order of the commented file.
pub fn keys() -> &'static [Key] {
    KEYS
}
