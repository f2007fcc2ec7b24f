//! Device failures and their repair.
//!
//! Below: `device`, `rig`. Above: `failing`.

use super::scans::{PATIENCE, wait};
use crate::device::{Faults, Machine};
use crate::pages::Pages;
use crate::rig::{Layout, Rig, Shape, new_leaf};
use anyhow::{Context, Result, bail};
use pool::writer::{Joins, Lasts, NewLeaf};
use rig::Chance;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Size of each device.
pub const DISK_BYTES: u64 = 96 << 20;
/// The range between the front and the back labels.
const DATA: std::ops::Range<u64> = 4 << 20..DISK_BYTES - (1 << 20);

/// A failure of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hurt {
    /// Its blocks become zeros.
    Zeroed,
    /// Ranges of it become noise.
    Noise,
    /// Its blocks are swapped with those of another damaged device.
    Swapped,
    /// It silently reverts to its contents at the start of the round.
    SetBack,
    /// It is truncated in the middle, and restored to its full size, with zeros, when it is
    /// repaired.
    Truncated,
    /// It is disconnected, and reconnected before the repair.
    Away,
    /// One write in 15 fails.
    WritesFail,
    /// It is removed permanently and replaced by another one, with sequential reconstruction if
    /// possible.
    Replaced {
        /// `zpool replace -s`.
        sequentially: bool,
    },
    /// It is disconnected, and a spare takes over.
    Spared {
        /// The spare is filled by sequential reconstruction.
        sequentially: bool,
        /// How the spare's use ends.
        then: Then,
    },
}

/// How a spare's use ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The device comes back.
    Back,
    /// Another device replaces it.
    Replaced,
    /// It is detached, and the spare stays permanently. Not for distributed spares.
    Stays,
}

/// Devices that provide redundancy for each other.
pub struct Part {
    /// Indices of the devices.
    places: Vec<usize>,
    /// How many of them may be damaged at a time.
    pub may_lose: usize,
    /// A single device: if it cannot be written, the pool considers its contents lost.
    is_lone: bool,
    /// A log device, whose blocks are useless after the next txg.
    is_log: bool,
    can_rebuild: bool,
    /// Index of the spare for these devices: `None` for no spare, `Some(None)` for a distributed
    /// one.
    spare: Option<Option<usize>>,
}

impl Part {
    /// The parts of a pool.
    pub fn of(shape: &Shape) -> Vec<Self> {
        let (main, extras) = (shape.layout.devices(), shape.extras);
        let lone = matches!(shape.layout, Layout::SideBySide(_));
        let spare = match (shape.layout, extras.spares) {
            (Layout::Draid(..), _) => Some(None),
            (_, 0) => None,
            _ => Some(Some(shape.devices() - 1)),
        };
        let mut parts = vec![Self {
            places: (0..main).collect(),
            may_lose: if lone { main - 1 } else { shape.layout.may_lose() },
            is_lone: lone,
            is_log: false,
            can_rebuild: matches!(shape.layout, Layout::Copies(_) | Layout::Draid(..)),
            spare,
        }];
        for (first, count, is_log) in [(main, extras.logs, true), (main + extras.logs, extras.special, false)] {
            let places: Vec<usize> = (first..first + count).collect();
            // The contents of a log are in memory, too.
            let may_lose = if is_log { count.min(1) } else { count.saturating_sub(1) };
            let part = Self { places, may_lose, is_lone: count == 1, is_log, can_rebuild: count > 1, spare: None };
            parts.extend(Some(part).filter(|_| count > 0));
        }
        parts
    }

    /// A random choice of as many devices as may be missing at the end.
    pub fn some(&self, chance: &mut Chance) -> Vec<usize> {
        let mut some: Vec<usize> = Vec::new();
        // A pool with a single log device cannot be opened without it, neither by OpenZFS's tools
        // nor by ours.
        let count = if self.is_log && self.is_lone { 0 } else { self.may_lose };
        while some.len() < count {
            let place = self.places[chance.below(self.places.len() as u64) as usize];
            if !some.contains(&place) {
                some.push(place);
            }
        }
        some
    }

    fn pick(&self, chance: &mut Chance) -> Hurt {
        let sequentially = self.can_rebuild && chance.once_in(2);
        let kinds: &[Hurt] = match (self.is_lone, self.is_log) {
            (true, false) => &[Hurt::Zeroed, Hurt::Noise, Hurt::SetBack],
            (true, true) => &[Hurt::Zeroed, Hurt::Noise, Hurt::SetBack, Hurt::Away, Hurt::WritesFail],
            _ => &[
                Hurt::Zeroed,
                Hurt::Noise,
                Hurt::SetBack,
                Hurt::Truncated,
                Hurt::Away,
                Hurt::WritesFail,
                Hurt::Replaced { sequentially },
                Hurt::Replaced { sequentially },
            ],
        };
        if self.spare.is_some() && chance.once_in(3) {
            let all = [Then::Back, Then::Replaced, Then::Stays];
            let most = if self.spare == Some(None) { 2 } else { 3 };
            return Hurt::Spared { sequentially, then: all[chance.below(most) as usize] };
        }
        kinds[chance.below(kinds.len() as u64) as usize]
    }
}

/// A device to damage, and how.
#[derive(Debug, Clone, Copy)]
pub struct Patient {
    part: usize,
    /// Index of the device.
    device: usize,
    /// GUID in the pool.
    guid: u64,
    kind: Hurt,
}

/// Chooses the devices to damage in this round, and how.
pub fn choose(parts: &[Part], rig: &Rig, chance: &mut Chance) -> Result<Vec<Patient>> {
    let mut all: Vec<Patient> = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 && chance.once_in(2) {
            continue;
        }
        let count = 1 + chance.below(part.may_lose as u64) as usize;
        let mut hurt: Vec<Patient> = Vec::new();
        while hurt.len() < count {
            let device = part.places[chance.below(part.places.len() as u64) as usize];
            let mut kind = part.pick(chance);
            let has_spare = |p: &Patient| matches!(p.kind, Hurt::Spared { .. });
            if matches!(kind, Hurt::Spared { .. }) && hurt.iter().any(has_spare) {
                kind = Hurt::Away;
            }
            if hurt.iter().all(|p| p.device != device) {
                hurt.push(Patient { part: number, device, guid: leaf_of(rig, device)?, kind });
            }
        }
        if let [one, other, ..] = hurt.as_mut_slice()
            && chance.once_in(4)
        {
            (one.kind, other.kind) = (Hurt::Swapped, Hurt::Swapped);
        }
        all.extend(hurt);
    }
    Ok(all)
}

impl Patient {
    /// The first stage of the failure.
    pub fn begin(&self, machine: &Machine, chance: &mut Chance) {
        let faults = |faults| machine.set_faults(self.device, faults);
        match self.kind {
            Hurt::Zeroed => zero(machine, self.device, DATA.start),
            Hurt::Noise => {
                for _ in 0..200 {
                    let length = 512 * (1 + chance.below(60));
                    let at = DATA.start + chance.below((DATA.end - DATA.start - length) / 512) * 512;
                    let noise: Vec<u8> = (0..length).map(|_| chance.below(256) as u8).collect();
                    machine.scribble(self.device, at, &noise);
                }
            }
            Hurt::Truncated => {
                let end = DATA.start + chance.below(12 << 20) / 512 * 512;
                zero(machine, self.device, end);
                faults(Faults { ends_at: Some(end), ..Faults::default() });
            }
            Hurt::Away | Hurt::Replaced { .. } | Hurt::Spared { .. } => {
                faults(Faults { is_gone: true, ..Faults::default() });
            }
            Hurt::WritesFail => faults(Faults { writes_fail_one_in: 15, ..Faults::default() }),
            Hurt::SetBack | Hurt::Swapped => {}
        }
    }

    /// The second stage of the failure. `all`: the devices damaged in this round; `before`: the
    /// contents of the devices at its start.
    pub fn worsen(&self, rig: &Rig, machine: &Arc<Machine>, all: &[Self], before: &[Pages]) -> Result<()> {
        match self.kind {
            Hurt::SetBack => put(machine, self.device, &before[self.device]),
            Hurt::Swapped => {
                let other = all.iter().find(|p| p.part == self.part && p.kind == self.kind && p.device != self.device);
                let other = other.context("another one")?.device;
                if self.device < other {
                    let now = machine.media();
                    put(machine, self.device, &now[other]);
                    put(machine, other, &now[self.device]);
                }
            }
            Hurt::Spared { sequentially, .. } => {
                rig.writer.fault(self.guid, Lasts::Always).context("declaring it faulty")?;
                let tree = rig.writer.store().tree();
                let spare = tree.spares.first().context("a spare")?;
                let new = NewLeaf { spare: Some(spare.guid), ..spare_leaf(machine, &spare.name) };
                join(rig, self.guid, NewLeaf { sequentially, ..new }).context("a spare stands in")?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Repairs the device as an administrator would. `next`: index of the next unused replacement
    /// device.
    pub fn heal(&self, rig: &Rig, machine: &Arc<Machine>, parts: &mut [Part], next: &mut usize) -> Result<()> {
        let part = &mut parts[self.part];
        let mut replace = |sequentially| -> Result<()> {
            let new = new_leaf(machine.devices().swap_remove(*next));
            join(rig, self.guid, NewLeaf { sequentially, ..new })?;
            part.places.iter_mut().filter(|place| **place == self.device).for_each(|place| *place = *next);
            *next += 1;
            Ok(())
        };
        match self.kind {
            Hurt::Replaced { sequentially } => replace(sequentially),
            Hurt::Spared { then: Then::Replaced, .. } => replace(false),
            Hurt::Spared { then: Then::Stays, .. } => {
                wait(rig)?;
                rig.writer.detach(self.guid).context("it leaves")?;
                let spare = part.spare.take().flatten().context("a spare with a device")?;
                part.places.iter_mut().filter(|place| **place == self.device).for_each(|place| *place = spare);
                Ok(())
            }
            Hurt::Spared { then: Then::Back, .. } => {
                machine.set_faults(self.device, Faults::default());
                let device = machine.devices().swap_remove(self.device);
                Ok(rig.writer.clear(Some(self.guid), &|_| Ok(device.clone()))?)
            }
            _ => {
                machine.set_faults(self.device, Faults::default());
                let device = machine.devices().swap_remove(self.device);
                rig.writer.online(self.guid, &|_| Ok(device.clone()))?;
                Ok(())
            }
        }
    }
}

/// The spare of that name, as a device to attach.
fn spare_leaf(machine: &Arc<Machine>, name: &str) -> NewLeaf {
    match machine.devices().into_iter().find(|device| device.name() == name) {
        Some(device) => new_leaf(device),
        None => {
            NewLeaf { kind: "dspare", path: name.to_owned(), device: None, ashift: 0, spare: None, sequentially: false }
        }
    }
}

/// Attaches a device. Retries while a repair of another kind is in progress.
fn join(rig: &Rig, to: u64, new: NewLeaf) -> Result<()> {
    let begun = Instant::now();
    loop {
        match rig.writer.attach(to, new.clone(), Joins::Replace) {
            Err(errors::Error::Invalid { what, .. }) if what.starts_with("currently") => {}
            done => return Ok(done?),
        }
        if begun.elapsed() > PATIENCE {
            bail!("{} cannot join: {:?}", new.path, rig.writer.scan_activity());
        }
        rig.writer.wait_for_scan(Duration::from_millis(20));
    }
}

fn zero(machine: &Machine, device: usize, from: u64) {
    let zeros = vec![0; 1 << 20];
    (from..DATA.end)
        .step_by(1 << 20)
        .for_each(|at| machine.scribble(device, at, &zeros[..(DATA.end - at).min(1 << 20) as usize]));
}

/// Writes only blocks. Labels that are older than those of other devices are a different failure,
/// detected when a pool is opened.
fn put(machine: &Machine, device: usize, pages: &Pages) {
    let mut bytes = vec![0; 1 << 20];
    for at in DATA.step_by(1 << 20) {
        let piece = &mut bytes[..(DATA.end - at).min(1 << 20) as usize];
        pages.read(at, piece);
        machine.scribble(device, at, piece);
    }
}

fn leaf_of(rig: &Rig, index: usize) -> Result<u64> {
    let (tree, name) = (rig.writer.store().tree(), format!("sim{index}"));
    tree.leaves().into_iter().find(|leaf| leaf.path == name).map(|leaf| leaf.guid).context(name)
}
