//! The settings of a server, as text.

use std::collections::BTreeMap;

/// Settings by name, in lower case.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Settings(BTreeMap<String, String>);

impl Settings {
    /// Takes settings; the case of their names does not count.
    pub(super) fn new(all: impl IntoIterator<Item = (String, String)>) -> Settings {
        Settings(all.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect())
    }

    /// Returns a setting as it is shown.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a number.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.text(name)?.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Returns whether a setting is on.
    pub(super) fn is_on(&self, name: &str) -> Option<bool> {
        match self.text(name)?.to_lowercase().as_str() {
            "on" | "1" | "yes" | "true" => Some(true),
            "off" | "0" | "no" | "false" => Some(false),
            _ => None,
        }
    }
}
