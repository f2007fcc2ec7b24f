//! The keyword of a draid: `draid[PARITY][:DATAd][:CHILDRENc][:SPARESs]`; the parts after the first
//! are in any order.
//!
//! Facts: get_parity, draid_config_by_type in cmd/zpool/zpool_vdev.c; messages are OpenZFS's.

use super::wrong::{Flaw, Wrong, wrong};

/// Default number of data devices per group: OpenZFS's trade between capacity and speed.
const DATA_DEFAULT: u64 = 8;
const PARITY_MAX: u64 = 3;
const SPARES_MAX: u64 = 100;

/// Parameters of a draid: from its keyword, and derived from the number of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draid {
    /// Parity devices per group.
    pub parity: u64,
    /// Data devices per group.
    pub data: u64,
    /// Distributed spares, in devices.
    pub spares: u64,
}

/// The parity of the keyword; `None` if it is not a draid.
pub fn keyword(word: &str) -> Result<Option<u64>, Wrong> {
    let Some(rest) = word.strip_prefix("draid") else { return Ok(None) };
    let number = rest.split(':').next().unwrap_or_default();
    let parity = match number {
        "" => 1,
        _ => match number.parse::<u64>() {
            Ok(parity) if parity > 0 && !number.starts_with('0') => parity,
            _ => return Ok(None),
        },
    };
    if parity > PARITY_MAX {
        return wrong(format!("invalid dRAID parity level {parity}; must be between 1 and {PARITY_MAX}"));
    }
    Ok(Some(parity))
}

/// The shape of the draid with that many devices.
pub fn shape(word: &str, parity: u64, children: u64) -> Result<Draid, Wrong> {
    let (mut data, mut spares) = (None, 0);
    for part in word.split(':').skip(1) {
        let syntax = || Wrong {
            flaw: Flaw::Invalid,
            text: format!("invalid dRAID syntax; expected [:<number><c|d|s>] not '{word}'"),
        };
        let end = part.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0).ok_or_else(syntax)?;
        let value: u64 = part[..end].parse().map_err(|_| syntax())?;
        match part[end..].to_ascii_lowercase().as_str() {
            "c" if value != children => {
                return wrong(format!("invalid number of dRAID children; {value} required but {children} provided"));
            }
            "c" => {}
            "d" => data = Some(value),
            "s" => spares = value,
            _ => return Err(syntax()),
        }
    }
    let left = children.saturating_sub(spares).saturating_sub(parity);
    if data.is_none() && left == 0 {
        return wrong(format!(
            "request number of distributed spares {spares} and parity level {parity}\n\
             leaves no disks available for data"
        ));
    }
    let data = data.unwrap_or(left.min(DATA_DEFAULT));
    if data == 0 || data > left {
        return wrong(format!(
            "requested number of dRAID data disks per group {data} is too high,\n\
             at most {left} disks are available for data"
        ));
    }
    if spares > SPARES_MAX {
        return wrong(format!("invalid number of dRAID spares {spares}; additional disks would be required"));
    }
    Ok(Draid { parity, data, spares })
}
