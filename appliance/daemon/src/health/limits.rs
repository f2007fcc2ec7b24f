//! From where on something is a reason of the verdict, and fires a built-in alert.

/// Percentage of the usable space above which a pool needs attention. Common advice is to stay
/// below 80 %: the free space of fuller pools consists of small pieces, and writes become slower.
pub const SPACE_ATTENTION_PERCENT: u64 = 80;
/// Above it is serious. Guessed: half of the space that was left at 80 %.
pub const SPACE_SERIOUS_PERCENT: u64 = 90;
/// Above, writes are about to fail. Guessed: a quarter of the space that was left at 80 %.
pub const SPACE_CRITICAL_PERCENT: u64 = 95;
/// Days without a scrub that need attention. Debian and Ubuntu scrub on the second Sunday of each
/// month, at most 35 days apart, and FreeBSD's periodic(8) after 35 days; another week for a long
/// scrub.
pub const SCRUB_DAYS: u64 = 42;
/// Days before the end of a certificate. Certbot renews certificates of 90 days 30 days before
/// their end: if there is no new one two weeks later, renewal does not work.
pub const CERTIFICATE_ATTENTION_DAYS: u64 = 14;
/// Guessed: time for a manual renewal.
pub const CERTIFICATE_SERIOUS_DAYS: u64 = 3;
/// Short-lived certificates are renewed later: attention only in this last part of their lifetime,
/// half of the third in which ACME clients renew them.
pub const CERTIFICATE_LAST_PART: u64 = 6;
/// Seconds for which a refused client is a reason. Guessed: mounts and operations are retried
/// within minutes.
pub const REFUSED_SECONDS: u64 = 3600;
/// Days after which a failed stream is no longer a reason. Guessed: replication that was not
/// repaired in this time was given up.
pub const STREAM_DAYS: u64 = 30;
