//! The peers that are built in, one file each, with their settings and what they promise.

#[cfg(test)]
mod conformance;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
mod millpond;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "tidesdb")]
mod tidesdb;

use crate::peer::PeerKind;

/// All peers that are built in, Millpond first.
pub const BUILT: &[PeerKind] = &[
    millpond::KIND,
    #[cfg(feature = "rocksdb")]
    rocksdb::KIND,
    #[cfg(feature = "tidesdb")]
    tidesdb::KIND,
    #[cfg(feature = "fjall")]
    fjall::KIND,
    #[cfg(feature = "redb")]
    redb::KIND,
    #[cfg(feature = "lmdb")]
    lmdb::KIND,
    #[cfg(feature = "sqlite")]
    sqlite::KIND,
];

/// All peers that can be built in; each name is also the name of a feature.
const ALL: &[&str] = &["millpond", "rocksdb", "tidesdb", "fjall", "redb", "lmdb", "sqlite"];

/// Returns the peers of a list such as `redb,fjall`, and always Millpond.
pub fn choose(list: Option<&str>) -> Result<Vec<&'static PeerKind>, String> {
    let Some(list) = list else { return Ok(BUILT.iter().collect()) };
    let names: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    for name in &names {
        if !ALL.contains(name) {
            return Err(format!("there is no peer {name:?}; there are {}", ALL.join(", ")));
        }
        if !BUILT.iter().any(|kind| kind.name == *name) {
            return Err(format!("{name} is not built in; build with --features {name} (or all) to have it"));
        }
    }
    Ok(BUILT.iter().filter(|kind| kind.name == "millpond" || names.contains(&kind.name)).collect())
}

/// Returns the version of a crate that is built in.
pub fn version(package: &str) -> String {
    if package == "millpond" {
        return env!("CARGO_PKG_VERSION").into();
    }
    let lock = include_str!("../../Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"");
    let found = lock.split_once(&entry).and_then(|(_, rest)| rest.split_once('"'));
    found.map_or_else(|| "unknown".into(), |(version, _)| version.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_chosen_by_name() {
        let names = |list| choose(list).map(|kinds| kinds.iter().map(|k| k.name).collect::<Vec<_>>());
        assert_eq!(names(None).unwrap().len(), BUILT.len());
        assert_eq!(names(Some("millpond")).unwrap(), ["millpond"]);
        assert!(names(Some("oracle")).unwrap_err().contains("there is no peer \"oracle\""));
        for name in ALL {
            match names(Some(name)) {
                Ok(chosen) => assert!(chosen.contains(name) && chosen.contains(&"millpond")),
                Err(text) => assert!(text.contains(name) && text.contains("--features")),
            }
        }
    }

    #[test]
    fn every_version_is_known() {
        for kind in BUILT {
            assert_ne!(version(kind.package), "unknown", "{}", kind.name);
        }
    }
}
