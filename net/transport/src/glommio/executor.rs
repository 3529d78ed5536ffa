//! Making executors and running one future on them.
//!
//! The runtime has a latency ring besides its main ring. An entry that arrives in it between the reactor's turn and the
//! first look at the ready tasks makes glommio-ng 0.12 skip them *and sleep*, until some event happens (mended by its
//! authors after that release). Preemption timers, the runtime's own timers and its wake-ups from other threads arrive
//! there. So:
//! 1. The preemption timer never fires; what might run for long goes through the main ring instead (`Runtime::pass`).
//! 2. Timers are a timerfd, wake-ups an eventfd, blocking work a thread of ours: all on the main ring.
//! 3. What is left (file operations on the runtime's own helper, more completions in one turn than the ring has
//!    entries) costs at most one heartbeat of the timers.
//!
//! And besides:
//! 4. An executor never ends while its helper threads still work: the runtime's helper panics when its answer has no
//!    reader, and a panic aborts the process.
//! 5. Few helpers and little registered memory: the runtime's defaults cost 10 MiB per shard.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::runtime::GlommioNet;

/// What the runtime registers with the kernel for direct I/O, which we do not use: its least.
const IO_MEMORY_BYTES: usize = 64 * 1024;
/// The runtime's own helper threads, for what the storage adapter gives them (syncs, removals): one may wait for a
/// device while another works.
const HELPERS: usize = 2;
/// Longer than any turn: the preemption timer never fires.
const PREEMPT: Duration = Duration::from_hours(24);

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
    ///
    /// # Errors
    /// When there are no descriptors for what a shard needs besides its rings; `main` has not run then.
    pub(crate) fn run<T, F: Future<Output = T>>(
        &self,
        main: impl FnOnce(GlommioNet) -> F,
    ) -> io::Result<T> {
        self.0.run(async {
            let net = GlommioNet::new()?;
            let runtime = Rc::clone(net.runtime());
            let output = main(net).await;
            settle_helpers().await;
            runtime.join_helpers();
            Ok(output)
        })
    }
}

/// Returns when the runtime's helpers have answered everything given to them so far.
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
