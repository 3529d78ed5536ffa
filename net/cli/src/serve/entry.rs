//! The door to the broker: the one place that picks the runtime it runs on.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pelton_broker::boot::{self as broker, Start};
use pelton_broker::env::Env;
use pelton_broker::loggers::Loggers;
use pelton_broker::shard::gate::ConnectionGate;
use pelton_broker::shard::message::Message;
use pelton_model::config::broker::BrokerConfig;
use pelton_storage::disk::kernel::{Helper, KernelDisk};
use pelton_transport::boot::{BootOptions, ShardContext, run_shards};
use pelton_transport::net::Net;
use pelton_transport::ring::{RingMesh, RingNet};
use pelton_transport::{boot, checks, probe_bind};

use crate::allocator;

/// Told the bound addresses, in the order of the listeners, when clients can connect.
pub(super) type OnListening = Box<dyn FnOnce(&[SocketAddr]) + Send>;

/// How the shards are placed, and who is told when they serve.
pub(super) struct ServeOptions {
    /// One shard per entry.
    pub(super) cores: Vec<usize>,
    /// Whether each is pinned to its core.
    pub(super) pinned: bool,
    /// How long an idle pinned shard looks for work before it sleeps.
    pub(super) spin: Duration,
    /// Called once.
    pub(super) on_listening: OnListening,
    /// The process' log.
    pub(super) loggers: Arc<dyn Loggers>,
}

/// The broker on the kernel's files and sockets.
#[derive(Debug)]
enum Kernel {}

impl Env for Kernel {
    type Disk = KernelDisk<ShardHelper>;
    type Net = RingNet;
    type Mesh = RingMesh<Message>;

    fn give_memory_back() {
        allocator::give_back();
    }
}

/// The shard's helper threads, for what would wait for the device.
#[derive(Clone, Debug)]
struct ShardHelper(RingNet);

impl Helper for ShardHelper {
    async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.0.run_blocking(job).await
    }

    async fn run_sync<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.0.run_sync(job).await
    }

    async fn run_background<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        self.0.run_background(job).await
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) {
        self.0.start_blocking(job);
    }

    fn start_sync(&self, job: impl FnOnce() + Send + 'static) {
        self.0.start_sync(job);
    }
}

/// Why the broker ended.
#[derive(Debug)]
pub(super) enum BootError {
    /// A port is taken, or a listener's host is unknown.
    Listen(broker::BootError),
    /// A shard could not start, or ended with an error.
    Shards(boot::BootError<broker::BootError>),
}

impl fmt::Display for BootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => error.fmt(f),
            Self::Shards(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BootError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        // Their texts are this error's own, so their sources come next.
        match self {
            Self::Listen(error) => error.source(),
            Self::Shards(error) => error.source(),
        }
    }
}

/// Runs the broker until it is asked to stop.
pub(super) fn run(config: BrokerConfig, options: ServeOptions) -> Result<(), BootError> {
    let addresses = broker::addresses(&config, options.cores.len());
    for address in addresses.map_err(BootError::Listen)? {
        probe_bind(address)
            .map_err(|source| BootError::Listen(broker::BootError::Listen { address, source }))?;
    }
    let config = Arc::new(config);
    let on_listening = Mutex::new(Some(options.on_listening));
    let memory_bytes = memory_bytes();
    let gate = ConnectionGate::new(connections_max());
    let loggers = options.loggers;
    let boot_options = BootOptions {
        cores: options.cores,
        pinned: options.pinned,
        spin: options.spin,
        signals: true,
        ..BootOptions::default()
    };
    let on_listening = Arc::new(on_listening);
    let shard = move |context: ShardContext<Message>| {
        let config = Arc::clone(&config);
        let on_listening = Arc::clone(&on_listening);
        let gate = Arc::clone(&gate);
        let loggers = Arc::clone(&loggers);
        async move {
            let stop = context.stop();
            let start = Start::<Kernel> {
                config,
                net: context.net.clone(),
                disk: KernelDisk::new(ShardHelper(context.net.clone())),
                mesh: context.mesh.clone(),
                memory_bytes,
                gate,
                loggers,
            };
            let tell = RefCell::new(on_listening);
            broker::run(start, stop, |serving| {
                let told = tell.borrow().lock().ok().and_then(|mut told| told.take());
                if let Some(told) = told {
                    told(&serving.addresses);
                }
            })
            .await
        }
    };
    run_shards(&boot_options, shard).map_err(BootError::Shards)
}

/// The machine's memory, in bytes.
fn memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

/// Half of the descriptors that this process may have; the rest is for files.
fn connections_max() -> usize {
    let soft = checks::open_files().soft.unwrap_or(u64::MAX);
    usize::try_from(soft / 2).unwrap_or(usize::MAX)
}
