//! Compares `zpool status` of the sample pools with recorded output of OpenZFS.

use super::super::samples::{degraded, rz, tank};
use super::*;

fn shown(status: &PoolStatus, options: StatusOptions) -> String {
    pool(status, &options, &ScriptColumns::default(), true)
}

const RZ_HEAD: &str = "  pool: rz\n state: ONLINE\nconfig:\n\n";
const RZ_TAIL: &str = "\nerrors: No known data errors\n";

#[test]
fn a_healthy_pool_with_log_cache_and_spare() {
    let expected = "\tNAME          STATE     READ WRITE CKSUM
\trz            ONLINE       0     0     0
\t  raidz1-0    ONLINE       0     0     0
\t    /tmp/v/c  ONLINE       0     0     0
\t    /tmp/v/d  ONLINE       0     0     0
\t    /tmp/v/e  ONLINE       0     0     0
\tlogs\t
\t  /tmp/v/f    ONLINE       0     0     0
\tcache
\t  /tmp/v/g    ONLINE       0     0     0
\tspares
\t  /tmp/v/h    AVAIL   \n";
    assert_eq!(shown(&rz().status, StatusOptions::default()), format!("{RZ_HEAD}{expected}{RZ_TAIL}"));
}

#[test]
fn names_may_be_guids() {
    let names = NameOptions { guid: true, ..NameOptions::default() };
    let text = shown(&rz().status, StatusOptions { names, ..StatusOptions::default() });
    assert!(text.contains("\tNAME                     STATE     READ WRITE CKSUM\n"), "{text}");
    assert!(text.contains("\trz                       ONLINE       0     0     0\n"), "{text}");
    assert!(text.contains("\t    6031755513585773043  ONLINE       0     0     0\n"), "{text}");
    assert!(text.contains("\t  5867256931654923822    AVAIL   \n"), "{text}");
}

#[test]
fn slow_trimmed_and_initialised_have_their_columns() {
    let slow = shown(&rz().status, StatusOptions { slow: true, ..StatusOptions::default() });
    assert!(slow.contains("CKSUM  SLOW\n") && slow.contains("\t  raidz1-0    ONLINE       0     0     0     -\n"));
    assert!(slow.contains("\t    /tmp/v/c  ONLINE       0     0     0     0\n"), "{slow}");
    let trim = shown(&rz().status, StatusOptions { trim: true, ..StatusOptions::default() });
    assert!(trim.contains("\t  /tmp/v/f    ONLINE       0     0     0  (untrimmed)\n"), "{trim}");
    assert!(trim.contains("\t  /tmp/v/h    AVAIL     (untrimmed)\n"), "{trim}");
    let initialize = shown(&rz().status, StatusOptions { initialize: true, ..StatusOptions::default() });
    assert!(initialize.contains("\t    /tmp/v/c  ONLINE       0     0     0  (uninitialized)\n"), "{initialize}");
}

#[test]
fn only_what_is_unhealthy() {
    let text = shown(&rz().status, StatusOptions { unhealthy: true, ..StatusOptions::default() });
    let expected = "\tNAME          STATE     READ WRITE CKSUM
\trz            ONLINE       0     0     0
\tlogs\t
\tcache
\tspares\n";
    assert_eq!(text, format!("{RZ_HEAD}{expected}{RZ_TAIL}"));
    assert_eq!(shown(&tank().status, StatusOptions { explain: true, ..StatusOptions::default() }), "");
}

#[test]
fn a_degraded_pool_says_what_is_missing() {
    let status = degraded();
    let end = ctime(1795257672);
    let expected = format!(
        "  pool: rz
 state: DEGRADED
status: Some devices are missing.  The pool has enough redundancy to work without
\tthem, but is less protected until they return.
action: Reconnect the missing devices, then run 'zpool online'.
   see: https://openzfs.github.io/openzfs-docs/msg/ZFS-8000-2Q
  scan: scrub repaired 1.87M in 00:00:01 with 0 errors on {end}
config:

\tNAME                     STATE     READ WRITE CKSUM
\trz                       DEGRADED     0     0     0
\t  raidz1-0               DEGRADED     0     0     0
\t    /tmp/v/j             ONLINE       0     0     0
\t    6868831469964973938  UNAVAIL      0     0     0  was /tmp/v/d
\t    /tmp/v/e             ONLINE       0     0     0
\t  mirror-2               ONLINE       0     0     0
\t    /tmp/v/k             ONLINE       0     0     0
\t    /tmp/v/l             ONLINE       0     0     0
\tcache
\t  /tmp/v/g               ONLINE       0     0     0

errors: No known data errors
"
    );
    assert_eq!(shown(&status, StatusOptions::default()), expected);
}

#[test]
fn damaged_files_are_counted_or_named() {
    let mut status = tank().status;
    (status.error_count, status.errors) = (1, vec!["/tank/victim".into()]);
    let text = shown(&status, StatusOptions::default());
    assert!(text.ends_with("\nerrors: 1 data errors, use '-v' for a list\n"), "{text}");
    let text = shown(&status, StatusOptions { verbose: true, ..StatusOptions::default() });
    let end = "errors: Permanent errors have been detected in the following files:\n\n        /tank/victim\n";
    assert!(text.ends_with(end), "{text}");
    assert!(
        text.contains(
            "action: Restore the files that 'zpool status -v' lists, or else the whole pool, from\n\ta backup."
        )
    );
}

#[test]
fn removal_checkpoint_and_expansion_have_a_line_each() {
    let mut status = tank().status;
    status.removal = Some(RemovalStatus {
        state: Progress::Finished,
        vdev: 1,
        copied_bytes: 651264,
        mapping_bytes: 96,
        ..RemovalStatus::default()
    });
    status.checkpoint = Some(CheckpointStatus { space_bytes: 368640, ..CheckpointStatus::default() });
    status.expand = Some(ExpandStatus {
        state: Progress::Finished,
        end_time: 1,
        reflowed_bytes: 292864,
        ..ExpandStatus::default()
    });
    let text = shown(&status, StatusOptions::default());
    let (zero, one) = (ctime(0), ctime(1));
    let expected = format!(
        "remove: Removal of vdev 1 copied 636K in 0h0m, completed on {zero}
\t96 memory used for removed device mappings
checkpoint: created {zero}, consumes 360K
expand: expanded mirror-0 copied 286K in 00:00:01, on {one}
config:\n"
    );
    assert!(text.contains(&expected), "{text}");
}

#[test]
fn json_is_the_document_of_openzfs() {
    let document = status_json::document(&[&rz().status], &StatusOptions::default());
    let start = r#"{"output_version":{"command":"zpool status","vers_major":0,"vers_minor":1},"pools":{"rz":{"name":"rz","state":"ONLINE","pool_guid":"14999580463317378616","txg":"4","spa_version":"5000","zpl_version":"5","vdevs":{"rz":{"name":"rz","vdev_type":"root","guid":"14999580463317378616","class":"normal","state":"ONLINE","alloc_space":"232K","total_space":"352M","def_space":"234M","read_errors":"0","write_errors":"0","checksum_errors":"0","vdevs":{"raidz1-0":{"name":"raidz1-0","vdev_type":"raidz","guid":"12689509970353140250","class":"normal","state":"ONLINE","alloc_space":"232K","total_space":"352M","def_space":"234M","rep_dev_size":"352M","read_errors":"0","write_errors":"0","checksum_errors":"0","vdevs":{"/tmp/v/c":{"name":"/tmp/v/c","vdev_type":"file","guid":"6031755513585773043","path":"/tmp/v/c","class":"normal","state":"ONLINE","rep_dev_size":"128M","phys_space":"128M","read_errors":"0","write_errors":"0","checksum_errors":"0","slow_ios":"0"},"#;
    let end = r#""logs":{"/tmp/v/f":{"name":"/tmp/v/f","vdev_type":"file","guid":"4263214465188303807","path":"/tmp/v/f","class":"log","state":"ONLINE","total_space":"112M","def_space":"112M","rep_dev_size":"116M","phys_space":"128M","read_errors":"0","write_errors":"0","checksum_errors":"0","slow_ios":"0"}},"l2cache":{"/tmp/v/g":{"name":"/tmp/v/g","vdev_type":"file","guid":"15788974605942414706","path":"/tmp/v/g","class":"l2cache","state":"ONLINE","total_space":"123M","rep_dev_size":"128M","phys_space":"128M","read_errors":"0","write_errors":"0","checksum_errors":"0","slow_ios":"0"}},"spares":{"/tmp/v/h":{"name":"/tmp/v/h","vdev_type":"file","guid":"5867256931654923822","path":"/tmp/v/h","class":"spare","state":"AVAIL"}},"error_count":"0"}}}"#;
    assert!(document.starts_with(start), "{document}");
    assert!(document.trim_end().ends_with(end), "{document}");
    let options = StatusOptions { flat: true, json_int: true, ..StatusOptions::default() };
    let flat = status_json::document(&[&rz().status], &options);
    let start = r#""zpl_version":5,"vdevs":{"/tmp/v/c":{"name":"/tmp/v/c","vdev_type":"file","guid":6031755513585773043,"path":"/tmp/v/c","class":"normal","state":"ONLINE","parent":"raidz1-0","rep_dev_size":134217728,"phys_space":134217728,"#;
    assert!(flat.contains(start), "{flat}");
    let order: Vec<usize> = ["},\"/tmp/v/e\":{", "},\"raidz1-0\":{", "},\"rz\":{", "},\"/tmp/v/f\":{"]
        .iter()
        .filter_map(|k| flat.find(k))
        .collect();
    assert!(order.len() == 4 && order.is_sorted(), "{flat}");
}
