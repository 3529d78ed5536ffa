//! Making executors and running one future on them.
//!
//! 1. An executor never ends while its helper threads still work: the runtime's helpers panic when their answer has
//!    no reader, and a panic aborts the process.
//! 2. Few helpers and little registered memory: the runtime's defaults cost 10 MiB per shard.

use std::future::Future;
use std::io;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::runtime::GlommioNet;

/// What the runtime registers with the kernel for direct I/O, which we do not use: its least.
const IO_MEMORY_BYTES: usize = 64 * 1024;
/// Helper threads for work that would block: one for files, one for whatever hogs.
const HELPERS: usize = 2;
/// The longest a busy queue runs before sockets and timers are looked at.
const PREEMPT: Duration = Duration::from_millis(2);

/// How one executor is set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExecutorOptions {
    /// The core to pin the thread to.
    pub(crate) core: Option<usize>,
    /// How long to look for work before the thread sleeps; only a pinned thread spins.
    pub(crate) spin: Duration,
    /// Entries of each submission ring.
    pub(crate) ring_depth: usize,
}

/// An executor of the current thread.
pub(crate) struct Executor(LocalExecutor);

impl Executor {
    /// Makes the executor of this thread, pinning the thread when asked.
    pub(crate) fn make(options: ExecutorOptions) -> io::Result<Self> {
        let placement = options.core.map_or(Placement::Unbound, Placement::Fixed);
        let executor = LocalExecutorBuilder::new(placement)
            .io_memory(IO_MEMORY_BYTES)
            .ring_depth(options.ring_depth)
            .preempt_timer(PREEMPT)
            .spin_before_park(options.spin)
            .blocking_thread_pool_placement(PoolPlacement::Unbound(HELPERS))
            .make()?;
        Ok(Self(executor))
    }

    /// Runs `main` to its end, then waits for work that helpers still have in hand.
    pub(crate) fn run<T, F: Future<Output = T>>(&self, main: impl FnOnce(GlommioNet) -> F) -> T {
        self.0.run(async {
            let output = main(GlommioNet::new()).await;
            settle_helpers().await;
            output
        })
    }
}

/// Returns when the helpers have answered everything given to them so far.
///
/// Requests are taken in order, so when every helper has met the others at the barrier, all earlier ones are answered.
async fn settle_helpers() {
    let barrier = Arc::new(Barrier::new(HELPERS));
    let meet = || {
        let barrier = Arc::clone(&barrier);
        glommio::spawn_local(glommio::executor().spawn_blocking(move || {
            barrier.wait();
        }))
    };
    let tasks: Vec<_> = (0..HELPERS).map(|_| meet()).collect();
    for task in tasks {
        task.await;
    }
}
