//! The directory of a collection. An older collection is kept under another name; anything else is
//! never touched.

use super::STATS;
use crate::failure::{Failure, Outcome};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Makes an empty directory. A collection that is there already is renamed to `DIR.bak`, or to
/// `DIR.bak2` and so on if that exists.
pub(super) fn make(dir: &Path) -> Outcome<PathBuf> {
    let name = dir.display();
    match fs::read_dir(dir) {
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(dir.to_owned());
            }
            if !dir.join(STATS).exists() {
                return Err(Failure::misuse(format!(
                    "{name} is not empty and is no older collection; nothing is written to it"
                )));
            }
            let aside = aside(dir);
            fs::rename(dir, &aside)
                .map_err(|e| Failure::failed(format!("cannot rename {name} to {}: {e}", aside.display())))?;
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(Failure::misuse(format!("cannot write samples to {name}: {e}"))),
    }
    fs::create_dir(dir).map_err(|e| Failure::misuse(format!("cannot create {name}: {e}")))?;
    Ok(dir.to_owned())
}

fn aside(dir: &Path) -> PathBuf {
    // Without a slash at the end, which `with_file_name` would keep.
    let whole = dir.components().collect::<PathBuf>();
    let named = |n: u32| {
        let number = if n == 1 { String::new() } else { n.to_string() };
        let mut name = whole.clone().into_os_string();
        name.push(format!(".bak{number}"));
        PathBuf::from(name)
    };
    let mut n = 1;
    while named(n).symlink_metadata().is_ok() {
        n += 1;
    }
    named(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn older_collections_are_kept() {
        let scratch = Scratch::new("collect");
        let dir = scratch.0.join("run/");
        for n in 0..3 {
            make(&dir).unwrap();
            fs::write(dir.join(STATS), n.to_string()).unwrap();
        }
        let read = |name: &str| fs::read_to_string(scratch.0.join(name).join(STATS)).unwrap();
        assert_eq!((read("run.bak"), read("run.bak2"), read("run")), ("0".into(), "1".into(), "2".into()));
    }

    #[test]
    fn foreign_directories_are_refused_and_not_changed() {
        let scratch = Scratch::new("collect-foreign");
        let dir = scratch.0.join("photos");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("me.jpg"), "x").unwrap();
        assert!(matches!(make(&dir), Err(Failure::Misuse(text)) if text.contains("no older collection")));
        assert!(dir.join("me.jpg").exists());
        assert!(matches!(make(&dir.join("me.jpg")), Err(Failure::Misuse(_))));
        assert!(matches!(make(&scratch.0.join("no/such")), Err(Failure::Misuse(_))));
    }
}
