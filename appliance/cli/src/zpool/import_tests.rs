//! Compares the descriptions of importable pools with recorded output of OpenZFS.

use super::super::samples::{degraded, file, group, tank};
use super::*;
use pool::status::VdevAux;

fn describe(
    name: &str,
    status: &PoolStatus,
    label_state: PoolState,
    needs_force: bool,
    problem: Option<&str>,
) -> String {
    let found = Found { name, label_state, owner: None };
    super::describe(found, status, reason(status, needs_force), problem)
}

#[test]
fn a_degraded_pool_can_be_imported() {
    let mut status = degraded();
    // The labels were written before the device went missing.
    status.root.children[0].children[1].not_present = false;
    let expected = "  pool: rz
    id: 14999580463317378616
 state: DEGRADED
status: One or more devices are missing from the system.
action: The pool can be imported despite missing or damaged devices.  The
\tfault tolerance of the pool may be compromised if imported.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-2Q
config:

\trz            DEGRADED
\t  raidz1-0    DEGRADED
\t    /tmp/v/j  ONLINE
\t    /tmp/v/d  UNAVAIL  cannot open
\t    /tmp/v/e  ONLINE
\t  mirror-2    ONLINE
\t    /tmp/v/k  ONLINE
\t    /tmp/v/l  ONLINE
\tcache
\t  /tmp/v/g
";
    assert_eq!(describe("rz", &status, PoolState::Exported, false, None), expected);
}

#[test]
fn without_enough_devices_it_cannot() {
    let mut status = degraded();
    status.caches.clear();
    let raidz = &mut status.root.children[0];
    (raidz.state, raidz.aux) = (VdevState::CantOpen, VdevAux::NoReplicas);
    let e = &mut raidz.children[2];
    (e.state, e.aux) = (VdevState::CantOpen, VdevAux::OpenFailed);
    (status.root.state, status.root.aux) = (VdevState::CantOpen, VdevAux::NoReplicas);
    let expected = "  pool: rz
    id: 14999580463317378616
 state: UNAVAIL
status: One or more devices are missing from the system.
action: The pool cannot be imported. Attach the missing
\tdevices and try again.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-3C
config:

\trz                       UNAVAIL  insufficient replicas
\t  raidz1-0               UNAVAIL  insufficient replicas
\t    /tmp/v/j             ONLINE
\t    6868831469964973938  UNAVAIL  cannot open
\t    /tmp/v/e             UNAVAIL  cannot open
\t  mirror-2               ONLINE
\t    /tmp/v/k             ONLINE
\t    /tmp/v/l             ONLINE
";
    assert_eq!(describe("rz", &status, PoolState::Exported, false, None), expected);
}

#[test]
fn a_comment_moves_everything_by_one_column() {
    let status = PoolStatus { comment: Some("hello".into()), guid: 6865512361842633653, ..tank().status };
    let expected = "   pool: tank
     id: 6865512361842633653
  state: ONLINE
 action: The pool can be imported using its name or numeric identifier.
comment: hello
 config:

\ttank          ONLINE
\t  mirror-0    ONLINE
\t    /tmp/v/a  ONLINE
\t    /tmp/v/b  ONLINE
";
    assert_eq!(describe("tank", &status, PoolState::Exported, false, None), expected);
}

#[test]
fn a_destroyed_pool_says_so() {
    let root = group("one", "root", 2786289853324574129, vec![file("single", 7145828490017975622)]);
    let status = PoolStatus { guid: 2786289853324574129, version: 5000, root, ..PoolStatus::default() };
    let expected = "  pool: one
    id: 2786289853324574129
 state: ONLINE (DESTROYED)
action: The pool can be imported using its name or numeric identifier.
config:

\tone              ONLINE
\t  /tmp/v/single  ONLINE
";
    assert_eq!(describe("one", &status, PoolState::Destroyed, false, None), expected);
}

#[test]
fn a_pool_of_another_host_asks_for_force() {
    let text = describe("tank", &tank().status, PoolState::Active, true, None);
    assert!(text.contains("status: The pool was last accessed by another system.\n"), "{text}");
    assert!(text.contains("name or numeric identifier and\n\tthe '-f' flag.\n   see: https://"), "{text}");
}

#[test]
fn a_pool_of_another_host_is_described_as_openzfs_does() {
    let mut status = tank().status;
    (status.root.state, status.root.aux) = (VdevState::CantOpen, VdevAux::Active);
    let owner = Owner { host: "filer-2".into(), hostid: 0x1234_abcd };
    let found = || Found { name: "tank", label_state: PoolState::Active, owner: Some(&owner) };
    let text = super::describe(found(), &status, reason(&status, true), None);
    assert!(text.contains(" state: UNAVAIL\nstatus: The pool is currently imported by another system.\n"), "{text}");
    let action = "action: The pool must be exported from filer-2 (hostid=1234abcd)\n\tbefore it can be safely imported.\n   \
                  see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-EY\n";
    assert!(text.contains(action), "{text}");
    let text = super::describe(found(), &status, Reason::HostidRequired, None);
    let status = "status: The pool has the multihost property on.  It cannot\n\tbe safely imported when the system hostid is \
                  not set.\naction: Set a unique system hostid with the zgenhostid(8) command.\n";
    assert!(text.contains(status), "{text}");
}
