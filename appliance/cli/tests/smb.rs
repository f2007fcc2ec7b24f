//! `sharesmb`: clients of Samba see the shared file systems, and nothing else. Needs Samba (smbd,
//! smbclient, pdbedit) and FUSE.

use crate::rig::{Rig, text};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// A rig whose daemon serves SMB on a port.
struct Samba {
    rig: Rig,
    port: u16,
}

impl Samba {
    /// Runs a command that must succeed, with a warning or without. Returns the output.
    fn done(&self, args: &[&str]) -> String {
        let (code, out, err) = self.rig.run_args(args);
        assert_eq!(code, 0, "{args:?}: {out}{err}");
        out
    }

    fn client(&self, user: &str, share: &str, commands: &str) -> (bool, String) {
        let port = self.port.to_string();
        let place = format!("//127.0.0.1/{share}");
        let out = Command::new("smbclient")
            .args(["-s", "/dev/null", "-p", &port, "-U", user, &place, "-c", commands])
            .current_dir(self.rig.folder())
            .stdin(Stdio::null())
            .output()
            .expect("smbclient runs");
        (out.status.success(), text(&out.stdout) + &text(&out.stderr))
    }

    /// Waits until a client can, or cannot, run the commands.
    fn wait(&self, user: &str, share: &str, commands: &str, can: bool) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let (could, message) = self.client(user, share, commands);
            if could == can {
                return message;
            }
            assert!(Instant::now() < deadline, "{share}: {commands}: {message}\n{}", self.rig.log());
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[test]
fn samba_clients_see_only_shared_file_systems() {
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
    let mut samba = Samba { rig: Rig::new(&[]), port: free.port() };
    samba.rig.disk("disk", 256 << 20);
    samba.rig.good("zpool create -O mountpoint=DIR/tank tank DIR/d/disk");
    samba.rig.start(&format!("serve --set smb.listen=127.0.0.1:{}", samba.port));
    let rig = &samba.rig;
    samba.done(&["zfs", "create", "-o", "sharesmb=on", "tank/docs"]);
    samba.done(&["zfs", "create", "-o", "sharesmb=ro,name=old papers", "tank/old"]);
    samba.done(&["zfs", "create", "tank/private"]);
    let wrong = rig.weir(&["zfs", "set", "sharesmb=maybe", "tank/docs"]).output().expect("it runs");
    assert_eq!(
        text(&wrong.stderr),
        "cannot set property for 'tank/docs': 'sharesmb' cannot be set to invalid options\n"
    );
    if !samba.done(&["zfs", "mount"]).contains("tank") {
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
    std::io::Write::write_all(&mut pdbedit.stdin.take().expect("a pipe"), b"secret1\nsecret1\n").expect("written");
    assert!(pdbedit.wait().expect("it ends").success());
    let user = format!("{name}%secret1");

    std::fs::write(rig.path("paper"), "what was written\n").expect("written");
    samba.wait(&user, "tank_docs", "put paper; mkdir d; rename paper d/paper; ls d/*", true);
    assert_eq!(samba.done(&["cat", "tank/docs:/d/paper"]), "what was written\n");
    samba.wait(&user, "tank_docs", "get d/paper back", true);
    assert_eq!(std::fs::read_to_string(rig.path("back")).expect("it was returned"), "what was written\n");
    // Access fails with a wrong password, without one, and where nothing is shared.
    let wrong = format!("{name}%wrong");
    for (user, share) in [(wrong.as_str(), "tank_docs"), ("%", "tank_docs"), (user.as_str(), "tank_private")] {
        let (could, message) = samba.client(user, share, "ls");
        assert!(!could, "{user} {share}: {message}");
    }
    let (could, message) = samba.client(&user, "old papers", "put paper");
    assert!(!could || message.contains("ACCESS_DENIED") || message.contains("WRITE_PROTECTED"), "{message}");

    samba.done(&["zfs", "unshare", "tank/docs"]);
    samba.wait(&user, "tank_docs", "ls", false);
    samba.done(&["zfs", "share", "tank/docs"]);
    samba.wait(&user, "tank_docs", "ls", true);
    // A client has the share open: destroying the dataset disconnects it.
    let port = samba.port.to_string();
    let mut open = Command::new("smbclient")
        .args(["-s", "/dev/null", "-p", &port, "-U", &user, "//127.0.0.1/tank_docs"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("smbclient runs");
    std::io::Write::write_all(open.stdin.as_mut().expect("a pipe"), b"cd d\n").expect("written");
    std::thread::sleep(Duration::from_secs(1));
    let destroyed = (0..20).any(|_| {
        let done = rig.weir(&["zfs", "destroy", "tank/docs"]).output().expect("it runs").status.success();
        if !done {
            std::thread::sleep(Duration::from_millis(500));
        }
        done
    });
    assert!(destroyed, "{}", text(&rig.weir(&["zfs", "destroy", "tank/docs"]).output().expect("it runs").stderr));
    drop(open.stdin.take());
    let _ = open.kill();
    let _ = open.wait();
    samba.wait(&user, "tank_docs", "ls", false);
    samba.wait(&user, "old papers", "ls", true);

    // smbd ends with the daemon.
    assert!(samba.rig.signal("-TERM").success());
    assert!(!samba.client(&user, "old papers", "ls").0);
}
