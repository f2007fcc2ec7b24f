//! The conditions behind the verdict as statistics, so that they can be graphed and watched by
//! alerts.

use super::inputs::Inputs;
use super::kind::kind_name;
use super::verdict::{percent_used, slow_disks};
use analytics::name::Field;
use analytics::sampler::{Sample, Sampler};
use api::{HealthKind, SystemHealth};
use parking_lot::Mutex;
use std::sync::Arc;

/// The values of the last assessment, repeated each second.
#[derive(Debug, Default)]
pub struct Measures(Mutex<Vec<Sample>>);

impl Measures {
    pub(super) fn set(&self, samples: Vec<Sample>) {
        *self.0.lock() = samples;
    }

    /// A sampler of these values.
    pub fn sampler(self: &Arc<Self>) -> Box<dyn Sampler> {
        Box::new(Sampled(self.clone()))
    }
}

struct Sampled(Arc<Measures>);

impl Sampler for Sampled {
    fn sample(&mut self, out: &mut Vec<Sample>) {
        out.extend(self.0.0.lock().iter().cloned());
    }
}

/// The values. What is not known has no sample, so that it is not recorded rather than 0.
pub fn of(inputs: &Inputs, health: &SystemHealth) -> Vec<Sample> {
    let mut out = vec![Sample::new("health.reasons", &[], 0)];
    for reason in &health.reasons {
        out.push(Sample::new("health.reasons", &[(Field::Component, kind_name(reason.kind))], 1));
    }
    for input in &inputs.pools {
        let name = input.pool.name.as_str();
        let pool = (Field::Pool, name);
        let is_here = |subject: &str| subject.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
        let bad = health.reasons.iter().filter(|r| r.kind == HealthKind::Device && is_here(&r.subject)).count();
        out.push(Sample::new("health.devices", &[pool], bad as u64));
        out.push(Sample::new("health.slowdisks", &[pool], 0));
        for slow in slow_disks(&input.disks) {
            out.push(Sample::new("health.slowdisks", &[pool, (Field::Disk, &slow.name)], 1));
        }
        if let Some(percent) = percent_used(&input.pool) {
            out.push(Sample::new("cap.percentfull", &[pool], percent));
        }
        if let Some(since) = input.scan.unscrubbed_since() {
            out.push(Sample::new("health.scrubdays", &[pool], inputs.now.saturating_sub(since) / 86_400));
        }
    }
    for stream in &inputs.streams {
        let Some(success) = stream.last_success else { continue };
        let hours = inputs.now.saturating_sub(success) / 3600;
        out.push(Sample::new("health.replicationhours", &[(Field::Share, &stream.dataset)], hours));
    }
    if let Some(validity) = inputs.certificate {
        let left = validity.not_after.saturating_sub(inputs.now) / 86_400;
        out.push(Sample::new("health.certificatedays", &[], left));
    }
    out
}
