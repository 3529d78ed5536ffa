//! What a helper thread would do beside its caller, on a disk that has no threads.
//!
//! Invariants:
//! 1. Without [`MemoryDisk::delay_helper`] a job is done when it is started.
//! 2. With it, pieces of waiting jobs are done between later operations, as the seed decides: any order that two threads
//!    could take, as long as a piece is not cut in two.
//! 3. Pieces do not count as operations, so that faults injected into the caller's stay where they are.

use std::cell::{Cell, RefCell};
use std::io;

use bytes::Bytes;

use super::super::prepare::{Blank, FILLER, Preparation};
use super::{Dice, EIO, FileChange, MemoryDisk, MemoryFile, os_error};

/// The waiting jobs.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    dice: RefCell<Option<Dice>>,
    jobs: RefCell<Vec<(Preparation, Space)>>,
    errno: Cell<Option<i32>>,
}

/// A file as the helper sees it.
#[derive(Clone, Debug)]
struct Space {
    disk: MemoryDisk,
    node: usize,
    generation: u64,
}

impl Blank for Space {
    fn reserve(&mut self, _: u64, _: u64) -> io::Result<()> {
        self.fault()
    }

    fn write_filler(&mut self, from: u64, to: u64) -> io::Result<()> {
        self.fault()?;
        let mut world = self.disk.world.borrow_mut();
        if world.generation != self.generation {
            return Err(os_error(EIO));
        }
        let file = world.file_mut(self.node).map_err(os_error)?;
        let position = usize::try_from(from).expect("files in memory are small");
        let size = usize::try_from(to - from).expect("a piece is small");
        let bytes = Bytes::from(vec![FILLER; size]);
        file.change(FileChange::Write { position, bytes });
        Ok(())
    }
}

impl Space {
    fn fault(&self) -> io::Result<()> {
        self.disk
            .backlog
            .errno
            .get()
            .map_or(Ok(()), |errno| Err(os_error(errno)))
    }
}

impl MemoryDisk {
    /// Lets the helper lag behind as `seed` decides, from now on.
    pub fn delay_helper(&self, seed: u64) {
        self.backlog.dice.replace(Some(Dice(seed)));
    }

    /// Lets preparations fail with `errno`, until told otherwise.
    pub fn fail_preparing(&self, errno: Option<i32>) {
        self.backlog.errno.set(errno);
    }

    /// Does some of the waiting pieces.
    pub(super) fn run_backlog(&self) {
        let mut dice = self.backlog.dice.borrow_mut();
        let Some(dice) = &mut *dice else {
            return;
        };
        let mut jobs = self.backlog.jobs.borrow_mut();
        while !jobs.is_empty() && dice.roll().is_multiple_of(2) {
            let index = dice.up_to(jobs.len() - 1);
            let (preparation, space) = &mut jobs[index];
            if !preparation.step(space) {
                jobs.swap_remove(index);
            }
        }
    }

    /// The process is gone: nobody does what waits.
    pub fn kill_helper(&self) {
        self.backlog.jobs.borrow_mut().clear();
    }
}

impl MemoryFile {
    pub(super) fn start(&self, preparation: &Preparation) {
        let mut space = Space {
            disk: self.disk.clone(),
            node: self.node,
            generation: self.generation,
        };
        if self.disk.backlog.dice.borrow().is_some() {
            let job = (preparation.clone(), space);
            self.disk.backlog.jobs.borrow_mut().push(job);
        } else {
            while preparation.step(&mut space) {}
        }
    }
}
