//! [`Net`] on the ring's executor: time, tasks, entropy and the making of sockets.
//!
//! 1. A `RingNet` works only on the executor it was made on (it is `!Send`).

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use pelton_model::{Monotonic, Timestamp};
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;

use super::connection::RingConnection;
use super::executor::Core;
use super::helper::Helper;
use super::listener::RingListener;
use super::timers;
use crate::net::{Detached, Load, Net, SocketOptions, TaskClass};

/// Syncs that one shard has under way at once. ext4 lets them share its journal's commits: 64 dirty files take 124 ms one
/// after the other, 3–4 ms with 8 to 16 threads, no less with 32.
const SYNC_THREADS_MAX: usize = 16;

#[derive(Debug)]
struct Runtime {
    core: Rc<Core>,
    helper: Helper,
    sync_helper: Helper,
    background_helper: Helper,
}

/// [`Net`] of the shard it was made on.
#[derive(Clone, Debug)]
pub struct RingNet(Rc<Runtime>);

impl RingNet {
    /// Made once per executor, on it.
    pub(super) fn new(core: Rc<Core>) -> Self {
        Self(Rc::new(Runtime {
            core,
            helper: Helper::new("helper", 1),
            sync_helper: Helper::new("sync", SYNC_THREADS_MAX),
            background_helper: Helper::of_low_priority("background", 1),
        }))
    }

    /// Waits until the helpers have done what they were given.
    pub(super) fn join_helpers(&self) {
        self.0.helper.join();
        self.0.sync_helper.join();
        self.0.background_helper.join();
    }

    /// Runs `work`, which waits for a device, on a thread of its own: beside others of its kind and never behind
    /// [`Net::run_blocking`]'s.
    pub async fn run_sync<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.sync_helper.run(work).await
    }

    /// Runs `work`, which nobody waits for, on a thread that leaves the core to everything else.
    pub async fn run_background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.background_helper.run(work).await
    }

    /// Runs `work` as [`Net::run_blocking`] does, and tells nobody when it is done: costs the shard no wake-up.
    pub fn start_blocking(&self, work: impl FnOnce() + Send + 'static) {
        self.0.helper.start(work);
    }

    /// Runs `work` as [`RingNet::run_sync`] does, and tells nobody when it is done.
    pub fn start_sync(&self, work: impl FnOnce() + Send + 'static) {
        self.0.sync_helper.start(work);
    }
}

impl Net for RingNet {
    type Listener = RingListener;
    type Connection = RingConnection;

    fn now(&self) -> Monotonic {
        timers::now()
    }

    fn wall_clock(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(ClockId::Realtime);
        Timestamp(time.tv_sec * 1_000 + time.tv_nsec / 1_000_000)
    }

    async fn sleep_until(&self, deadline: Monotonic) {
        self.0.core.timers.sleep_until(deadline).await;
    }

    async fn yield_now(&self) {
        // The shard looks at everything else between two rounds.
        futures_lite::future::yield_now().await;
    }

    fn spawn(&self, class: TaskClass, task: impl Future<Output = ()> + 'static) {
        self.0.core.queue.spawn(class, task);
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.helper.run(work).await
    }

    fn listen(&self, address: SocketAddr, options: SocketOptions) -> io::Result<RingListener> {
        RingListener::bind(&self.0.core.driver, address, options)
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<RingConnection> {
        RingConnection::connect(&self.0.core.driver, address).await
    }

    fn load(&self) -> Load {
        let cpu_ns = crate::process::thread_cpu_ns();
        Load {
            cpu_ns,
            busy_ns: Some(cpu_ns.saturating_sub(self.0.core.spun_ns.get())),
        }
    }

    fn attach(&self, socket: Detached) -> io::Result<RingConnection> {
        RingConnection::attach(&self.0.core.driver, socket)
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
