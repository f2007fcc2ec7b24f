//! The verdict of a running daemon: devices that fail, space that fills, alerts that fire.

use crate::rig::{Client, Rig, until};
use serde_json::{Value, json};
use std::io::BufRead;

fn health(rig: &Rig, client: &Client) -> Value {
    let answer = rig.ask(client, "GET", "/v1/health", None);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

/// Condition, subject and severity of each reason.
fn reasons(health: &Value) -> Vec<[&str; 3]> {
    let text = |reason: &Value, name: &str| reason[name].as_str().expect("text").to_owned().leak() as &str;
    let all = health["reasons"].as_array().expect("a list");
    all.iter().map(|r| [text(r, "kind"), text(r, "subject"), text(r, "severity")]).collect()
}

#[test]
fn a_device_that_is_taken_offline_costs_the_redundancy_of_a_raidz1() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(health(&rig, &root), json!({"verdict": "good", "reasons": []}));
    assert_eq!(rig.make_pool(&root, "tank").status, 201);
    assert_eq!(health(&rig, &root), json!({"verdict": "good", "reasons": []}));

    let (status, stream) = rig.open_stream(&root, "/v1/events/stream?topics=health");
    assert_eq!(status, 200);
    let mut messages = stream.lines().map(|line| line.expect("a line")).filter(|line| line.contains("\"health\""));
    assert!(messages.next().is_some_and(|first| first.contains("\"good\"")), "sent at the beginning");

    let disk = rig.file("tank-1");
    let command = json!({"program": "zpool", "args": ["offline", "tank", disk]});
    assert_eq!(rig.ask_locally("POST", "/v1/commands", Some(&command)).status, 200);
    let found = until("it is a reason", || Some(health(&rig, &root)).filter(|found| found["verdict"] != "good"));
    let subject = format!("tank: {disk}");
    assert_eq!(reasons(&found), [["device", &subject, "serious"]], "{found:#}");
    let reason = &found["reasons"][0];
    assert!(reason["what"].as_str().is_some_and(|what| what.contains("raidz1-0 has no redundancy left")), "{reason}");
    assert_eq!(reason["link"], "/pools/tank");
    assert!(messages.any(|message| message.contains("\"serious\"")), "subscribers get it");

    // Viewers and Prometheus get the same verdict.
    assert_eq!(health(&rig, &rig.token_of("viewer")), found);
    let metrics = rig.ask(&root, "GET", "/metrics", None).text();
    assert!(metrics.lines().any(|line| line == "weir_health 2"), "{metrics}");
    assert!(metrics.lines().any(|line| line == "weir_health_reasons{kind=\"device\"} 1"), "{metrics}");
    assert_eq!(rig.ask(&Client::default(), "GET", "/v1/health", None).status, 401);
}

#[test]
fn a_pool_that_is_more_than_90_percent_full_is_serious() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(rig.make_pool(&root, "tank").status, 201);
    let pool = rig.ask(&root, "GET", "/v1/pools/tank", None).json();
    // A reservation uses space as data does.
    let usable = pool["used_bytes"].as_u64().expect("bytes") + pool["available_bytes"].as_u64().expect("bytes");
    let body = json!({"name": "tank/full", "properties": {"reservation": (usable / 100 * 93).to_string()}});
    let made = rig.ask(&root, "POST", "/v1/datasets", Some(&body));
    assert_eq!(made.status, 201, "{}", made.text());
    rig.ask(&root, "POST", "/v1/pools/tank/sync", None);
    let found = until("it is a reason", || Some(health(&rig, &root)).filter(|found| found["verdict"] != "good"));
    assert_eq!(reasons(&found), [["space", "tank", "serious"]], "{found:#}");

    // The statistic behind it, and the built-in alert.
    let alerts = rig.ask(&root, "GET", "/v1/analytics/alerts", None).json();
    let alerts = alerts["items"].as_array().expect("a list");
    let alert = alerts.iter().find(|alert| alert["rule"]["limit"] == 90.0).expect("it exists");
    assert_eq!((&alert["builtin"], &alert["unit"]), (&json!("space"), &json!("percent")));
    let path = format!("/v1/analytics/alerts/{}", alert["id"]);
    let value = until("it is evaluated", || rig.ask(&root, "GET", &path, None).json()["last_value"].as_f64());
    assert!((91.0..96.0).contains(&value), "{value}");

    // It is changed, but neither deleted nor made to watch something else.
    assert_eq!(rig.ask(&root, "DELETE", &path, None).code(), "conflict");
    let rule = |changes: Value| {
        let mut rule = alert["rule"].clone();
        rule.as_object_mut().expect("a rule").extend(changes.as_object().expect("an object").clone());
        rig.ask(&root, "PUT", &path, Some(&rule))
    };
    assert_eq!(rule(json!({"statistic": "nfs3.ops", "reduction": "total"})).code(), "conflict");
    assert_eq!(rule(json!({"limit": 50.0, "for_seconds": 1})).status, 200);
    let since = until("it fires", || rig.ask(&root, "GET", &path, None).json()["firing_since"].as_u64());
    // The condition is a reason already.
    assert_eq!(reasons(&health(&rig, &root)), [["space", "tank", "serious"]]);
    // Another title does not end it.
    let renamed = rule(json!({"limit": 50.0, "for_seconds": 1, "title": "half full"})).json();
    assert_eq!((&renamed["firing_since"], &renamed["builtin"]), (&json!(since), &json!("space")));
}

#[test]
fn a_silenced_alert_notifies_afterwards_if_it_still_fires() {
    let rig = Rig::new();
    let root = rig.administrator();
    let now = host::clock::seconds();
    let rule = |silent_until: Option<u64>| {
        json!({"title": "always", "statistic": "cpu.utilization", "reduction": "total", "side": "above", "limit": -1,
            "for_seconds": 1, "clear_seconds": 1, "silent_until": silent_until})
    };
    let made = rig.ask(&root, "POST", "/v1/analytics/alerts", Some(&rule(Some(now + 3600))));
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("/v1/analytics/alerts/{}", made.json()["id"]);
    let since = until("it fires", || rig.ask(&root, "GET", &path, None).json()["firing_since"].as_u64());
    let events = || {
        let events = rig.ask(&root, "GET", "/v1/events?after=0&limit=1000", None).json();
        events["items"].as_array().expect("a list").iter().filter(|e| e["kind"] == "alert").count()
    };
    assert_eq!((events(), health(&rig, &root)["verdict"].clone()), (0, json!("good")));
    let changed = rig.ask(&root, "PUT", &path, Some(&rule(None))).json();
    assert_eq!(changed["firing_since"], json!(since), "the condition is the same");
    until("it notifies", || (events() == 1).then_some(()));
    assert_eq!(reasons(&health(&rig, &root)), [["alert", "always", "attention"]]);
}
