//! `sharesmb`: clients of Samba see the shared file systems, and nothing else. Needs Samba (smbd,
//! smbclient, pdbedit) and FUSE.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

struct Rig {
    dir: tempfile::TempDir,
    port: u16,
    daemon: Option<Child>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

impl Rig {
    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn weir(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(args).env("WEIR_STATE", self.path("state")).stdin(Stdio::null()).output().expect("it runs")
    }

    fn good(&self, args: &[&str]) -> String {
        let out = self.weir(args);
        assert!(out.status.success(), "{args:?}: {}{}", text(&out.stdout), text(&out.stderr));
        text(&out.stdout)
    }

    fn client(&self, user: &str, share: &str, commands: &str) -> (bool, String) {
        let port = self.port.to_string();
        let place = format!("//127.0.0.1/{share}");
        let out = Command::new("smbclient")
            .args(["-s", "/dev/null", "-p", &port, "-U", user, &place, "-c", commands])
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .expect("smbclient runs");
        (out.status.success(), text(&out.stdout) + &text(&out.stderr))
    }

    /// Waits until a client can, or cannot, run the commands.
    fn wait(&self, user: &str, share: &str, commands: &str, can: bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (could, said) = self.client(user, share, commands);
            if could == can {
                return said;
            }
            let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "{share}: {commands}: {said}\n{}", log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status();
            let _ = daemon.wait();
        }
    }
}

#[test]
fn clients_of_samba_find_what_is_shared_and_nothing_else() {
    if !["/usr/sbin/smbd", "smbclient", "pdbedit"].into_iter().all(has) {
        eprintln!("skipped: Samba is not installed (apt-get install samba smbclient)");
        return;
    }
    let built = Command::new("/usr/sbin/smbd").arg("-b").output().expect("smbd runs");
    let modules =
        text(&built.stdout).lines().find_map(|l| Some(l.trim().strip_prefix("MODULESDIR:")?.trim().to_owned()));
    if modules.is_some_and(|folder| !std::path::Path::new(&folder).join("vfs/acl_xattr.so").exists()) {
        eprintln!("skipped: Samba's modules are not installed (apt-get install samba-vfs-modules)");
        return;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port");
    let mut rig = Rig { dir: tempfile::tempdir().expect("a folder"), port: free.port(), daemon: None };
    let disk = rig.path("disk");
    std::fs::File::create(&disk).and_then(|f| f.set_len(256 << 20)).expect("an image file");
    let mountpoint = format!("mountpoint={}", rig.path("tank"));
    rig.good(&["zpool", "create", "-O", &mountpoint, "tank", &disk]);
    let listen = format!("smb.listen=127.0.0.1:{}", rig.port);
    let log = std::fs::File::create(rig.path("log")).expect("a log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["serve", "--set", &listen]).env("WEIR_STATE", rig.path("state")).stderr(log);
    rig.daemon = Some(command.spawn().expect("it starts"));
    while !std::path::Path::new(&rig.path("state/run/weir.sock")).exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    rig.good(&["zfs", "create", "-o", "sharesmb=on", "tank/docs"]);
    rig.good(&["zfs", "create", "-o", "sharesmb=ro,name=old papers", "tank/old"]);
    rig.good(&["zfs", "create", "tank/private"]);
    let wrong = rig.weir(&["zfs", "set", "sharesmb=maybe", "tank/docs"]);
    assert_eq!(
        text(&wrong.stderr),
        "cannot set property for 'tank/docs': 'sharesmb' cannot be set to invalid options\n"
    );
    if !rig.good(&["zfs", "mount"]).contains("tank") {
        eprintln!(
            "skipped: nothing can be mounted here; it needs /dev/fuse, and fusermount3 (apt install fuse3) without root"
        );
        return;
    }
    // Give the user who runs this test a password.
    let uid = Command::new("id").arg("-un").output().expect("id runs");
    let name = text(&uid.stdout).trim().to_owned();
    let conf = rig.path("state/smb/smb.conf");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !std::path::Path::new(&conf).exists() {
        assert!(Instant::now() < deadline, "no smb.conf");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut pdbedit = Command::new("pdbedit");
    let mut pdbedit = pdbedit
        .args(["-s", &conf, "-a", "-t", "-u", &name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("pdbedit runs");
    std::io::Write::write_all(&mut pdbedit.stdin.take().expect("a pipe"), b"secret1\nsecret1\n").expect("told");
    assert!(pdbedit.wait().expect("it ends").success());
    let user = format!("{name}%secret1");

    std::fs::write(rig.path("paper"), "what was written\n").expect("written");
    rig.wait(&user, "tank_docs", "put paper; mkdir d; rename paper d/paper; ls d/*", true);
    assert_eq!(rig.good(&["cat", "tank/docs:/d/paper"]), "what was written\n");
    rig.wait(&user, "tank_docs", "get d/paper back", true);
    assert_eq!(std::fs::read_to_string(rig.path("back")).expect("it came back"), "what was written\n");
    // Access fails with a wrong password, without one, and where nothing is shared.
    let wrong = format!("{name}%wrong");
    for (user, share) in [(wrong.as_str(), "tank_docs"), ("%", "tank_docs"), (user.as_str(), "tank_private")] {
        let (could, said) = rig.client(user, share, "ls");
        assert!(!could, "{user} {share}: {said}");
    }
    let (could, said) = rig.client(&user, "old papers", "put paper");
    assert!(!could || said.contains("ACCESS_DENIED") || said.contains("WRITE_PROTECTED"), "{said}");

    rig.good(&["zfs", "unshare", "tank/docs"]);
    rig.wait(&user, "tank_docs", "ls", false);
    rig.good(&["zfs", "share", "tank/docs"]);
    rig.wait(&user, "tank_docs", "ls", true);
    // A client has the share open: destroying the dataset disconnects it.
    let port = rig.port.to_string();
    let mut open = Command::new("smbclient")
        .args(["-s", "/dev/null", "-p", &port, "-U", &user, "//127.0.0.1/tank_docs"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("smbclient runs");
    std::io::Write::write_all(open.stdin.as_mut().expect("a pipe"), b"cd d\n").expect("told");
    std::thread::sleep(Duration::from_secs(1));
    let destroyed = (0..20).any(|_| {
        let done = rig.weir(&["zfs", "destroy", "tank/docs"]).status.success();
        if !done {
            std::thread::sleep(Duration::from_millis(500));
        }
        done
    });
    assert!(destroyed, "{}", text(&rig.weir(&["zfs", "destroy", "tank/docs"]).stderr));
    drop(open.stdin.take());
    let _ = open.kill();
    let _ = open.wait();
    rig.wait(&user, "tank_docs", "ls", false);
    rig.wait(&user, "old papers", "ls", true);

    // smbd ends with the daemon.
    let mut daemon = rig.daemon.take().expect("it runs");
    Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().expect("kill runs");
    assert!(daemon.wait().expect("it ends").success());
    assert!(!rig.client(&user, "old papers", "ls").0);
}
