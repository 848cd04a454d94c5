//! Figures as SVG within a page, drawn by plotters, coloured by the page.
//!
//! plotters writes colours as numbers. Every drawing uses [`Ink`], whose numbers occur nowhere else; they are replaced by
//! classes here, which the page's style colours for a light and a dark background.
use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;

/// A picture with a text for those who do not see it.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// More about it, for everybody.
    pub(crate) caption: String,
    /// Whether it should have more room than others.
    pub(crate) is_wide: bool,
    pub(super) svg: String,
}

/// Where somebody draws.
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// What comes of drawing into memory.
pub(crate) type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// What a stroke is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Ink {
    Text,
    /// Text that matters less.
    Quiet,
    /// Lines that help the eye.
    Rule,
    /// What everything is compared with.
    Base,
    Ours,
    /// What is ours in another way.
    Kin,
    Theirs,
    /// What is neither, and compared for its own sake.
    Other,
    Whisker,
    Ahead,
    Behind,
    Open,
}

impl Ink {
    const ALL: [(Self, &'static str); 12] = [
        (Self::Text, "text"),
        (Self::Quiet, "quiet"),
        (Self::Rule, "rule"),
        (Self::Base, "base"),
        (Self::Ours, "ours"),
        (Self::Kin, "kin"),
        (Self::Theirs, "theirs"),
        (Self::Other, "other"),
        (Self::Whisker, "whisker"),
        (Self::Ahead, "ahead"),
        (Self::Behind, "behind"),
        (Self::Open, "open"),
    ];

    /// What plotters takes for its colour.
    pub(crate) fn colour(self) -> RGBColor {
        RGBColor(0xE1, 0x0C, self as u8)
    }

    fn written(self) -> String {
        let RGBColor(red, green, blue) = self.colour();
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

impl Figure {
    /// A figure of `width` by `height` units, which the page scales; `id` is its own on the page.
    ///
    /// # Panics
    /// When `draw` fails, which it cannot: it draws into memory.
    pub(crate) fn drawn(
        id: &str,
        title: impl Into<String>,
        description: &str,
        (width, height): (u32, u32),
        draw: impl FnOnce(&Area<'_>) -> Drawn,
    ) -> Self {
        let title = title.into();
        let mut drawn = String::new();
        {
            let area = SVGBackend::with_string(&mut drawn, (width, height)).into_drawing_area();
            draw(&area).expect("memory can be drawn into");
            area.present().expect("memory can be drawn into");
        }
        let start = drawn.find("<svg").expect("plotters writes SVG");
        let end = start + drawn[start..].find('>').expect("its first tag ends") + 1;
        let mut svg = format!(
            r#"<svg role="img" viewBox="0 0 {width} {height}" aria-labelledby="{id}-title {id}-desc"><title id="{id}-title">"#
        );
        write!(svg, "{}</title>", escaped(&title)).expect("a string can be written to");
        write!(svg, r#"<desc id="{id}-desc">{}</desc>"#, escaped(description)).expect("a string can be written to");
        svg.push_str(&coloured_by_class(&drawn[end..]));
        Self { title, caption: String::new(), is_wide: false, svg }
    }

    /// The same with more to say about it.
    #[must_use]
    pub(crate) fn with_caption(mut self, caption: impl Into<String>) -> Self {
        self.caption = caption.into();
        self
    }

    /// The same with more room.
    #[must_use]
    pub(crate) fn wide(mut self) -> Self {
        self.is_wide = true;
        self
    }
}

fn escaped(text: &str) -> String {
    maud::html!((text)).into_string()
}

fn coloured_by_class(svg: &str) -> String {
    let mut svg = svg.replace(r#" font-family="sans-serif""#, "").replace(r#" opacity="1""#, "");
    for (ink, name) in Ink::ALL {
        for (attribute, kind) in [("fill", "f"), ("stroke", "s")] {
            let written = format!(r#"{attribute}="{}""#, ink.written());
            svg = svg.replace(&written, &format!(r#"class="{kind}-{name}""#));
        }
    }
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure() -> Figure {
        Figure::drawn("f1", "A < B", "One of \"both\".", (100, 50), |area| {
            area.draw(&Rectangle::new([(10, 10), (20, 20)], Ink::Ours.colour().filled()))?;
            area.draw(&PathElement::new([(0, 0), (100, 50)], Ink::Rule.colour().stroke_width(2)))?;
            area.draw(&Text::new("<b>", (5, 5), ("sans-serif", 12).into_font().color(&Ink::Text.colour())))
        })
    }

    #[test]
    fn every_colour_is_a_class_that_the_page_has_a_style_for() {
        let svg = figure().svg;
        assert!(!svg.contains('#') && !svg.contains("rgb"), "{svg}");
        for class in ["f-ours", "s-rule", "f-text"] {
            assert!(svg.contains(&format!(r#"class="{class}""#)), "{class} in {svg}");
        }
        let style = include_str!("page.css");
        for (ink, name) in Ink::ALL {
            assert!(style.contains(&format!(".f-{name}")) && style.contains(&format!(".s-{name}")), "{ink:?}");
        }
    }

    #[test]
    fn a_figure_says_what_it_shows() {
        let svg = figure().svg;
        assert!(
            svg.starts_with(r#"<svg role="img" viewBox="0 0 100 50" aria-labelledby="f1-title f1-desc">"#),
            "{svg}"
        );
        assert!(svg.contains(r#"<title id="f1-title">A &lt; B</title>"#), "{svg}");
        assert!(svg.contains(r#"<desc id="f1-desc">One of &quot;both&quot;.</desc>"#), "{svg}");
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>") && svg.trim_end().ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn no_ink_is_another() {
        let mut written: Vec<_> = Ink::ALL.iter().map(|(ink, _)| ink.written()).collect();
        written.sort();
        written.dedup();
        assert_eq!(written.len(), Ink::ALL.len());
    }
}
