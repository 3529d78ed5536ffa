//! One run: what is drawn from the seed, the faults and when they come, the liveness phase, and the checks at the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::rc::Rc;

use pelton_storage::disk::memory::{Failing, MemoryDisk};
use pelton_storage::disk::{Disk as _, OpenMode};

use super::audit::{self, Wants};
use super::bench::{Bench, Kind, Topic};
use super::broker::{DIRECTORY, Life, Settings};
use super::consumer;
use super::extremes;
use super::mesh::MeshQuality;
use super::net::Network;
use super::producer::{self, Load};
use super::random::Random;
use super::topics;
use super::trace::{errors_logged, forget_errors, log_into};
use super::transactional::{self, Stream};
use super::vanish;
use super::world::{Owner, Policy, World};

/// Steps of a run at most.
const STEPS_MAX: u64 = 3_000_000;
/// Virtual time in which everything must be done once no more faults come, ms.
const HEALED_MS_MAX: u64 = 300_000;
/// Virtual time of an orderly stop at most, ms: five steps of a stop, and the disk.
const STOP_MS_MAX: u64 = 30_000;
/// Virtual time of a start at most, ms.
const START_MS_MAX: u64 = 60_000;

/// What a run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Differs when the run took another course.
    pub fingerprint: u64,
    /// Steps taken.
    pub steps: u64,
    /// Virtual time passed, ms.
    pub virtual_ms: u64,
    /// Batches acknowledged.
    pub acknowledgements: u64,
    /// Kills of the broker.
    pub kills: u64,
    /// Orderly stops.
    pub stops: u64,
    /// Batches that the broker no longer recognised when they came again after a restart.
    pub forgotten: u64,
    /// Records that had gone for a good reason, as each check of everything found.
    pub vanished: u64,
    /// Committed transactions in the end.
    pub committed: u64,
}

/// Runs one seed.
///
/// # Errors
/// The report of a failure: seed, reason, last events.
pub fn run(seed: u64) -> Result<Summary, String> {
    run_with(seed, Cuts::No, Theme::Plain)
}

/// As [`run`], with topics of which records go: by retention, by DeleteRecords, by compaction. Every fourth seed also cuts the power.
///
/// # Errors
/// As [`run`].
pub fn run_vanishing(seed: u64) -> Result<Summary, String> {
    run_with(seed, Cuts::of(seed), Theme::Vanishing)
}

/// As [`run`], with transactions. Every fourth seed also cuts the power.
///
/// # Errors
/// As [`run`].
pub fn run_transactions(seed: u64) -> Result<Summary, String> {
    run_with(seed, Cuts::of(seed), Theme::Transactions)
}

/// As [`run_transactions`], with topics of which records go.
///
/// # Errors
/// As [`run`].
pub fn run_vanishing_transactions(seed: u64) -> Result<Summary, String> {
    run_with(seed, Cuts::of(seed), Theme::VanishingTransactions)
}

/// As [`run`], with records synced before they are acknowledged, and a power cut for every kill: what was acknowledged or seen must
/// then be there all the same.
///
/// # Errors
/// As [`run`].
pub fn run_with_power_cuts(seed: u64) -> Result<Summary, String> {
    run_with(seed, Cuts::Yes, Theme::Plain)
}

/// Whether each kill also cuts the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    Yes,
    No,
}

impl Cuts {
    fn of(seed: u64) -> Self {
        if seed.is_multiple_of(4) { Self::Yes } else { Self::No }
    }
}

/// What a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Theme {
    /// Records that all stay.
    Plain,
    /// Records that go.
    Vanishing,
    /// Transactions.
    Transactions,
    /// Transactions in topics of which records go.
    VanishingTransactions,
}

impl Theme {
    fn has_transactions(self) -> bool {
        match self {
            Self::Plain | Self::Vanishing => false,
            Self::Transactions | Self::VanishingTransactions => true,
        }
    }

    fn has_vanishing(self) -> bool {
        match self {
            Self::Plain | Self::Transactions => false,
            Self::Vanishing | Self::VanishingTransactions => true,
        }
    }
}

fn run_with(seed: u64, cuts: Cuts, theme: Theme) -> Result<Summary, String> {
    // Hash maps iterate in the same order in every run.
    pelton_model::map::seed(0x5eed);
    let world = World::new(seed, STEPS_MAX);
    let outcome = log_into(&world, || {
        catch_unwind(AssertUnwindSafe(|| Simulation::new(&world, seed, cuts, theme).run()))
    });
    match outcome {
        Ok(summary) => Ok(summary),
        Err(panic) => {
            let reason = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no reason given")
                .to_owned();
            let events = world.last_events().join("\n");
            // The tasks are in no state to be dropped.
            std::mem::forget(world);
            Err(format!(
                "simulation failed. Seed: {seed}\nlast events:\n{events}\nSeed: {seed}\n{reason}"
            ))
        }
    }
}

/// What comes to pass, and how often.
#[derive(Clone, Debug)]
struct Plan {
    kills: u64,
    stops: u64,
    resets: u64,
    spread_ms: u64,
    topics: u64,
    churn_rounds: u64,
    idle_ms: Option<u64>,
    has_large_frames: bool,
    cuts: Cuts,
    theme: Theme,
    /// Log directories; the first holds the metadata log.
    directories: u64,
    /// Failures of the device of a directory that is not the first.
    device_failures: u64,
    /// How it fails.
    failing: (Failing, i32),
}

struct Simulation {
    world: World,
    network: Network,
    disk: MemoryDisk,
    bench: Rc<Bench>,
    /// The transactional ids of the run.
    streams: Rc<RefCell<Vec<Rc<Stream>>>>,
    life: Life,
    lives: u32,
    plan: Plan,
    kills: u64,
    stops: u64,
}

impl Simulation {
    fn new(world: &World, seed: u64, cuts: Cuts, theme: Theme) -> Self {
        let network = Network::new(world);
        let disk = MemoryDisk::new();
        let bench = Bench::new(world, &network);
        let (policy, spurious) = world.draw(|random| {
            let policies = [Policy::Uniform, Policy::Newest, Policy::Oldest];
            (policies[random.index(3)], [0, 0, 50, 500][random.index(4)])
        });
        world.set_policy(policy, spurious);
        let quality = world.draw(|random| {
            let delay = [20_000, 500_000, 5_000_000][random.index(3)];
            let capacity = [16 * 1024, 64 * 1024, 1024 * 1024][random.index(3)];
            (delay, capacity)
        });
        network.set_quality(quality.0, quality.1);
        let plan = world.draw(|random| Plan {
            kills: random.below(4),
            stops: random.below(3),
            resets: random.magnitude(20),
            spread_ms: random.between(50, 2_000),
            topics: random.between(1, 2),
            churn_rounds: random.magnitude(6),
            idle_ms: random.percent(30).then(|| random.between(30_000, 60_000)),
            has_large_frames: random.percent(20),
            cuts,
            theme,
            directories: 1,
            device_failures: 0,
            failing: (Failing::Everything, EIO),
        });
        bench.power_goes.set(cuts == Cuts::Yes);
        // Chance of its own, so that the seeds known so far take the course they took.
        let mut random = Random::new(!seed);
        let directories = random.between(1, 3);
        let can_fail = directories > 1 && random.percent(30);
        let failing = FAILINGS[random.index(FAILINGS.len())];
        let plan = Plan { directories, device_failures: u64::from(can_fail), failing, ..plan };
        let settings = world.draw(|random| settings(random, &plan));
        world.note(|| format!("{plan:?} {settings:?} network {quality:?}"));
        let life = Life::start(world, &network, &disk, 0, &settings);
        Self {
            world: world.clone(),
            network,
            disk,
            bench,
            streams: Rc::default(),
            life,
            lives: 1,
            plan,
            kills: 0,
            stops: 0,
        }
    }

    fn run(mut self) -> Summary {
        if self.plan.theme.has_transactions() {
            self.start_transactions();
        } else {
            self.start_clients();
        }
        self.start_extremes();
        self.disturb();
        self.bench.is_healed.set(true);
        self.world.note(|| "healed".to_owned());
        let bench = Rc::clone(&self.bench);
        self.step_until(HEALED_MS_MAX, "the clients to finish", move || bench.busy.get() == 0);
        self.check("at the end");
        // Clients may be served before the start has been told.
        self.step_until(START_MS_MAX, "a start", || self.life.is_serving());
        self.stop_in_order();
        self.restart();
        self.check("after a stop and a start");
        self.kill();
        self.restart();
        self.check("after a kill");
        self.kill();
        let leftover = self.world.task_count(|owner| owner != Owner::Clients);
        assert_eq!(leftover, 0, "tasks of the broker outlived it");
        Summary {
            fingerprint: self.world.fingerprint(),
            steps: self.world.steps(),
            virtual_ms: self.world.now_ms(),
            acknowledgements: self.bench.oracle.borrow().acknowledgements(),
            kills: self.kills,
            stops: self.stops,
            forgotten: self.bench.forgotten.get(),
            vanished: self.bench.oracle.borrow().vanished(),
            committed: self.bench.committed.get(),
        }
    }

    fn start_clients(&self) {
        for index in 0..self.plan.topics {
            let bench = Rc::clone(&self.bench);
            let partitions = self.world.draw(|random| i32::try_from(random.between(1, 5)).unwrap());
            let name = format!("topic-{index}");
            let rolls = self.bench.chance(50);
            let theme = self.plan.theme;
            // Consumers go on while this counts.
            bench.producing.set(bench.producing.get() + 1);
            self.bench.start(async move {
                let (kind, configs) = match (theme.has_vanishing(), rolls) {
                    (true, _) => vanish::draw(&bench),
                    (false, true) => (Kind::Whole, QUICK.to_vec()),
                    (false, false) => (Kind::Whole, Vec::new()),
                };
                let topic = bench.create_topic(&name, partitions, &configs).await;
                let topic = Topic { kind, ..topic };
                start_load(&bench, &topic);
                bench.topics.borrow_mut().push(topic);
                bench.producing.set(bench.producing.get() - 1);
            });
        }
    }

    fn start_transactions(&self) {
        let (bench, streams) = (Rc::clone(&self.bench), Rc::clone(&self.streams));
        let (count, vanishes) = (self.plan.topics, self.plan.theme.has_vanishing());
        bench.producing.set(bench.producing.get() + 1);
        self.bench.start(async move {
            let mut topics = Vec::new();
            for index in 0..count {
                let partitions = bench.world.draw(|r| i32::try_from(r.between(1, 3)).unwrap());
                let rolls = bench.chance(50);
                let (kind, configs) = match (vanishes, rolls) {
                    (true, _) => vanish::draw_for_transactions(&bench),
                    (false, true) => (Kind::Whole, QUICK.to_vec()),
                    (false, false) => (Kind::Whole, Vec::new()),
                };
                let name = format!("ledger-{index}");
                let topic = bench.create_topic(&name, partitions, &configs).await;
                topics.push(Topic { kind, ..topic });
            }
            let topics = Rc::new(topics);
            for key_type in [0, 1] {
                bench.await_coordinator("anybody", key_type).await;
            }
            for topic in &*topics {
                let wants = if bench.chance(30) { Wants::Everything } else { Wants::Committed };
                for wants in [wants, Wants::Committed] {
                    bench.start(audit::follow(Rc::clone(&bench), topic.clone(), wants));
                }
                if topic.kind == Kind::Deleting {
                    bench.start(vanish::delete_records(Rc::clone(&bench), topic.clone()));
                }
            }
            for _ in 0..bench.world.draw(|random| random.between(1, 3)) {
                let stream = Rc::new(Stream::new(&bench, &topics));
                for _ in 0..bench.world.draw(|random| random.between(1, 3)) {
                    let turns = bench.world.draw(|random| random.between(2, 12));
                    let turns = u32::try_from(turns).unwrap();
                    let producer =
                        transactional::produce(Rc::clone(&bench), Rc::clone(&stream), turns);
                    bench.start(producer);
                }
                streams.borrow_mut().push(stream);
            }
            bench.producing.set(bench.producing.get() - 1);
        });
    }

    fn start_extremes(&self) {
        let bench = &self.bench;
        if self.plan.churn_rounds > 0 {
            bench.start(topics::churn(Rc::clone(bench), self.plan.churn_rounds));
        }
        if let Some(idle_ms) = self.plan.idle_ms {
            bench.start(extremes::idle(Rc::clone(bench), idle_ms));
        }
        if self.plan.has_large_frames {
            bench.start(extremes::unfinished_frame(Rc::clone(bench)));
            let large = Rc::clone(bench);
            bench.start(async move {
                let topic = large.create_topic("large", 3, &[]).await;
                for _ in 0..3 {
                    let client = extremes::large_frames(Rc::clone(&large), topic.clone(), 2);
                    large.start(client);
                }
                large.topics.borrow_mut().push(topic);
            });
        }
    }

    /// The phase of faults.
    fn disturb(&mut self) {
        let plan = self.plan.clone();
        let mut faults: Vec<(u64, Fault)> = Vec::new();
        let counts = [
            (plan.kills, Fault::Kill),
            (plan.stops, Fault::Stop),
            (plan.resets, Fault::Reset),
            (plan.device_failures, Fault::Device),
        ];
        for (count, fault) in counts {
            for _ in 0..count {
                let at = self.world.draw(|random| random.below(plan.spread_ms * 1_000_000));
                faults.push((at, fault));
            }
        }
        faults.sort_by_key(|(at, _)| *at);
        let start = self.world.now();
        for (at, fault) in faults {
            while self.world.now() < start + at {
                self.step();
            }
            // A few steps more, so that faults also come where time stands still.
            for _ in 0..self.world.draw(|random| random.magnitude(200)) {
                self.step();
            }
            match fault {
                Fault::Reset => self.network.reset_one(),
                Fault::Kill => {
                    self.kill();
                    self.start();
                }
                Fault::Stop if self.life.is_serving() => {
                    self.stop_in_order();
                    self.start();
                }
                Fault::Stop => {}
                Fault::Device => self.fail_device(),
            }
            self.disturbed();
        }
    }

    /// The device of a directory fails and is there again when the process is: what lay elsewhere went on meanwhile, and nothing that
    /// was acknowledged is lost.
    fn fail_device(&mut self) {
        let directory = self.world.draw(|random| random.between(1, self.plan.directories - 1));
        let directory =
            directories(self.plan.directories).swap_remove(usize::try_from(directory).unwrap());
        self.bench.disk_fails.set(true);
        let (failing, errno) = self.plan.failing;
        self.world.note(|| format!("the device of {directory} fails: {failing:?} {errno}"));
        self.disk.fail_below(Path::new(&directory), failing, errno);
        let until = self.world.now() + self.world.draw(|random| random.magnitude(20_000_000_000));
        while self.world.now() < until {
            self.step();
        }
        self.kill();
        self.disk.mend();
        self.start();
    }

    fn disturbed(&self) {
        self.bench.disturbances.set(self.bench.disturbances.get() + 1);
    }

    fn step(&self) {
        self.world.step();
        self.life.reap();
        let errors = self.life.errors();
        assert!(errors.is_empty(), "the broker ended: {errors:?}");
        let may_log = self.bench.disk_fails.get();
        assert!(may_log || errors_logged() == 0, "the broker has logged an error");
    }

    fn step_until(&self, ms_max: u64, what: &str, is_done: impl Fn() -> bool) {
        let deadline = self.world.now() + ms_max * 1_000_000;
        while !is_done() {
            assert!(self.world.now() < deadline, "waited {ms_max} ms for {what}");
            self.step();
        }
    }

    fn kill(&mut self) {
        self.kills += 1;
        // Storage may complain of what was cut off in the middle; a process that is killed would not.
        let logged = errors_logged();
        self.life.kill();
        if self.plan.cuts == Cuts::Yes {
            self.disk.crash(self.world.draw(Random::draw));
        }
        forget_errors(logged);
        self.disturbed();
    }

    fn stop_in_order(&mut self) {
        self.stops += 1;
        self.life.stop();
        self.bench.is_stopping.set(true);
        self.disturbed();
        let life = &self.life;
        self.step_until(STOP_MS_MAX, "an orderly stop", || life.has_ended());
        self.life.kill();
        assert!(self.has_file(".kafka_cleanshutdown"), "an orderly stop left no clean marker");
        assert_eq!(self.network.listener_count(), 0, "a stopped broker listens");
    }

    fn start(&mut self) {
        let settings = self.world.draw(|random| settings(random, &self.plan));
        self.world.note(|| format!("{settings:?}"));
        self.life = Life::start(&self.world, &self.network, &self.disk, self.lives, &settings);
        self.lives += 1;
        self.bench.is_stopping.set(false);
        self.bench.starts.set(u64::from(self.lives));
    }

    fn restart(&mut self) {
        self.start();
        let life = &self.life;
        self.step_until(START_MS_MAX, "a start", || life.is_serving());
        assert!(!self.has_file(".kafka_cleanshutdown"), "a running broker has a clean marker");
    }

    /// Every record of every topic against the facts.
    fn check(&self, when: &str) {
        self.world.note(|| format!("checking everything {when}"));
        for topic in self.bench.topics.borrow().iter() {
            self.bench.start(consumer::check_whole(Rc::clone(&self.bench), topic.clone()));
        }
        let bench = Rc::clone(&self.bench);
        if self.plan.theme.has_transactions() {
            let streams = Rc::new(self.streams.borrow().clone());
            bench.start(audit::check(Rc::clone(&bench), streams));
        }
        self.step_until(HEALED_MS_MAX, "the check of everything", move || bench.busy.get() == 0);
    }

    /// Whether every directory has the file; either all have it or none.
    fn has_file(&self, name: &str) -> bool {
        let found = directories(self.plan.directories).into_iter().map(|dir| self.has(&dir, name));
        let found: Vec<bool> = found.collect();
        assert!(found.iter().all(|has| *has == found[0]), "{name}: {found:?}");
        found[0]
    }

    fn has(&self, directory: &str, name: &str) -> bool {
        let path = Path::new(directory).join(name);
        let mut opening = std::pin::pin!(self.disk.open(&path, OpenMode::Read));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        matches!(opening.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(_)))
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Reset,
    Device,
}

/// Configuration of a topic whose segments roll all the time.
const QUICK: [(&str, &str); 2] = [("index.interval.bytes", "0"), ("segment.index.bytes", "96")];

/// The error of a device that is gone.
const EIO: i32 = 5;
/// Ways in which a device fails: it is gone (the most usual one), full, or read-only.
const FAILINGS: [(Failing, i32); 4] = [
    (Failing::Everything, EIO),
    (Failing::Everything, EIO),
    (Failing::Growth, 28),
    (Failing::Changes, 30),
];

/// The first `count` log directories.
fn directories(count: u64) -> Vec<String> {
    let more = (1..count).map(|index| format!("{DIRECTORY}-{index}"));
    std::iter::once(DIRECTORY.to_owned()).chain(more).collect()
}

fn settings(random: &mut Random, plan: &Plan) -> Settings {
    let mut config = BTreeMap::new();
    config.insert("log.dirs".to_owned(), directories(plan.directories).join(","));
    if let Some(idle_ms) = plan.idle_ms {
        config.insert("connections.max.idle.ms".to_owned(), idle_ms.to_string());
    }
    if plan.has_large_frames {
        // A shard then has room for one such frame and a bit.
        config.insert("socket.request.max.bytes".to_owned(), "4000000".to_owned());
    }
    if random.percent(30) {
        let interval = random.between(1_000, 3_000).to_string();
        config.insert("log.flush.offset.checkpoint.interval.ms".to_owned(), interval);
    }
    if plan.theme.has_vanishing() {
        let often = [
            ("log.retention.check.interval.ms", "300"),
            ("log.cleaner.backoff.ms", "200"),
            ("log.segment.delete.delay.ms", "1000"),
        ];
        config.extend(often.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    if plan.theme == Theme::VanishingTransactions {
        // So that what coordinators write is compacted, too: a segment holds few batches.
        let index_bytes = [48, 96, 480][random.index(3)].to_string();
        let set = [
            ("log.index.size.max.bytes", index_bytes.as_str()),
            ("log.index.interval.bytes", "0"),
            ("log.cleaner.min.cleanable.ratio", "0.01"),
        ];
        config.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    if plan.theme.has_transactions() {
        let few = audit::COORDINATOR_PARTITIONS.to_string();
        let set = [
            ("offsets.topic.num.partitions", few.clone()),
            ("transaction.state.log.num.partitions", few),
            ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "100".to_owned()),
        ];
        config.extend(set.map(|(name, value)| (name.to_owned(), value)));
    }
    if plan.cuts == Cuts::Yes {
        let strict = [("log.sync.policy", "group"), ("log.flush.interval.messages", "1")];
        let (name, value) = strict[random.index(2)];
        config.insert(name.to_owned(), value.to_owned());
    }
    let mut settings = Settings {
        shard_count: u16::try_from(random.between(1, 3)).unwrap(),
        mesh: MeshQuality {
            capacity: [1, 4, 1024][random.index(3)],
            delay_max: [0, 50_000, 2_000_000, 20_000_000][random.index(4)],
        },
        disk_delay_max: [0, 100_000, 10_000_000][random.index(3)],
        memory_bytes: if plan.has_large_frames { 1 << 20 } else { 1 << 30 },
        config,
    };
    let window_ms = ["0", "1", "20", "500"][random.index(4)].to_owned();
    settings.config.insert("connections.follow.window.ms".to_owned(), window_ms);
    settings
}

fn start_load(bench: &Rc<Bench>, topic: &Topic) {
    let (idempotent, plain, consumers) =
        bench.world.draw(|random| (random.between(1, 2), random.below(3), random.between(1, 3)));
    for index in 0..idempotent + plain {
        let is_sparse = bench.chance(40);
        let load = bench.world.draw(|random| Load {
            topic: topic.clone(),
            is_sparse,
            batches: u32::try_from(random.between(5, if is_sparse { 12 } else { 40 })).unwrap(),
            records_max: random.between(1, 20),
            record_bytes_max: [50, 500, 8_000][random.index(3)],
        });
        if index < idempotent {
            bench.start(producer::idempotent(Rc::clone(bench), load));
        } else {
            bench.start(producer::plain(Rc::clone(bench), load));
        }
    }
    if topic.kind == Kind::Deleting {
        bench.start(vanish::delete_records(Rc::clone(bench), topic.clone()));
    }
    for _ in 0..consumers {
        bench.start(consumer::follow(Rc::clone(bench), topic.clone()));
    }
}
