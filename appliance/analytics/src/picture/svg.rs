//! Encodes pictures as SVG: one path for each colour; text stays text.

use super::color::Rgb;
use super::frame::{Anchor, Picture};
use super::{BACKGROUND, Error, HATCH};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum size of a file in bytes.
const BYTES: usize = 16 << 20;

fn hex([r, g, b]: Rgb) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

impl Picture {
    /// Encodes the picture as SVG.
    pub fn svg(&self) -> Result<String, Error> {
        let (width, height) = (self.size.width, self.size.height);
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} \
             {height}\" shape-rendering=\"crispEdges\" role=\"img\">\n<title>{}</title>\n<rect width=\"{width}\" \
             height=\"{height}\" fill=\"{}\"/>\n",
            escaped(&self.title),
            hex(self.theme.background())
        );
        for (x, y, w, h, color) in &self.boxes {
            let _ = writeln!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{}\"/>", hex(*color));
        }
        let _ = writeln!(out, "<g transform=\"translate({} {})\">", self.place.0, self.place.1);
        self.hatch(&mut out);
        for (code, path) in self.paths()? {
            let color = self.colors.get(usize::from(code)).copied().unwrap_or_default();
            let _ = writeln!(out, "<path fill=\"{}\" d=\"{path}\"/>", hex(color));
        }
        out += "</g>\n";
        let ink = hex(self.theme.ink());
        let _ = writeln!(out, "<g font-family=\"monospace\" font-size=\"11\" fill=\"{ink}\">");
        for label in self.labels.iter().filter(|l| !l.text.is_empty()) {
            let anchor = match label.anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let (x, y, text) = (label.x, label.y + 8, escaped(&label.text));
            let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>");
        }
        out += "</g>\n</svg>\n";
        Ok(out)
    }

    /// The same pixels as in the raster: those where (x + y) % 6 == 0.
    fn hatch(&self, out: &mut String) {
        if self.raster.hatched.is_empty() {
            return;
        }
        let color = self.colors.get(usize::from(HATCH)).copied().unwrap_or_default();
        let dots: String = (0..6).map(|x| format!("M{x} {}h1v1h-1z", (6 - x) % 6)).collect();
        let _ = writeln!(
            out,
            "<pattern id=\"h\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path fill=\"{}\" \
             d=\"{dots}\"/></pattern>",
            hex(color)
        );
        for (left, right) in &self.raster.hatched {
            let (width, height) = (right - left, self.raster.area.height);
            let _ = writeln!(out, "<rect x=\"{left}\" width=\"{width}\" height=\"{height}\" fill=\"url(#h)\"/>");
        }
    }

    /// A path of rectangles for each colour. Adjacent pixels of a line are merged, and so are equal
    /// lines.
    fn paths(&self) -> Result<BTreeMap<u16, String>, Error> {
        // Runs that continue from the previous line: left, right, code -> the line where they
        // began.
        type Runs = BTreeMap<(u32, u32, u16), u32>;
        let width = self.raster.area.width as usize;
        let mut open = Runs::new();
        let mut out: BTreeMap<u16, String> = BTreeMap::new();
        let mut bytes = 0;
        let mut close = |runs: &Runs, bottom: u32| {
            for ((left, right, code), top) in runs {
                let path = out.entry(*code).or_default();
                let before = path.len();
                let w = right - left;
                let _ = write!(path, "M{left} {top}h{w}v{}h-{w}z", bottom - top);
                bytes += path.len() - before;
            }
            if bytes > BYTES { Err(Error::Large(BYTES >> 20)) } else { Ok(()) }
        };
        for (y, line) in (0..).zip(self.raster.codes.chunks(width.max(1))) {
            let mut runs = Runs::new();
            let mut x = 0;
            for run in line.chunk_by(|a, b| a == b) {
                let (left, code) = (x, run.first().copied().unwrap_or(BACKGROUND));
                x += run.len() as u32;
                if code != BACKGROUND && code != HATCH {
                    let top = open.remove(&(left, x, code)).unwrap_or(y);
                    runs.insert((left, x, code), top);
                }
            }
            close(&open, y)?;
            open = runs;
        }
        close(&open, self.raster.area.height)?;
        Ok(out)
    }
}
