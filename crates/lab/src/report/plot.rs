//! What all plots have in common: a name, words, and a drawing in two shapes.

use super::svg::{self, Layout, Shape};

/// A plot.
pub(crate) trait Plot {
    /// The name of its file and of its place on the page, what it shows, and what to see in it.
    fn about(&self) -> (&'static str, &str, &str);

    /// What it shows in words, for who cannot see it.
    fn described(&self) -> String;

    /// The drawing.
    fn draw(&self, shape: Shape) -> (Layout, String);

    /// As a file of its own, by the file's name.
    fn file(&self) -> (String, String) {
        let ((id, title, note), (layout, body)) = (self.about(), self.draw(Shape::Wide));
        (super::plot_file(id), svg::file(&layout, title, note, &body))
    }

    /// Inside a page.
    fn element(&self, shape: Shape) -> String {
        let ((id, title, _), (layout, body)) = (self.about(), self.draw(shape));
        let id = format!("{id}-{}", if shape == Shape::Wide { "w" } else { "n" });
        svg::element(&id, shape, &layout, (title, &self.described()), &body)
    }
}
