//! [`Net`] on a glommio executor: time, tasks, entropy and the making of sockets.
//!
//! 1. A `GlommioNet` works only on the executor it was made on (it is `!Send`).
//! 2. What wakes a shard goes through its main ring: sockets, the bell, the timerfd. `executor.rs` says why.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use glommio::{Latency, Shares, TaskQueueHandle};
use pelton_model::{Monotonic, Timestamp};
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;

use super::bell::{Bell, BellListener};
use super::connection::GlommioConnection;
use super::helper::Helper;
use super::listener::GlommioListener;
use super::timers::{self, Timers};
use crate::net::{Net, SocketOptions, TaskClass};

/// The weight of maintenance against the default queue's 1000.
const BACKGROUND_SHARES: usize = 100;
/// Tasks that are always ready keep the reactor waiting no longer than about this.
const PASS_NS_MAX: u64 = 200_000;

/// Syncs that one shard has under way at once. ext4 lets them share its journal's commits: 64 dirty files take 124 ms one
/// after the other, 3–4 ms with 8 to 16 threads, no less with 32.
const SYNC_THREADS_MAX: usize = 16;

/// What the parts of this adapter share on one shard.
#[derive(Debug)]
pub(crate) struct Runtime {
    background: TaskQueueHandle,
    timers: Rc<Timers>,
    bell: BellListener,
    helper: Helper,
    sync_helper: Helper,
    background_helper: Helper,
    last_pass: Cell<Monotonic>,
}

impl Runtime {
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        self.bell.bell()
    }

    /// Waits until the helpers have done what they were given.
    pub(crate) fn join_helpers(&self) {
        self.helper.join();
        self.sync_helper.join();
        self.background_helper.join();
    }

    /// Lets the reactor look at all sockets and timers.
    pub(crate) async fn pass(&self) {
        self.bell
            .pass()
            .await
            .expect("an eventfd can be polled as long as the executor runs");
        self.last_pass.set(timers::now());
    }
}

/// [`Net`] of the shard it was made on.
#[derive(Clone, Debug)]
pub struct GlommioNet(Rc<Runtime>);

impl GlommioNet {
    /// Made once per executor, on it. Fails when no descriptor is left.
    pub(crate) fn new() -> io::Result<Self> {
        let background = glommio::executor().create_task_queue(
            Shares::Static(BACKGROUND_SHARES),
            Latency::NotImportant,
            "background",
        );
        let runtime = Rc::new(Runtime {
            background,
            timers: Timers::new()?,
            bell: BellListener::new()?,
            helper: Helper::new("helper", 1),
            sync_helper: Helper::new("sync", SYNC_THREADS_MAX),
            background_helper: Helper::of_low_priority("background", 1),
            last_pass: Cell::new(timers::now()),
        });
        let net = Self(Rc::clone(&runtime));
        net.spawn(TaskClass::Request, drive_timers(Rc::clone(&runtime)));
        net.spawn(TaskClass::Request, drive_bell(runtime));
        Ok(net)
    }

    pub(crate) fn runtime(&self) -> &Rc<Runtime> {
        &self.0
    }

    /// Runs `work`, which waits for a device, on a thread of its own: beside others of its kind and never behind
    /// [`Net::run_blocking`]'s.
    pub async fn run_sync<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.sync_helper.run(self.0.bell(), work).await
    }

    /// Runs `work`, which nobody waits for, on a thread that leaves the core to everything else.
    pub async fn run_background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.background_helper.run(self.0.bell(), work).await
    }

    /// Runs `work` as [`Net::run_blocking`] does, and tells nobody when it is done: costs the shard no wake-up.
    pub fn start_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.0.helper.start(work);
    }

    /// Runs `work` as [`GlommioNet::run_sync`] does, and tells nobody when it is done.
    pub fn start_sync(&self, work: impl FnOnce() + Send + 'static) {
        self.0.sync_helper.start(work);
    }
}

async fn drive_timers(runtime: Rc<Runtime>) {
    loop {
        runtime
            .timers
            .turn()
            .await
            .expect("a timerfd can be polled as long as the executor runs");
        runtime.last_pass.set(timers::now());
    }
}

async fn drive_bell(runtime: Rc<Runtime>) {
    loop {
        runtime
            .bell
            .answer()
            .await
            .expect("an eventfd can be polled as long as the executor runs");
    }
}

impl Net for GlommioNet {
    type Listener = GlommioListener;
    type Connection = GlommioConnection;

    fn now(&self) -> Monotonic {
        timers::now()
    }

    fn wall_clock(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(ClockId::Realtime);
        Timestamp(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000)
    }

    async fn sleep_until(&self, deadline: Monotonic) {
        self.0.timers.sleep_until(deadline).await;
    }

    async fn yield_now(&self) {
        // A plain yield stays within the ready tasks; the runtime looks at I/O when none is left.
        if timers::now().since(self.0.last_pass.get()) < PASS_NS_MAX {
            futures_lite::future::yield_now().await;
        } else {
            self.0.pass().await;
        }
    }

    fn spawn(&self, class: TaskClass, task: impl Future<Output = ()> + 'static) {
        let queue = match class {
            TaskClass::Request => TaskQueueHandle::default(),
            TaskClass::Background => self.0.background,
        };
        glommio::spawn_local_into(task, queue)
            .expect("both queues live as long as the executor")
            .detach();
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.helper.run(self.0.bell(), work).await
    }

    fn listen(&self, address: SocketAddr, options: SocketOptions) -> io::Result<GlommioListener> {
        GlommioListener::bind(address, options)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<GlommioConnection> {
        GlommioConnection::connect(address).await
    }

    fn random(&self, bytes: &mut [u8]) {
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
                Ok(count) => filled += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    panic!("getrandom without flags fails on no supported kernel: {error}")
                }
            }
        }
    }
}
