//! Delivery of notices by HTTP, a mail command, or syslog. Each attempt ends within a time limit.

use crate::config::AlertsConfig;
use crate::outgoing;
use api::{AlertAction, AlertNotice, AlertState};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for one notice.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval at which to check whether a command has ended.
const POLL: Duration = Duration::from_millis(20);
/// Facility `daemon` of RFC 5424.
const FACILITY: u8 = 3;

/// Delivers a notice by one way. The error gives the reason of a failure.
pub fn send(action: &AlertAction, notice: &AlertNotice, config: &AlertsConfig) -> Result<(), String> {
    match action {
        AlertAction::Webhook { url } => {
            let body = serde_json::to_vec(notice).map_err(|e| e.to_string())?;
            outgoing::post_outside(url, "application/json", &body, PATIENCE, &config.webhook_hosts)
        }
        AlertAction::Mail { to } => mail(&config.mail_command, &letter(to, notice)),
        AlertAction::Syslog => syslog(&config.syslog, &line(notice)),
    }
}

/// A mail with its headers.
fn letter(to: &[String], notice: &AlertNotice) -> String {
    let state = if notice.state == AlertState::Firing { "FIRING" } else { "cleared" };
    let subject = format!("[weir {}] {state}: {}", notice.host, notice.title);
    let subject = match subject.is_ascii() {
        true => subject,
        // RFC 2047: words of at most 75 characters.
        false => {
            let letters: Vec<char> = subject.chars().collect();
            let words = letters.chunks(11).map(|part| {
                let part: String = part.iter().collect();
                format!("=?UTF-8?B?{}?=", STANDARD.encode(part))
            });
            words.collect::<Vec<_>>().join("\n ")
        }
    };
    let date = i64::try_from(notice.second).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let date = date.and_then(|d| jiff::fmt::rfc2822::to_string(&d.to_zoned(jiff::tz::TimeZone::UTC)).ok());
    let date = date.map_or_else(String::new, |d| format!("Date: {d}\n"));
    format!(
        "To: {}\nSubject: {subject}\n{date}MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n\
         Content-Transfer-Encoding: 8bit\nAuto-Submitted: auto-generated\n\n{}\n",
        to.join(", "),
        notice.message
    )
}

/// Runs the command with the mail on its standard input: the program itself without a shell, and
/// nothing of the notice among its arguments.
fn mail(command: &[String], letter: &str) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else {
        return Err("alerts.mail_command is not set".to_owned());
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{program}: {e}"))?;
    // The mail fits into the pipe, so a program that does not read it causes no delay. The status
    // of a program that has ended is reported below.
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(letter.as_bytes());
    }
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().map_err(|e| format!("{program}: {e}"))? {
            Some(status) => break status,
            None if Instant::now() >= deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{program} did not finish within {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(POLL),
        }
    };
    if status.success() { Ok(()) } else { Err(format!("{program} failed with {status}: {}", output_of(&mut child))) }
}

/// Standard error of a program that has ended, without waiting for its own children, which may
/// still hold the pipe.
fn output_of(child: &mut Child) -> String {
    let mut bytes = [0; 1000];
    let Some(mut errors) = child.stderr.take() else { return String::new() };
    let flags = fcntl_getfl(&errors).and_then(|flags| fcntl_setfl(&errors, flags | OFlags::NONBLOCK));
    let count = if flags.is_ok() { errors.read(&mut bytes).unwrap_or(0) } else { 0 };
    String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()).trim().to_owned()
}

/// A line of RFC 5424.
fn line(notice: &AlertNotice) -> String {
    // Warning and notice.
    let severity = if notice.state == AlertState::Firing { 4 } else { 5 };
    let time = i64::try_from(notice.second).ok().and_then(|s| jiff::Timestamp::from_second(s).ok());
    let time = time.map_or_else(|| "-".to_owned(), |t| t.to_string());
    let host: String = notice.host.chars().filter(char::is_ascii_graphic).take(255).collect();
    let host = if host.is_empty() { "-".to_owned() } else { host };
    let text: String = notice.message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("<{}>1 {time} {host} weir {} alert - {text}", FACILITY * 8 + severity, std::process::id())
}

fn syslog(target: &str, line: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{target}: {e}");
    let sent = match target.parse::<SocketAddr>() {
        Ok(address) => {
            let from = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            UdpSocket::bind(from).and_then(|socket| socket.send_to(line.as_bytes(), address))
        }
        Err(_) => UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.send_to(line.as_bytes(), target)
        }),
    };
    sent.map(|_| ()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(title: &str) -> AlertNotice {
        AlertNotice {
            alert: 3,
            title: title.to_owned(),
            state: AlertState::Firing,
            second: 1_795_303_000,
            statistic: "nfs3.ops".to_owned(),
            value: Some(12.0),
            limit: 10.0,
            unit: "ops".to_owned(),
            host: "filer".to_owned(),
            message: format!("{title}\nsecond line"),
        }
    }

    fn config(command: &[&str], syslog: &str) -> AlertsConfig {
        let mail_command = command.iter().map(|s| (*s).to_owned()).collect();
        AlertsConfig { mail_command, syslog: syslog.to_owned(), webhook_hosts: Vec::new() }
    }

    #[test]
    fn a_mail_is_passed_to_the_command_and_never_to_a_shell() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("$(touch x); mail");
        let out = out.to_str().expect("text");
        let action = AlertAction::Mail { to: vec!["ann@example.org".to_owned(), "bob@example.org".to_owned()] };
        send(&action, &notice("`reboot` $(reboot)"), &config(&["tee", out], "")).expect("sent");
        let text = std::fs::read_to_string(out).expect("written");
        let expected = "To: ann@example.org, bob@example.org\nSubject: [weir filer] FIRING: `reboot` $(reboot)\nDate: ";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.ends_with("\n\n`reboot` $(reboot)\nsecond line\n"), "{text}");
        let error = send(&action, &notice("x"), &config(&["ls", "/no such folder"], "")).expect_err("it fails");
        assert!(error.starts_with("ls failed with exit status: 2: ") && error.contains("no such folder"), "{error}");
        assert!(send(&action, &notice("x"), &config(&["/no/such/program"], "")).is_err());
        assert_eq!(send(&action, &notice("x"), &config(&[], "")), Err("alerts.mail_command is not set".to_owned()));
        let subject = letter(&[], &notice("äöü: langsam"));
        assert!(subject.contains("Subject: =?UTF-8?B?W3dlaXIgZmlsZXI"), "{subject}");
        assert!(subject.is_ascii() || subject.split_once("\n\n").is_some_and(|(head, _)| head.is_ascii()));
    }

    #[test]
    fn the_system_log_gets_a_line_by_socket_and_by_udp() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        let (unix, udp) = (UnixDatagram::bind(&path).expect("bound"), UdpSocket::bind("127.0.0.1:0").expect("bound"));
        let patience = Some(Duration::from_secs(30));
        unix.set_read_timeout(patience).expect("set");
        udp.set_read_timeout(patience).expect("set");
        let address = udp.local_addr().expect("bound").to_string();
        let mut bytes = [0; 1000];
        for target in [path.to_str().expect("text"), &address] {
            send(&AlertAction::Syslog, &notice("slow reads"), &config(&[], target)).expect("sent");
            let count = if target == address { udp.recv(&mut bytes) } else { unix.recv(&mut bytes) }.expect("got");
            let pid = std::process::id();
            let expected = format!("<28>1 2026-11-21T23:16:40Z filer weir {pid} alert - slow reads second line");
            let text = String::from_utf8_lossy(&bytes[..count]);
            assert_eq!(text, expected);
        }
        assert!(send(&AlertAction::Syslog, &notice("x"), &config(&[], "/no/such/log")).is_err());
    }
}
