//! One broker's turn.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::compare::Options;
use crate::compare::broker::{Broker, Running};
use crate::compare::figures::{self, Figures};
use crate::compare::scenario::{Measure, Scenario, Variant};
use crate::engine::{RunOptions, run};
use crate::error::{PerfError, io_error};
use crate::frame::Template;
use crate::limit::disk;
use crate::load::{Kind, Load};
use crate::outcome::Outcome;
use crate::setup::{self, Target};

/// Time for a broker to come to rest before its memory is read.
const REST: Duration = Duration::from_secs(3);
const SCRATCH_PIECE: usize = 1 << 20;

/// What a round shares with the others of its variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) variant: &'a Variant,
    pub(crate) options: &'a Options,
}

impl Conditions<'_> {
    /// Starts a broker, and runs the load once unmeasured.
    pub(crate) fn start(&self, broker: &Broker) -> Result<Running, PerfError> {
        let Options { ground, heat, .. } = self.options;
        let running = Running::start(broker, ground, &self.scenario.broker_settings)?;
        if 0.0 < *heat && !broker.is_bare {
            let load = Load { seconds: *heat, ramp: Vec::new(), ..self.load_of(broker) };
            let load = Load { idle_partitions: 0, idle_connections: 0, ..load };
            self.run(&load, &running, broker, "heat")?;
        }
        Ok(running)
    }

    /// A measured run.
    pub(crate) fn load(
        &self,
        running: &Running,
        broker: &Broker,
        round: u32,
    ) -> Result<(Figures, Option<Outcome>), PerfError> {
        self.warm_memory()?;
        let mut load = self.load_of(broker);
        if let Some(seconds) = self.options.seconds {
            load.seconds = seconds;
        }
        let outcome = self.run(&load, running, broker, &format!("round-{round}"))?;
        let figures = figures::of(&outcome);
        Ok((figures, Some(outcome)))
    }

    /// A round of a broker that is started for it.
    pub(crate) fn alone(
        &self,
        broker: &Broker,
        round: u32,
    ) -> Result<(Figures, Option<Outcome>), PerfError> {
        match self.scenario.measure {
            Measure::Load => {
                let running = self.start(broker)?;
                let found = self.load(&running, broker, round)?;
                running.stop()?;
                Ok(found)
            }
            Measure::Start => Ok((self.restart(broker)?, None)),
            Measure::Idle => Ok((self.idle(broker)?, None)),
        }
    }

    fn load_of(&self, broker: &Broker) -> Load {
        self.scenario.load_for(self.variant, &broker.name)
    }

    fn target(running: &Running, broker: &Broker, topic: &str) -> Target {
        Target {
            address: running.address,
            topic: format!("perf-{topic}"),
            is_bare: broker.is_bare,
            // Deleting would go on under the rounds of others; the directory goes with the broker.
            keeps_topic: true,
        }
    }

    fn run(
        &self,
        load: &Load,
        running: &Running,
        broker: &Broker,
        topic: &str,
    ) -> Result<Outcome, PerfError> {
        let options = RunOptions {
            pid: Some(running.process.pid()),
            cores: self.options.client_cores.clone(),
            sleeps: false,
            shows_progress: true,
        };
        run(load, &Self::target(running, broker, topic), &options)
    }

    /// What write and fdatasync take for a request's bytes.
    pub(crate) fn disk(&self) -> Result<(Figures, Option<Outcome>), PerfError> {
        let bytes = Template::new(self.variant.load.batch_shape(), None, 0, 0).bytes.len();
        let latency = disk::measure(&self.options.ground.directory, bytes, true)?.latency;
        let figures = [
            ("p50_us", latency.p50_us),
            ("p90_us", latency.p90_us),
            ("p99_us", latency.p99_us),
            ("max_us", latency.max_us),
        ];
        Ok((figures.map(|(name, value)| (name.to_owned(), value)).into(), None))
    }

    /// From nothing to the first answer; then from a kill to leaders and offsets of every partition.
    fn restart(&self, broker: &Broker) -> Result<Figures, PerfError> {
        let Options { ground, .. } = self.options;
        let mut running = Running::start(broker, ground, &self.scenario.broker_settings)?;
        let mut figures = Figures::from([("start_seconds".to_owned(), running.started_in)]);
        let load = self.load_of(broker);
        let target = Self::target(&running, broker, "restart");
        let filling = Load {
            kind: Kind::Produce,
            connections: 1,
            depth: 5,
            partitions_each: load.partitions,
            requests_max: load.requests_max.max(u64::from(load.partitions)),
            seconds: 600.0,
            warm_up: 0.0,
            ..load.clone()
        };
        let outcome = self.run(&filling, &running, broker, "restart")?;
        figures.insert("shed".to_owned(), outcome.shed() as f64);
        let begin = Instant::now();
        running.kill_and_restart()?;
        setup::places(&target, &load)?;
        figures.insert("restart_seconds".to_owned(), begin.elapsed().as_secs_f64());
        running.stop()?;
        Ok(figures)
    }

    /// The memory of a broker that does nothing, and what idle partitions and connections add.
    fn idle(&self, broker: &Broker) -> Result<Figures, PerfError> {
        let Options { ground, .. } = self.options;
        let running = Running::start(broker, ground, &self.scenario.broker_settings)?;
        let load = self.load_of(broker);
        let target = Self::target(&running, broker, "idle");
        let resident = || {
            std::thread::sleep(REST);
            running.process.resident_bytes() as f64
        };
        let fresh = resident();
        let mut figures = Figures::from([("idle_bytes".to_owned(), fresh)]);
        setup::create(&target, &load)?;
        let with_partitions = resident();
        if 0 < load.idle_partitions {
            let each = (with_partitions - fresh).max(0.0) / f64::from(load.idle_partitions);
            figures.insert("bytes_per_idle_partition".to_owned(), each);
        }
        let connections = setup::idle_connections(&target, load.idle_connections)?;
        let with_connections = resident();
        if !connections.is_empty() {
            let more = (with_connections - with_partitions).max(0.0);
            let each = more / connections.len() as f64;
            figures.insert("bytes_per_idle_connection".to_owned(), each);
        }
        drop(connections);
        running.stop()?;
        Ok(figures)
    }

    /// Touches as many bytes of the page cache as a round writes, gives them back, and has everything written back.
    fn warm_memory(&self) -> Result<(), PerfError> {
        let Options { ground, scratch_bytes, .. } = self.options;
        if *scratch_bytes == 0 {
            return Ok(());
        }
        let path = ground.directory.join("scratch");
        let failed = || io_error("writing", path.display().to_string());
        let mut file = File::create(&path).map_err(failed())?;
        let piece = vec![0x5a; SCRATCH_PIECE];
        for _ in 0..scratch_bytes.div_ceil(SCRATCH_PIECE as u64) {
            file.write_all(&piece).map_err(failed())?;
        }
        drop(file);
        std::fs::remove_file(&path).map_err(failed())?;
        rustix::fs::sync();
        Ok(())
    }
}
