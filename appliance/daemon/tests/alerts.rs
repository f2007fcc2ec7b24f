//! Alerts from a threshold to a receiver: a local HTTP server, a mail command, a socket in place of
//! syslog.

use crate::rig::{Client, PATIENCE, Rig, until};
use daemon::config::Config;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// A server for webhooks. It gives these answers in turn and repeats the last one; it reports path
/// and body of each request.
fn hook(answers: &'static [&'static str]) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut reader = BufReader::new(stream.expect("a client"));
            let (mut line, mut length, mut path) = (String::new(), 0, None);
            while reader.read_line(&mut line).is_ok_and(|n| n > 0) && line != "\r\n" {
                path.get_or_insert_with(|| line.split(' ').nth(1).unwrap_or_default().to_owned());
                if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().expect("a number");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer = answers[n.min(answers.len() - 1)];
            let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = reader.get_mut().write_all(answer.as_bytes());
            if sender.send((path.unwrap_or_default(), serde_json::from_slice(&body).expect("JSON"))).is_err() {
                return;
            }
        }
    });
    (format!("http://{address}/hook"), received)
}

fn rule(title: &str, statistic: &str, limit: f64, actions: Value) -> Value {
    json!({"title": title, "statistic": statistic, "reduction": "total", "side": "above", "limit": limit,
        "for_seconds": 1, "clear_seconds": 1, "actions": actions})
}

#[test]
fn an_alert_notifies_its_receivers_when_it_fires_and_clears_and_retries() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, mail) = (folder.path().join("log"), folder.path().join("mail"));
    let socket = UnixDatagram::bind(&log).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut config = Config::default();
    config.alerts.webhook_hosts = vec!["127.0.0.1".to_owned()];
    config.alerts.syslog = log.to_str().expect("text").to_owned();
    config.alerts.mail_command = ["/usr/bin/tee", mail.to_str().expect("text")].map(str::to_owned).to_vec();
    let rig = Rig::in_folder(folder, config.clone(), false);
    let root = rig.administrator();
    assert_eq!(rig.make_pool(&root, "tank").status, 201);

    let (url, received) = hook(&["500 Not Now", "200 OK"]);
    let actions = json!([
        {"kind": "webhook", "url": url}, {"kind": "syslog"}, {"kind": "mail", "to": ["ann@example.org"]}]);
    let made = rig.ask(&root, "POST", "/v1/analytics/alerts", Some(&rule("writes", "io.ops", 0.0, actions)));
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("/v1/analytics/alerts/{}", made.json()["id"]);

    // Writes until the alert fires, then stops, so that it clears.
    let mut notices = Vec::new();
    until("it fires, and clears", || {
        if notices.is_empty() {
            let set = json!({"set": {"comment": format!("{:?}", Instant::now())}});
            rig.ask(&root, "PATCH", "/v1/pools/tank/properties", Some(&set));
            rig.ask(&root, "POST", "/v1/pools/tank/sync", None);
        }
        notices.extend(received.try_recv());
        notices.iter().any(|(_, n): &(String, Value)| n["state"] == "cleared").then_some(())
    });
    assert!(notices.len() >= 3, "refused once, then sent again: {notices:#?}");
    let (path_received, first) = &notices[0];
    assert_eq!(path_received, "/hook");
    assert_eq!(first, &notices[1].1, "the refused one is retried before the next one");
    assert_eq!(
        (&first["state"], &first["title"], &first["unit"]),
        (&json!("firing"), &json!("writes"), &json!("ops/s"))
    );
    let message = first["message"].as_str().expect("text");
    assert!(
        message.contains("writes: the total of Disk: I/O operations has been above 0 ops/s for 1 second"),
        "{message}"
    );
    let mut line = [0; 2000];
    let count = socket.recv(&mut line).expect("the system log gets it");
    let line = String::from_utf8_lossy(&line[..count]);
    assert!(line.starts_with("<28>1 ") && line.ends_with(message), "{line}");
    let letter = until("the mail command gets it", || {
        std::fs::read_to_string(&mail).ok().filter(|text| text.contains("\n\n") && text.ends_with(")\n"))
    });
    assert!(letter.starts_with("To: ann@example.org\nSubject: [weir "), "{letter}");
    let events = rig.ask(&root, "GET", "/v1/events?after=0&limit=1000", None).json();
    let events: Vec<&Value> =
        events["items"].as_array().expect("a list").iter().filter(|e| e["kind"] == "alert").collect();
    assert_eq!((&events[0]["severity"], &events[0]["message"]), (&json!("warning"), &json!(message)));
    assert_eq!(events[1]["severity"], json!("info"));

    // The alert and its firing state survive a restart.
    let steady = rule("always", "cpu.utilization", -1.0, json!([]));
    assert_eq!(rig.ask(&root, "PUT", &path, Some(&steady)).json()["firing_since"], Value::Null);
    until("it fires", || rig.ask(&root, "GET", &path, None).json()["firing_since"].as_u64());
    let rig = Rig::in_folder(rig.end(), config, false);
    let token = rig.token_of("operator");
    let found = rig.ask(&token, "GET", &path, None).json();
    assert_eq!(found["rule"]["title"], "always");
    assert!(found["firing_since"].is_u64(), "{found:#}");
    assert_eq!(rig.ask(&rig.token_of("viewer"), "GET", "/v1/analytics/alerts", None).status, 403);
    assert_eq!(rig.ask(&token, "DELETE", &path, None).status, 204);
    assert_eq!(rig.ask(&token, "GET", &path, None).status, 404);
}

#[test]
fn redirections_are_not_followed_and_failures_are_shown() {
    let mut config = Config::default();
    config.alerts.webhook_hosts = vec!["127.0.0.1".to_owned()];
    let rig = Rig::with(config, false);
    let root = rig.administrator();
    let (elsewhere, received_elsewhere) = hook(&["200 OK"]);
    // The address of the other server is known only now.
    let answer: &'static str = format!("302 Found\r\nLocation: {elsewhere}").leak();
    let (url, received) = hook(vec![answer].leak());
    let rule = rule("cpu", "cpu.utilization", -1.0, json!([{"kind": "webhook", "url": url}]));
    let made = rig.ask(&root, "POST", "/v1/analytics/alerts", Some(&rule));
    let path = format!("/v1/analytics/alerts/{}", made.json()["id"]);
    received.recv_timeout(PATIENCE).expect("a notice");
    let alert = until("the answer is noted", || {
        Some(rig.ask(&root, "GET", &path, None).json()).filter(|alert| alert["last_error"].is_string())
    });
    let error = alert["last_error"].as_str().expect("text");
    assert!(error.contains("302") && error.contains("redirects are not followed"), "{error}");
    assert_eq!(alert["waiting"], 1, "it is tried again later");
    assert!(received_elsewhere.try_recv().is_err());
    let bad = json!({"title": "x", "statistic": "nfs3.ops[colour]", "reduction": "total", "side": "above", "limit": 1});
    assert_eq!(rig.ask(&root, "POST", "/v1/analytics/alerts", Some(&bad)).code(), "invalid_request");
    assert_eq!(rig.ask(&Client::default(), "GET", &path, None).status, 401);
}

#[test]
fn operators_cannot_make_the_server_call_local_addresses() {
    let rig = Rig::new();
    let _root = rig.administrator();
    let operator = rig.token_of("operator");
    let make = |url: &str| {
        let rule = rule("cpu", "cpu.utilization", -1.0, json!([{"kind": "webhook", "url": url}]));
        rig.ask(&operator, "POST", "/v1/analytics/alerts", Some(&rule))
    };
    for url in ["http://169.254.169.254/latest/meta-data/", "http://127.0.0.1:1/", "http://[::1]/", "http://localhost/"]
    {
        let refused = make(url);
        assert_eq!(refused.code(), "invalid_request", "{url}");
        assert!(refused.text().contains("alerts.webhook_hosts"), "{}", refused.text());
    }
    // Another form of 127.0.0.1 is noticed when it is resolved, and nothing is connected to.
    let (url, received) = hook(&["200 OK"]);
    let made = make(&url.replace("127.0.0.1", "2130706433"));
    assert_eq!(made.status, 201, "{}", made.text());
    let path = format!("/v1/analytics/alerts/{}", made.json()["id"]);
    let alert = until("the refusal is noted", || {
        Some(rig.ask_locally("GET", &path, None).json()).filter(|alert| alert["last_error"].is_string())
    });
    assert!(alert["last_error"].as_str().is_some_and(|e| e.contains("alerts.webhook_hosts")), "{alert}");
    assert!(received.try_recv().is_err());
}
