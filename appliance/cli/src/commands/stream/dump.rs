//! `weir stream dump`: the output of `zstream dump` of OpenZFS 2.3.2, for streams of both byte
//! orders.

use super::input::open;
use super::print;
use anyhow::Result;
use clap::ArgMatches;
use dataset::stream::{Packet, Reader, kind_name};
use ondisk::Nvlist;
use ondisk::send_record::{Begin, Body, Crypt, MAGIC, RECORD_BYTES};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

/// Record types in the order of the summary.
const KINDS: [&str; 11] = [
    "BEGIN",
    "END",
    "OBJECT",
    "FREEOBJECTS",
    "WRITE",
    "WRITE_BYREF",
    "WRITE_EMBEDDED",
    "FREE",
    "SPILL",
    "OBJECT_RANGE",
    "REDACT",
];
/// Record types that the summary of `zstream dump` 2.3.2 omits.
const NOT_SUMMED_UP: [&str; 2] = ["OBJECT_RANGE", "REDACT"];

#[derive(Debug, Clone, Copy)]
struct Style {
    /// Print every record, not only the totals.
    all: bool,
    /// Print the checksums of records.
    checksums: bool,
    /// Print the payloads in hexadecimal.
    data: bool,
}

pub fn run(matches: &ArgMatches) -> Result<ExitCode> {
    let (verbose, data) = (matches.get_count("verbose"), matches.get_flag("data"));
    let style = Style { all: data || verbose > 0, checksums: data || verbose > 1, data };
    let reader = Reader::new(open(matches)?);
    let mut reader = if matches.get_flag("unchecked") { reader.unchecked() } else { reader };
    let mut out = BufWriter::new(io::stdout().lock());
    let outcome = match dump(&mut reader, style, &mut out).and_then(|wrong| out.flush().map(|()| wrong)) {
        // The reader of the output has closed it.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
        outcome => outcome?,
    };
    match outcome {
        Some(error) => Err(error.into()),
        None if !reader.is_whole() => anyhow::bail!("the stream ends without an END record"),
        None => Ok(ExitCode::SUCCESS),
    }
}

/// Prints records up to the end or the first error, then the summary. Returns the error.
fn dump<R: io::Read>(reader: &mut Reader<R>, style: Style, out: &mut dyn Write) -> io::Result<Option<errors::Error>> {
    let mut sums = [(0u64, 0u64); KINDS.len()];
    let wrong = loop {
        match reader.next_record() {
            Ok(Some(packet)) => {
                let kind = kind_name(&packet.record.body);
                let at = KINDS.iter().position(|k| *k == kind).expect("all kinds are listed");
                sums[at] = (sums[at].0 + 1, sums[at].1 + packet.payload.len() as u64);
                show(&packet, style, out)?;
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    writeln!(out, "SUMMARY:")?;
    for (kind, (count, bytes)) in KINDS.iter().zip(sums) {
        if !NOT_SUMMED_UP.contains(kind) {
            writeln!(out, "\tTotal DRR_{kind} records = {count} ({bytes} bytes)")?;
        }
    }
    let (records, payload) = sums.iter().fold((0, 0), |sum, kind| (sum.0 + kind.0, sum.1 + kind.1));
    let heads = records * RECORD_BYTES as u64;
    writeln!(out, "\tTotal records = {records}")?;
    writeln!(out, "\tTotal payload size = {payload} ({payload:#x})")?;
    writeln!(out, "\tTotal header overhead = {heads} ({heads:#x})")?;
    let all = payload + heads;
    writeln!(out, "\tTotal stream length = {all} ({all:#x})")?;
    Ok(wrong)
}

fn show(packet: &Packet<'_>, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let record = &packet.record;
    match &record.body {
        Body::Begin(begin) => return show_begin(begin, packet.payload, style, out),
        Body::End { checksum, .. } => writeln!(out, "END checksum = {}", words(checksum))?,
        body if style.all => writeln!(out, "{}", line(body, record.payload_bytes()))?,
        _ => {}
    }
    if style.data {
        print::bytes(out, packet.payload)?;
    }
    if style.checksums {
        writeln!(out, "    checksum = {}", words(&record.checksum))?;
    }
    Ok(())
}

fn show_begin(begin: &Begin, payload: &[u8], style: Style, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "BEGIN record")?;
    writeln!(out, "\thdrtype = {}", begin.header_type)?;
    writeln!(out, "\tfeatures = {:x}", begin.features.bits())?;
    writeln!(out, "\tmagic = {MAGIC:x}")?;
    writeln!(out, "\tcreation_time = {:x}", begin.creation_time)?;
    writeln!(out, "\ttype = {}", begin.objset_type)?;
    writeln!(out, "\tflags = {:#x}", begin.flags)?;
    writeln!(out, "\ttoguid = {:x}", begin.to_guid)?;
    writeln!(out, "\tfromguid = {:x}", begin.from_guid)?;
    write!(out, "\ttoname = ")?;
    out.write_all(&begin.to_name)?;
    writeln!(out, "\n\tpayloadlen = {}", payload.len())?;
    if style.all {
        writeln!(out)?;
    }
    match Nvlist::parse(payload) {
        _ if payload.is_empty() => Ok(()),
        Ok(list) => print::list(out, &list, 0),
        Err(error) => writeln!(out, "the list does not unpack: {error}"),
    }
}

fn words([a, b, c, d]: &[u64; 4]) -> String {
    format!("{a:x}/{b:x}/{c:x}/{d:x}")
}

fn crypt(crypt: &Crypt) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    format!("salt = {} iv = {} mac = {}", hex(&crypt.salt), hex(&crypt.iv), hex(&crypt.mac))
}

fn line(body: &Body, payload_bytes: u64) -> String {
    match body {
        Body::Begin(_) | Body::End { .. } => String::new(),
        Body::Object(o) => format!(
            "OBJECT object = {} type = {} bonustype = {} blksz = {} bonuslen = {} dn_slots = {} raw_bonuslen = {} \
             flags = {} maxblkid = {} indblkshift = {} nlevels = {} nblkptr = {}",
            o.object,
            o.object_type,
            o.bonus_type,
            o.block_bytes,
            o.bonus_bytes,
            o.slots,
            o.raw_bonus_bytes,
            o.flags,
            o.max_block_id,
            o.indirect_shift,
            o.levels,
            o.blkptrs
        ),
        Body::FreeObjects { first, count, .. } => format!("FREEOBJECTS firstobj = {first} numobjs = {count}"),
        Body::Write(w) => format!(
            "WRITE object = {} type = {} checksum type = {} compression type = {} flags = {} offset = {} \
             logical_size = {} compressed_size = {} payload_size = {payload_bytes} props = {:x} {}",
            w.object,
            w.object_type,
            w.checksum_type,
            w.compression,
            w.flags,
            w.offset,
            w.logical_bytes,
            w.compressed_bytes,
            w.key.prop,
            crypt(&w.crypt)
        ),
        Body::WriteByRef(w) => format!(
            "WRITE_BYREF object = {} checksum type = {} props = {:x} offset = {} length = {} toguid = {:x} \
             refguid = {:x} refobject = {} refoffset = {}",
            w.object,
            w.checksum_type,
            w.key.prop,
            w.offset,
            w.length,
            w.to_guid,
            w.ref_guid,
            w.ref_object,
            w.ref_offset
        ),
        // OpenZFS prints a length "up to the end" as -1.
        Body::Free { object, offset, length, .. } => {
            format!("FREE object = {object} offset = {offset} length = {}", *length as i64)
        }
        Body::Spill(s) => format!(
            "SPILL block for object = {} length = {} flags = {} compression type = {} compressed_size = {} \
             payload_size = {payload_bytes} {}",
            s.object,
            s.length,
            s.flags,
            s.compression,
            s.compressed_bytes,
            crypt(&s.crypt)
        ),
        Body::WriteEmbedded(w) => format!(
            "WRITE_EMBEDDED object = {} offset = {} length = {} toguid = {:x} comp = {} etype = {} lsize = {} psize = {}",
            w.object, w.offset, w.length, w.to_guid, w.compression, w.embedded_type, w.logical_bytes, w.physical_bytes
        ),
        Body::ObjectRange { first, slots, crypt: c, flags, .. } => {
            format!("OBJECT_RANGE firstobj = {first} numslots = {slots} flags = {flags} {}", crypt(c))
        }
        Body::Redact { object, offset, length, .. } => {
            format!("REDACT object = {object} offset = {offset} length = {length}")
        }
    }
}
