//! The tree that programs see, over the backing directory that has what is durable.

use crate::backing::{self, Backing, LIMBO, Owner};
use crate::blocks::Unsynced;
use crate::names::{Change, Names, Place};
use crate::power::{Power, Sync};
use base::prng::Prng;
use rustix::fs::{Dir, FileType, Mode, Stat, fchmod, fstat};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The number of the root directory, by the protocol.
pub(crate) const ROOT: u64 = 1;
/// More unsynced bytes than these are written back without a sync, as the kernel does.
const MOST_BYTES: u64 = 512 << 20;
/// More changes of directories are written back.
const MOST_CHANGES: usize = 10_000;
/// The longest name, bytes.
const MOST_OF_NAME: usize = 255;
/// The right by which a directory gives its group to what is made in it.
const SET_GROUP: u32 = 0o2000;

/// What a sync of a new file means for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewFiles {
    /// The name is durable too, as are those of the directories above.
    HaveTheirName,
    /// The name is durable when its directory is synced.
    NeedTheirDirectory,
}

/// What a sync does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// What it should.
    Kept,
    /// Nothing, with success: a disk that lies.
    Ignored,
}

/// What the file system promises.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Of new files.
    pub new_files: NewFiles,
    /// Of syncs.
    pub syncs: Syncs,
}

/// What a cut left of what was not synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Blocks that reached the disk.
    pub blocks: u64,
    /// Of so many.
    pub of_blocks: u64,
    /// Changes of directories that reached it.
    pub names: u64,
    /// Of so many.
    pub of_names: u64,
}

pub(crate) type Answer<T> = Result<T, Errno>;

#[derive(Debug)]
enum Kind {
    Directory { entries: BTreeMap<OsString, u64>, parent: u64, fd: OwnedFd },
    File { file: File, unsynced: Unsynced },
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    owner: Owner,
    modified: SystemTime,
    /// Tells the inode from a later one with the same number.
    generation: u64,
    opens: u64,
    has_name: bool,
}

/// What is told of a file or directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) number: u64,
    pub(crate) is_dir: bool,
    pub(crate) len: u64,
    pub(crate) owner: Owner,
    pub(crate) modified: SystemTime,
    pub(crate) generation: u64,
    /// One for each name. Directories in a directory are not counted, and one says so.
    pub(crate) links: u32,
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Where a listing goes on behind it. It stays the same while other entries come and go.
    pub(crate) place: u64,
    pub(crate) number: u64,
    pub(crate) is_dir: bool,
    pub(crate) name: OsString,
}

/// The file system.
#[derive(Debug)]
pub(crate) struct Model {
    backing: Backing,
    nodes: HashMap<u64, Node>,
    names: Names,
    policy: Policy,
    pub(crate) power: Power,
    generations: u64,
    unsynced_bytes: u64,
}

impl Model {
    /// Shows what is in the backing directory.
    pub(crate) fn open(root: &Path, policy: Policy) -> Answer<Model> {
        let (backing, fd) = Backing::open(root)?;
        let mut model = Model {
            backing,
            nodes: HashMap::new(),
            names: Names::default(),
            policy,
            power: Power::default(),
            generations: 0,
            unsynced_bytes: 0,
        };
        model.adopt_dir(ROOT, ROOT, fd)?;
        Ok(model)
    }

    fn adopt_dir(&mut self, number: u64, parent: u64, fd: OwnedFd) -> Answer<()> {
        let stat = fstat(&fd)?;
        let mut entries = BTreeMap::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." || name == LIMBO {
                continue;
            }
            let child = if entry.file_type() == FileType::Directory {
                let dir = backing::open_dir(fd.as_fd(), &name)?;
                let child = fstat(&dir)?.st_ino;
                self.adopt_dir(child, number, dir)?;
                child
            } else {
                self.adopt_file(backing::open_file(fd.as_fd(), &name)?)?
            };
            entries.insert(name, child);
        }
        self.insert(number, &stat, Kind::Directory { entries, parent, fd }, true);
        Ok(())
    }

    fn adopt_file(&mut self, file: File) -> Answer<u64> {
        let stat = fstat(&file)?;
        if backing::kind(&stat) != FileType::RegularFile || stat.st_nlink != 1 {
            return Err(Errno::OPNOTSUPP);
        }
        let unsynced = Unsynced::new(stat.st_size as u64);
        self.insert(stat.st_ino, &stat, Kind::File { file, unsynced }, true);
        Ok(stat.st_ino)
    }

    fn insert(&mut self, number: u64, stat: &Stat, kind: Kind, has_name: bool) {
        self.generations += 1;
        let owner = Owner { mode: stat.st_mode & 0o7777, user: stat.st_uid, group: stat.st_gid };
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(stat.st_mtime.max(0) as u64);
        let node = Node { kind, owner, modified, generation: self.generations, opens: 0, has_name };
        self.nodes.insert(number, node);
    }

    /// Fails if the power is gone.
    fn powered(&self) -> Answer<()> {
        if self.power.is_cut() { Err(Errno::IO) } else { Ok(()) }
    }

    fn node(&self, number: u64) -> Answer<&Node> {
        self.powered()?;
        self.nodes.get(&number).ok_or(Errno::STALE)
    }

    fn node_mut(&mut self, number: u64) -> Answer<&mut Node> {
        self.powered()?;
        self.nodes.get_mut(&number).ok_or(Errno::STALE)
    }

    fn entries(&self, directory: u64) -> Answer<&BTreeMap<OsString, u64>> {
        match &self.node(directory)?.kind {
            Kind::Directory { entries, .. } => Ok(entries),
            Kind::File { .. } => Err(Errno::NOTDIR),
        }
    }

    fn entries_mut(&mut self, directory: u64) -> Answer<&mut BTreeMap<OsString, u64>> {
        let node = self.node_mut(directory)?;
        node.modified = SystemTime::now();
        match &mut node.kind {
            Kind::Directory { entries, .. } => Ok(entries),
            Kind::File { .. } => Err(Errno::NOTDIR),
        }
    }

    fn file_mut(&mut self, number: u64) -> Answer<(&File, &mut Unsynced)> {
        match &mut self.node_mut(number)?.kind {
            Kind::File { file, unsynced } => Ok((file, unsynced)),
            Kind::Directory { .. } => Err(Errno::ISDIR),
        }
    }

    /// Finds a name.
    pub(crate) fn lookup(&self, directory: u64, name: &OsStr) -> Answer<Attributes> {
        check_length(name)?;
        let number = *self.entries(directory)?.get(name).ok_or(Errno::NOENT)?;
        self.attributes(number)
    }

    pub(crate) fn attributes(&self, number: u64) -> Answer<Attributes> {
        let node = self.node(number)?;
        let (is_dir, len) = match &node.kind {
            Kind::Directory { .. } => (true, 4096),
            Kind::File { unsynced, .. } => (false, unsynced.len()),
        };
        let Node { owner, modified, generation, has_name, .. } = *node;
        let links = u32::from(has_name);
        Ok(Attributes { number, is_dir, len, owner, modified, generation, links })
    }

    /// Changes owner, rights and time of change: durable at once.
    pub(crate) fn set_owner(
        &mut self,
        number: u64,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        modified: Option<SystemTime>,
    ) -> Answer<()> {
        let node = self.node_mut(number)?;
        let fd = match &node.kind {
            Kind::Directory { fd, .. } => fd.as_fd(),
            Kind::File { file, .. } => file.as_fd(),
        };
        if user.is_some() || group.is_some() {
            backing::set_owner(fd, user, group)?;
        }
        if let Some(mode) = mode {
            fchmod(fd, Mode::from_raw_mode(mode & 0o7777))?;
        }
        let Owner { mode: old_mode, user: old_user, group: old_group } = node.owner;
        node.owner = Owner {
            mode: mode.map_or(old_mode, |mode| mode & 0o7777),
            user: user.unwrap_or(old_user),
            group: group.unwrap_or(old_group),
        };
        node.modified = modified.unwrap_or(node.modified);
        Ok(())
    }

    /// Makes a file or directory.
    pub(crate) fn create(
        &mut self,
        directory: u64,
        name: &OsStr,
        mut owner: Owner,
        is_dir: bool,
    ) -> Answer<Attributes> {
        check_new(directory, name)?;
        if self.entries(directory)?.contains_key(name) {
            return Err(Errno::EXIST);
        }
        // A directory may give its group to all that is made in it.
        let Owner { mode, group, .. } = self.node(directory)?.owner;
        if mode & SET_GROUP != 0 {
            owner.group = group;
            owner.mode |= if is_dir { SET_GROUP } else { 0 };
        }
        let (kind, stat) = if is_dir {
            let (fd, stat) = self.backing.new_dir(owner)?;
            (Kind::Directory { entries: BTreeMap::new(), parent: directory, fd }, stat)
        } else {
            let (file, stat) = self.backing.new_file(owner)?;
            (Kind::File { file, unsynced: Unsynced::new(0) }, stat)
        };
        let number = stat.st_ino;
        self.insert(number, &stat, kind, true);
        self.entries_mut(directory)?.insert(name.to_owned(), number);
        self.note(Change::Add { at: (directory, name.to_owned()), number })?;
        self.attributes(number)
    }

    /// Removes a file or an empty directory.
    pub(crate) fn remove(&mut self, directory: u64, name: &OsStr, is_dir: bool) -> Answer<()> {
        let number = *self.entries(directory)?.get(name).ok_or(Errno::NOENT)?;
        self.may_go(number, is_dir)?;
        self.entries_mut(directory)?.remove(name);
        self.forget_name(number);
        self.note(Change::Remove { at: (directory, name.to_owned()), number, is_dir })
    }

    fn may_go(&self, number: u64, is_dir: bool) -> Answer<()> {
        match (&self.node(number)?.kind, is_dir) {
            (Kind::Directory { entries, .. }, true) if !entries.is_empty() => Err(Errno::NOTEMPTY),
            (Kind::Directory { .. }, false) => Err(Errno::ISDIR),
            (Kind::File { .. }, true) => Err(Errno::NOTDIR),
            _ => Ok(()),
        }
    }

    /// Gives a file or directory another name, in place of what has it now.
    pub(crate) fn rename(&mut self, from: Place, to: Place, replace: bool) -> Answer<()> {
        check_new(to.0, &to.1)?;
        let number = *self.entries(from.0)?.get(&from.1).ok_or(Errno::NOENT)?;
        let replaced = self.entries(to.0)?.get(&to.1).copied();
        let is_dir = matches!(self.node(number)?.kind, Kind::Directory { .. });
        match replaced {
            Some(other) if other == number => return Ok(()),
            Some(_) if !replace => return Err(Errno::EXIST),
            Some(other) => self.may_go(other, is_dir)?,
            None => {}
        }
        self.entries_mut(from.0)?.remove(&from.1);
        self.entries_mut(to.0)?.insert(to.1.clone(), number);
        if let Kind::Directory { parent, .. } = &mut self.node_mut(number)?.kind {
            *parent = to.0;
        }
        if let Some(other) = replaced {
            self.forget_name(other);
        }
        let replaced_dir = replaced.filter(|_| is_dir);
        self.note(Change::Move { from, to, number, replaced_dir })
    }

    fn forget_name(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.has_name = false;
        }
        self.drop_unused(number);
    }

    /// Drops a file that has no name and that nobody has open. A directory stays until its end is
    /// durable.
    fn drop_unused(&mut self, number: u64) {
        let unused = self
            .nodes
            .get(&number)
            .is_some_and(|node| node.opens == 0 && !node.has_name && matches!(node.kind, Kind::File { .. }));
        if unused && let Some(Node { kind: Kind::File { unsynced, .. }, .. }) = self.nodes.remove(&number) {
            self.unsynced_bytes -= unsynced.bytes();
        }
    }

    pub(crate) fn open_file(&mut self, number: u64) -> Answer<()> {
        self.node_mut(number)?.opens += 1;
        Ok(())
    }

    /// The end of an open. There need be no power.
    pub(crate) fn close_file(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(&number) {
            node.opens = node.opens.saturating_sub(1);
        }
        self.drop_unused(number);
    }

    /// Lists what a directory has behind a place; 0 is its begin. The place of an entry follows
    /// from its number, for no number has two names.
    pub(crate) fn list(&self, directory: u64, behind: u64) -> Answer<Vec<Entry>> {
        let Kind::Directory { entries, parent, .. } = &self.node(directory)?.kind else {
            return Err(Errno::NOTDIR);
        };
        let dots = [(1, directory, "."), (2, *parent, "..")];
        let dots = dots.map(|(place, number, name)| (place, number, OsStr::new(name)));
        let others = entries.iter().map(|(name, &number)| (number + 2, number, name.as_os_str()));
        let mut listed = Vec::new();
        for (place, number, name) in dots.into_iter().chain(others).filter(|&(place, ..)| place > behind) {
            let is_dir = matches!(self.node(number)?.kind, Kind::Directory { .. });
            listed.push(Entry { place, number, is_dir, name: name.to_owned() });
        }
        listed.sort_unstable_by_key(|entry| entry.place);
        Ok(listed)
    }

    pub(crate) fn read(&mut self, number: u64, offset: u64, len: u64) -> Answer<Vec<u8>> {
        let (file, unsynced) = self.file_mut(number)?;
        unsynced.read(file, offset, len)
    }

    pub(crate) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Answer<()> {
        self.change_file(number, |file, unsynced| unsynced.write(file, offset, bytes))
    }

    pub(crate) fn set_len(&mut self, number: u64, len: u64) -> Answer<()> {
        self.change_file(number, |_, unsynced| {
            unsynced.set_len(len);
            Ok(())
        })
    }

    /// Writes zeros up to the end of the file.
    pub(crate) fn clear(&mut self, number: u64, offset: u64, len: u64) -> Answer<()> {
        self.change_file(number, |file, unsynced| unsynced.clear(file, offset, len))
    }

    fn change_file(
        &mut self,
        number: u64,
        change: impl FnOnce(&File, &mut Unsynced) -> Answer<()>,
    ) -> Answer<()> {
        let (file, unsynced) = self.file_mut(number)?;
        let before = unsynced.bytes();
        let changed = change(file, unsynced);
        let after = unsynced.bytes();
        self.unsynced_bytes = self.unsynced_bytes + after - before;
        self.node_mut(number)?.modified = SystemTime::now();
        if self.unsynced_bytes > MOST_BYTES {
            self.write_back(number)?;
        }
        changed
    }

    /// Syncs a file or directory.
    pub(crate) fn sync(&mut self, number: u64) -> Answer<()> {
        self.node(number)?;
        if self.power.sync() == Sync::TooLate {
            return Err(Errno::IO);
        }
        // From here on the power may be gone: this sync was the last.
        if self.policy.syncs == Syncs::Ignored {
            return Ok(());
        }
        self.write_back(number)?;
        let is_dir = matches!(self.nodes.get(&number), Some(Node { kind: Kind::Directory { .. }, .. }));
        let above = match self.policy.new_files {
            NewFiles::HaveTheirName => self.above(number),
            NewFiles::NeedTheirDirectory => Vec::new(),
        };
        let changes =
            self.names.take(|change| (is_dir && change.is_of(number)) || above.contains(&change.number()));
        self.make_durable(&changes)
    }

    /// Returns a file or directory and the directories above it.
    fn above(&self, number: u64) -> Vec<u64> {
        let mut above = vec![number];
        let mut at = self.directory_of(number);
        while let Some(directory) = at {
            above.push(directory);
            at = match self.nodes.get(&directory) {
                Some(Node { kind: Kind::Directory { parent, .. }, .. }) if directory != ROOT => Some(*parent),
                _ => None,
            };
        }
        above
    }

    /// Returns the directory that a new file or any directory is in.
    fn directory_of(&self, number: u64) -> Option<u64> {
        match &self.nodes.get(&number)?.kind {
            Kind::Directory { parent, .. } => (number != ROOT).then_some(*parent),
            Kind::File { .. } => self.names.directory_of(number),
        }
    }

    /// Makes the bytes of a file durable.
    fn write_back(&mut self, number: u64) -> Answer<()> {
        if let Some(Node { kind: Kind::File { file, unsynced }, .. }) = self.nodes.get_mut(&number) {
            self.unsynced_bytes -= unsynced.bytes();
            backing::write(file, &unsynced.take())?;
        }
        Ok(())
    }

    fn note(&mut self, change: Change) -> Answer<()> {
        self.names.push(change);
        if self.names.len() > MOST_CHANGES {
            let all = self.names.take(|_| true);
            self.make_durable(&all)?;
        }
        Ok(())
    }

    fn make_durable(&mut self, changes: &[Change]) -> Answer<()> {
        for change in changes {
            let nodes = &self.nodes;
            self.backing.change(change, |number| directory(nodes, number))?;
            match change {
                Change::Remove { number, is_dir: true, .. } => drop(self.nodes.remove(number)),
                Change::Move { replaced_dir: Some(number), .. } => drop(self.nodes.remove(number)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts into the backing directory what is not there yet: after a cut a part of it, else all.
    pub(crate) fn finish(mut self, seed: u64) -> Answer<Left> {
        let mut rng = Prng::new(seed);
        let is_cut = self.power.is_cut();
        let mut left = Left { of_names: self.names.len() as u64, ..Left::default() };
        let mut numbers: Vec<u64> = self.nodes.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let Some(Node { kind: Kind::File { file, unsynced }, .. }) = self.nodes.get_mut(&number) else {
                continue;
            };
            left.of_blocks += unsynced.blocks();
            let changes = if is_cut { unsynced.survivors(&mut rng) } else { unsynced.take() };
            left.blocks += changes.writes.len() as u64;
            backing::write(file, &changes)?;
        }
        let names = if is_cut { self.names.survivors(&mut rng) } else { self.names.take(|_| true) };
        left.names = names.len() as u64;
        self.make_durable(&names)?;
        self.backing.close();
        Ok(left)
    }
}

fn check_length(name: &OsStr) -> Answer<()> {
    if name.len() > MOST_OF_NAME { Err(Errno::NAMETOOLONG) } else { Ok(()) }
}

/// Checks that something may have this name.
fn check_new(directory: u64, name: &OsStr) -> Answer<()> {
    if directory == ROOT && name == LIMBO { Err(Errno::EXIST) } else { check_length(name) }
}

fn directory(nodes: &HashMap<u64, Node>, number: u64) -> Option<BorrowedFd<'_>> {
    match &nodes.get(&number)?.kind {
        Kind::Directory { fd, .. } => Some(fd.as_fd()),
        Kind::File { .. } => None,
    }
}
