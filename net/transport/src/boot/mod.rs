//! Starting and ending the shards of a process: one thread, one executor, one end of the mesh each.
//!
//! 1. Threads of the process are started here and nowhere else, save a shard's helpers.
//! 2. Nothing runs on any shard until every shard has its executor: a start fails whole, with one error.
//! 3. The first error (or panic) of a shard asks the others to stop; all threads are joined before the error is told.
//! 4. A shard's end of the mesh closes when its main future ends; its executor ends after its helpers are idle.
//!
//! Not here: what a shard does, and the order in which it stops doing it.

mod signals;
mod stop;

use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pelton_model::{ShardId, limits};

use self::signals::{EndSender, Event, Events};
use self::stop::Meeting;
pub use self::stop::{StopHandle, StopRequested};
use crate::checks::{self, IoUringRefused};
use crate::net::Mesh;
use crate::ring::executor::{Executor, ExecutorOptions};
use crate::ring::{MeshSeed, RingMesh, RingNet, mesh};

/// Messages a mesh queue holds: both directions' credits, and as much again for what needs none (images, control).
const MESH_CAPACITY: usize = 4 * limits::MESH_CREDITS;

/// How the shards are started.
#[derive(Clone, Debug)]
pub struct BootOptions {
    /// One shard per entry, on that core; empty: one shard, not pinned.
    pub cores: Vec<usize>,
    /// Whether threads are pinned to their cores; `false` leaves the process's affinity as it is.
    pub pinned: bool,
    /// How long a shard without work looks for some before it sleeps. Only pinned shards spin.
    pub spin: Duration,
    /// Messages one shard may have under way to another.
    pub mesh_capacity: usize,
    /// Whether SIGTERM and SIGINT ask the shards to stop (a second one ends the process).
    pub signals: bool,
    /// Asks the shards to stop from elsewhere.
    pub stop: StopHandle,
}

impl Default for BootOptions {
    /// One shard, not pinned, deaf to signals.
    fn default() -> Self {
        Self {
            cores: Vec::new(),
            pinned: false,
            spin: Duration::ZERO,
            mesh_capacity: MESH_CAPACITY,
            signals: false,
            stop: StopHandle::new(),
        }
    }
}

impl BootOptions {
    /// `shard_count` shards that are not pinned: for tests and shared machines.
    #[must_use]
    pub fn unpinned(shard_count: usize) -> Self {
        Self {
            cores: (0..shard_count).collect(),
            ..Self::default()
        }
    }

    /// One pinned shard on each of `cores`.
    #[must_use]
    pub fn pinned(cores: Vec<usize>) -> Self {
        Self {
            pinned: !cores.is_empty(),
            cores,
            ..Self::default()
        }
    }

    fn core_of(&self, shard: u16) -> Option<usize> {
        if self.pinned {
            self.cores.get(usize::from(shard)).copied()
        } else {
            None
        }
    }
}

/// What a shard's main future is given.
#[derive(Debug)]
pub struct ShardContext<M> {
    /// Time, tasks and sockets of this shard.
    pub net: RingNet,
    /// This shard's end of the mesh.
    pub mesh: RingMesh<M>,
    /// This shard.
    pub shard: ShardId,
    /// The number of shards.
    pub shard_count: u16,
    /// Asks all shards to stop.
    pub stop: StopHandle,
    meeting: MeetingPoint,
}

impl<M> ShardContext<M> {
    /// Waits until the process is asked to stop: by a signal, by [`StopHandle::request`] or by another shard's error.
    #[must_use]
    pub fn stop(&self) -> StopRequested {
        self.stop.requested()
    }

    /// Where this shard waits for the others.
    #[must_use]
    pub fn meeting(&self) -> MeetingPoint {
        self.meeting.clone()
    }
}

/// Where the shards wait for each other, as between the steps of a stop.
#[derive(Clone)]
pub struct MeetingPoint(Arc<Meeting>);

impl MeetingPoint {
    /// Waits until every shard has called this as often as this one; one call at a time per shard.
    ///
    /// Returns `false` when a shard has ended instead of coming: go on without it. Not to be dropped half-way.
    pub async fn all_arrived(&self) -> bool {
        self.0.arrive().await
    }
}

impl fmt::Debug for MeetingPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MeetingPoint")
    }
}

/// Why the shards did not start, or did not end well.
#[derive(Debug)]
pub enum BootError<E> {
    /// The kernel gives no io_uring.
    IoUring(IoUringRefused),
    /// A shard's thread or executor could not be made.
    Start {
        /// Which one.
        shard: ShardId,
        /// The core it was to run on.
        core: Option<usize>,
        /// What the system said.
        source: io::Error,
    },
    /// Signals or the pipe they come by could not be set up.
    Signals(io::Error),
    /// A shard's main future failed.
    Shard {
        /// Which one.
        shard: ShardId,
        /// Its error.
        source: E,
    },
    /// A shard panicked (only where panics unwind).
    Panicked(ShardId),
}

impl<E: fmt::Display> fmt::Display for BootError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IoUring(refused) => refused.fmt(f),
            Self::Start {
                shard,
                core: Some(core),
                source,
            } => {
                write!(f, "shard {shard} cannot start on core {core}: {source}")
            }
            Self::Start {
                shard,
                core: None,
                source,
            } => {
                write!(f, "shard {shard} cannot start: {source}")
            }
            Self::Signals(error) => write!(f, "signal handlers cannot be installed: {error}"),
            Self::Shard { source, .. } => source.fmt(f),
            Self::Panicked(shard) => write!(f, "shard {shard} panicked"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for BootError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::IoUring(refused) => Some(refused),
            Self::Start { source, .. } | Self::Signals(source) => Some(source),
            // Its text is the error's own, so its source comes next.
            Self::Shard { source, .. } => source.source(),
            Self::Panicked(_) => None,
        }
    }
}

/// Runs `main` on every shard until all of them have ended.
///
/// # Errors
/// See [`BootError`]; of several failing shards, the first to fail.
///
/// # Panics
/// When there are more than 65 535 cores.
pub fn run_shards<M, E, F, R>(options: &BootOptions, main: F) -> Result<(), BootError<E>>
where
    M: Send + 'static,
    E: Send + 'static,
    F: Fn(ShardContext<M>) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + 'static,
{
    checks::io_uring().map_err(BootError::IoUring)?;
    let shard_count = u16::try_from(options.cores.len().max(1)).expect("fewer cores than 2^16");
    let events = Events::new(options.signals).map_err(BootError::Signals)?;
    let main = Arc::new(main);
    let meeting = Meeting::new(shard_count);
    let mut crew = Crew::new(options.stop.clone(), events);
    for seed in mesh::<M>(shard_count, options.mesh_capacity) {
        let shard = seed.shard();
        let plan = ShardPlan {
            seed,
            executor: ExecutorOptions {
                core: options.core_of(shard.0),
                spin: options.spin,
            },
            shard_count,
            stop: options.stop.clone(),
            meeting: Arc::clone(&meeting),
            main: Arc::clone(&main),
        };
        if let Err(error) = crew.start(plan) {
            crew.fail(error);
            break;
        }
    }
    crew.go();
    crew.join()
}

/// Runs `main` on an executor of the current thread: for command-line clients.
///
/// # Errors
/// When the kernel gives no io_uring or the executor cannot be made.
///
/// # Panics
/// When the current thread already runs an executor.
pub fn block_on<T, F, R>(main: F) -> Result<T, BootError<std::convert::Infallible>>
where
    F: FnOnce(RingNet) -> R,
    R: Future<Output = T>,
{
    checks::io_uring().map_err(BootError::IoUring)?;
    let options = ExecutorOptions {
        core: None,
        spin: Duration::ZERO,
    };
    let executor = Executor::make(options).map_err(|source| BootError::Start {
        shard: ShardId(0),
        core: None,
        source,
    })?;
    Ok(executor.run(main))
}

/// Everything a shard's thread is started with.
struct ShardPlan<M, F> {
    seed: MeshSeed<M>,
    executor: ExecutorOptions,
    shard_count: u16,
    stop: StopHandle,
    meeting: Arc<Meeting>,
    main: Arc<F>,
}

/// What a shard's thread says when its executor is made, or not.
type Ready<E> = Result<(), BootError<E>>;

/// The threads, as seen by the one that started them.
struct Crew<E> {
    stop: StopHandle,
    events: Events,
    threads: Vec<(ShardId, JoinHandle<()>)>,
    /// Dropping one without sending sends its shard home before it ran anything.
    gates: Vec<mpsc::Sender<()>>,
    results: (mpsc::Sender<ShardResult<E>>, mpsc::Receiver<ShardResult<E>>),
    first_error: Option<BootError<E>>,
}

type ShardResult<E> = Result<(), BootError<E>>;

impl<E: Send + 'static> Crew<E> {
    fn new(stop: StopHandle, events: Events) -> Self {
        Self {
            stop,
            events,
            threads: Vec::new(),
            gates: Vec::new(),
            results: mpsc::channel(),
            first_error: None,
        }
    }

    fn fail(&mut self, error: BootError<E>) {
        self.stop.request();
        self.first_error.get_or_insert(error);
    }

    /// Starts a thread and waits until its executor is made.
    fn start<M, F, R>(&mut self, plan: ShardPlan<M, F>) -> Result<(), BootError<E>>
    where
        M: Send + 'static,
        F: Fn(ShardContext<M>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + 'static,
    {
        let shard = plan.seed.shard();
        let core = plan.executor.core;
        let not_started = |source| BootError::Start {
            shard,
            core,
            source,
        };
        let end = self.events.end_sender().map_err(BootError::Signals)?;
        let results = self.results.0.clone();
        let (gate, opened) = mpsc::channel();
        let (ready, started) = mpsc::channel();
        let thread = thread::Builder::new()
            .name(format!("shard-{shard}"))
            .spawn(move || shard_thread(plan, &ready, &opened, &results, end))
            .map_err(not_started)?;
        self.threads.push((shard, thread));
        self.gates.push(gate);
        match started.recv() {
            Ok(ready) => ready,
            Err(mpsc::RecvError) => Err(BootError::Panicked(shard)),
        }
    }

    /// Lets the shards run, unless one could not start.
    fn go(&mut self) {
        for gate in self.gates.drain(..) {
            if self.first_error.is_none() {
                // A shard that panicked meanwhile reports by its result.
                gate.send(()).unwrap_or(());
            }
        }
    }

    /// Waits for the end of all shards, passing signals on.
    fn join(mut self) -> Result<(), BootError<E>> {
        let mut ended = 0;
        while ended < self.threads.len() {
            match self.events.next() {
                Ok(Event::Signal) => self.stop.request(),
                Ok(Event::ShardEnded) => {
                    ended += 1;
                    while let Ok(result) = self.results.1.try_recv() {
                        if let Err(error) = result {
                            self.fail(error);
                        }
                    }
                }
                Err(error) => {
                    // Without the pipe the threads are still joined, only signals are lost.
                    self.fail(BootError::Signals(error));
                    break;
                }
            }
        }
        for (shard, thread) in self.threads.drain(..) {
            if thread.join().is_err() {
                self.first_error.get_or_insert(BootError::Panicked(shard));
            }
        }
        self.first_error.map_or(Ok(()), Err)
    }
}

/// The whole life of a shard's thread.
fn shard_thread<M, E, F, R>(
    plan: ShardPlan<M, F>,
    ready: &mpsc::Sender<Ready<E>>,
    opened: &mpsc::Receiver<()>,
    results: &mpsc::Sender<ShardResult<E>>,
    end: EndSender,
) where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> R,
    R: Future<Output = Result<(), E>>,
{
    let shard = plan.seed.shard();
    let core = plan.executor.core;
    let meeting = Arc::clone(&plan.meeting);
    let made = Executor::make(plan.executor);
    let told = match &made {
        Ok(_) => ready.send(Ok(())),
        Err(source) => ready.send(Err(BootError::Start {
            shard,
            core,
            source: io::Error::new(source.kind(), source.to_string()),
        })),
    };
    if let (Ok(executor), Ok(()), Ok(())) = (made, told, opened.recv()) {
        let run = catch_unwind(AssertUnwindSafe(|| run_shard(executor, plan)));
        let result = match run {
            Ok(Ok(())) => Ok(()),
            Ok(Err(source)) => Err(BootError::Shard { shard, source }),
            Err(_) => Err(BootError::Panicked(shard)),
        };
        results.send(result).unwrap_or(());
    }
    meeting.leave();
    end.send();
}

fn run_shard<M, E, F, R>(executor: Executor, plan: ShardPlan<M, F>) -> Result<(), E>
where
    M: Send + 'static,
    F: Fn(ShardContext<M>) -> R,
    R: Future<Output = Result<(), E>>,
{
    let ShardPlan {
        seed,
        shard_count,
        stop,
        meeting,
        main,
        ..
    } = plan;
    executor.run(|net| async move {
        let shard = seed.shard();
        let mesh = seed.into_mesh();
        let context = ShardContext {
            net,
            mesh: mesh.clone(),
            shard,
            shard_count,
            stop,
            meeting: MeetingPoint(meeting),
        };
        let result = main(context).await;
        mesh.close();
        result
    })
}
