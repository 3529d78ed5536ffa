//! [`Net`] on a glommio executor: time, tasks, entropy and the making of sockets.
//!
//! 1. A `GlommioNet` works only on the executor it was made on (it is `!Send`).
//! 2. A timer never ends before its deadline.

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use glommio::timer::Timer;
use glommio::{Latency, Shares, TaskQueueHandle};
use pelton_model::{Monotonic, Timestamp};
use rustix::rand::GetRandomFlags;
use rustix::time::{ClockId, Timespec};

use super::connection::GlommioConnection;
use super::listener::GlommioListener;
use crate::net::{Net, SocketOptions, TaskClass};

/// The weight of maintenance against the default queue's 1000.
const BACKGROUND_SHARES: usize = 100;

/// [`Net`] of the shard it was made on.
#[derive(Clone, Debug)]
pub struct GlommioNet {
    background: TaskQueueHandle,
    not_send: PhantomData<Rc<()>>,
}

impl GlommioNet {
    /// Made once per executor, on it.
    pub(crate) fn new() -> Self {
        let background = glommio::executor().create_task_queue(
            Shares::Static(BACKGROUND_SHARES),
            Latency::NotImportant,
            "background",
        );
        Self {
            background,
            not_send: PhantomData,
        }
    }
}

impl Net for GlommioNet {
    type Listener = GlommioListener;
    type Connection = GlommioConnection;

    fn now(&self) -> Monotonic {
        let time = rustix::time::clock_gettime(ClockId::Monotonic);
        let seconds = u64::try_from(time.tv_sec).expect("CLOCK_MONOTONIC is not negative");
        Monotonic(seconds * 1_000_000_000 + nanoseconds(&time))
    }

    fn wall_clock(&self) -> Timestamp {
        let time = rustix::time::clock_gettime(ClockId::Realtime);
        let ms = i64::try_from(nanoseconds(&time) / 1_000_000).expect("below 1000");
        Timestamp(time.tv_sec * 1_000 + ms)
    }

    async fn sleep_until(&self, deadline: Monotonic) {
        loop {
            let left = deadline.since(self.now());
            if left == 0 {
                return;
            }
            Timer::new(Duration::from_nanos(left)).await;
        }
    }

    async fn yield_now(&self) {
        // Within the queue: the executor polls I/O when the queue is empty or its preemption timer fires.
        glommio::executor().yield_now().await;
    }

    fn spawn(&self, class: TaskClass, task: impl Future<Output = ()> + 'static) {
        let queue = match class {
            TaskClass::Request => TaskQueueHandle::default(),
            TaskClass::Background => self.background,
        };
        glommio::spawn_local_into(task, queue)
            .expect("both queues live as long as the executor")
            .detach();
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        glommio::executor().spawn_blocking(work).await
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

fn nanoseconds(time: &Timespec) -> u64 {
    u64::try_from(time.tv_nsec).expect("the kernel normalises to 0..10^9")
}
