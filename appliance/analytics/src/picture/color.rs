//! Colours: palettes, themes, and the assignment of counts to colours.

use super::{BACKGROUND, HATCH};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Red, green, blue.
pub type Rgb = [u8; 3];

/// How counts map to colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Coloring {
    /// By rank among all counts, so that small ones are distinguishable, too.
    #[default]
    Rank,
    /// In proportion to the maximum.
    Linear,
    /// In proportion to the logarithm of the count.
    Log,
}

/// A palette: a series of colours for ascending counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Palette {
    /// Perceived alike by people with colour vision deficiency.
    #[default]
    Cividis,
    /// From violet over green to yellow.
    Viridis,
    /// From black over red to yellow.
    Inferno,
    Grey,
    /// Orange, as in Cloud Analytics.
    Classic,
}

/// Brightness of the background, which also reverses the palette.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Theme {
    /// Light background: larger counts are darker.
    #[default]
    Light,
    /// Dark background: larger counts are lighter.
    Dark,
}

#[derive(Deserialize)]
struct Inks {
    background: String,
    hatch: String,
    ink: String,
    grid: String,
}

#[derive(Deserialize)]
struct Tables {
    themes: BTreeMap<String, Inks>,
    series: BTreeMap<String, Vec<String>>,
    palettes: BTreeMap<String, Vec<String>>,
}

/// The colours, shared with the web page.
fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    const TEXT: &str = include_str!("../../../../ui/app/analytics/palettes.json");
    TABLES.get_or_init(|| serde_json::from_str(TEXT).expect("a test reads it"))
}

fn rgb(text: &str) -> Rgb {
    let [_, r, g, b] = u32::from_str_radix(text, 16).unwrap_or_default().to_be_bytes();
    [r, g, b]
}

impl Theme {
    fn name(self) -> &'static str {
        if self == Self::Light { "light" } else { "dark" }
    }

    fn inks(self) -> &'static Inks {
        tables().themes.get(self.name()).expect("a test reads it")
    }

    /// Colour of text and axes.
    pub fn ink(self) -> Rgb {
        rgb(&self.inks().ink)
    }

    /// Colour of grid lines.
    pub fn grid(self) -> Rgb {
        rgb(&self.inks().grid)
    }

    pub fn background(self) -> Rgb {
        rgb(&self.inks().background)
    }

    fn special(self) -> impl Iterator<Item = Rgb> {
        debug_assert_eq!((BACKGROUND, HATCH), (256, 257));
        [self.background(), rgb(&self.inks().hatch)].into_iter()
    }

    /// Colours of the codes if they are numbers of series.
    pub fn series(self) -> Vec<Rgb> {
        let series = tables().series.get(self.name()).expect("a test reads it");
        let colors: Vec<Rgb> = series.iter().map(|c| rgb(c)).collect();
        let of = |code: usize| colors.get(code % colors.len().max(1)).copied().unwrap_or_default();
        (0..256).map(of).chain(self.special()).collect()
    }
}

impl Palette {
    fn name(self) -> &'static str {
        match self {
            Self::Cividis => "cividis",
            Self::Viridis => "viridis",
            Self::Inferno => "inferno",
            Self::Grey => "grey",
            Self::Classic => "classic",
        }
    }

    /// Colours of the codes if they are palette indices.
    pub fn colors(self, theme: Theme) -> Vec<Rgb> {
        let table = tables().palettes.get(self.name()).expect("a test reads it");
        let mut colors: Vec<Rgb> = table.iter().map(|c| rgb(c)).collect();
        if theme == Theme::Light {
            colors.reverse();
        }
        colors.into_iter().chain(theme.special()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALETTES: [Palette; 5] =
        [Palette::Cividis, Palette::Viridis, Palette::Inferno, Palette::Grey, Palette::Classic];

    /// CIE lightness of an sRGB colour, 0 to 100.
    fn lightness(color: Rgb) -> f64 {
        let linear = |c: u8| {
            let c = f64::from(c) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        let y = 0.2126 * linear(color[0]) + 0.7152 * linear(color[1]) + 0.0722 * linear(color[2]);
        if y > 0.008856 { 116.0 * y.cbrt() - 16.0 } else { 903.3 * y }
    }

    #[test]
    fn every_palette_has_256_colours_and_rises_in_lightness() {
        for palette in PALETTES {
            let colors = palette.colors(Theme::Dark);
            assert_eq!(colors.len(), 258);
            let light: Vec<f64> = colors[..256].iter().map(|c| lightness(*c)).collect();
            // Entries are rounded to 8 bits: adjacent ones may differ imperceptibly in either
            // direction.
            assert!(light.windows(2).all(|w| w[0] < w[1] + 0.35), "{palette:?}");
            assert!(light[255] - light[0] > 20.0, "{palette:?}");
        }
        for theme in [Theme::Light, Theme::Dark] {
            assert_eq!(theme.series().len(), 258);
            assert!((lightness(theme.ink()) - lightness(theme.background())).abs() > 60.0);
        }
    }

    #[test]
    fn more_is_further_from_the_background() {
        for palette in PALETTES {
            for theme in [Theme::Light, Theme::Dark] {
                let colors = palette.colors(theme);
                let from = |c: Rgb| (lightness(c) - lightness(theme.background())).abs();
                assert!(from(colors[255]) > from(colors[0]), "{palette:?} {theme:?}");
            }
        }
    }
}
