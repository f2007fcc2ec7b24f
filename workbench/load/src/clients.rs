//! Runs the same load on many machines: one program on each via ssh, all starting at the same
//! instant.
//!
//! Each client connects and creates its files, reports that it is ready, and waits for a start
//! word. When all are ready, the word is sent to all at once. They start simultaneously as far as
//! the network is equally fast to all of them, regardless of their clocks. The start of each client
//! is reported, so that this can be verified.

use crate::drive::Report;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Line that a client prints when it is ready.
pub const READY: &str = "weir-load: ready";
/// Line that starts a client. The client sends it back as its acknowledgement.
pub const GO: &str = "go";

/// How to run the clients.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Host names, as passed to ssh.
    pub hosts: Vec<String>,
    /// The program that runs a command line on a host, with its options; host and command line are
    /// appended.
    pub shell: Vec<String>,
    /// The program on the client and its arguments; `%h` is replaced by the host name.
    pub line: Vec<String>,
}

/// The result of one client.
#[derive(Debug, Clone)]
pub struct One {
    pub host: String,
    pub report: Report,
    /// Microseconds by which this client started after the first one, measured here: from sending
    /// the word to receiving its acknowledgement.
    pub began_late_us: u64,
}

struct Running {
    host: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // A client that has exited cannot be killed; the others must not outlive this process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses a list of hosts: one per line, `#` starts a comment.
pub fn hosts(text: &str) -> Vec<String> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or("").trim());
    lines.filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%,+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

impl Clients {
    fn start(&self, host: &str) -> Result<Running> {
        let (program, options) = self.shell.split_first().context("no shell to run clients with")?;
        let line: Vec<String> = self.line.iter().map(|w| quoted(&w.replace("%h", host))).collect();
        let mut child = Command::new(program)
            .args(options)
            .arg(host)
            .arg(line.join(" "))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .with_context(|| program.clone())?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes to {host}")
        };
        Ok(Running { host: host.to_owned(), child, input, output: BufReader::new(output) })
    }

    /// Runs all clients. Returns a result for each host, or an error.
    pub fn run(&self) -> Result<Vec<One>> {
        self.run_with(&|| Ok(()))
    }

    /// Like [`Self::run`]; `ready` is called when all clients are ready, before they start.
    pub fn run_with(&self, ready: &dyn Fn() -> Result<()>) -> Result<Vec<One>> {
        ensure!(!self.hosts.is_empty(), "no clients");
        let mut all = self.hosts.iter().map(|h| self.start(h)).collect::<Result<Vec<_>>>()?;
        for client in &mut all {
            loop {
                let mut line = String::new();
                let read = client.output.read_line(&mut line).with_context(|| client.host.clone())?;
                ensure!(read > 0, "{} ended before it was ready", client.host);
                if line.trim() == READY {
                    break;
                }
            }
        }
        ready()?;
        let begin = Instant::now();
        for client in &mut all {
            writeln!(client.input, "{GO}").and_then(|()| client.input.flush()).with_context(|| client.host.clone())?;
        }
        // Each client acknowledges the word immediately.
        let late: Vec<Duration> = all
            .iter_mut()
            .map(|client| {
                let mut line = String::new();
                client.output.read_line(&mut line).with_context(|| client.host.clone())?;
                ensure!(line.trim() == GO, "{} did not start: {}", client.host, line.trim());
                Ok(begin.elapsed())
            })
            .collect::<Result<_>>()?;
        let first = late.iter().min().copied().unwrap_or_default();
        std::thread::scope(|scope| {
            let threads = all.iter_mut().zip(&late).map(|(client, late)| {
                scope.spawn(move || {
                    let mut text = String::new();
                    client.output.read_to_string(&mut text).with_context(|| client.host.clone())?;
                    let value: Value = serde_json::from_str(text.trim())
                        .with_context(|| format!("{} ended without a report", client.host))?;
                    let report =
                        Report::from_json(&value).with_context(|| format!("{}: another version?", client.host))?;
                    let began_late_us = (*late - first).as_micros() as u64;
                    Ok(One { host: client.host.clone(), report, began_late_us })
                })
            });
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
        })
    }
}

/// Clients whose rate is less than 0.7 of the median: their own machine or link limits them.
pub fn outliers(clients: &[One]) -> Vec<&One> {
    let mut rates: Vec<f64> = clients.iter().map(|c| c.report.rate()).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    clients.iter().filter(|c| clients.len() > 2 && c.report.rate() < 0.7 * median).collect()
}

/// The client's side: reports that it is ready, and waits for the start word.
pub fn await_go() -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{READY}").and_then(|()| out.flush())?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    ensure!(line.trim() == GO, "the controlling process disconnected");
    writeln!(out, "{GO}").and_then(|()| out.flush())?;
    Ok(())
}
