//! Permissions, over real connections.

use crate::rig::{Client, PASSWORD, Rig, exchange};
use daemon::config::Config;
use serde_json::json;
use std::io::{BufRead, Read, Write};
use std::net::TcpStream;

/// Path of an operation, with parameters that refer to nothing.
fn path(operation: &api::Operation) -> String {
    let parts = operation.path.split('/').map(|p| if p.starts_with('{') { "0" } else { p });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn each_operation_is_open_to_its_role_and_those_above() {
    let rig = Rig::new();
    let _root = rig.administrator();
    let clients = [
        (None, Client::default()),
        (Some(api::Role::Viewer), rig.token_of("viewer")),
        (Some(api::Role::Operator), rig.token_of("operator")),
        (Some(api::Role::Administrator), rig.token_of("administrator")),
    ];
    for operation in api::operations() {
        // The endless stream has a test of its own.
        if operation.id == "streamEvents" {
            continue;
        }
        for (role, client) in &clients {
            // A body that no operation accepts: authorized clients get as far as this error.
            let body = operation.body.map(|_| json!({"nonsense": true}));
            let answer = rig.ask(client, operation.method.name(), &path(operation), body.as_ref());
            let expected = match (operation.role, role) {
                (None, _) => None,
                (Some(_), None) => Some("unauthenticated"),
                (Some(least), Some(role)) if *role < least => Some("forbidden"),
                _ => None,
            };
            let received = if answer.status < 400 { String::new() } else { answer.code() };
            match expected {
                Some(code) => assert_eq!(received, code, "{} as {role:?}: {}", operation.id, answer.text()),
                None => assert!(
                    !["unauthenticated", "forbidden"].contains(&received.as_str()),
                    "{} as {role:?}: {}",
                    operation.id,
                    answer.text()
                ),
            }
        }
    }
}

#[test]
fn a_token_for_statistics_opens_them_and_nothing_else() {
    let rig = Rig::new();
    let root = rig.administrator();
    let wanted =
        json!({"name": "wall", "role": "viewer", "statistics": ["nfs3.ops[latency=1ms..2ms][client]", "io.ops"]});
    let made = rig.ask(&root, "POST", "/v1/tokens", Some(&wanted));
    assert_eq!(made.status, 201, "{}", made.text());
    let token = Client::token(made.json()["secret"].as_str().expect("a secret"));
    for operation in api::operations().iter().filter(|o| o.role.is_some()) {
        if ["queryStatistic", "streamStatistics", "listStatistics"].contains(&operation.id) {
            continue;
        }
        let answer = rig.ask(&token, operation.method.name(), &path(operation), None);
        assert_eq!(answer.status, 403, "{}: {}", operation.id, answer.text());
    }
    let query = |name: &str| rig.ask(&token, "GET", &format!("/v1/analytics/query?name={name}"), None).status;
    assert_eq!(query("io.ops"), 200);
    assert_eq!(query("nfs3.ops%5Blatency%3D1000us..2000us%5D%5Bclient%5D"), 200, "the same, written otherwise");
    for other in ["nfs3.ops", "io.ops%5Bdisk%5D", "nfs3.ops%5Bclient%5D", "nonsense", "io.ops&name=nfs3.ops"] {
        assert_eq!(query(other), 403, "{other}");
    }
    assert_eq!(rig.ask(&token, "GET", "/v1/analytics/stream?name=io.ops&name=io.bytes", None).status, 403);
    assert_eq!(rig.open_stream(&token, "/v1/analytics/stream?name=io.ops").0, 200);
    let more = json!({"name": "x", "role": "operator", "statistics": ["io.ops"]});
    assert_eq!(rig.ask(&root, "POST", "/v1/tokens", Some(&more)).code(), "invalid_request");
}

#[test]
fn unknown_paths_are_not_served() {
    let rig = Rig::new();
    let root = rig.administrator();
    for (method, path) in
        [("GET", "/v1/nothing"), ("DELETE", "/v1/pools"), ("POST", "/metrics"), ("TRACE", "/v1/pools")]
    {
        let answer = rig.ask(&root, method, path, None);
        assert!((400..500).contains(&answer.status), "{method} {path}: {}", answer.status);
    }
}

#[test]
fn on_the_unix_socket_the_same_user_is_administrator() {
    let rig = Rig::new();
    let session = rig.ask_locally("GET", "/v1/session", None).json();
    assert_eq!((&session["role"], &session["by"]), (&json!("administrator"), &json!("socket")));
    let eve = json!({"name": "eve", "role": "viewer", "password": PASSWORD});
    assert_eq!(rig.ask_locally("POST", "/v1/users", Some(&eve)).status, 201);
}

#[test]
fn there_is_no_default_password() {
    let rig = Rig::new();
    for (user, password) in [("root", ""), ("admin", "admin"), ("root", "root"), ("weir", "weir")] {
        let answer =
            rig.ask(&Client::default(), "POST", "/v1/session", Some(&json!({"user": user, "password": password})));
        assert_eq!(answer.status, 401);
    }
    // Without a link no administrator can be created, whatever token is tried.
    let body = json!({"token": "", "user": "root", "password": PASSWORD});
    assert_eq!(rig.ask(&Client::default(), "POST", "/v1/setup", Some(&body)).status, 401);
    assert_eq!(rig.ask(&Client::default(), "GET", "/v1/setup", None).json()["needed"], true);
}

#[test]
fn a_cookie_alone_changes_nothing() {
    let rig = Rig::new();
    let root = rig.administrator();
    let body = json!({"name": "eve", "role": "viewer", "password": PASSWORD});
    let without = Client { headers: root.headers.iter().filter(|(n, _)| n == "Cookie").cloned().collect() };
    assert_eq!(rig.ask(&without, "GET", "/v1/users", None).status, 200, "reading requires no more");
    for client in
        [without.clone(), without.clone().with("X-CSRF-Token", "0"), root.clone().with("Origin", "http://evil.example")]
    {
        let answer = rig.ask(&client, "POST", "/v1/users", Some(&body));
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"));
    }
    let own = root.clone().with("Origin", format!("http://{}", rig.address));
    assert_eq!(rig.ask(&own, "POST", "/v1/users", Some(&body)).status, 201);
}

#[test]
fn the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites() {
    let rig = Rig::new();
    rig.administrator();
    let answer =
        rig.ask(&Client::default(), "POST", "/v1/session", Some(&json!({"user": "root", "password": PASSWORD})));
    let cookie = answer.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
}

#[test]
fn forms_of_other_sites_cannot_log_in() {
    let rig = Rig::new();
    rig.administrator();
    // A form cannot send the content type of JSON.
    let mut stream = TcpStream::connect(rig.address).expect("it listens");
    let body = json!({"user": "root", "password": PASSWORD}).to_string();
    let request = format!(
        "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
}

#[test]
fn names_of_other_sites_do_not_lead_here() {
    let config = Config::parse("[api]\nhosts = ['filer.example']", "test").expect("right");
    let rig = Rig::with(config, false);
    for (host, status) in [
        ("evil.example", 421),
        ("localhost.evil.example:8215", 421),
        ("", 421),
        ("localhost:1", 200),
        ("filer.example", 200),
    ] {
        let client = Client::default().with("Host", host);
        assert_eq!(rig.ask(&client, "GET", "/v1/version", None).status, status, "{host}");
        assert_eq!(rig.ask(&client, "GET", "/", None).status, status, "{host}: the page too");
    }
}

#[test]
fn every_answer_has_security_headers() {
    let rig = Rig::new();
    for path in ["/", "/v1/version", "/v1/pools", "/v1/nothing", "/healthz"] {
        let answer = rig.ask(&Client::default(), "GET", path, None);
        let policy = answer.header("content-security-policy").unwrap_or_default();
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("data:"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(answer.header("cache-control").is_some(), "{path}");
    }
}

#[test]
fn passwords_cannot_be_guessed_for_long() {
    let rig = Rig::new();
    rig.administrator();
    let wrong = json!({"user": "root", "password": "wrong horse"});
    let attempts: Vec<_> = (0..8).map(|_| rig.ask(&Client::default(), "POST", "/v1/session", Some(&wrong))).collect();
    assert_eq!(attempts[0].status, 401);
    let last = attempts.last().expect("eight");
    assert_eq!((last.status, last.code().as_str()), (429, "too_many_requests"));
    let wait: u64 = last.header("retry-after").and_then(|s| s.parse().ok()).expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
    let right = json!({"user": "root", "password": PASSWORD});
    assert_eq!(
        rig.ask(&Client::default(), "POST", "/v1/session", Some(&right)).status,
        429,
        "a correct password waits, too"
    );
    let audit = rig.ask_locally("GET", "/v1/audit", None).json();
    let denied =
        audit["items"].as_array().expect("a list").iter().filter(|e| e["what"] == "logIn" && e["outcome"] == "denied");
    assert!(denied.count() >= 8);
}

#[test]
fn guesses_that_come_at_once_are_no_more_than_those_that_come_one_by_one() {
    let rig = Rig::new();
    rig.administrator();
    let guess = |n: usize| {
        let wrong = json!({"user": "root", "password": format!("wrong horse {n}")});
        rig.ask(&Client::default(), "POST", "/v1/session", Some(&wrong)).status
    };
    let answers: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..60).map(|n| scope.spawn(move || guess(n))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    let checked = answers.iter().filter(|status| **status == 401).count();
    assert!((1..=5).contains(&checked), "{answers:?}");
    assert!(answers.iter().all(|status| [401, 429].contains(status)), "{answers:?}");
}

#[test]
fn a_stream_ends_with_its_token_or_its_role_even_if_the_name_is_reused() {
    let rig = Rig::new();
    let root = rig.administrator();
    rig.service.access.accounts.create("op", api::Role::Operator, PASSWORD, false).expect("made");
    let made = || {
        let wanted = api::CreateToken { name: "t".to_owned(), role: api::Role::Operator, days: None, statistics: None };
        rig.service.access.accounts.create_token("op", wanted).expect("made")
    };
    let (first, second) = (made(), made());
    let ends = |mut stream: std::io::BufReader<TcpStream>| {
        let begun = std::time::Instant::now();
        let mut line = String::new();
        // The last chunk is empty; the connection stays open for another request.
        while line != "0\r\n" {
            line.clear();
            assert!(stream.read_line(&mut line).expect("the stream ends") > 0);
        }
        assert!(begun.elapsed().as_secs() < 10, "immediately, not at the next check");
    };
    for path in ["/v1/events/stream", "/v1/analytics/stream?name=io.ops"] {
        assert_eq!(rig.open_stream(&Client::token(&second.secret), path).0, 200, "{path}");
    }
    let (status, stream) = rig.open_stream(&Client::token(&first.secret), "/v1/events/stream");
    assert_eq!(status, 200);
    let gone = rig.ask(&root, "DELETE", &format!("/v1/tokens/{}", first.token.id), None);
    assert_eq!(gone.status, 204, "{}", gone.text());
    ends(stream);
    // The other token stays valid until its user gets a lower role.
    let (status, stream) = rig.open_stream(&Client::token(&second.secret), "/v1/events/stream");
    assert_eq!(status, 200);
    let viewer = json!({"role": "viewer"});
    assert_eq!(rig.ask(&root, "PATCH", "/v1/users/op", Some(&viewer)).status, 200);
    ends(stream);
    assert_eq!(rig.ask(&Client::token(&second.secret), "GET", "/v1/pools", None).status, 200);
}

#[test]
fn a_login_of_before_a_change_of_the_user_opens_nothing() {
    let rig = Rig::new();
    rig.administrator();
    rig.service.access.accounts.create("eve", api::Role::Viewer, PASSWORD, false).expect("made");
    // The password is checked before the change, but the session begins after it.
    let proof = rig.service.access.accounts.check("eve", PASSWORD).expect("right");
    rig.service.access.accounts.change_user("eve", None, Some("another horse")).expect("changed");
    let (number, _) = rig.service.access.sessions.begin("eve", proof);
    let client = Client::default().with("Cookie", format!("weir_session={number}"));
    assert_eq!(rig.ask(&client, "GET", "/v1/pools", None).status, 401);
}

#[test]
fn viewers_look_at_events_and_do_not_clear_them() {
    let rig = Rig::new();
    let _root = rig.administrator();
    let viewer = rig.token_of("viewer");
    let run = |args: &[&str]| {
        rig.ask(&viewer, "POST", "/v1/commands", Some(&json!({"program": "zpool", "args": args}))).status
    };
    assert_eq!((run(&["events"]), run(&["events", "-c"]), run(&["events", "-vc"])), (200, 403, 403));
}

#[test]
fn commands_without_end_and_logins_hold_up_neither_health_nor_the_local_socket() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(rig.make_pool(&root, "tank").status, 201);
    let viewer = rig.token_of("viewer");
    let follow = json!({"program": "zpool", "args": ["iostat", "60"]}).to_string();
    let login = json!({"user": "someone", "password": "x".repeat(20)}).to_string();
    let post = |path: &str, headers: String, body: &str| {
        let mut stream = TcpStream::connect(rig.address).expect("it listens");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    let token = viewer.headers.iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect::<String>();
    let mut commands: Vec<_> = (0..60).map(|_| post("/v1/commands", token.clone(), &follow)).collect();
    let _logins: Vec<_> = (0..60).map(|_| post("/v1/session", String::new(), &login)).collect();
    let begun = std::time::Instant::now();
    assert_eq!(rig.ask(&Client::default(), "GET", "/healthz", None).status, 200);
    let list = json!({"program": "zpool", "args": ["list", "-H"]});
    let answer = rig.ask_locally("POST", "/v1/commands", Some(&list));
    assert!(answer.text().contains("tank"), "{}", answer.text());
    assert!(begun.elapsed().as_secs() < 10);
    let status = |stream: &mut TcpStream| {
        let mut head = [0; 12];
        stream.read_exact(&mut head).expect("an answer");
        String::from_utf8_lossy(&head[9..]).into_owned()
    };
    let answers: Vec<String> = commands.iter_mut().map(status).collect();
    let running = answers.iter().filter(|s| *s == "200").count();
    assert!(running == 32 && answers.iter().all(|s| s == "200" || s == "429"), "{answers:?}");
}

#[test]
fn bodies_that_do_not_come_are_not_waited_for_and_keep_no_place_from_others() {
    let rig = Rig::new();
    rig.administrator();
    let begin = || {
        let mut stream = TcpStream::connect(rig.address).expect("it listens");
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
        let head = "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    };
    // More connections than one address may have.
    let mut slow: Vec<_> = (0..300).map(|_| begin()).collect();
    assert_eq!(rig.ask(&Client::default(), "GET", "/healthz", None).status, 200);
    let begun = std::time::Instant::now();
    let mut got = Vec::new();
    let _ = slow.pop().expect("the last").read_to_end(&mut got);
    assert!(got.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&got));
    assert!(begun.elapsed().as_secs() < 30);
}

#[test]
fn operators_set_no_properties_by_which_they_would_get_the_machine() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(rig.make_pool(&root, "tank").status, 201);
    let operator = rig.token_of("operator");
    let set = |property: &str, value: &str| {
        let body = json!({"set": {property: value}});
        rig.ask(&operator, "PATCH", "/v1/datasets/tank/properties", Some(&body))
    };
    assert_eq!(set("compression", "lz4").status, 200);
    for property in ["mountpoint", "keylocation", "setuid"] {
        assert_eq!(set(property, "/etc").code(), "forbidden", "{property}");
    }
    let body = json!({"program": "zfs", "args": ["set", "mountpoint=/etc", "tank"]});
    assert_eq!(rig.ask(&operator, "POST", "/v1/commands", Some(&body)).code(), "forbidden");
    let body = json!({"program": "zfs", "args": ["list", "-Ho", "name"]});
    assert_eq!(rig.ask(&operator, "POST", "/v1/commands", Some(&body)).status, 200);
}

#[test]
fn over_tls_the_cookie_is_marked_secure() {
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto::ring};
    let rig = Rig::with(Config::default(), true);
    let file = rig.folder.path().join("state/tls/cert.pem");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).expect("a certificate")).expect("taken");
    let builder = ClientConfig::builder_with_provider(std::sync::Arc::new(ring::default_provider()));
    let config = builder
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = std::sync::Arc::new(config);
    let connect = || {
        let connection = ClientConnection::new(config.clone(), ServerName::try_from("localhost").expect("a name"))
            .expect("a client");
        StreamOwned::new(connection, TcpStream::connect(rig.address).expect("it listens"))
    };
    let body = json!({"token": rig.service.access.setup.make(), "user": "root", "password": PASSWORD});
    let answer = exchange(connect(), "localhost", &Client::default(), "POST", "/v1/setup", Some(&body));
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert!(answer.header("set-cookie").is_some_and(|c| c.contains("; Secure")));
    let session = Client::session(&answer);
    assert_eq!(exchange(connect(), "localhost", &session, "GET", "/v1/users", None).status, 200);
    // A plain HTTP client gets no answer.
    let mut plain = TcpStream::connect(rig.address).expect("it listens");
    plain.write_all(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut got = Vec::new();
    let _ = plain.read_to_end(&mut got);
    assert!(!got.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&got));
}

#[test]
fn accounts_and_the_audit_log_outlive_the_process() {
    let rig = Rig::new();
    rig.administrator();
    let folder = rig.end();
    let rig = Rig::in_folder(folder, Config::default(), false);
    let right = json!({"user": "root", "password": PASSWORD});
    let root = Client::session(&rig.ask(&Client::default(), "POST", "/v1/session", Some(&right)));
    assert_eq!(rig.ask(&Client::default(), "GET", "/v1/setup", None).json()["needed"], false);
    let audit = rig.ask(&root, "GET", "/v1/audit", None).json();
    assert!(audit["items"].as_array().expect("a list").iter().any(|e| e["what"] == "setUp" && e["outcome"] == "ok"));
}

#[test]
fn a_stream_ends_with_its_session() {
    let rig = Rig::new();
    let root = rig.administrator();
    assert_eq!(rig.open_stream(&Client::default(), "/v1/events/stream").0, 401);
    let (status, mut stream) = rig.open_stream(&root, "/v1/events/stream?topics=events");
    assert_eq!(status, 200);
    let eve = json!({"name": "eve", "role": "viewer", "password": PASSWORD});
    assert_eq!(rig.ask(&root, "POST", "/v1/users", Some(&eve)).status, 201);
    let mut text = String::new();
    while !text.contains("a user was created") {
        assert!(stream.read_line(&mut text).expect("a line") > 0, "{text}");
    }
    assert!(text.contains("event: event\nid: "), "{text}");
    assert_eq!(rig.ask(&root, "DELETE", "/v1/session", None).status, 204);
    // The stream checks every 15 s.
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("the stream ends");
}

#[test]
fn bodies_without_end_and_heads_without_end_are_refused() {
    let rig = Rig::new();
    let root = rig.administrator();
    let mut stream = TcpStream::connect(rig.address).expect("it listens");
    let head = String::from(
        "POST /v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4194304\r\n\r\n",
    );
    stream.write_all(head.as_bytes()).expect("sent");
    // The daemon stops reading some time after the first MiB.
    let piece = vec![b' '; 64 << 10];
    let taken = (0..64).take_while(|_| stream.write_all(&piece).is_ok()).count();
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    assert!(got.is_empty() || got.starts_with(b"HTTP/1.1 413"), "{taken}: {}", String::from_utf8_lossy(&got));
    assert_eq!(rig.ask(&root, "GET", "/v1/session", None).status, 200, "others are served");
    let mut stream = TcpStream::connect(rig.address).expect("it listens");
    let _ =
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20)).as_bytes());
    let mut got = Vec::new();
    let _ = stream.read_to_end(&mut got);
    assert!(got.is_empty() || got.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&got));
}
