//! Reasons from the state of a pool and of its devices.

use super::super::inputs::PoolInput;
use super::super::reason::{page_of, reason};
use api::{Device, HealthKind, HealthReason, HealthVerdict, State};

/// Adds a reason for each device that is not in service or had errors, and one for the pool if its
/// devices do not explain its state.
pub fn add(input: &PoolInput, reasons: &mut Vec<HealthReason>) {
    let (pool, before) = (&input.pool, reasons.len());
    let resilvering = pool.scan.as_ref().is_some_and(|scan| scan.kind == "resilver" && scan.state == "active");
    let walk = Walk { pool: &pool.name, action: pool.health.action.as_deref(), resilvering };
    for root in &input.devices {
        let tops = if root.kind == "root" { root.children.as_slice() } else { std::slice::from_ref(root) };
        tops.iter().for_each(|top| walk.top(top, reasons));
    }
    for spare in input.spares.iter().filter(|spare| !matches!(spare.state, State::Avail | State::Inuse | State::Online))
    {
        let what = format!("The hot spare is {}. It cannot replace a device.", spare.state);
        reasons.push(walk.reason(HealthVerdict::Attention, spare, what));
    }
    let works = matches!(pool.state, State::Online | State::Degraded);
    let explained = reasons.len() > before && works && pool.error_count == 0;
    if !pool.health.ok && !explained {
        let serious = !works || pool.error_count > 0;
        let severity = if serious { HealthVerdict::Serious } else { HealthVerdict::Attention };
        let what = pool.health.status.clone().unwrap_or_else(|| format!("The pool is {}.", pool.state));
        let made = reason(severity, HealthKind::Pool, &pool.name, what, page_of(&pool.name));
        reasons.push(HealthReason { action: pool.health.action.clone(), ..made });
    }
}

struct Walk<'a> {
    pool: &'a str,
    /// What `zpool status` says below `action:`.
    action: Option<&'a str>,
    resilvering: bool,
}

impl Walk<'_> {
    fn reason(&self, severity: HealthVerdict, device: &Device, what: String) -> HealthReason {
        let subject = format!("{}: {}", self.pool, device.name);
        let made = reason(severity, HealthKind::Device, &subject, what, page_of(self.pool));
        HealthReason { action: self.action.map(str::to_owned), ..made }
    }

    /// A top-level device.
    fn top(&self, top: &Device, reasons: &mut Vec<HealthReason>) {
        let left = self.redundancy(top);
        let consequence = match (top.class.as_str(), left) {
            ("l2cache", _) => "Reads go to the other devices of the pool.".to_owned(),
            (_, Some(0)) => format!("{} has no redundancy left: the loss of another device loses data.", top.name),
            (_, Some(1)) => format!("{} survives the loss of one more device.", top.name),
            (_, Some(left)) => format!("{} survives the loss of {left} more devices.", top.name),
            (_, None) => "It has no redundancy: what only it holds cannot be read.".to_owned(),
        };
        let severity = match (top.class.as_str(), left) {
            ("l2cache", _) | (_, Some(1..)) => HealthVerdict::Attention,
            _ => HealthVerdict::Serious,
        };
        self.leaves(top, severity, &consequence, reasons);
    }

    fn leaves(&self, device: &Device, severity: HealthVerdict, consequence: &str, reasons: &mut Vec<HealthReason>) {
        match device.kind.as_str() {
            // Devices below are being replaced.
            "replacing" | "hole" | "indirect" => return,
            _ => device.children.iter().for_each(|child| self.leaves(child, severity, consequence, reasons)),
        }
        if !device.children.is_empty() {
            return;
        }
        if !matches!(device.state, State::Online | State::Avail | State::Inuse) {
            let why = device.reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
            let what = format!("The device is {}{why}. {consequence}", device.state);
            reasons.push(self.reason(severity, device, what));
        } else if device.read_errors + device.write_errors + device.checksum_errors > 0 {
            let Device { read_errors, write_errors, checksum_errors, .. } = device;
            let what = format!(
                "{read_errors} read, {write_errors} write and {checksum_errors} checksum errors since the pool was \
                 opened or its errors were cleared."
            );
            reasons.push(self.reason(HealthVerdict::Attention, device, what));
        }
    }

    /// Number of devices that a top-level device can still lose; `None` if it never had redundancy.
    fn redundancy(&self, top: &Device) -> Option<usize> {
        let works = top.children.iter().filter(|child| self.holds_data(child)).count();
        let failed = top.children.len() - works;
        let parity = |name: &str| top.name.strip_prefix(name)?.chars().next()?.to_digit(10);
        match top.kind.as_str() {
            "mirror" => Some(works.saturating_sub(1)),
            "raidz" | "draid" => Some((parity(&top.kind)? as usize).saturating_sub(failed)),
            _ => None,
        }
    }

    /// Whether a device below a top-level one has all of its data.
    fn holds_data(&self, device: &Device) -> bool {
        match device.kind.as_str() {
            "spare" | "replacing" if !self.resilvering => {
                device.children.iter().any(|child| matches!(child.state, State::Online | State::Inuse))
            }
            _ => device.state == State::Online,
        }
    }
}
