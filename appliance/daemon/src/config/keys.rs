//! The table of keys.

use super::Config;
use super::value::Read;
use toml::de::DeValue;

/// A key of the configuration file.
pub struct Key {
    /// `section.name`.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// What it takes, in words.
    pub expected: &'static str,
    /// Whether it can change while the daemon runs.
    pub live: bool,
    /// What the commented file shows instead of the default.
    pub(super) example: Option<&'static str>,
    pub(super) copy: fn(&mut Config, &Config),
    pub(super) set: fn(&mut Config, &DeValue<'_>) -> Result<(), String>,
    pub(super) get: fn(&Config) -> String,
}

/// When a change is in force.
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
        "The folder that remembers which pools are imported; users, the audit log and the control socket\n\
         (run/weir.sock) are in it too. When not set: /var/lib/weir for root, ~/.local/state/weir for others."
    ),
    key!(
        "arc_max",
        Now,
        arc_max,
        "bytes, or a number with K, M, G or T",
        None,
        "Most memory for cached blocks of each pool. (How much may wait to be written follows it when the pool is opened.)"
    ),
    key!(
        "mount",
        Now,
        mount,
        "true or false",
        None,
        "Mount file systems where their properties say, when pools are opened or file systems are made."
    ),
    key!(
        "mount_uring",
        Now,
        mount_uring,
        "true or false",
        None,
        "Have the kernel hand over requests of mounts made from now on by way of io_uring, where Linux offers it: faster,\n\
         but a daemon that is killed as the last process of a container with mounts of its own may leave the machine\n\
         unable to sync(2) until it is restarted."
    ),
    key!(
        "api.listen",
        Restart,
        api.listen,
        "addresses with ports, such as [\"127.0.0.1:8215\", \"[::1]:8215\"]",
        None,
        "Where the web page and the HTTP interface are served over TCP. Empty: only on the control socket."
    ),
    key!(
        "api.hosts",
        Now,
        api.hosts,
        "a list of names",
        None,
        "Names by which browsers may call it, besides addresses, localhost and this machine's name. Requests\n\
         for other hosts are refused, so that no other site can have its own name lead here."
    ),
    key!(
        "api.plain_http",
        Restart,
        api.plain_http,
        "true or false",
        None,
        "Serve HTTP instead of HTTPS. Only possible where api.listen has loopback addresses alone."
    ),
    key!(
        "api.certificate",
        Now,
        api.certificate,
        "the absolute path of a file in PEM",
        None,
        "Certificate for HTTPS, followed by those that vouch for it. When not set, one of its own is made at the\n\
         first start, and kept in the state folder under tls/."
    ),
    key!("api.key", Now, api.key, "the absolute path of a file in PEM", None, "The key of that certificate."),
    key!(
        "api.session_hours",
        Now,
        api.session_hours,
        "a number of hours",
        None,
        "A session that is not used for so long ends."
    ),
    key!(
        "nfs.listen",
        Restart,
        nfs.listen,
        "addresses with ports, such as [\"0.0.0.0:2049\"]",
        None,
        "Where file systems with sharenfs are served by NFS. Empty: nowhere."
    ),
    key!(
        "nfs.versions",
        Restart,
        nfs.versions,
        "a list of \"3\", \"4.0\", \"4.1\", \"4.2\"",
        None,
        "Versions that clients may use."
    ),
    key!(
        "nfs.lease_seconds",
        Restart,
        nfs.lease_seconds,
        "a number from 10 to 3600",
        None,
        "How long clients have to take back their locks after a restart, during which others get none; and\n\
         how long a client of version 4 that is silent keeps what others want."
    ),
    key!(
        "nfs.portmap",
        Restart,
        nfs.portmap,
        "\"off\", \"register\" or \"answer\"",
        None,
        "How NFSv3 clients learn the ports of MOUNT and locking: not at all (they are given port= and\n\
         mountport=), from the system's rpcbind, or from this process at port 111."
    ),
    key!(
        "nfs.threads",
        Restart,
        nfs.threads,
        "a number; 0 is as many as suit this machine",
        None,
        "Threads that answer NFS."
    ),
    key!(
        "nfs.secure",
        Restart,
        nfs.secure,
        "true or false",
        None,
        "Whether shares that say neither secure nor insecure want clients to call from ports below 1024,\n\
         which only root can. Clients that run as a user need false, or insecure in sharenfs."
    ),
    key!(
        "nbd.listen",
        Restart,
        nbd.listen,
        "addresses with ports, such as [\"127.0.0.1:10809\"]",
        None,
        "Where volumes are served by NBD over TCP: all of them whose volmode is not none, to be read and written by\n\
         whoever can connect, so also by every user of this machine where it is a loopback address. Empty: nowhere."
    ),
    key!(
        "nbd.local",
        Restart,
        nbd.local,
        "true or false",
        None,
        "Serve volumes at the socket run/nbd.sock in the state folder, for the user who runs the daemon alone."
    ),
    key!(
        "nbd.hosts",
        Restart,
        nbd.hosts,
        "a list of addresses, networks and names of hosts, such as [\"10.0.0.0/8\", \"*.example.org\"]",
        None,
        "Whom connections to nbd.listen are taken from; others are closed at once."
    ),
    key!(
        "nbd.tls",
        Restart,
        nbd.tls,
        "\"off\", \"offered\" or \"required\"",
        None,
        "TLS at nbd.listen, with the certificate of api.certificate: not at all, where clients ask for it, or\n\
         as the only way to be told anything. The certificate tells clients who this is; who they are, nbd.hosts says."
    ),
    key!(
        "smb.listen",
        Restart,
        smb.listen,
        "addresses with one port, such as [\"0.0.0.0:445\"]",
        None,
        "Where file systems with sharesmb are served by SMB: Samba's smbd is started for it. Empty: nowhere."
    ),
    key!(
        "smb.program",
        Restart,
        smb.program,
        "an absolute path",
        None,
        "Samba's server (apt-get install samba). Users get their passwords with its pdbedit."
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
        "More lines for the section [global] of smb.conf(5): encryption, directories of users, and so on."
    ),
    key!(
        "analytics.enabled",
        Now,
        analytics.enabled,
        "true or false",
        None,
        "Count and record operations. Without, nothing of Analytics costs anything, and the time is as not recorded."
    ),
    key!(
        "analytics.operations",
        Restart,
        analytics.operations,
        "bytes, or a number with K, M, G or T",
        None,
        "Most bytes on disk, in the state folder, for the record of single operations, from which questions are\n\
         answered that nobody thought of before: about 25 bytes each, so that 1G has 10 minutes of 70,000 a second."
    ),
    key!(
        "analytics.viewers_see_files",
        Now,
        analytics.viewers_see_files,
        "true or false",
        None,
        "Whether users with the role viewer see names of files in statistics; otherwise all files are one, <hidden>, to them."
    ),
    key!(
        "alerts.mail_command",
        Restart,
        alerts.mail_command,
        "a program with its arguments, such as [\"/usr/sbin/sendmail\", \"-t\", \"-i\"]",
        None,
        "What sends mail for alerts: it gets the whole mail, with its headers, at its standard input. No shell is\n\
         involved. Empty: alerts send no mail."
    ),
    key!(
        "alerts.syslog",
        Restart,
        alerts.syslog,
        "the path of a socket, or an address with a port, such as \"192.0.2.1:514\"",
        None,
        "Where alerts go that are to be in the system log, as RFC 5424 has it: a datagram socket, or by UDP."
    ),
    key!(
        "alerts.webhook_hosts",
        Restart,
        alerts.webhook_hosts,
        "addresses and networks, such as [\"127.0.0.1\", \"169.254.7.0/24\"]",
        None,
        "What webhooks of alerts may reach of this machine and its link. Operators make alerts, and what listens at\n\
         loopback and link-local addresses or tells a cloud's machines their keys takes them for the machine itself;\n\
         everything else may be reached anyway."
    ),
    key!(
        "events.programs",
        Restart,
        events.programs,
        "the absolute path of a folder, such as \"/etc/weir/events.d\"; empty: none",
        None,
        "A folder of programs that are run when something happens to a pool, as zed runs zedlets: statechange-mail.sh\n\
         for each event of that class, all-log.sh for all, with the event in ZEVENT_ variables. They run as the user of\n\
         the daemon; folder and programs must be his or root's, and nobody else may write to them."
    ),
    key!(
        "events.program_seconds",
        Restart,
        events.program_seconds,
        "a number from 1 to 3600",
        None,
        "A program that has not ended after so long is ended, with all that it started."
    ),
    key!(
        "events.programs_at_once",
        Restart,
        events.programs_at_once,
        "a number from 1 to 256",
        None,
        "How many programs run at a time; others wait for their turn."
    ),
    key!(
        "events.webhooks",
        Restart,
        events.webhooks,
        "a list of addresses, such as [\"https://chat.example.org/hook\"]",
        None,
        "Where events are posted, as a JSON document each."
    ),
    key!(
        "events.webhook_classes",
        Restart,
        events.webhook_classes,
        "a list of classes, such as [\"statechange\", \"io_failure\"], or [\"all\"]",
        None,
        "Which events are posted there."
    ),
    key!(
        "events.slow_ms",
        Now,
        events.slow_ms,
        "a number from 1 to 3600000",
        None,
        "A read, write or flush of a device that takes so many milliseconds is counted as slow (`zpool status -s`), and\n\
         told as an event of the class delay."
    ),
    key!(
        "otlp.endpoint",
        Now,
        otlp.endpoint,
        "an address, such as \"http://127.0.0.1:4318\"",
        None,
        "The OpenTelemetry collector to which all figures are pushed, by OTLP over HTTP (at /v1/metrics below\n\
         this address). Empty: nowhere."
    ),
    key!(
        "otlp.interval_seconds",
        Now,
        otlp.interval_seconds,
        "a number from 1 to 3600",
        None,
        "How often figures are pushed."
    ),
    key!(
        "otlp.headers",
        Now,
        otlp.headers,
        "a list of headers, such as [\"Authorization: Bearer SECRET\"]",
        None,
        "Headers that go with each push. Administrators can read them."
    ),
    key!(
        "log.level",
        Now,
        log.level,
        "error, warn, info, debug, trace, or a filter such as info,daemon=debug",
        None,
        "What is logged to standard error."
    ),
    key!("log.format", Restart, log.format, "\"text\" or \"json\"", None, "How a line of the log looks."),
    key!("shares.options", Now, shares.options, "options as in exports(5)", None, "What sharenfs=on stands for."),
];

/// All keys, in the order of the commented file.
pub fn keys() -> &'static [Key] {
    KEYS
}
