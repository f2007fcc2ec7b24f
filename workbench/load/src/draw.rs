//! Draws text in heat maps: reads whose offsets, sizes or latencies form a picture over time.
//!
//! A column of the picture is a second or more, its rows are parts of an axis: of the file, of the
//! sizes up to the largest, or of the latencies of reads up to the largest size. The top row is the
//! maximum, as in heat maps. For latencies, the time that a read of each size takes is measured for
//! some seconds, and the size with the desired latency is requested.

use crate::number;
use crate::target::{Nfs, Target};
use crate::tree::{self, Access, Mode, Node, Tree, fill};
use anyhow::{Context, Result, bail, ensure};
use font8x8::legacy::BASIC_LEGACY;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The axis to draw on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Offset of reads, over the whole file.
    Offset,
    /// Size of reads, up to the largest.
    Size,
    /// Latency of reads, by the sizes that a calibration found for it.
    Latency,
}

/// A black-and-white picture, line by line from the top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bitmap {
    width: usize,
    bits: Vec<bool>,
}

impl Bitmap {
    /// Renders a text, eight pixels high; characters missing from the font are an error.
    pub fn text(text: &str) -> Result<Self> {
        let glyphs = text.chars().map(|c| {
            let found = BASIC_LEGACY.get(c as usize).filter(|_| !c.is_control());
            found.with_context(|| format!("the font lacks '{c}'"))
        });
        let glyphs = glyphs.collect::<Result<Vec<_>>>()?;
        ensure!(!glyphs.is_empty(), "nothing to draw");
        let bits = (0..8).flat_map(|row| {
            // The lowest bit of a line is its leftmost pixel.
            glyphs.iter().flat_map(move |g| (0..8).map(move |x| g[row] >> x & 1 == 1))
        });
        Ok(Self { width: glyphs.len() * 8, bits: bits.collect() })
    }

    /// Parses a PBM picture, plain (P1) or packed (P4).
    pub fn pbm(bytes: &[u8]) -> Result<Self> {
        let mut at = 2;
        let mut word = || -> Result<usize> {
            loop {
                match bytes.get(at) {
                    Some(b'#') => {
                        at += bytes[at..].iter().position(|b| *b == b'\n').context("a comment without end")?
                    }
                    Some(b) if b.is_ascii_whitespace() => at += 1,
                    _ => break,
                }
            }
            let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            let text = std::str::from_utf8(&bytes[at..at + digits])?;
            at += digits;
            text.parse().context("no width and height")
        };
        let is_plain = match bytes.get(..2) {
            Some(b"P1") => true,
            Some(b"P4") => false,
            _ => bail!("no picture of PBM (P1 or P4)"),
        };
        let (width, height) = (word()?, word()?);
        ensure!((1..=4096).contains(&width) && (1..=4096).contains(&height), "1 to 4096 pixels each way");
        let rest = bytes.get(at + 1..).unwrap_or_default();
        let bits: Vec<bool> = if is_plain {
            rest.iter().filter(|b| matches!(b, b'0' | b'1')).map(|b| *b == b'1').collect()
        } else {
            let line = width.div_ceil(8);
            let bit = |y: usize, x: usize| rest.get(y * line + x / 8).is_some_and(|b| b >> (7 - x % 8) & 1 == 1);
            (0..height).flat_map(|y| (0..width).map(move |x| (y, x))).map(|(y, x)| bit(y, x)).collect()
        };
        ensure!(bits.len() == width * height, "the picture ends early");
        Ok(Self { width, bits })
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn height(&self) -> usize {
        self.bits.len() / self.width
    }

    /// Whether a pixel is set; row 0 is the top.
    pub fn is_set(&self, column: usize, row: usize) -> bool {
        self.bits.get(row * self.width + column).copied().unwrap_or(false)
    }
}

/// A drawing: a picture, and how to draw it.
#[derive(Debug, Clone)]
pub struct Drawing {
    /// The file to read.
    pub target: Target,
    pub axis: Axis,
    pub bitmap: Bitmap,
    /// Duration of a column.
    pub column: Duration,
    /// The file is first filled to this size in bytes.
    pub file_size: u64,
    /// Size of the largest read in bytes.
    pub largest: u64,
    /// Number of reads for each set pixel.
    pub reads: u64,
}

/// Size of reads for drawings of offsets, in bytes.
const OFFSET_READ: u64 = 4096;
/// Sizes are multiples of this.
const SIZE_STEP: u64 = 1024;
/// Number of sizes whose latency is measured, and the total time for this.
const LADDER: u64 = 16;
const CALIBRATE: Duration = Duration::from_secs(5);

/// Latencies by size in bytes, in seconds; ascending in both.
type Ladder = Vec<(u64, f64)>;

impl Drawing {
    /// The fraction of the axis, 0 to 1, for read `i` of a pixel in this row.
    fn part(&self, row: usize, i: u64) -> f64 {
        let height = self.bitmap.height() as f64;
        let from_bottom = height - 1.0 - row as f64;
        (from_bottom + (i as f64 + 0.5) / self.reads.max(1) as f64) / height
    }

    /// Offsets and lengths of the reads for a column.
    fn reads(&self, column: usize, ladder: &Ladder) -> Vec<(u64, u64)> {
        let rows = (0..self.bitmap.height()).filter(|row| self.bitmap.is_set(column, *row));
        let mut reads = Vec::new();
        for row in rows {
            for i in 0..self.reads {
                let part = self.part(row, i);
                reads.push(match self.axis {
                    Axis::Offset => {
                        let at = (part * self.file_size as f64) as u64 / OFFSET_READ * OFFSET_READ;
                        (at.min(self.file_size - OFFSET_READ), OFFSET_READ)
                    }
                    Axis::Size => (0, (part * self.largest as f64) as u64 / SIZE_STEP * SIZE_STEP),
                    Axis::Latency => (0, size_for(ladder, part)),
                });
            }
        }
        reads.retain(|(_, len)| *len > 0);
        reads
    }

    /// Draws the picture. Returns the number of reads, and of columns that started late because
    /// reads were slow.
    pub fn draw(&self, stop: &AtomicBool) -> Result<(u64, usize)> {
        ensure!(self.reads > 0 && self.column > Duration::ZERO, "nothing to draw with");
        ensure!(self.largest >= SIZE_STEP && self.largest <= tree::TRANSFER_MAX as u64, "reads have 1K to 16M");
        ensure!(self.file_size >= OFFSET_READ.max(self.largest), "the file is smaller than a read");
        let (folder, name) = folder(&self.target)?;
        let mut tree = tree::open(&folder, Access::default(), self.largest as usize, 1)?;
        let node = self.filled(tree.as_mut(), &name)?;
        let ladder = if self.axis == Axis::Latency { self.calibrate(tree.as_mut(), &node)? } else { Vec::new() };
        // Heat maps have a column for each second of the clock: align the picture with them.
        let past = std::time::UNIX_EPOCH.elapsed().map_or(0, |t| t.subsec_nanos());
        let start = Instant::now() + Duration::from_nanos(u64::from(1_000_000_000 - past));
        let (mut done, mut late) = (0, 0);
        for column in 0..self.bitmap.width() {
            let begin = start + self.column * column as u32;
            let reads = self.reads(column, &ladder);
            late += usize::from(Instant::now() > begin + self.column / 2);
            for (i, (at, len)) in reads.iter().enumerate() {
                // Away from the edges: a slightly late read still belongs to its column.
                let due = begin + self.column.mul_f64(0.1) + self.gap() * i as u32;
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                tree.read(&node, *at, *len as usize)?;
                done += 1;
            }
            while Instant::now() < begin + self.column {
                if stop.load(Ordering::Relaxed) {
                    return Ok((done, late));
                }
                let left = (begin + self.column).saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(Duration::from_millis(100)));
            }
        }
        Ok((done, late))
    }

    /// Time between two reads, the same in all columns: a machine that slept longer responds more
    /// slowly.
    fn gap(&self) -> Duration {
        self.column.mul_f64(0.7) / u32::try_from(self.reads.max(1) * self.bitmap.height() as u64).unwrap_or(u32::MAX)
    }

    fn filled(&self, tree: &mut dyn Tree, name: &str) -> Result<Node> {
        let has = tree.look(name).unwrap_or(0);
        if has < self.file_size {
            fill(tree, name, self.file_size, 1 << 20)?;
        }
        Ok(tree.open(name, Mode::Read)?)
    }

    /// Measures the sizes in turn, spaced like the reads of the drawing; takes the median of each.
    fn calibrate(&self, tree: &mut dyn Tree, node: &Node) -> Result<Ladder> {
        let size = |step: u64| (self.largest * step / LADDER).max(SIZE_STEP);
        let mut took: Vec<(u64, Vec<f64>)> = (0..=LADDER).map(|step| (size(step), Vec::new())).collect();
        let end = Instant::now() + CALIBRATE;
        for round in 0u64.. {
            if round >= 5 && Instant::now() >= end {
                break;
            }
            // Seven is coprime to the number of sizes: large and small ones alternate, as in a
            // picture.
            for i in 0..=LADDER {
                let (size, took) = &mut took[(i * 7 % (LADDER + 1)) as usize];
                let begin = Instant::now();
                tree.read(node, 0, *size as usize)?;
                took.push(begin.elapsed().as_secs_f64());
                std::thread::sleep(self.gap().saturating_sub(begin.elapsed()));
            }
        }
        let mut ladder: Ladder = Vec::new();
        for (size, mut took) in took {
            took.sort_by(f64::total_cmp);
            // A longer read is never faster: enforce this against noise.
            let floor = ladder.last().map_or(0.0, |(_, t)| *t);
            ladder.push((size, took[took.len() / 2].max(floor)));
        }
        let (fast, slow) = (ladder[0].1, ladder[ladder.len() - 1].1);
        ensure!(
            slow > fast * 1.5,
            "a read of {} bytes takes {slow:.6} s, one of {} {fast:.6} s: no latencies to draw with, use a larger --largest",
            self.largest,
            ladder[0].0
        );
        Ok(ladder)
    }
}

/// The size whose latency is this fraction of the slowest one's.
fn size_for(ladder: &Ladder, part: f64) -> u64 {
    let Some((largest, slowest)) = ladder.last() else { return 0 };
    let wanted = part * slowest;
    let above = ladder.iter().position(|(_, t)| *t >= wanted).unwrap_or(ladder.len() - 1);
    let (size, time) = ladder[above];
    let size = match above.checked_sub(1).map(|below| ladder[below]) {
        // Latencies below the fastest read cannot be drawn.
        None if wanted < time * 0.5 => return 0,
        None => size,
        Some((low, fast)) if time > fast => low + ((size - low) as f64 * (wanted - fast) / (time - fast)) as u64,
        Some((low, _)) => low,
    };
    size.clamp(SIZE_STEP, *largest)
}

/// The directory and the name of a file.
fn folder(target: &Target) -> Result<(Target, String)> {
    match target {
        Target::Path(path) => {
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .with_context(|| format!("{target}: expected the path of a file"))?;
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(std::path::Path::new("."));
            Ok((Target::Path(folder.to_owned()), name.to_owned()))
        }
        Target::Nfs(nfs) => {
            let (folder, name) =
                nfs.path.rsplit_once('/').with_context(|| format!("{target}: expected the path of a file"))?;
            ensure!(!name.is_empty(), "{target}: expected the path of a file");
            let path = if folder.is_empty() { "/".to_owned() } else { folder.to_owned() };
            Ok((Target::Nfs(Nfs { path, ..nfs.clone() }), name.to_owned()))
        }
        Target::Nbd(_) => bail!("{target}: expected a file, local or on an NFS server"),
    }
}

/// Parses `60s` like [`crate::number::time`], for command line arguments.
pub fn duration(text: &str) -> std::result::Result<Duration, String> {
    number::time(text).ok_or_else(|| format!("'{text}' is not a time, such as 30, 90s, 5m or 2h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawing(axis: Axis, text: &str) -> Drawing {
        Drawing {
            target: Target::Path("/x".into()),
            axis,
            bitmap: Bitmap::text(text).expect("letters"),
            column: Duration::from_secs(1),
            file_size: 64 << 20,
            largest: 1 << 20,
            reads: 32,
        }
    }

    /// Correlation of the picture with counts in the same number of rows.
    fn correlation(drawing: &Drawing, part_of: impl Fn((u64, u64)) -> f64, ladder: &Ladder) -> f64 {
        let (w, h) = (drawing.bitmap.width(), drawing.bitmap.height());
        let (mut seen, mut wanted) = (vec![0.0; w * h], vec![0.0; w * h]);
        for column in 0..w {
            for read in drawing.reads(column, ladder) {
                let row = h - 1 - ((part_of(read) * h as f64) as usize).min(h - 1);
                seen[row * w + column] += 1.0;
            }
            (0..h).for_each(|row| wanted[row * w + column] = f64::from(u8::from(drawing.bitmap.is_set(column, row))));
        }
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let (a, b) = (mean(&seen), mean(&wanted));
        let sum = |f: &dyn Fn(f64, f64) -> f64| seen.iter().zip(&wanted).map(|(x, y)| f(x - a, y - b)).sum::<f64>();
        sum(&|x, y| x * y) / (sum(&|x, _| x * x) * sum(&|_, y| y * y)).sqrt()
    }

    #[test]
    fn reads_draw_the_text_and_not_upside_down() {
        let d = drawing(Axis::Offset, "Weir 8");
        let size = d.file_size as f64;
        assert!(correlation(&d, |(at, _)| at as f64 / size, &Vec::new()) > 0.99);
        assert!(correlation(&d, |(at, _)| 1.0 - (at as f64 + 1.0) / size, &Vec::new()) < 0.5);
        let d = drawing(Axis::Size, "Weir 8");
        assert!(correlation(&d, |(_, len)| len as f64 / (1 << 20) as f64, &Vec::new()) > 0.97);
        // A server that takes 50 us plus 1 us for each KiB.
        let took = |len: u64| 50.0 + len as f64 / 1024.0;
        let ladder: Ladder = (0..=16u64).map(|i| (i << 16).max(1024)).map(|len| (len, took(len))).collect();
        let d = drawing(Axis::Latency, "Weir 8");
        assert!(correlation(&d, |(_, len)| took(len) / took(1 << 20), &ladder) > 0.9);
    }

    #[test]
    fn pictures_come_from_texts_and_pbm() {
        let t = Bitmap::text("T").expect("a letter");
        assert_eq!((t.width(), t.height()), (8, 8));
        // The bar of a T is its top row.
        assert!(t.is_set(3, 0) && t.is_set(1, 0) && !t.is_set(1, 4) && t.is_set(3, 4));
        let plain = Bitmap::pbm(b"P1\n# x\n3 2\n1 0 1\n0 1 0\n").expect("a picture");
        let packed = Bitmap::pbm(&[b"P4 3 2\n".as_slice(), &[0b1010_0000, 0b0100_0000]].concat()).expect("a picture");
        assert_eq!(plain, packed);
        assert!(plain.is_set(2, 0) && plain.is_set(1, 1) && !plain.is_set(0, 1));
        assert!(Bitmap::pbm(b"P1 3 2 1").is_err() && Bitmap::text("").is_err() && Bitmap::text("\u{2603}").is_err());
    }
}
