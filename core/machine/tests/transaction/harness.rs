//! A coordinator with a clock that only tests move, a log that outlives it, and short ways to ask it.

use std::collections::BTreeMap;

use pelton_machine::transaction::{
    AddMode, AddPartitions, Command, Decision, DescribedTransaction, EndTxn, InitProducerId,
    Marked, Markers, Now, Reply, Terms, Token, TransactionShard,
};
use pelton_model::config::broker::{BrokerConfig, single_node_settings};
use pelton_model::config::transaction::TransactionConfig;
use pelton_model::record_type::transaction::TransactionRecord;
use pelton_model::{ErrorCode, Monotonic, ProducerEpoch, ProducerId, Str, Timestamp};

/// When tests begin, on the wall clock.
pub(crate) const BEGIN: i64 = 1_000_000_000;

/// A producer id and an epoch.
pub(crate) type Owner = (i64, i16);

pub(crate) fn config() -> TransactionConfig {
    let config = BrokerConfig::resolve(single_node_settings(), "host").unwrap();
    config.transaction
}

pub(crate) struct Bench {
    pub(crate) shard: TransactionShard,
    config: TransactionConfig,
    /// The finalized transaction version.
    pub(crate) version: i16,
    pub(crate) log: Vec<TransactionRecord>,
    /// Markers that were asked for and not reported yet.
    pub(crate) markers: Vec<Markers>,
    /// No producer ids are to be had.
    pub(crate) is_dry: bool,
    next_id: i64,
    clock_ms: u64,
    next_token: u64,
    replies: BTreeMap<Token, Reply>,
}

impl Bench {
    pub(crate) fn new(version: i16) -> Self {
        let config = config();
        let mut bench = Self {
            shard: TransactionShard::new(config.clone()),
            config,
            version,
            log: Vec::new(),
            markers: Vec::new(),
            is_dry: false,
            next_id: 100,
            clock_ms: 0,
            next_token: 0,
            replies: BTreeMap::new(),
        };
        bench.load();
        bench
    }

    pub(crate) fn time(&self) -> i64 {
        BEGIN + i64::try_from(self.clock_ms).unwrap()
    }

    fn with_terms(&mut self, act: impl FnOnce(&mut TransactionShard, &mut Terms<'_>) -> Decision) {
        let now = Now {
            clock: Monotonic(0).plus_ms(self.clock_ms),
            time: Timestamp(self.time()),
        };
        let (is_dry, next_id) = (self.is_dry, &mut self.next_id);
        let mut terms = Terms {
            now,
            version: self.version,
            draw: &mut || {
                *next_id += 1;
                (!is_dry).then_some(ProducerId(*next_id))
            },
        };
        let decision = act(&mut self.shard, &mut terms);
        self.log.extend(decision.records);
        self.markers.extend(decision.markers);
        for (token, reply) in decision.replies {
            let before = self.replies.insert(token, reply);
            assert_eq!(before, None, "{token:?} is answered twice");
        }
    }

    fn load(&mut self) {
        for record in &self.log {
            self.shard.replay(record);
        }
        self.with_terms(|shard, terms| shard.loaded(terms));
    }

    /// The broker dies and another loads what was written, up to some record.
    pub(crate) fn restart_at(&mut self, records: usize) {
        self.log.truncate(records);
        self.shard = TransactionShard::new(self.config.clone());
        self.markers.clear();
        self.replies.clear();
        self.load();
    }

    pub(crate) fn restart(&mut self) {
        self.restart_at(self.log.len());
    }

    pub(crate) fn send(&mut self, command: Command) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        self.with_terms(|shard, terms| shard.decide(terms, token, command));
        token
    }

    /// The answer to a request, once.
    pub(crate) fn answer(&mut self, token: Token) -> Option<Reply> {
        self.replies.remove(&token)
    }

    fn ask(&mut self, command: Command) -> Reply {
        let token = self.send(command);
        self.answer(token).expect("answered at once")
    }

    /// Every marker that was asked for is written.
    pub(crate) fn write_markers(&mut self) {
        for markers in std::mem::take(&mut self.markers) {
            self.report(&markers);
        }
    }

    pub(crate) fn report(&mut self, markers: &Markers) {
        let marked = Marked {
            transactional_id: markers.transactional_id.clone(),
            producer_id: markers.producer_id,
            producer_epoch: markers.producer_epoch,
            partitions: markers.partitions.clone(),
        };
        self.with_terms(|shard, terms| shard.marked(terms, &marked));
    }

    /// Time passes; what falls due on the way is done at its time.
    pub(crate) fn pass(&mut self, ms: u64) {
        let end = self.clock_ms + ms;
        while let Some(at) = self
            .shard
            .next_deadline()
            .filter(|at| at.0 <= end * 1_000_000)
        {
            self.clock_ms = self.clock_ms.max(at.0.div_ceil(1_000_000));
            self.with_terms(|shard, terms| shard.tick(terms));
        }
        self.clock_ms = end;
    }

    pub(crate) fn init_with(
        &mut self,
        id: &str,
        timeout_ms: i32,
        expected: Option<Owner>,
    ) -> Result<Owner, ErrorCode> {
        let reply = self.ask(Command::InitProducerId(InitProducerId {
            transactional_id: Str::from(id),
            timeout_ms,
            expected: expected.map(|(id, epoch)| (ProducerId(id), ProducerEpoch(epoch))),
        }));
        let Reply::InitProducerId(owner) = reply else {
            panic!("{reply:?}");
        };
        owner.map(|(id, epoch)| (id.0, epoch.0))
    }

    pub(crate) fn init(&mut self, id: &str) -> Result<Owner, ErrorCode> {
        self.init_with(id, 60_000, None)
    }

    pub(crate) fn add_as(
        &mut self,
        id: &str,
        owner: Owner,
        mode: AddMode,
        partitions: &[i32],
    ) -> Vec<ErrorCode> {
        let reply = self.ask(Command::AddPartitions(AddPartitions {
            transactional_id: Str::from(id),
            producer_id: ProducerId(owner.0),
            producer_epoch: ProducerEpoch(owner.1),
            mode,
            topics: vec![("t".into(), partitions.to_vec())],
        }));
        let Reply::AddPartitions(codes) = reply else {
            panic!("{reply:?}");
        };
        let codes = codes.into_iter().flat_map(|(_, codes)| codes);
        codes.map(|(_, code)| code).collect()
    }

    /// Adds a partition as a client of the finalized version does.
    pub(crate) fn add(&mut self, id: &str, owner: Owner, partition: i32) -> ErrorCode {
        let mode = AddMode::Add(self.version);
        self.add_as(id, owner, mode, &[partition])[0]
    }

    pub(crate) fn send_end(&mut self, id: &str, owner: Owner, commit: bool) -> Token {
        self.send(Command::EndTxn(EndTxn {
            transactional_id: Str::from(id),
            producer_id: ProducerId(owner.0),
            producer_epoch: ProducerEpoch(owner.1),
            commit,
            client_version: self.version,
        }))
    }

    pub(crate) fn ended(&mut self, token: Token) -> Option<Result<Owner, ErrorCode>> {
        let reply = self.answer(token)?;
        let Reply::EndTxn(owner) = reply else {
            panic!("{reply:?}");
        };
        Some(owner.map(|(id, epoch)| (id.0, epoch.0)))
    }

    /// Ends a transaction, markers and all.
    pub(crate) fn end(&mut self, id: &str, owner: Owner, commit: bool) -> Result<Owner, ErrorCode> {
        let token = self.send_end(id, owner, commit);
        self.write_markers();
        self.ended(token).expect("answered with the last marker")
    }

    pub(crate) fn describe(&mut self, id: &str) -> Result<DescribedTransaction, ErrorCode> {
        let reply = self.ask(Command::Describe(vec![Str::from(id)]));
        let Reply::Describe(mut described) = reply else {
            panic!("{reply:?}");
        };
        described.pop().unwrap().1
    }

    pub(crate) fn state(&mut self, id: &str) -> &'static str {
        self.describe(id).unwrap().state
    }

    /// Hard state is what a replay of the log gives.
    pub(crate) fn check_replay(&self) {
        let mut replayed = TransactionShard::new(self.config.clone());
        for record in &self.log {
            replayed.replay(record);
        }
        assert_eq!(replayed.to_records(), self.shard.to_records());
    }
}
