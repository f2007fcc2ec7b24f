//! Compares `zpool list` of the sample pools with recorded output of OpenZFS.

use super::super::samples::{rz, tank};
use super::*;

fn listed(options: ListOptions, columns: &str) -> String {
    table(&[rz(), tank()], values::wanted(columns).expect("known"), &options)
}

#[test]
fn a_line_a_pool() {
    let expected = "\
NAME   SIZE  ALLOC   FREE  CKPOINT  EXPANDSZ   FRAG    CAP  DEDUP    HEALTH  ALTROOT
rz     352M   280K   352M        -         -     4%     0%  1.00x    ONLINE  -
tank   112M   140K   112M        -         -     9%     0%  1.00x    ONLINE  -
";
    assert_eq!(listed(ListOptions::default(), DEFAULT), expected);
    let scripted = ListOptions { scripted: true, literal: true, ..ListOptions::default() };
    let expected = "\
rz\t369098752\t286720\t368812032\t-\t-\t4\t0\t1.00\tONLINE\t-
tank\t117440512\t143872\t117296640\t-\t-\t9\t0\t1.00\tONLINE\t-
";
    assert_eq!(listed(scripted, DEFAULT), expected);
}

#[test]
fn a_line_a_device() {
    let expected = "\
NAME           SIZE  ALLOC   FREE  CKPOINT  EXPANDSZ   FRAG    CAP  DEDUP    HEALTH  ALTROOT
rz             352M   280K   352M        -         -     4%     0%  1.00x    ONLINE  -
  raidz1-0     352M   232K   352M        -         -     4%  0.06%      -    ONLINE
    /tmp/v/c   128M      -      -        -         -      -      -      -    ONLINE
    /tmp/v/d   128M      -      -        -         -      -      -      -    ONLINE
    /tmp/v/e   128M      -      -        -         -      -      -      -    ONLINE
logs              -      -      -        -         -      -      -      -         -
  /tmp/v/f     128M      0   112M        -         -     0%  0.00%      -    ONLINE
cache             -      -      -        -         -      -      -      -         -
  /tmp/v/g     128M      0   123M        -         -     0%  0.00%      -    ONLINE
spare             -      -      -        -         -      -      -      -         -
  /tmp/v/h     128M      -      -        -         -      -      -      -     AVAIL
tank           112M   140K   112M        -         -     9%     0%  1.00x    ONLINE  -
  mirror-0     112M   140K   112M        -         -     9%  0.12%      -    ONLINE
    /tmp/v/a   128M      -      -        -         -      -      -      -    ONLINE
    /tmp/v/b   128M      -      -        -         -      -      -      -    ONLINE
";
    let verbose = ListOptions { verbose: true, ..ListOptions::default() };
    assert_eq!(listed(verbose, DEFAULT), expected);
}

#[test]
fn removed_devices_are_listed_without_figures() {
    let mut view = tank();
    let removed = VdevStatus { name: "indirect-1".into(), kind: "indirect".into(), ..VdevStatus::default() };
    view.status.root.children.push(removed);
    let verbose = ListOptions { verbose: true, scripted: true, ..ListOptions::default() };
    let text = table(&[view], values::wanted(DEFAULT).expect("known"), &verbose);
    let line = text.lines().find(|line| line.contains("indirect-1")).expect("listed");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>()[..4], ["indirect-1", "-", "-", "-"]);
}

#[test]
fn columns_are_chosen_and_widen() {
    let expected = "\
NAME   SIZE    HEALTH                  GUID  ASHIFT   FRAG    CAP  DEDUP
rz     352M    ONLINE  14999580463317378616       0     4%     0%  1.00x
tank   112M    ONLINE   8077149827012158919       0     9%     0%  1.00x
";
    assert_eq!(listed(ListOptions::default(), "name,size,health,guid,ashift,frag,cap,dedup"), expected);
    let error = values::wanted("nosuch").expect_err("unknown");
    assert_eq!(error, Failure::usage("bad property list: invalid property 'nosuch'"));
}

#[test]
fn json_is_the_document_of_openzfs() {
    let expected = r#"{"output_version":{"command":"zpool list","vers_major":0,"vers_minor":1},"pools":{"rz":{"name":"rz","type":"POOL","state":"ONLINE","pool_guid":"14999580463317378616","txg":"4","spa_version":"5000","zpl_version":"5","properties":{"size":{"value":"352M","source":{"type":"NONE","data":"-"}},"allocated":{"value":"280K","source":{"type":"NONE","data":"-"}},"free":{"value":"352M","source":{"type":"NONE","data":"-"}},"checkpoint":{"value":"-","source":{"type":"NONE","data":"-"}},"expandsize":{"value":"-","source":{"type":"NONE","data":"-"}},"fragmentation":{"value":"4%","source":{"type":"NONE","data":"-"}},"capacity":{"value":"0%","source":{"type":"NONE","data":"-"}},"dedupratio":{"value":"1.00x","source":{"type":"NONE","data":"-"}},"health":{"value":"ONLINE","source":{"type":"NONE","data":"-"}},"altroot":{"value":"-","source":{"type":"DEFAULT","data":"-"}}}}}}"#;
    let wanted = values::wanted(DEFAULT).expect("known");
    assert_eq!(document(&[rz()], wanted.clone(), &ListOptions::default()).trim_end(), expected);
    let verbose = ListOptions { verbose: true, ..ListOptions::default() };
    let text = document(&[rz()], wanted, &verbose);
    let spare = r#""spares":{"/tmp/v/h":{"name":"/tmp/v/h","vdev_type":"file","guid":"5867256931654923822","path":"/tmp/v/h","class":"spare","state":"ONLINE","properties":{"size":{"value":"128M","source":{"type":"NONE","data":"-"}},"allocated":{"value":"-","source":{"type":"NONE","data":"-"}},"free":{"value":"-","source":{"type":"NONE","data":"-"}},"checkpoint":{"value":"-","source":{"type":"NONE","data":"-"}},"expandsize":{"value":"-","source":{"type":"NONE","data":"-"}},"fragmentation":{"value":"-","source":{"type":"NONE","data":"-"}},"capacity":{"value":"-","source":{"type":"NONE","data":"-"}},"dedupratio":{"value":"-","source":{"type":"NONE","data":"-"}},"health":{"value":"AVAIL","source":{"type":"NONE","data":"-"}}}}}}}}}"#;
    assert!(text.trim_end().ends_with(spare), "{text}");
}
