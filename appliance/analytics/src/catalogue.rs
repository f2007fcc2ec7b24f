//! The catalogue of statistics: what each counts, and its possible breakdowns.
//!
//! A statistic is counted in one of two ways: from the operations themselves ([`Origin::Events`]),
//! which can be broken down by any property of an operation, even retrospectively; or from metrics
//! of other components ([`Origin::Sampled`]), once per second.

mod health;
mod network;
mod statistic;
mod streams;
mod txg;
mod zil;

pub use statistic::{Origin, Shown, Statistic, Weight};

use crate::name::{BadName, Field, Name};
use observe::Layer;
use statistic::{bytes, ops, sampled};

const DISK: &[Field] =
    &[Field::Op, Field::Pool, Field::Disk, Field::Result, Field::Latency, Field::Size, Field::Offset];
const NBD: &[Field] = &[
    Field::Op,
    Field::Client,
    Field::Volume,
    Field::HitMiss,
    Field::Result,
    Field::Latency,
    Field::Size,
    Field::Offset,
    Field::QueueWait,
    Field::LogWait,
    Field::TxgWait,
    Field::DiskWait,
];
const NBD_BYTES: &[Field] = &[Field::Op, Field::Client, Field::Volume, Field::Latency, Field::Size, Field::Offset];
const CACHE: &[Field] = &[Field::HitMiss, Field::Client, Field::User, Field::Share, Field::File, Field::Op];

/// The statistics that can be counted.
pub static CATALOGUE: &[Statistic] = &[
    sampled(
        "cpu.utilization",
        "CPU",
        "CPU: percent utilization",
        "percent",
        Shown::Level,
        &[Field::Mode, Field::Cpu],
        "Utilization of this machine's processors.",
    ),
    Statistic {
        fields: CACHE,
        unit: "accesses",
        help: "Lookups of data and metadata in the cache in memory: hits, misses, and hits on blocks that were read ahead.",
        origin: Origin::Events(&[Layer::Nfs3, Layer::Nfs4, Layer::Nfs41, Layer::Fuse, Layer::Nbd], Weight::Lookups),
        ..ops("arc.accesses", "Cache", "ARC accesses", &[])
    },
    sampled(
        "arc.size",
        "Cache",
        "ARC size",
        "bytes",
        Shown::Level,
        &[Field::Component, Field::Pool],
        "Memory used by the cache: for file data, for metadata, and for headers.",
    ),
    sampled(
        "arc.target",
        "Cache",
        "ARC target size",
        "bytes",
        Shown::Level,
        &[Field::Pool],
        "Memory that the cache may use for data and metadata.",
    ),
    sampled(
        "arc.evicted",
        "Cache",
        "ARC evicted bytes",
        "bytes",
        Shown::Rate,
        &[Field::Component, Field::Pool],
        "Bytes of blocks evicted from the cache to make room for others.",
    ),
    sampled(
        "arc.l2_accesses",
        "Cache",
        "L2ARC accesses",
        "accesses",
        Shown::Rate,
        &[Field::HitMiss, Field::Pool],
        "Lookups in cache devices after ARC misses: hits and misses.",
    ),
    sampled(
        "arc.l2_bytes",
        "Cache",
        "L2ARC bytes",
        "bytes",
        Shown::Rate,
        &[Field::Direction, Field::Pool],
        "Bytes read from cache devices for hits (out), and written to them (in).",
    ),
    sampled(
        "arc.l2_size",
        "Cache",
        "L2ARC size",
        "bytes",
        Shown::Level,
        &[Field::Pool],
        "Size of the blocks on cache devices, as stored there.",
    ),
    sampled(
        "arc.l2_errors",
        "Cache",
        "L2ARC errors",
        "errors",
        Shown::Rate,
        &[Field::Pool],
        "Blocks with a wrong checksum on a cache device, and failed reads of it; the pool was read instead.",
    ),
    sampled(
        "io.disks",
        "Disk",
        "Disks",
        "disks",
        Shown::Level,
        &[Field::Utilization, Field::Disk],
        "Devices, by the share of time during which they were busy.",
    ),
    sampled(
        "io.queue",
        "Disk",
        "Disk: operations in queues",
        "operations",
        Shown::Level,
        &[Field::Class, Field::Disk, Field::Pool],
        "Operations that wait in the queues of devices or that the devices work on, at the end of each second. Joined ones are one once a device has them.",
    ),
    Statistic {
        fields: DISK,
        help: "Reads, writes and flushes of devices. A read of wrong bytes has the result `checksum`, even if they were repaired from another copy or parity.",
        ..ops("io.ops", "Disk", "Disk: I/O operations", &[Layer::Disk])
    },
    Statistic {
        fields: DISK,
        help: "Bytes read from and written to devices.",
        ..bytes("io.bytes", "Disk", "Disk: I/O bytes", &[Layer::Disk])
    },
    sampled(
        "nic.kilobytes",
        "Network",
        "Network: device bytes",
        "bytes",
        Shown::Rate,
        &[Field::Device, Field::Direction],
        "Bytes sent and received by network devices.",
    ),
    network::BYTES,
    sampled(
        "nfs.refused",
        "Protocol",
        "NFS: refused clients",
        "requests",
        Shown::Rate,
        &[Field::Component],
        "Requests and connections that were refused because a table of the server was full, by table.",
    ),
    ops("nfs3.ops", "Protocol", "NFSv3 operations", &[Layer::Nfs3]),
    bytes("nfs3.bytes", "Protocol", "NFSv3 bytes", &[Layer::Nfs3]),
    ops("nfs4.ops", "Protocol", "NFSv4.0 operations", &[Layer::Nfs4]),
    bytes("nfs4.bytes", "Protocol", "NFSv4.0 bytes", &[Layer::Nfs4]),
    ops("nfs4-1.ops", "Protocol", "NFSv4.1 operations", &[Layer::Nfs41]),
    bytes("nfs4-1.bytes", "Protocol", "NFSv4.1 bytes", &[Layer::Nfs41]),
    ops("fuse.ops", "Protocol", "Mount operations", &[Layer::Fuse]),
    bytes("fuse.bytes", "Protocol", "Mount bytes", &[Layer::Fuse]),
    Statistic {
        fields: NBD,
        help: "Requests of NBD clients, timed from the arrival of the request's last byte to the reply.",
        ..ops("nbd.ops", "Protocol", "NBD operations", &[Layer::Nbd])
    },
    Statistic {
        fields: NBD_BYTES,
        help: "Bytes of volumes read and written.",
        ..bytes("nbd.bytes", "Protocol", "NBD bytes", &[Layer::Nbd])
    },
    zil::OPS,
    zil::BYTES,
    txg::PHASES,
    txg::BYTES,
    txg::DIRTY,
    streams::SEND_OPS,
    streams::SEND_BYTES,
    streams::RECEIVE_OPS,
    streams::RECEIVE_BYTES,
    sampled(
        "cap.bytesused",
        "Capacity",
        "Capacity: bytes used",
        "bytes",
        Shown::Level,
        &[Field::Pool],
        "Allocated space.",
    ),
    sampled(
        "cap.percentused",
        "Capacity",
        "Capacity: percent used",
        "percent",
        Shown::Level,
        &[Field::Pool],
        "Percentage of the pool's space that is allocated.",
    ),
    sampled(
        "cap.percentfull",
        "Capacity",
        "Capacity: percent of usable space used",
        "percent",
        Shown::Level,
        &[Field::Pool],
        "Percentage of the space for datasets that is used. The slop space, which they cannot use, is not included.",
    ),
    health::REASONS,
    health::DEVICES,
    health::SLOW_DISKS,
    health::SCRUB_DAYS,
    health::REPLICATION_HOURS,
    health::CERTIFICATE_DAYS,
];

/// The statistic with this name. An error if it does not exist or lacks one of the fields.
pub fn find(name: &Name) -> Result<&'static Statistic, BadName> {
    let bad = |at: usize, wrong: String| BadName { name: name.to_string(), at, wrong };
    let raw = name.raw();
    let found = CATALOGUE.iter().find(|s| s.name == raw).ok_or_else(|| bad(0, format!("unknown statistic '{raw}'")))?;
    let mut fields = name.predicates.iter().map(|p| p.field).chain(name.breakdown);
    if let Some(field) = fields.find(|field| !found.fields.contains(field)) {
        let known: Vec<_> = found.fields.iter().map(|f| f.name()).collect();
        let wrong = format!("'{raw}' has no '{}', expected one of {}", field.name(), known.join(", "));
        return Err(bad(raw.len(), wrong));
    }
    Ok(found)
}

/// The title of a name: `NFSv3 operations of type write for client deimos broken down by latency`.
pub fn title(name: &Name) -> String {
    use crate::name::{Predicate, Wanted, text_of};
    let mut out = CATALOGUE.iter().find(|s| s.name == name.raw()).map_or_else(|| name.raw(), |s| s.title.to_owned());
    for Predicate { field, wanted } in &name.predicates {
        let value = match wanted {
            Wanted::Is(value) => value.clone(),
            Wanted::Between(from, to) => {
                let text = |n: u64| field.scheme().map_or_else(|| n.to_string(), |s| text_of(n, s));
                if *to == u64::MAX {
                    format!("{} and more", text(*from))
                } else {
                    format!("{} to {}", text(*from), text(*to))
                }
            }
        };
        out += &match field {
            Field::Op => format!(" of type {value}"),
            field => format!(" for {} {value}", field.title()),
        };
    }
    if let Some(field) = name.breakdown {
        out += &format!(" broken down by {}", field.title());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statistic_has_a_name_that_is_one_and_is_found_with_each_breakdown() {
        for s in CATALOGUE {
            let raw: Name = s.name.parse().expect(s.name);
            assert_eq!(find(&raw).map(|f| f.name), Ok(s.name));
            for field in s.fields {
                let name: Name = format!("{}[{}]", s.name, field.name()).parse().expect(s.name);
                assert!(find(&name).is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn titles_are_sentences() {
        let name: Name = "nfs3.ops[op=write][client=deimos][latency]".parse().expect("right");
        assert_eq!(title(&name), "NFSv3 operations of type write for client deimos broken down by latency");
        let name: Name = "io.disks[utilization=95][disk]".parse().expect("right");
        assert_eq!(title(&name), "Disks for percent utilization 95 and more broken down by disk");
    }

    #[test]
    fn an_error_lists_the_available_names() {
        let bad = find(&"nfs3.ops[disk]".parse().expect("right")).expect_err("no such breakdown");
        assert!(bad.to_string().contains("'nfs3.ops' has no 'disk', expected one of op, client"), "{bad}");
        assert!(find(&"nfs9.ops".parse().expect("right")).is_err());
    }
}
