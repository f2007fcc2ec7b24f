//! The columns that scripts add to `zpool status` and `zpool iostat` (`-c`).
//!
//! A script prints lines `column=value`. The first line without `=` is a value without a column,
//! which ends the row, and nothing after it is read. Facts: vdev_process_cmd_output and
//! process_unique_cmd_columns in cmd/zpool/zpool_iter.c, zpool_print_cmd in zpool_main.c.

use crate::client::Client;
use crate::context::{Context, Failure, Outcome};
use crate::getopt::Parsed;
use api::{ScriptDevice, Scripts, Wanted};
use pool::status::{PoolStatus, VdevStatus};
use std::collections::{HashMap, HashSet};

/// Columns of a device, and characters of a value, beyond which the output of scripts is ignored.
/// The scripts run on the client's side, which may be anyone.
const COLUMNS_MAX: usize = 256;
const WIDTH_MAX: usize = 1024;

/// What the scripts print for one device.
#[derive(Debug, Default, PartialEq, Eq)]
struct Printed {
    columns: Vec<(String, String)>,
    without_column: Vec<String>,
}

/// The columns and their values.
#[derive(Debug, Default)]
pub struct ScriptColumns {
    /// Headings and widths, in the order in which they were first printed.
    columns: Vec<(String, usize)>,
    /// By pool and path.
    devices: HashMap<(String, String), Printed>,
}

/// Checks `-c SCRIPTS`. `-c` without an argument lists the scripts. Returns the outcome of the verb
/// if it has ended with that.
pub fn check(cx: &mut Context<'_>, verb: &str, parsed: &Parsed) -> Option<Outcome> {
    if parsed.bare == Some('c') {
        return Some(list(cx, verb));
    }
    (parsed.all('c').count() > 1).then(|| Err(Failure::failed("Can't set -c flag twice")))
}

fn list(cx: &mut Context<'_>, verb: &str) -> Outcome {
    let scripts = run(cx.client, Scripts::default())?;
    cx.print(&format!("Available 'zpool {verb} -c' commands:\n"));
    scripts.iter().flatten().for_each(|line| cx.print(&format!("{line}\n")));
    Ok(0)
}

fn run(client: &dyn Client, wanted: Scripts) -> Result<Vec<Vec<String>>, Failure> {
    let answer = client.ask(Wanted::Scripts(wanted)).map_err(|error| Failure::failed(error.to_string()))?;
    serde_json::from_slice(&answer).map_err(|_| Failure::failed("the answer with the output of scripts is invalid"))
}

impl ScriptColumns {
    /// Runs the scripts of `-c` for all devices of the pools, or for those in `only` if there are
    /// any. `None`: no scripts are wanted.
    pub fn of(
        client: &dyn Client,
        parsed: &Parsed,
        pools: &[&PoolStatus],
        only: &[u64],
    ) -> Result<Option<Self>, Failure> {
        let Some(names) = parsed.last('c') else { return Ok(None) };
        let names = names.split(',').map(str::to_owned).collect();
        let (mut devices, mut seen) = (Vec::new(), HashSet::new());
        for pool in pools {
            let leaves = pool.all_vdevs().into_iter().filter(|v| v.is_leaf());
            for leaf in leaves.filter(|leaf| only.is_empty() || only.contains(&leaf.guid)) {
                let Some(path) = &leaf.path else { continue };
                // A spare that is in use is in the pool twice.
                if seen.insert((pool.name.clone(), path.clone())) {
                    devices.push(ScriptDevice { pool: pool.name.clone(), path: path.clone() });
                }
            }
        }
        if devices.is_empty() {
            return Ok(Some(Self::default()));
        }
        let outputs = run(client, Scripts { names, devices: devices.clone() })?;
        Ok(Some(Self::new(devices.into_iter().zip(outputs))))
    }

    fn new(outputs: impl Iterator<Item = (ScriptDevice, Vec<String>)>) -> Self {
        let mut all = Self::default();
        for (device, outputs) in outputs {
            let mut printed = Printed::default();
            outputs.iter().for_each(|output| printed.read(output));
            for (column, value) in &printed.columns {
                match all.columns.iter_mut().find(|(known, _)| known == column) {
                    Some((_, width)) => *width = (*width).max(value.len()),
                    None => all.columns.push((column.clone(), column.len().max(value.len()))),
                }
            }
            all.devices.insert((device.pool, device.path), printed);
        }
        all
    }

    /// The headings, each with the space before it.
    pub fn headings(&self) -> String {
        self.columns.iter().map(|(column, width)| format!("  {column:>width$}")).collect()
    }

    /// The dashes of a separator.
    pub fn dashes(&self) -> String {
        self.columns.iter().map(|(_, width)| format!("  {}", "-".repeat(*width))).collect()
    }

    /// The values of a device; empty for what has no scripts run for it.
    pub fn values(&self, pool: &str, vdev: &VdevStatus) -> String {
        let Some(path) = vdev.path.clone().filter(|_| vdev.is_leaf()) else { return String::new() };
        let Some(printed) = self.devices.get(&(pool.to_owned(), path)) else { return String::new() };
        let mut text = String::new();
        for (column, width) in &self.columns {
            let value = printed.columns.iter().find(|(known, _)| known == column).map_or("", |(_, value)| value);
            let value = if value.trim().is_empty() { "-" } else { value };
            text += &format!("  {value:>width$}");
        }
        printed.without_column.iter().for_each(|value| text += &format!("  {value}"));
        text
    }
}

/// The first [`WIDTH_MAX`] characters.
fn shortened(text: &str) -> String {
    text.chars().take(WIDTH_MAX).collect()
}

impl Printed {
    fn read(&mut self, output: &str) {
        for line in output.lines() {
            match line.split_once('=') {
                Some((column, _)) if self.columns.iter().any(|(known, _)| known == column) => {}
                Some(_) if self.columns.len() >= COLUMNS_MAX => {}
                Some((column, value)) => self.columns.push((shortened(column), shortened(value))),
                None => {
                    self.without_column.push(shortened(line));
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_all_devices_are_in_one_table() {
        let device = |path: &str| ScriptDevice { pool: "tank".into(), path: path.into() };
        let columns = ScriptColumns::new(
            [
                (
                    device("/d/a"),
                    vec!["size=10T\nmodel=X\nsize=1\n".to_owned(), "health= \nlast words\nno=more\n".to_owned()],
                ),
                (device("/d/b"), vec!["model=A long one\n".to_owned(), String::new()]),
            ]
            .into_iter(),
        );
        assert_eq!(columns.headings(), "  size       model  health");
        assert_eq!(columns.dashes(), "  ----  ----------  ------");
        let leaf = |path: &str| VdevStatus { kind: "file".into(), path: Some(path.into()), ..VdevStatus::default() };
        assert_eq!(columns.values("tank", &leaf("/d/a")), "   10T           X       -  last words");
        assert_eq!(columns.values("tank", &leaf("/d/b")), "     -  A long one       -");
        assert_eq!(columns.values("tank", &leaf("/d/c")) + &columns.values("rz", &leaf("/d/a")), "");
    }
}
