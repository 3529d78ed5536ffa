//! Lives of the broker: the real one, on the simulated environment. It starts, is killed or stopped, and starts again on its disk.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use pelton_broker::boot::{self, BootError, Start};
use pelton_broker::env::Env;
use pelton_broker::loggers::NoLoggers;
use pelton_broker::shard::gate::ConnectionGate;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::task::Notify;
use pelton_storage::disk::memory::MemoryDisk;

use super::disk::SimDisk;
use super::mesh::{MeshQuality, SimMesh, mesh};
use super::net::{Network, SimNet};
use super::world::{Owner, World};

/// Where every simulated broker listens.
pub const ADDRESS: &str = "127.0.0.1:9092";
/// Its log directory.
pub const DIRECTORY: &str = "/data";

/// The simulated environment.
pub struct SimEnv;

impl Env for SimEnv {
    type Disk = SimDisk;
    type Net = SimNet;
    type Mesh = SimMesh;
}

/// What one life is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Shards.
    pub shard_count: u16,
    /// How they speak to each other.
    pub mesh: MeshQuality,
    /// Longest time of a disk operation, nanoseconds.
    pub disk_delay_max: u64,
    /// Memory of the machine: small, so that large frames queue.
    pub memory_bytes: u64,
    /// Overrides of the broker's configuration.
    pub config: BTreeMap<String, String>,
}

/// How each shard's main function ended, once it has.
type Results = Rc<RefCell<Vec<Option<Result<(), BootError>>>>>;

/// One life of the broker.
pub struct Life {
    world: World,
    number: u32,
    stops: Vec<Rc<Notify>>,
    is_serving: Rc<Cell<bool>>,
    results: Results,
    reaped: Cell<usize>,
}

impl Life {
    /// Starts the broker on `disk`.
    ///
    /// # Panics
    /// When the settings are no configuration.
    #[must_use]
    pub fn start(
        world: &World,
        network: &Network,
        disk: &MemoryDisk,
        number: u32,
        settings: &Settings,
    ) -> Self {
        let mut set = BTreeMap::new();
        set.insert("listeners".to_owned(), format!("PLAINTEXT://{ADDRESS}"));
        set.insert("log.dirs".to_owned(), DIRECTORY.to_owned());
        set.extend(settings.config.clone());
        let config = Arc::new(BrokerConfig::resolve(set, "localhost").expect("a configuration"));
        let shards = usize::from(settings.shard_count);
        let gate = ConnectionGate::new(1000);
        let life = Self {
            world: world.clone(),
            number,
            stops: (0..shards).map(|_| Rc::new(Notify::default())).collect(),
            is_serving: Rc::default(),
            results: Rc::new(RefCell::new((0..shards).map(|_| None).collect())),
            reaped: Cell::new(0),
        };
        for (shard, end) in (0_u16..).zip(mesh(world, settings.shard_count, settings.mesh)) {
            let owner = Owner::Shard { life: number, shard };
            let start = Start::<SimEnv> {
                config: Arc::clone(&config),
                net: network.for_owner(owner),
                disk: SimDisk::new(world, disk.clone(), settings.disk_delay_max),
                mesh: end,
                memory_bytes: settings.memory_bytes,
                gate: Arc::clone(&gate),
                loggers: Arc::new(NoLoggers),
            };
            let stop = Rc::clone(&life.stops[usize::from(shard)]);
            let (serving, results) = (Rc::clone(&life.is_serving), Rc::clone(&life.results));
            let noted = world.clone();
            world.spawn(owner, async move {
                let stop = async move { stop.notified().await };
                let on_serving = {
                    let noted = noted.clone();
                    move |_: &boot::Serving| {
                        serving.set(true);
                        noted.note(|| format!("broker {number}: serves"));
                    }
                };
                let result = boot::run(start, stop, on_serving).await;
                noted.note(|| format!("broker {number}: shard {shard} ended: {result:?}"));
                results.borrow_mut()[usize::from(shard)] = Some(result);
            });
        }
        world.note(|| format!("broker {number}: starts with {shards} shards"));
        life
    }

    /// Whether it has come up.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.is_serving.get()
    }

    /// kill -9: everything in memory is gone, what was written to the disk stays.
    pub fn kill(&self) {
        self.world.note(|| format!("broker {}: killed", self.number));
        let number = self.number;
        self.world.kill(|owner| matches!(owner, Owner::Shard { life, .. } if life == number));
    }

    /// Asks for an orderly stop; each shard hears of it at its own time.
    pub fn stop(&self) {
        self.world.note(|| format!("broker {}: is told to stop", self.number));
        for stop in &self.stops {
            let (stop, skew) = (Rc::clone(stop), self.world.draw(|r| r.magnitude(3_000_000)));
            self.world.call_at(self.world.now() + skew, move || stop.notify());
        }
    }

    /// Ends the tasks of shards whose main function has returned, as their executors do. Call after each step.
    pub fn reap(&self) {
        let ended = self.results.borrow().iter().filter(|result| result.is_some()).count();
        if ended == self.reaped.replace(ended) {
            return;
        }
        let results = self.results.borrow();
        let number = self.number;
        self.world.kill(|owner| match owner {
            Owner::Shard { life, shard } => life == number && results[usize::from(shard)].is_some(),
            Owner::Clients => false,
        });
    }

    /// Whether every shard's main function has returned.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.reaped.get() == self.stops.len()
    }

    /// What went wrong, when it has ended.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        let results = self.results.borrow();
        let errors = results.iter().flatten().filter_map(|result| result.as_ref().err());
        errors.map(ToString::to_string).collect()
    }
}

/// The address as a value.
///
/// # Panics
/// Never: the constant is an address.
#[must_use]
pub fn address() -> SocketAddr {
    ADDRESS.parse().expect("an address")
}
