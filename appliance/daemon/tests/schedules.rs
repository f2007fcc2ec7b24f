//! Snapshots by rule in a daemon, with the test's own clock: reported as events; failures are
//! reported once.

use crate::rig::Rig;
use daemon::schedules::Schedules;
use daemon::service::changes_schedules;
use serde_json::json;

/// 2026-11-22 23:00 UTC.
const START: u64 = 1_795_388_400;

#[test]
fn rules_set_over_the_api_are_stored_and_returned() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(rig.make_pool(&root, "tank").status, 201);
    rig.ask(&root, "POST", "/v1/datasets", Some(&json!({"name": "tank/home"})));
    let set = |of: &str, property: &str, value: &str| {
        let body = json!({"set": {property: value}});
        let answer =
            rig.ask(&root, "PATCH", &format!("/v1/datasets/{}/properties", of.replace('/', "%2F")), Some(&body));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    set("tank", "weir:snapshot-hourly", "2");
    set("tank", "weir:snapshot-daily", "some");
    let mut schedules = Schedules::default();
    for hour in 0..4 {
        for minute in [0, 15, 59] {
            schedules.look(&rig.service, START + hour * 3600 + minute * 60);
        }
    }
    let listed = rig.ask(&root, "GET", "/v1/datasets?root=tank&kind=snapshot", None).json();
    let names: Vec<&str> =
        listed["items"].as_array().expect("a list").iter().filter_map(|i| i["name"].as_str()).collect();
    let short = ["zfs-auto-snap_hourly-2026-11-23-0100", "zfs-auto-snap_hourly-2026-11-23-0200"];
    let expected: Vec<String> =
        ["tank", "tank/home"].iter().flat_map(|of| short.map(|short| format!("{of}@{short}"))).collect();
    assert_eq!(names, expected);
    let events = rig.ask(&root, "GET", "/v1/events?after=0&limit=1000", None).json();
    let count_of = |what: &str| {
        let all = events["items"].as_array().expect("a list").iter();
        all.filter(|e| e["by"] == "schedule" && e["message"].as_str().is_some_and(|m| m.contains(what))).count()
    };
    assert_eq!(count_of("hourly scheduled snapshots: 2 taken"), 4, "{events:#}");
    assert_eq!(count_of("2 destroyed"), 2, "{events:#}");
    assert_eq!(
        count_of("weir:snapshot-daily=some: expected the number of snapshots to keep"),
        1,
        "once, not at each look: {events:#}"
    );
    assert!(changes_schedules("zfs set weir:snapshot-hourly=2 tank") && !changes_schedules("zfs set atime=off tank"));
}
