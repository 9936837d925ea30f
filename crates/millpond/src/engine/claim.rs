//! The directories of a database are claimed at opening: checked that they are its own or empty,
//! locked, and marked with its id.

use super::directory::{DirOwner, Locks, foreign, foreign_names, list_some, take_lock, used_twice};
use super::durable_dir::{make_dir, parent_of, sync_dir};
use super::paths::Paths;
use super::purpose::Purpose;
use super::residence::{Residence, check_home};
use crate::error::{Error, Result};
use crate::page_file::PageFile;
use crate::planted::{Bug, planted};
use metrics::{Metrics, SyncReason};
use std::path::{Path, PathBuf};
use vfs::Vfs;

/// Checks that a new database would use no directory of anything else. Changes nothing. Returns the
/// id of the database whose creation was interrupted here, if there was one.
pub(super) fn check_unclaimed(vfs: &Vfs, paths: &Paths) -> Result<Option<u64>> {
    let dir = &paths.dir;
    let begun = match DirOwner::of(vfs, dir)? {
        Some(DirOwner { db_id, purpose: Purpose::Database, created: false }) => Some(db_id),
        // A database was removed here, except for its lock file.
        Some(DirOwner { purpose: Purpose::Database, .. }) if foreign_names(vfs, dir, &[])?.is_empty() => None,
        Some(DirOwner { purpose: Purpose::Database, .. }) => return Err(no_root_error(vfs, dir)?),
        Some(DirOwner { purpose, .. }) => {
            return Err(foreign(
                dir,
                format!("is the {} of a database, not a database", purpose.description()),
            ));
        }
        None => {
            let ours: Vec<_> = paths.other_dirs().map(|(part, _)| part).collect();
            if !foreign_names(vfs, dir, &ours)?.is_empty() {
                return Err(no_root_error(vfs, dir)?);
            }
            None
        }
    };
    // The root is durable before the first page is written.
    if begun.is_some() && PageFile::has_content(vfs, &paths.pages)? {
        return Err(no_root_error(vfs, dir)?);
    }
    for (part, purpose) in paths.other_dirs() {
        if planted(Bug::CreatedOverOthers) {
            continue;
        }
        match DirOwner::of(vfs, part)? {
            Some(owner) if Some(owner.db_id) == begun && owner.purpose == purpose => {}
            Some(owner) if Some(owner.db_id) == begun => {
                return Err(used_twice(part, owner.purpose, purpose));
            }
            Some(owner) => {
                let (is, wanted) = (owner.purpose.description(), purpose.description());
                let what = format!("is the {is} of another database: a new one wants an empty {wanted}");
                return Err(foreign(part, what));
            }
            None => {
                let names = foreign_names(vfs, part, &[])?;
                if !names.is_empty() {
                    let (names, wanted) = (list_some(&names), purpose.description());
                    let what = format!("is not empty ({names}): a new database wants an empty {wanted}");
                    return Err(foreign(part, what));
                }
            }
        }
    }
    Ok(begun)
}

/// Returns the error for a directory without a root, with the names in it.
fn no_root_error(vfs: &Vfs, dir: &Path) -> Result<Error> {
    let names = foreign_names(vfs, dir, &[])?;
    let is_ours = |name: &String| ["pages", "redo", "undo", "doublewrite"].contains(&name.as_str());
    let found = list_some(&names);
    let what = if names.iter().any(is_ours) {
        format!(
            "is the directory of a database that has lost its root ({found} are there): put the file `root` back, or \
             open an empty directory"
        )
    } else {
        format!("holds no database and is not empty ({found}): a new database wants an empty directory")
    };
    Ok(foreign(dir, what))
}

/// Makes the directories of a new database, locks them, and writes the database's id into each.
/// Returns the id.
pub(super) fn claim_new(vfs: &Vfs, paths: &Paths, metrics: &Metrics, locks: &mut Locks) -> Result<u64> {
    let db_id = check_unclaimed(vfs, paths)?.unwrap_or_else(|| vfs.clock.random_u64());
    let reason = SyncReason::Create;
    let (dir, purpose) = (&paths.dir, Purpose::Database);
    DirOwner { db_id, purpose, created: false }.claim(vfs, dir, dir, metrics, reason)?;
    // Without this entry a power cut would lose the directory, and the other directories would name
    // a database that does not exist.
    sync_dir(vfs, metrics, parent_of(&paths.dir), reason)?;
    for (part, purpose) in paths.other_dirs() {
        make_dir(vfs, part)?;
        locks.push(take_lock(vfs, part, Some((db_id, purpose)))?);
        DirOwner { db_id, purpose, created: true }.claim(vfs, part, dir, metrics, reason)?;
        sync_dir(vfs, metrics, parent_of(part), reason)?;
    }
    Ok(db_id)
}

/// Records that the root of a new database is durable.
pub(super) fn mark_created(vfs: &Vfs, dir: &Path, db_id: u64, metrics: &Metrics) -> Result {
    let owner = DirOwner { db_id, purpose: Purpose::Database, created: true };
    owner.claim(vfs, dir, dir, metrics, SyncReason::Create)
}

/// Checks that the directories belong to this database, and locks all but the first. A directory
/// that names no database gets the database's id; a redo directory only if it has log files.
pub(super) fn claim_existing(
    vfs: &Vfs,
    paths: &Paths,
    db_id: u64,
    metrics: &Metrics,
    locks: &mut Locks,
) -> Result {
    let all = || std::iter::once((paths.dir.as_path(), Purpose::Database)).chain(paths.other_dirs());
    for (dir, purpose) in all() {
        let (owner, said) = DirOwner::with_residence(vfs, dir)?.unzip();
        match owner {
            Some(owner) if owner.db_id != db_id => {
                let what = format!("is the {} of another database", owner.purpose.description());
                return Err(foreign(dir, what));
            }
            Some(owner) if owner.purpose != purpose => return Err(used_twice(dir, owner.purpose, purpose)),
            // Its files may look like those of the database, and are not.
            Some(owner) if !owner.created && purpose != Purpose::Database && !paths.is_recorded(purpose) => {
                let what = format!(
                    "was to become the {} of this database, and the move was cut short: it is elsewhere",
                    purpose.description()
                );
                return Err(foreign(dir, what));
            }
            None if purpose == Purpose::Redo => {
                let names = foreign_names(vfs, dir, &[])?;
                if !names.iter().any(|name| name.ends_with(".log")) {
                    let what = "holds no redo log: the database's own is elsewhere".to_owned();
                    return Err(foreign(dir, what));
                }
            }
            Some(_) | None => {}
        }
        if purpose != Purpose::Database && owner.is_some() {
            let is = Residence::of(vfs, dir, &paths.dir)?;
            check_home(dir, purpose, &paths.dir, said.flatten().as_ref(), is.as_ref())?;
        }
    }
    for (dir, purpose) in all() {
        if purpose != Purpose::Database {
            locks.push(take_lock(vfs, dir, Some((db_id, purpose)))?);
        }
        let owner = DirOwner { db_id, purpose, created: true };
        let as_it_is = (owner, Residence::of(vfs, dir, &paths.dir)?);
        if DirOwner::with_residence(vfs, dir)? != Some(as_it_is) {
            owner.claim(vfs, dir, &paths.dir, metrics, SyncReason::Recovery)?;
        }
    }
    Ok(())
}

/// Fails if two of the directories have the same path. One directory with two different paths is
/// found when it is locked.
pub(super) fn check_distinct(paths: &Paths) -> Result {
    let all: Vec<(&Path, Purpose)> =
        std::iter::once((paths.dir.as_path(), Purpose::Database)).chain(paths.other_dirs()).collect();
    let plain = |path: &Path| path.components().collect::<PathBuf>();
    for (n, (dir, is)) in all.iter().enumerate() {
        if let Some((_, wanted)) = all[n + 1..].iter().find(|(other, _)| plain(other) == plain(dir)) {
            return Err(used_twice(dir, *is, *wanted));
        }
    }
    Ok(())
}
