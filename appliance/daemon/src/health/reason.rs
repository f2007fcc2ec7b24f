//! What all reasons have.

use api::{HealthKind, HealthReason, HealthVerdict};

/// A reason without action and time.
pub(super) fn reason(
    severity: HealthVerdict,
    kind: HealthKind,
    subject: &str,
    what: String,
    link: String,
) -> HealthReason {
    HealthReason { severity, kind, subject: subject.to_owned(), what, action: None, since: None, link }
}

/// Page of a pool. Names of pools need no escapes in a path, except for a space.
pub(super) fn page_of(pool: &str) -> String {
    format!("/pools/{}", pool.replace('%', "%25").replace(' ', "%20"))
}
