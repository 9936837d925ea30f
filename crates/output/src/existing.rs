//! What must be there, or must not be in the way, before a command begins.

use crate::failure::{Failure, Outcome};
use std::fs;
use std::io;
use std::path::Path;

/// Fails unless the directory is there and can be read.
pub fn readable_directory(dir: &Path) -> Outcome {
    let name = dir.display();
    match fs::read_dir(dir) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Failure::misuse(format!("there is no directory {name}")))
        }
        Err(e) => Err(Failure::misuse(format!("cannot read the directory {name}: {e}"))),
    }
}

/// Fails unless the directory contains a database.
pub fn existing_database(dir: &Path) -> Outcome {
    let name = dir.display();
    readable_directory(dir)?;
    match fs::metadata(dir.join("root")) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(Failure::misuse(format!("{name} is not a Millpond database: it has no file `root`")))
        }
        Err(e) => Err(Failure::misuse(format!("cannot read {name}/root: {e}"))),
    }
}

/// Fails if a result cannot be written to `file`. Called before a long run, not after it.
pub fn check_writable(file: &Path) -> Outcome {
    if file.is_dir() {
        return Err(Failure::misuse(format!("{} is a directory, not a file to write to", file.display())));
    }
    let parent = match file.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    if parent.is_dir() {
        Ok(())
    } else {
        Err(Failure::misuse(format!(
            "cannot write {}: there is no directory {}",
            file.display(),
            parent.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn the_directory_of_a_result_must_exist() {
        let scratch = Scratch::new("json");
        assert!(check_writable(&scratch.0.join("a.json")).is_ok());
        assert!(check_writable(Path::new("a.json")).is_ok());
        assert!(check_writable(&scratch.0).is_err());
        assert!(check_writable(&scratch.0.join("no/a.json")).is_err());
    }
}
