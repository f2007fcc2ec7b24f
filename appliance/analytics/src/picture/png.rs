//! Encodes pictures as PNG. Text uses a font of 8 by 8 pixels with Latin letters; others become
//! `?`. (SVG has no such limit.)

use super::color::Rgb;
use super::frame::{Anchor, CHARACTER, Label, Picture};
use super::{Area, Error};
use font8x8::legacy::{BASIC_LEGACY, LATIN_LEGACY};

struct Canvas {
    size: Area,
    bytes: Vec<u8>,
}

impl Canvas {
    fn set(&mut self, x: u32, y: u32, color: Rgb) {
        if x < self.size.width && y < self.size.height {
            let at = (y as usize * self.size.width as usize + x as usize) * 3;
            if let Some(pixel) = self.bytes.get_mut(at..at + 3) {
                pixel.copy_from_slice(&color);
            }
        }
    }

    fn text(&mut self, label: &Label, color: Rgb) {
        let width = label.text.chars().count() as u32 * CHARACTER;
        let mut x = match label.anchor {
            Anchor::Start => label.x,
            Anchor::Middle => label.x.saturating_sub(width / 2),
            Anchor::End => label.x.saturating_sub(width),
        };
        for letter in label.text.chars() {
            for (y, bits) in (label.y..).zip(glyph(letter)) {
                (0..8).filter(|bit| bits >> bit & 1 == 1).for_each(|bit| self.set(x + bit, y, color));
            }
            x += CHARACTER;
        }
    }
}

fn glyph(letter: char) -> [u8; 8] {
    let code = letter as usize;
    let known = match code {
        0x20..0x7f => BASIC_LEGACY.get(code),
        0xa0..0x100 => LATIN_LEGACY.get(code - 0xa0),
        _ => None,
    };
    known.or(BASIC_LEGACY.get(usize::from(b'?'))).copied().unwrap_or_default()
}

impl Picture {
    /// All pixels: red, green, blue, line by line.
    pub fn pixels(&self) -> Vec<u8> {
        let Area { width, height } = self.size;
        let background = self.theme.background();
        let mut canvas = Canvas { size: self.size, bytes: background.repeat(width as usize * height as usize) };
        for (left, top, width, height, color) in &self.boxes {
            for y in *top..top + height {
                (*left..left + width).for_each(|x| canvas.set(x, y, *color));
            }
        }
        for label in &self.labels {
            canvas.text(label, self.theme.ink());
        }
        let (left, top) = self.place;
        for (y, line) in (top..).zip(self.raster.codes.chunks(self.raster.area.width as usize)) {
            for (x, code) in (left..).zip(line) {
                canvas.set(x, y, self.colors.get(usize::from(*code)).copied().unwrap_or(background));
            }
        }
        canvas.bytes
    }

    /// Encodes the picture as PNG.
    pub fn png(&self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let failed = |e: png::EncodingError| Error::Png(e.to_string());
        let mut encoder = png::Encoder::new(&mut out, self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.add_itxt_chunk("Title".to_owned(), self.title.clone()).map_err(failed)?;
        let mut writer = encoder.write_header().map_err(failed)?;
        writer.write_image_data(&self.pixels()).map_err(failed)?;
        writer.finish().map_err(failed)?;
        Ok(out)
    }
}
