//! A daemon in this process with real sockets, and a minimal HTTP client.

use admin::House;
use admin::house::{Leave, Scope};
use admin::state::State;
use cli::command_runner::CommandRunner;
use daemon::config::{Config, Settings};
use daemon::service::Service;
use daemon::{Mounts, Owner, Peer, tcp, tls, web};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A password of sufficient length.
pub const PASSWORD: &str = "correct horse";

/// How long tests wait for something, on a busy machine too.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `look` returns something. `what`: what has not happened if it never does.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub struct Rig {
    pub folder: tempfile::TempDir,
    pub service: Arc<Service>,
    pub address: SocketAddr,
    pub unix: PathBuf,
    stop: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The code of an error.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The session cookie, if the answer sets one.
    pub fn cookie(&self) -> Option<String> {
        let set = self.header("set-cookie")?;
        Some(set.split(';').next()?.to_owned())
    }
}

/// Headers of a client's requests.
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub headers: Vec<(String, String)>,
}

impl Client {
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub fn token(secret: &str) -> Self {
        Self::default().with("Authorization", format!("Bearer {secret}"))
    }

    /// A client with the session from the answer to a login.
    pub fn session(answer: &Answer) -> Self {
        assert_eq!(answer.status, 201, "{}", answer.text());
        let csrf = answer.json()["csrf_token"].as_str().expect("a CSRF token").to_owned();
        Self::default().with("Cookie", answer.cookie().expect("a cookie")).with("X-CSRF-Token", csrf)
    }
}

impl Rig {
    /// A daemon that listens on a free port of the loopback address with plain HTTP, and on a Unix
    /// socket.
    pub fn new() -> Self {
        Self::with(Config::default(), false)
    }

    pub fn with(config: Config, tls: bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self::in_folder(folder, config, tls)
    }

    pub fn in_folder(folder: tempfile::TempDir, config: Config, tls: bool) -> Self {
        let settings = Settings::fixed(config, &folder.path().join("state"));
        Self::with_settings(folder, settings, tls)
    }

    pub fn with_settings(folder: tempfile::TempDir, settings: Settings, tls: bool) -> Self {
        let config = settings.now();
        let state = State::new(folder.path().join("state"));
        let house = House::new(state, Scope::All, None);
        let owner = Owner::new(house, Mounts::new(true), Arc::new(CommandRunner));
        let (stop, stopped) = watch::channel(false);
        let load = || tls::Current::new(tls::load(&config.api, &folder.path().join("state")).expect("a certificate"));
        let level = |level: &str| if level == "loud" { Err("no such level".to_owned()) } else { Ok(()) };
        let service = Service::new(owner.clone(), settings, Box::new(level), stopped.clone()).expect("a service");
        if tls {
            let _ = service.servers.tls.set(load());
        }
        let acceptor = service.servers.tls.get().cloned();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("threads");
        let router = web::router(&service);
        let unix = folder.path().join("socket");
        let _ = std::fs::remove_file(&unix);
        let address = runtime.block_on(async {
            let listener = tcp::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
            let address = listener.local_addr().expect("bound");
            tokio::spawn(tcp::serve(listener, acceptor, router.clone(), stopped));
            let socket = tokio::net::UnixListener::bind(&unix).expect("a socket");
            tokio::spawn(
                async move { axum::serve(socket, router.into_make_service_with_connect_info::<Peer>()).await },
            );
            address
        });
        let watcher = service.clone();
        runtime.spawn_blocking(move || daemon::watch::watch(&watcher));
        for record in owner.house.state().pools().expect("read") {
            owner.house.import(&record).expect("opened");
        }
        owner.ready();
        Self { folder, service, address, unix, stop, runtime: Some(runtime) }
    }

    /// Stops the daemon cleanly and returns its directory.
    pub fn end(mut self) -> tempfile::TempDir {
        self.stop_all();
        // The watching thread may still be running and holding the pools open.
        for _ in 0..600 {
            if Arc::strong_count(&self.service) == 1 {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        std::mem::replace(&mut self.folder, tempfile::tempdir().expect("a folder"))
    }

    fn stop_all(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        let _ = self.stop.send(true);
        self.service.signals.watch.end();
        self.service.analytics.stop();
        self.service.jobs.interrupt_all(Duration::from_secs(10));
        runtime.shutdown_timeout(Duration::from_secs(5));
        let house = &self.service.owner.house;
        for pool in house.list() {
            house.release(pool.guid(), Leave::Close).expect("closed");
        }
    }

    /// Creates and logs in the first administrator.
    pub fn administrator(&self) -> Client {
        let token = self.service.access.setup.make();
        let body = serde_json::json!({"token": token, "user": "root", "password": PASSWORD});
        Client::session(&self.ask(&Client::default(), "POST", "/v1/setup", Some(&body)))
    }

    /// A token of a new user with this role.
    pub fn token_of(&self, role: &str) -> Client {
        let role: api::Role = serde_json::from_value(role.into()).expect("a role");
        let name = format!("user-{role:?}").to_lowercase();
        self.service.access.accounts.create(&name, role, PASSWORD, false).expect("made");
        let made = self
            .service
            .access
            .accounts
            .create_token(&name, api::CreateToken { name: "test".to_owned(), role, days: None, statistics: None })
            .expect("made");
        Client::token(&made.secret)
    }

    /// Creates a pool of four files in this directory through the interface.
    pub fn make_pool(&self, client: &Client, name: &str) -> Answer {
        let paths: Vec<String> = (0..4).map(|i| self.file(&format!("{name}-{i}"))).collect();
        let group = serde_json::json!({"layout": "raidz1", "paths": paths, "make_files_bytes": 128 << 20});
        let body = serde_json::json!({"name": name, "groups": [group], "dataset_properties": {"mountpoint": format!("/{name}")}});
        self.ask(client, "POST", "/v1/pools", Some(&body))
    }

    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("text").to_owned()
    }

    /// Sends a request over TCP.
    pub fn ask(&self, client: &Client, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        exchange(stream, &self.address.to_string(), client, method, path, body)
    }

    /// Sends a request on the Unix socket.
    pub fn ask_locally(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let stream = UnixStream::connect(&self.unix).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        exchange(stream, "localhost", &Client::default(), method, path, body)
    }

    /// Opens a stream. Returns its status, and a reader at its first message.
    pub fn open_stream(&self, client: &Client, path: &str) -> (u16, BufReader<TcpStream>) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        write_request(&mut stream, &self.address.to_string(), client, "GET", path, None, true);
        let mut reader = BufReader::new(stream);
        let (status, _) = head(&mut reader);
        (status, reader)
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.stop_all();
    }
}

fn write_request(
    to: &mut impl Write,
    host: &str,
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
    keeps: bool,
) {
    let mut request = format!("{method} {path} HTTP/1.1\r\n");
    if !client.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
        request += &format!("Host: {host}\r\n");
    }
    if !keeps {
        request += "Connection: close\r\n";
    }
    for (name, value) in &client.headers {
        request += &format!("{name}: {value}\r\n");
    }
    let body = body.map(ToString::to_string).unwrap_or_default();
    if !body.is_empty() {
        request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    } else if method != "GET" {
        request += "Content-Length: 0\r\n";
    }
    to.write_all(format!("{request}\r\n{body}").as_bytes()).expect("sent");
    to.flush().expect("sent");
}

fn head(from: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    from.read_line(&mut line).expect("a status");
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("no status: {line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).expect("a header");
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => return (status, headers),
        }
    }
}

/// Sends one request on a connection and returns the answer.
pub fn exchange(
    mut stream: impl Read + Write,
    host: &str,
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Answer {
    write_request(&mut stream, host, client, method, path, body, false);
    let mut reader = BufReader::new(stream);
    let (status, headers) = head(&mut reader);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).expect("a body");
    let chunked = headers.iter().any(|(n, v)| n.eq_ignore_ascii_case("transfer-encoding") && v == "chunked");
    let body = if chunked { unchunk(&rest) } else { rest };
    Answer { status, headers, body }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|w| w == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|s| usize::from_str_radix(s, 16).ok()).expect("a size");
        if size == 0 {
            break;
        }
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    body
}
