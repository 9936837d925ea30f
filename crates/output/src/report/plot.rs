//! The trait of all plots: an id, texts, and a drawing in two formats.

use super::svg::{self, Format, Layout};

/// A plot.
pub trait Plot {
    /// Returns its id, which is the name of its file too, its title and its explanation.
    fn about(&self) -> (&str, &str, &str);

    /// Describes the contents for screen readers.
    fn described(&self) -> String;

    /// Draws it.
    fn draw(&self, format: Format) -> (Layout, String);

    /// Returns the name and the contents of an SVG file.
    fn file(&self) -> (String, String) {
        let ((id, title, note), (layout, body)) = (self.about(), self.draw(Format::Wide));
        (file_name(id), svg::file(&layout, title, note, &body))
    }

    /// Returns an element for a page.
    fn element(&self, format: Format) -> String {
        let ((id, title, _), (layout, body)) = (self.about(), self.draw(format));
        let id = format!("{id}-{}", if format == Format::Wide { "w" } else { "n" });
        svg::element(&id, format, &layout, (title, &self.described()), &body)
    }
}

/// Returns the name of the file of a plot.
pub(super) fn file_name(id: &str) -> String {
    format!("{id}.svg")
}
