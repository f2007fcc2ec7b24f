//! Behaviour over restarts and changes of settings.

use crate::rig::{Client, Rig};
use daemon::config::{Settings, Source};
use serde_json::{Value, json};
use std::io::BufRead;
use std::time::{Duration, Instant};

/// Waits until a job has ended.
fn ended(rig: &Rig, id: &Value) -> Value {
    for _ in 0..1200 {
        let job = rig.ask_locally("GET", &format!("/v1/jobs/{id}"), None).json();
        if job["ended"].is_u64() {
            return job;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("job {id} does not end");
}

#[test]
fn jobs_and_events_are_there_after_a_restart() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(rig.make_pool(&root, "tank").status, 201);
    let body = json!({"kind": "verify", "target": "tank"});
    let job = rig.ask(&root, "POST", "/v1/jobs", Some(&body)).json();
    let done = ended(&rig, &job["id"]);
    assert_eq!(done["state"], "done", "{done}");
    for kind in ["destroy", "resilver"] {
        let refused = rig.ask(&root, "POST", "/v1/jobs", Some(&json!({"kind": kind, "target": "tank"})));
        assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_request"));
    }
    let job = rig.ask(&root, "POST", "/v1/jobs", Some(&json!({"kind": "scrub", "target": "tank"})));
    assert_eq!(job.status, 201, "{}", job.text());
    let scrubbed = ended(&rig, &job.json()["id"]);
    assert_eq!(
        (&scrubbed["state"], &scrubbed["message"]),
        (&json!("done"), &json!("0B repaired, no errors")),
        "{scrubbed}"
    );
    let before = rig.ask_locally("GET", "/v1/events", None).json();
    let last = before["items"].as_array().expect("events").last().expect("some")["id"].as_u64().expect("a number");

    let rig = Rig::in_folder(rig.end(), daemon::Config::default(), false);
    let jobs = rig.ask_locally("GET", "/v1/jobs", None).json();
    assert_eq!(jobs["items"], json!([scrubbed, done]));
    let after = rig.ask_locally("GET", "/v1/events", None).json();
    let after = after["items"].as_array().expect("events");
    let is_logged = |e: &&Value| {
        e["kind"] == "job" && e["subject"] == "tank" && e["message"].as_str().is_some_and(|m| m.contains("blocks"))
    };
    assert!(after.iter().any(|e| is_logged(&e)), "{after:?}");
    // Numbers continue, so that a subscriber from before gets the events that it missed.
    let numbers: Vec<u64> = after.iter().filter_map(|e| e["id"].as_u64()).collect();
    assert!(numbers.is_sorted() && numbers.contains(&last), "{numbers:?}");
}

/// A rig with a configuration file.
fn with_file(text: &str) -> (Rig, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, text).expect("written");
    let source = Source { file: Some(file.clone()), options: Vec::new() };
    let settings = Settings::open(source, &folder.path().join("state")).expect("right");
    (Rig::with_settings(folder, settings, false), file)
}

#[test]
fn settings_change_while_a_client_continues() {
    let (rig, file) = with_file("api.hosts = ['old.example']\n");
    let root = rig.administrator();
    let ask = |host: &str| {
        let client = Client::default().with("Host", host);
        rig.ask(&client, "GET", "/v1/version", None).status
    };
    assert_eq!((ask("old.example"), ask("new.example")), (200, 421));
    let (status, mut stream) = rig.open_stream(&root, "/v1/events/stream?topics=events");
    assert_eq!(status, 200);
    std::fs::write(&file, "api.hosts = ['new.example']\nnfs.listen = ['127.0.0.1:1']\n").expect("written");
    let done = rig.ask(&root, "POST", "/v1/settings/reload", None);
    assert_eq!(done.json(), json!({"changed": ["api.hosts"], "restart": ["nfs.listen"]}));
    assert_eq!((ask("old.example"), ask("new.example")), (421, 200));
    // Subscribers are notified of the change.
    let mut line = String::new();
    while !line.contains("changed: api.hosts; after a restart: nfs.listen") {
        line.clear();
        assert!(stream.read_line(&mut line).expect("the stream continues") > 0, "the stream ended");
    }
    let listed = rig.ask(&root, "GET", "/v1/settings", None).json();
    let listen = listed["items"].as_array().expect("a list").iter().find(|s| s["name"] == "nfs.listen").expect("there");
    assert_eq!((&listen["value"], &listen["pending"]), (&json!("[]"), &json!("[\"127.0.0.1:1\"]")));
    // An error names its line and changes nothing.
    std::fs::write(&file, "api.hosts = ['x.example']\narc_max = 'lots'\n").expect("written");
    let refused = rig.ask(&root, "POST", "/v1/settings/reload", None);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("line 2: arc_max is 'lots'"), "{}", refused.text());
    assert_eq!(ask("new.example"), 200);
    // An invalid log level is refused, and nothing else changes.
    let body = json!({"set": {"api.hosts": "y.example", "log.level": "loud"}});
    assert_eq!(rig.ask(&root, "PATCH", "/v1/settings", Some(&body)).status, 400);
    assert_eq!((ask("new.example"), ask("y.example")), (200, 421));
}

/// The page takes a silent stream for a server that does not answer.
#[test]
fn streams_send_something_every_two_seconds_even_if_nothing_happens() {
    let rig = Rig::new();
    let root = rig.administrator();
    let (status, mut stream) = rig.open_stream(&root, "/v1/events/stream?topics=datasets");
    assert_eq!(status, 200);
    let mut arrived = Vec::new();
    let mut line = String::new();
    while arrived.len() < 3 {
        line.clear();
        assert!(stream.read_line(&mut line).expect("the stream continues") > 0, "the stream ended");
        if line.starts_with(':') {
            arrived.push(Instant::now());
        }
    }
    let longest = arrived.windows(2).map(|pair| pair[1] - pair[0]).max().expect("two intervals");
    assert!(longest < Duration::from_secs(4), "{longest:?}");
}

#[test]
fn a_new_certificate_is_used_for_new_connections() {
    let rig = Rig::with(daemon::Config::default(), true);
    let current = rig.service.servers.tls.get().expect("over TLS").clone();
    let before = current.sha256();
    assert_eq!(rig.service.reload("test").expect("right").changed, Vec::<String>::new());
    // A certificate that is about to expire is renewed at a reload; here it is removed instead.
    std::fs::remove_dir_all(rig.folder.path().join("state/tls")).expect("removed");
    assert_eq!(rig.service.reload("test").expect("right").changed, ["api.certificate"]);
    assert_ne!(current.sha256(), before);
    let key = rig.folder.path().join("state/tls/key.pem");
    std::fs::write(&key, "no key").expect("written");
    let after = current.sha256();
    assert!(rig.service.reload("test").is_err(), "a key that does not fit");
    assert_eq!(current.sha256(), after);
}
