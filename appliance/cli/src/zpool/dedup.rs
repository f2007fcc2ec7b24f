//! The histogram of the dedup table (`zpool status -D`).

use crate::number::{nice_bytes, number};
use pool::status::DedupRow;

/// Formats the histogram with its totals. Numbers are rounded with `-p` too, as in OpenZFS.
pub fn histogram(rows: &[DedupRow]) -> String {
    let mut out = "\nbucket              allocated                       referenced          \n\
                   ______   ______________________________   ______________________________\n"
        .to_owned();
    let mut line = |cells: [&str; 9]| {
        let [r, b, l, p, d, rb, rl, rp, rd] = cells;
        out.push_str(&format!("{r:>6}   {b:>6}   {l:>5}   {p:>5}   {d:>5}   {rb:>6}   {rl:>5}   {rp:>5}   {rd:>5}\n"));
    };
    line(["refcnt", "blocks", "LSIZE", "PSIZE", "DSIZE", "blocks", "LSIZE", "PSIZE", "DSIZE"]);
    line(["------", "------", "-----", "-----", "-----", "------", "-----", "-----", "-----"]);
    let mut total = DedupRow::default();
    let mut row = |name: &str, r: &DedupRow| {
        let cells = [
            number(r.blocks, false),
            nice_bytes(r.lsize),
            nice_bytes(r.psize),
            nice_bytes(r.dsize),
            number(r.ref_blocks, false),
            nice_bytes(r.ref_lsize),
            nice_bytes(r.ref_psize),
            nice_bytes(r.ref_dsize),
        ];
        let [b, l, p, d, rb, rl, rp, rd] = cells.each_ref().map(String::as_str);
        line([name, b, l, p, d, rb, rl, rp, rd]);
    };
    for r in rows.iter().filter(|r| r.blocks > 0) {
        row(&number(1u64.checked_shl(r.bucket).unwrap_or(0), false), r);
        let sum = |a: &mut u64, b: u64| *a = a.saturating_add(b);
        sum(&mut total.blocks, r.blocks);
        sum(&mut total.lsize, r.lsize);
        sum(&mut total.psize, r.psize);
        sum(&mut total.dsize, r.dsize);
        sum(&mut total.ref_blocks, r.ref_blocks);
        sum(&mut total.ref_lsize, r.ref_lsize);
        sum(&mut total.ref_psize, r.ref_psize);
        sum(&mut total.ref_dsize, r.ref_dsize);
    }
    row("Total", &total);
    out.push('\n');
    out
}
