//! PNG output: pixels in memory, with the letters of font8x8, so that no installed font is needed.

use super::canvas::{Canvas, Font, Ink, Level, Point, Side, Turn};
use super::{Error, Figure, Wanted, draw};
use font8x8::UnicodeFonts as _;

/// Width and height of a letter in pixels.
const LETTER: i32 = 8;

/// A picture in memory.
pub(super) struct Pixels {
    size: (u32, u32),
    rgb: Vec<u8>,
}

impl Pixels {
    fn new(size: (u32, u32)) -> Self {
        Self { size, rgb: vec![0; size.0 as usize * size.1 as usize * 3] }
    }

    /// The pixels of a row or column of the picture between two ends, inclusive.
    fn within(one: i32, other: i32, size: u32) -> std::ops::RangeInclusive<i32> {
        one.min(other).max(0)..=one.max(other).min(size as i32 - 1)
    }

    fn mix(&mut self, (x, y): Point, ink: Ink) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        let at = (y as usize * self.size.0 as usize + x as usize) * 3;
        let (r, g, b) = ink.rgb;
        let alpha = ink.opacity.clamp(0.0, 1.0);
        for (old, new) in self.rgb[at..].iter_mut().zip([r, g, b]) {
            *old = (f64::from(*old) * (1.0 - alpha) + f64::from(new) * alpha + 0.5) as u8;
        }
    }

    /// The points of a straight line, one for each step along its longer side, with the exact
    /// distance along the shorter one.
    fn steps(from: Point, to: Point) -> impl Iterator<Item = (bool, i32, f64)> {
        let steep = (to.1 - from.1).abs() > (to.0 - from.0).abs();
        let flip = |(x, y): Point| if steep { (y, x) } else { (x, y) };
        let (a, b) = (flip(from), flip(to));
        let (a, b) = if a.0 > b.0 { (b, a) } else { (a, b) };
        let slope = f64::from(b.1 - a.1) / f64::from((b.0 - a.0).max(1));
        (a.0..=b.0).map(move |along| (steep, along, f64::from(a.1) + f64::from(along - a.0) * slope))
    }
}

impl Canvas for Pixels {
    fn rectangle(&mut self, one: Point, other: Point, ink: Ink) {
        for y in Self::within(one.1, other.1, self.size.1) {
            for x in Self::within(one.0, other.0, self.size.0) {
                self.mix((x, y), ink);
            }
        }
    }

    /// A sloping line covers two pixels at each step, each by its share.
    fn line(&mut self, from: Point, to: Point, ink: Ink) {
        for (steep, along, across) in Self::steps(from, to) {
            let below = across.floor();
            for (offset, share) in [(0, 1.0 - (across - below)), (1, across - below)] {
                if share > 0.0 {
                    let across = below as i32 + offset;
                    self.mix(if steep { (across, along) } else { (along, across) }, ink.faint(share));
                }
            }
        }
    }

    fn path(&mut self, points: &[Point], width: u32, ink: Ink) {
        for ends in points.windows(2) {
            if width <= 1 {
                self.line(ends[0], ends[1], ink);
                continue;
            }
            // A square pen.
            let (before, after) = ((width as i32 - 1) / 2, width as i32 / 2);
            for (steep, along, across) in Self::steps(ends[0], ends[1]) {
                let across = across.round() as i32;
                let (x, y) = if steep { (across, along) } else { (along, across) };
                self.rectangle((x - before, y - before), (x + after, y + after), ink);
            }
        }
    }

    /// Row by row: a pixel is inside if the outline crosses the middle of its row an odd number of
    /// times on its left.
    fn polygon(&mut self, points: &[Point], ink: Ink) {
        let Some(last) = points.last() else { return };
        let edges: Vec<(Point, Point)> =
            std::iter::once(last).chain(points).copied().zip(points.iter().copied()).collect();
        let (low, high) = points.iter().fold((i32::MAX, i32::MIN), |(low, high), (_, y)| (low.min(*y), high.max(*y)));
        for y in Self::within(low, high, self.size.1) {
            let middle = f64::from(y) + 0.5;
            let cross = |((x0, y0), (x1, y1)): &(Point, Point)| {
                let (y0, y1) = (f64::from(*y0), f64::from(*y1));
                let share = (middle - y0) / (y1 - y0);
                ((y0 < middle) != (y1 < middle)).then(|| f64::from(*x0) + f64::from(x1 - x0) * share)
            };
            let mut crossings: Vec<f64> = edges.iter().filter_map(cross).collect();
            crossings.sort_by(f64::total_cmp);
            for pair in crossings.chunks_exact(2) {
                let (left, right) = ((pair[0] - 0.5).ceil() as i32, (pair[1] - 0.5).ceil() as i32 - 1);
                if left <= right {
                    self.rectangle((left, y), (right, y), ink);
                }
            }
        }
    }

    fn text(&mut self, text: &str, (x, y): Point, font: Font) {
        let width = text.chars().count() as i32 * LETTER;
        let left = match font.side {
            Side::Start => 0,
            Side::Middle => -width / 2,
            Side::End => -width,
        };
        let top = match font.level {
            Level::Top => 0,
            Level::Center => -LETTER / 2,
        };
        for (n, letter) in (0..).zip(text.chars()) {
            let rows = font8x8::BASIC_FONTS.get(letter).or_else(|| font8x8::BASIC_FONTS.get('?')).unwrap_or_default();
            for (dy, row) in (0..).zip(rows) {
                for dx in (0..LETTER).filter(|dx| row >> dx & 1 == 1) {
                    let (along, across) = (left + n * LETTER + dx, top + dy);
                    let (px, py) = match font.turn {
                        Turn::None => (along, across),
                        Turn::Right => (-across, along),
                        Turn::Left => (across, -along),
                    };
                    self.mix((x + px, y + py), font.ink);
                }
            }
        }
    }
}

impl Figure {
    /// Draws the figure as PNG.
    pub fn png(&self, wanted: &Wanted) -> Result<Vec<u8>, Error> {
        draw::check(wanted.size)?;
        let mut pixels = Pixels::new(wanted.size);
        draw::draw(&mut pixels, self, wanted);
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, wanted.size.0, wanted.size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let failed = |e: png::EncodingError| Error::Png(e.to_string());
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&pixels.rgb).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INK: Ink = Ink { rgb: (255, 255, 255), opacity: 1.0 };

    /// The picture as letters: `#` covered, `+` partly, `.` not.
    fn drawn(size: (u32, u32), draw: impl Fn(&mut Pixels)) -> String {
        let mut pixels = Pixels::new(size);
        draw(&mut pixels);
        let letter = |rgb: &[u8]| match rgb[0] {
            0 => '.',
            255 => '#',
            _ => '+',
        };
        let rows = pixels.rgb.chunks(size.0 as usize * 3);
        rows.map(|row| row.chunks(3).map(letter).collect::<String>()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn shapes_cover_their_pixels_and_nothing_outside_of_the_picture() {
        let line = |from, to| drawn((4, 3), |p| p.line(from, to, INK));
        assert_eq!(line((0, 1), (2, 1)), ".... ###. ....");
        assert_eq!(line((3, 2), (3, 0)), "...# ...# ...#");
        assert_eq!(line((0, 0), (2, 2)), "#... .#.. ..#.");
        assert_eq!(line((0, 0), (2, 1)), "#+.. .+#. ....", "halfway it covers half of two pixels");
        assert_eq!(line((-5, 1), (9, 1)), ".... #### ....");
        assert_eq!(drawn((4, 3), |p| p.rectangle((-1, -1), (1, 0), INK)), "##.. .... ....");
        let square = [(1, 0), (3, 0), (3, 2), (1, 2)];
        assert_eq!(drawn((4, 3), |p| p.polygon(&square, INK)), ".##. .##. ....");
        let hole = [(0, 0), (4, 0), (4, 3), (0, 3), (0, 0), (1, 1), (1, 2), (3, 2), (3, 1), (1, 1)];
        assert_eq!(drawn((4, 3), |p| p.polygon(&hole, INK)), "#### #..# ####");
        assert_eq!(drawn((4, 3), |p| p.polygon(&[], INK)), ".... .... ....");
        assert_eq!(drawn((5, 3), |p| p.path(&[(1, 1), (3, 1)], 3, INK)), "##### ##### #####");
    }
}
