//! Metrics of a server that are counted only as long as somebody watches.

use super::of_access;
use client::{Access, SETTINGS_NEED};
use output::failure::{Failure, Outcome};

/// The metrics that were switched on. Dropping it switches them off again.
#[derive(Debug)]
pub(crate) struct MetricsOn {
    access: Access,
    names: Vec<String>,
}

impl MetricsOn {
    /// Switches on what gives figures of the schema and is switched off.
    pub(crate) fn start(access: Access) -> Outcome<MetricsOn> {
        let source = of_access(&access)?;
        let about = source.about();
        let off: Vec<String> = about.switched_off().into_iter().map(str::to_owned).collect();
        if let (true, Some(refusal)) = (off.is_empty(), about.refusals.first()) {
            return Err(Failure::failed(format!("the metrics cannot be switched on: {refusal}")));
        }
        let mut connection = access.connect()?;
        // What is switched on is switched off again, also if the next one is refused.
        let mut on = MetricsOn { access, names: Vec::new() };
        for name in off {
            let statement = format!("SET GLOBAL innodb_monitor_enable = '{name}'");
            connection.rows(&statement).map_err(|trouble| {
                Failure::failed(format!("{statement} fails: {trouble}; {SETTINGS_NEED}"))
            })?;
            on.names.push(name);
        }
        Ok(on)
    }

    /// Returns how to get into the server.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }
}

impl Drop for MetricsOn {
    fn drop(&mut self) {
        if self.names.is_empty() {
            return;
        }
        // A new connection: the server may have ended the old one meanwhile.
        let connection = self.access.connect();
        let left = match connection {
            Ok(mut connection) => {
                let off = |name: &String| format!("SET GLOBAL innodb_monitor_disable = '{name}'");
                let stays = |name: &&String| connection.rows(&off(name)).is_err();
                self.names.iter().filter(stays).cloned().collect()
            }
            Err(_) => self.names.clone(),
        };
        if !left.is_empty() {
            let names = left.join(", ");
            Failure::failed(format!(
                "these metrics stay switched on, until innodb_monitor_disable or the server's end: {names}"
            ))
            .complain();
        }
    }
}
