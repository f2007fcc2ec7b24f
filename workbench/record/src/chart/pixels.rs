//! PNG output: plotters draws pixels into memory, and letters are those of font8x8, so that no
//! installed font is needed.

use super::{Error, Figure, Wanted, draw};
use font8x8::UnicodeFonts as _;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;

/// Width and height of a letter in pixels.
const LETTER: i32 = 8;

/// A picture in memory.
pub(super) struct Pixels<'a> {
    size: (u32, u32),
    rgb: &'a mut [u8],
}

impl Pixels<'_> {
    fn mix(&mut self, (x, y): BackendCoord, color: BackendColor) {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return };
        if x >= self.size.0 || y >= self.size.1 {
            return;
        }
        let at = (y as usize * self.size.0 as usize + x as usize) * 3;
        let (r, g, b) = color.rgb;
        let alpha = color.alpha.clamp(0.0, 1.0);
        for (old, new) in self.rgb[at..].iter_mut().zip([r, g, b]) {
            *old = (f64::from(*old) * (1.0 - alpha) + f64::from(new) * alpha + 0.5) as u8;
        }
    }
}

impl DrawingBackend for Pixels<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Result<(), DrawingErrorKind<Infallible>> {
        self.mix(point, color);
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        (x0, y0): BackendCoord,
        (x1, y1): BackendCoord,
        style: &S,
        fill: bool,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let color = style.color();
        for y in y0.min(y1).max(0)..=y0.max(y1).min(self.size.1 as i32) {
            for x in x0.min(x1).max(0)..=x0.max(x1).min(self.size.0 as i32) {
                if fill || x == x0 || x == x1 || y == y0 || y == y1 {
                    self.mix((x, y), color);
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        _: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok((text.chars().count() as u32 * LETTER as u32, LETTER as u32))
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let width = text.chars().count() as i32 * LETTER;
        let left = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let top = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -LETTER / 2,
            VPos::Bottom => -LETTER,
        };
        let color = style.color();
        for (n, letter) in (0..).zip(text.chars()) {
            let rows = font8x8::BASIC_FONTS.get(letter).or_else(|| font8x8::BASIC_FONTS.get('?')).unwrap_or_default();
            for (dy, row) in (0..).zip(rows) {
                for dx in (0..LETTER).filter(|dx| row >> dx & 1 == 1) {
                    let (along, across) = (left + n * LETTER + dx, top + dy);
                    let (px, py) = match style.transform() {
                        FontTransform::None => (along, across),
                        FontTransform::Rotate90 => (-across, along),
                        FontTransform::Rotate180 => (-along, -across),
                        FontTransform::Rotate270 => (across, -along),
                    };
                    self.mix((x + px, y + py), color);
                }
            }
        }
        Ok(())
    }
}

impl Figure {
    /// Draws the figure as PNG.
    pub fn png(&self, wanted: &Wanted) -> Result<Vec<u8>, Error> {
        let size = wanted.size;
        draw::check(size)?;
        let mut rgb = vec![0; size.0 as usize * size.1 as usize * 3];
        draw::on(Pixels { size, rgb: &mut rgb }, self, wanted)?;
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, size.0, size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let failed = |e: png::EncodingError| Error::Draw(e.to_string());
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&rgb).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(out)
    }
}
