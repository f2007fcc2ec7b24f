//! The same load on many machines: one program each over ssh, which begin at the same instant.
//!
//! Each client connects and makes its files, says that it is ready, and waits for a word. When all are ready the word goes to all at once:
//! so they begin together as far as the network is as fast to one as to the other, whatever their clocks say. When each of them began is
//! told, so that it can be seen.

use crate::drive::Report;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What a client says when it is ready.
pub const READY: &str = "weir-load: ready";
/// The word.
pub const GO: &str = "go";

/// How clients are called.
#[derive(Debug, Clone)]
pub struct Clients {
    /// Machines, as ssh takes them.
    pub hosts: Vec<String>,
    /// The program that runs a line on a machine, with its options; the host and the line come behind.
    pub shell: Vec<String>,
    /// The program there, and its arguments; `%h` stands for the host.
    pub line: Vec<String>,
}

/// What one of them did.
#[derive(Debug, Clone)]
pub struct One {
    /// Its machine.
    pub host: String,
    /// What it saw.
    pub report: Report,
    /// Microseconds after the first that this one began, measured here: from the word to when it said that it heard it.
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
        // One that is done already cannot be ended; the others must not outlive this one.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The machines of a list: one a line, `#` begins a comment.
pub fn hosts(text: &str) -> Vec<String> {
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or("").trim());
    lines.filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

/// As one word of a shell's line.
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

    /// Runs all; as many reports as there are hosts, or why not.
    pub fn run(&self) -> Result<Vec<One>> {
        self.run_with(&|| Ok(()))
    }

    /// The same; `ready` is called when all are, before the word.
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
        // Each answers at once that it heard the word.
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

/// A client that did less than 0.7 of the median one: what is measured is that machine, or its link.
pub fn outliers(clients: &[One]) -> Vec<&One> {
    let mut rates: Vec<f64> = clients.iter().map(|c| c.report.rate()).collect();
    rates.sort_by(f64::total_cmp);
    let median = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    clients.iter().filter(|c| clients.len() > 2 && c.report.rate() < 0.7 * median).collect()
}

/// What a client does on its side, once it is ready: says so, and waits for the word.
pub fn await_go() -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{READY}").and_then(|()| out.flush())?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    ensure!(line.trim() == GO, "the controlling process disconnected");
    writeln!(out, "{GO}").and_then(|()| out.flush())?;
    Ok(())
}
