//! A file system in memory that loses at a crash what a real one may lose.
//!
//! Unsynced writes survive in part, sector by sector and in any order; unsynced names come back or go. A countdown of
//! operations says when the crash comes; from then on every operation fails until `crash` has settled what is left.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use journal::{Fs, FsFile, FsLock};

use super::Random;

const SECTOR_BYTES: usize = 512;

#[derive(Clone, Default)]
pub struct SimFs(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    now: BTreeMap<PathBuf, Arc<Mutex<Inode>>>,
    durable: BTreeMap<PathBuf, Arc<Mutex<Inode>>>,
    locks: BTreeSet<PathBuf>,
    countdown: Option<u64>,
    crashed: bool,
    /// Handles of before a crash are dead.
    generation: u64,
    room: Option<u64>,
    fail_sync: bool,
    pub syncs: u64,
}

#[derive(Default)]
struct Inode {
    now: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

struct SimFile {
    world: Arc<Mutex<World>>,
    inode: Arc<Mutex<Inode>>,
    generation: u64,
}

struct SimLock(Arc<Mutex<World>>, PathBuf, u64);

impl FsLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut world = self.0.lock().unwrap();
        if world.generation == self.2 {
            world.locks.remove(&self.1);
        }
    }
}

impl World {
    /// Counts an operation that changes something.
    fn operation(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.countdown {
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => self.crashed = true,
            }
        }
        if self.crashed {
            Err(io::Error::other("the machine is down"))
        } else {
            Ok(())
        }
    }
}

impl SimFs {
    /// The machine goes down after `operations` more.
    pub fn crash_after(&self, operations: u64) {
        self.0.lock().unwrap().countdown = Some(operations);
    }

    /// Writes fail once this many more bytes were written.
    pub fn set_room(&self, room: Option<u64>) {
        self.0.lock().unwrap().room = room;
    }

    /// The next sync fails, and what it should have covered is as unsure as before.
    pub fn fail_next_sync(&self) {
        self.0.lock().unwrap().fail_sync = true;
    }

    pub fn syncs(&self) -> u64 {
        self.0.lock().unwrap().syncs
    }

    /// Brings the machine up again with what happened to survive.
    pub fn crash(&self, random: &mut Random) {
        let mut world = self.0.lock().unwrap();
        world.generation += 1;
        (world.countdown, world.crashed, world.fail_sync) = (None, false, false);
        world.locks.clear();
        let names: BTreeSet<PathBuf> = world
            .now
            .keys()
            .chain(world.durable.keys())
            .cloned()
            .collect();
        for name in names {
            let chosen = match random.chance(50) {
                true => world.now.get(&name).cloned(),
                false => world.durable.get(&name).cloned(),
            };
            match chosen {
                Some(inode) => world.durable.insert(name, inode),
                None => world.durable.remove(&name),
            };
        }
        for inode in world.durable.values() {
            inode.lock().unwrap().settle(random);
        }
        world.now = world.durable.clone();
    }

    /// Changes the bytes of a file as a failing disk would.
    pub fn bend(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let world = self.0.lock().unwrap();
        let mut inode = world.now[path].lock().unwrap();
        change(&mut inode.now);
        inode.durable = inode.now.clone();
    }

    pub fn content(&self, path: &Path) -> Vec<u8> {
        self.0.lock().unwrap().now[path].lock().unwrap().now.clone()
    }

    /// An independent copy of everything as it is now.
    pub fn copy(&self) -> SimFs {
        let world = self.0.lock().unwrap();
        let copy: BTreeMap<_, _> = world
            .now
            .iter()
            .map(|(path, inode)| {
                let now = inode.lock().unwrap().now.clone();
                let inode = Inode {
                    durable: now.clone(),
                    now,
                    pending: Vec::new(),
                };
                (path.clone(), Arc::new(Mutex::new(inode)))
            })
            .collect();
        let fresh = World {
            durable: copy.clone(),
            now: copy,
            ..World::default()
        };
        SimFs(Arc::new(Mutex::new(fresh)))
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap().now.keys().cloned().collect()
    }

    fn handle(&self, inode: Arc<Mutex<Inode>>, generation: u64) -> Arc<dyn FsFile> {
        Arc::new(SimFile {
            world: self.0.clone(),
            inode,
            generation,
        })
    }
}

impl Inode {
    /// Lets each unsynced sector survive or not.
    fn settle(&mut self, random: &mut Random) {
        if self.pending.is_empty() {
            return;
        }
        let percent = [0, 100, 50, 90, 10][random.below(5) as usize];
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            let mut at = 0;
            while at < bytes.len() {
                let sector_end = (offset + at) / SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES;
                let count = (sector_end - offset - at).min(bytes.len() - at);
                if random.chance(percent) {
                    let end = offset + at + count;
                    if self.durable.len() < end {
                        self.durable.resize(end, 0);
                    }
                    let piece = &bytes[at..at + count];
                    self.durable[offset + at..end].copy_from_slice(piece);
                }
                at += count;
            }
        }
        if random.chance(10) {
            let garbage = random.below(2000) as usize;
            let garbage = random.bytes(garbage);
            self.durable.extend(garbage);
        }
        self.now = self.durable.clone();
    }
}

fn missing() -> io::Error {
    io::Error::from(io::ErrorKind::NotFound)
}

impl Fs for SimFs {
    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn FsFile>> {
        let mut world = self.0.lock().unwrap();
        world.operation()?;
        let inode = Arc::new(Mutex::new(Inode::default()));
        world.now.insert(path.to_owned(), inode.clone());
        Ok(self.handle(inode, world.generation))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn FsFile>> {
        let world = self.0.lock().unwrap();
        let inode = world.now.get(path).cloned().ok_or_else(missing)?;
        Ok(self.handle(inode, world.generation))
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.operation()?;
        let inode = world.now.get(path).cloned().ok_or_else(missing)?;
        let mut inode = inode.lock().unwrap();
        inode.now.truncate(len as usize);
        inode.durable = inode.now.clone();
        inode.pending.clear();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.operation()?;
        let inode = world.now.remove(from).ok_or_else(missing)?;
        world.now.insert(to.to_owned(), inode);
        Ok(())
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.operation()?;
        world.now.remove(path).map(drop).ok_or_else(missing)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let world = self.0.lock().unwrap();
        Ok(world
            .now
            .keys()
            .filter(|path| path.starts_with(dir))
            .cloned()
            .collect())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        let mut world = self.0.lock().unwrap();
        world.operation()?;
        world.durable = world.now.clone();
        Ok(())
    }

    fn lock(&self, path: &Path, _content: &str) -> io::Result<Box<dyn FsLock>> {
        let mut world = self.0.lock().unwrap();
        if !world.locks.insert(path.to_owned()) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, "1"));
        }
        Ok(Box::new(SimLock(
            self.0.clone(),
            path.to_owned(),
            world.generation,
        )))
    }
}

impl FsFile for SimFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let inode = self.inode.lock().unwrap();
        let start = (offset as usize).min(inode.now.len());
        let count = buffer.len().min(inode.now.len() - start);
        buffer[..count].copy_from_slice(&inode.now[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        let alive = world.generation == self.generation;
        let result = world.operation();
        let mut count = bytes.len();
        if let Some(room) = &mut world.room {
            count = count.min(*room as usize);
            *room -= count as u64;
        }
        drop(world);
        if !alive {
            return Err(io::Error::other("a handle of before the crash"));
        }
        let mut inode = self.inode.lock().unwrap();
        let end = offset as usize + count;
        if inode.now.len() < end {
            inode.now.resize(end, 0);
        }
        inode.now[offset as usize..end].copy_from_slice(&bytes[..count]);
        // The write that the crash interrupts may have reached the disk in part.
        inode
            .pending
            .push((offset as usize, bytes[..count].to_vec()));
        result?;
        match count < bytes.len() {
            true => Err(io::Error::from(io::ErrorKind::StorageFull)),
            false => Ok(()),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut world = self.world.lock().unwrap();
        if world.generation != self.generation {
            return Err(io::Error::other("a handle of before the crash"));
        }
        world.operation()?;
        world.syncs += 1;
        if std::mem::take(&mut world.fail_sync) {
            return Err(io::Error::other("input/output error"));
        }
        let mut inode = self.inode.lock().unwrap();
        inode.durable = inode.now.clone();
        inode.pending.clear();
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.inode.lock().unwrap().now.len() as u64)
    }
}
