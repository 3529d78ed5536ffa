//! One broker's side of a sequence: its connections, what it has said that later requests need, and its answers, masked.
//!
//! Invariants:
//! 1. A sequence's names begin with a prefix of their own on the wire and with `~` everywhere else, so a sequence can be played
//!    again, on the same broker, at once.
//! 2. What a broker answers while it is still at something (a coordinator that loads, markers under way) is asked again, for
//!    a bounded time: only where it comes to rest is compared.
//! 3. After a change of topics or settings the broker is waited for until it shows the change.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use pelton_protocol::api;
use pelton_protocol::codec::Reader;
use pelton_protocol::header::ResponseHeader;

use super::mask::Mask;
use super::step::{Damage, Outcome, Step};
use super::value::{self, Value, has_code};
use crate::batch::now_ms;
use crate::raw::{PROBE_CORRELATION, Raw, Reply, probe};
use crate::wire;

/// How long an answer may take before it counts as silence.
const PATIENCE: Duration = Duration::from_millis(2500);
/// How long a member that joins is waited for before the next step.
const JOIN_PATIENCE: Duration = Duration::from_millis(250);
/// How often a broker that is still at something is asked again, and after which pause.
const AGAIN: (usize, Duration) = (20, Duration::from_millis(100));
/// How long a change of settings takes to be seen, where nothing tells that it is.
const SETTLE: Duration = Duration::from_millis(60);

/// The same where consumer groups are formed: their coordinator may take long to hear of a topic, and epochs tell when it did.
const SETTLE_GROUPS: Duration = Duration::from_millis(500);

/// A broker cannot be reached, or has died.
#[derive(Debug)]
pub struct Down(pub SocketAddr);

/// A broker during one sequence.
#[derive(Debug)]
pub struct Side {
    address: SocketAddr,
    prefix: String,
    connections: BTreeMap<usize, Raw>,
    /// Requests of joining members whose answers have not come, by connection: the step's place and the step.
    waiting: BTreeMap<usize, (usize, Step)>,
    learned: BTreeMap<String, Value>,
    /// The time of the next batch, each a millisecond after the one before: which is the latest must not be chance.
    batch_time: Cell<i64>,
    /// How long new topics take to be known everywhere.
    topics_settle: Duration,
}

impl Side {
    /// A side whose names begin with `prefix` on the wire.
    #[must_use]
    pub fn new(address: SocketAddr, prefix: &str) -> Self {
        let prefix = prefix.to_owned();
        let (connections, waiting) = (BTreeMap::new(), BTreeMap::new());
        let (learned, batch_time) = (BTreeMap::new(), Cell::new(now_ms()));
        let topics_settle = SETTLE;
        Self { address, prefix, connections, waiting, learned, batch_time, topics_settle }
    }

    /// Plays a sequence; one outcome for each step.
    ///
    /// # Errors
    /// When the broker is gone.
    pub fn play(mut self, steps: &[Step]) -> Result<Vec<Outcome>, Down> {
        self.learn_node()?;
        if steps.iter().any(|step| step.api == ApiKey::ConsumerGroupHeartbeat) {
            self.topics_settle = SETTLE_GROUPS;
        }
        let mut outcomes = vec![Outcome::Silence; steps.len()];
        for (place, step) in steps.iter().enumerate() {
            self.collect(step.actor, PATIENCE, &mut outcomes)?;
            match self.settled_ask(step)? {
                Some(outcome) => outcomes[place] = outcome,
                None => drop(self.waiting.insert(step.actor, (place, step.clone()))),
            }
        }
        for actor in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.collect(actor, PATIENCE, &mut outcomes)?;
        }
        // Whoever is gone shows it to the next connection at the latest.
        drop(self.open()?);
        Ok(outcomes)
    }

    fn open(&self) -> Result<Raw, Down> {
        Raw::try_connect(self.address).map_err(|_| Down(self.address))
    }

    fn learn_node(&mut self) -> Result<(), Down> {
        let answer = self.metadata(&[])?;
        let node = answer.as_ref().and_then(|answer| answer.int("controller_id")).unwrap_or(-1);
        self.learned.insert("node".to_owned(), Value::Int(node));
        Ok(())
    }

    /// The answer that a joining member waited for, if one is waiting on the actor's connection.
    fn collect(
        &mut self,
        actor: usize,
        patience: Duration,
        outcomes: &mut [Outcome],
    ) -> Result<(), Down> {
        let Some((place, step)) = self.waiting.remove(&actor) else { return Ok(()) };
        let Some(mut connection) = self.connections.remove(&actor) else { return Ok(()) };
        let reply = connection.receive(patience);
        outcomes[place] = self.judge(&step, reply, connection);
        Ok(())
    }

    /// Asks until the broker has come to rest; `None` when the member waits for others.
    fn settled_ask(&mut self, step: &Step) -> Result<Option<Outcome>, Down> {
        for _ in 0..AGAIN.0 {
            let outcome = self.ask(step)?;
            match &outcome {
                Some(Outcome::Answer(_, answer)) if is_transient(step, answer) => {
                    std::thread::sleep(AGAIN.1);
                }
                _ => {
                    self.settle(step, outcome.as_ref())?;
                    return Ok(outcome);
                }
            }
        }
        self.ask(step)
    }

    fn ask(&mut self, step: &Step) -> Result<Option<Outcome>, Down> {
        let mut connection = match self.connections.remove(&step.actor) {
            Some(connection) => connection,
            None => self.open()?,
        };
        let resolved = self.resolve(&step.body);
        let mut frame = step.frame(&resolved);
        let is_mute = step.is_mute();
        if is_mute {
            frame.extend(probe());
        }
        connection.send(&frame);
        if step.may_wait() {
            let arrived = (0..JOIN_PATIENCE.as_millis()).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                connection.has_arrived()
            });
            if !arrived {
                self.connections.insert(step.actor, connection);
                return Ok(None);
            }
        }
        let reply = connection.receive(PATIENCE);
        if is_mute && reply.correlation() == Some(PROBE_CORRELATION) {
            self.connections.insert(step.actor, connection);
            return Ok(Some(Outcome::NoAnswer));
        }
        Ok(Some(self.judge(step, reply, connection)))
    }

    fn judge(&mut self, step: &Step, reply: Reply, connection: Raw) -> Outcome {
        let frame = match reply {
            Reply::Closed => return Outcome::Closed,
            Reply::Silence => return Outcome::Silence,
            Reply::Frame(frame) => frame,
        };
        self.connections.insert(step.actor, connection);
        match read(step, &frame) {
            Ok(answer) => {
                self.learn(step, &answer);
                let mask = Mask { api: step.api, prefix: &self.prefix, learned: &self.learned };
                let masked = mask.apply(&step.body, &answer);
                Outcome::Answer(Box::new(masked), Box::new(answer))
            }
            Err(error) => Outcome::Unreadable(error),
        }
    }

    /// A request's values as this broker is to see them.
    fn resolve(&self, value: &Value) -> Value {
        match value {
            Value::Text(text) => Value::Text(text.replace('~', &self.prefix)),
            Value::List(items) => {
                Value::List(items.iter().map(|item| self.resolve(item)).collect())
            }
            Value::Struct(fields) => {
                let fields = fields.iter().map(|(name, value)| (*name, self.resolve(value)));
                Value::Struct(fields.collect())
            }
            Value::Slot(slot) => self.slot(slot),
            Value::Batch(batches) => {
                let bytes = batches.iter().flat_map(|spec| {
                    let now = self.batch_time.get();
                    self.batch_time.set(now + 1);
                    spec.build(self.producer(&spec.producer), now)
                });
                Value::Bytes(bytes.collect())
            }
            Value::Null | Value::Int(_) | Value::Float(_) | Value::Uuid(_) | Value::Bytes(_) => {
                value.clone()
            }
        }
    }

    /// What is known by a name; otherwise what means "not known" in a field of that kind.
    fn slot(&self, slot: &str) -> Value {
        let unknown = || match slot.split(' ').next() {
            Some("member") => Value::text(""),
            Some("id") => Value::Uuid([0; 16]),
            Some("session") => Value::Int(0),
            _ => Value::Int(-1),
        };
        self.learned.get(slot).cloned().unwrap_or_else(unknown)
    }

    fn producer(&self, of: &str) -> Option<(i64, i16)> {
        let known = |what: &str| match self.slot(&format!("{what} {of}")) {
            Value::Int(number) => Some(number),
            _ => None,
        };
        (!of.is_empty()).then(|| Some((known("pid")?, known("epoch")? as i16))).flatten()
    }

    fn learn(&mut self, step: &Step, answer: &Value) {
        let mut facts: Vec<(String, Value)> = Vec::new();
        let body = &step.body;
        let mut fact = |slot: String, from: &str, empty: &Value| {
            if let Some(value) = answer.get(from).filter(|value| *value != empty) {
                facts.push((slot, value.clone()));
            }
        };
        let of = |field: &str| body.str(field).unwrap_or("-").to_owned();
        match step.api {
            ApiKey::InitProducerId | ApiKey::EndTxn => {
                let of = of("transactional_id");
                fact(format!("pid {of}"), "producer_id", &Value::Int(-1));
                fact(format!("epoch {of}"), "producer_epoch", &Value::Int(-1));
            }
            ApiKey::JoinGroup => {
                let (of, actor) = (of("group_id"), step.actor);
                fact(format!("member {of} {actor}"), "member_id", &Value::text(""));
                fact(format!("generation {of}"), "generation_id", &Value::Int(-1));
            }
            ApiKey::ConsumerGroupHeartbeat => {
                let (of, actor) = (of("group_id"), step.actor);
                fact(format!("member {of} {actor}"), "member_id", &Value::Null);
                fact(format!("generation {of} {actor}"), "member_epoch", &Value::Int(0));
            }
            ApiKey::Fetch => fact("session".to_owned(), "session_id", &Value::Int(0)),
            ApiKey::CreateTopics | ApiKey::Metadata | ApiKey::DescribeTopicPartitions => {
                self.learn_topics(answer);
            }
            _ => {}
        }
        self.learned.extend(facts);
    }

    fn learn_topics(&mut self, answer: &Value) {
        for topic in answer.each("topics") {
            let (Some(name), Some(id)) = (topic.str("name"), topic.get("topic_id")) else {
                continue;
            };
            if topic.int("error_code") == Some(0) && *id != Value::Uuid([0; 16]) {
                let name = name.replace(&self.prefix, "~");
                self.learned.insert(format!("id {name}"), id.clone());
            }
        }
    }

    /// Waits until what a request has changed is seen.
    fn settle(&mut self, step: &Step, outcome: Option<&Outcome>) -> Result<(), Down> {
        let Some(Outcome::Answer(_, answer)) = outcome else { return Ok(()) };
        let changed = |list: &str| -> Vec<String> {
            let done = answer.each(list).filter(|one| one.int("error_code") == Some(0));
            done.filter_map(|one| one.str("name")).map(str::to_owned).collect()
        };
        if step.body.int("validate_only") == Some(1) {
            return Ok(());
        }
        match step.api {
            ApiKey::CreateTopics => {
                let topics = changed("topics");
                self.wait_for_topics(&topics, 0)?;
                if !topics.is_empty() {
                    // Kafka's logs and its group coordinator learn of a topic after the metadata tells of it.
                    std::thread::sleep(self.topics_settle);
                }
                Ok(())
            }
            ApiKey::DeleteTopics => self.wait_for_topics(&changed("responses"), 3),
            ApiKey::CreatePartitions => {
                std::thread::sleep(SETTLE);
                self.wait_for_topics(&changed("results"), 0)
            }
            ApiKey::AlterConfigs | ApiKey::IncrementalAlterConfigs => {
                std::thread::sleep(SETTLE);
                Ok(())
            }
            ApiKey::EndTxn if answer.int("error_code") == Some(0) => {
                self.wait_for_end(step.body.str("transactional_id").unwrap_or_default())
            }
            _ => Ok(()),
        }
    }

    /// Waits until each topic is answered with `code` and, when there is one, all its partitions are led.
    fn wait_for_topics(&mut self, names: &[String], code: i64) -> Result<(), Down> {
        if names.is_empty() {
            return Ok(());
        }
        for _ in 0..AGAIN.0 * 2 {
            let Some(answer) = self.metadata(names)? else { return Ok(()) };
            let is_led = |topic: &Value| {
                topic.each("partitions").all(|one| one.int("error_code") == Some(0))
            };
            let settled = |topic: &Value| topic.int("error_code") == Some(code) && is_led(topic);
            if answer.each("topics").all(settled) {
                self.learn_topics(&answer);
                return Ok(());
            }
            std::thread::sleep(AGAIN.1 / 4);
        }
        Ok(())
    }

    /// Waits until a transaction that ends has its markers where they belong.
    fn wait_for_end(&mut self, id: &str) -> Result<(), Down> {
        let ids = Value::List(vec![self.resolve(&Value::text(id))]);
        let body = Value::Struct(vec![("transactional_ids", ids)]);
        let step = Step::plain(ApiKey::DescribeTransactions, 0, 0, body);
        for _ in 0..AGAIN.0 * 2 {
            let Some(answer) = self.ask_aside(&step)? else { return Ok(()) };
            if !answer.each("transaction_states").any(is_under_way) {
                return Ok(());
            }
            std::thread::sleep(AGAIN.1 / 4);
        }
        Ok(())
    }

    /// Metadata of topics.
    fn metadata(&self, names: &[String]) -> Result<Option<Value>, Down> {
        let topic = |name: &String| Value::Struct(vec![("name", Value::text(name))]);
        let topics = ("topics", Value::List(names.iter().map(topic).collect()));
        let body = Value::Struct(vec![topics, ("allow_auto_topic_creation", Value::Int(0))]);
        self.ask_aside(&Step::plain(ApiKey::Metadata, 12, 0, body))
    }

    /// The answer to a request that is none of the sequence's, on a connection of its own.
    fn ask_aside(&self, step: &Step) -> Result<Option<Value>, Down> {
        let mut connection = self.open()?;
        match connection.ask(&step.frame(&step.body)) {
            Reply::Frame(frame) => Ok(read(step, &frame).ok()),
            Reply::Closed | Reply::Silence => Ok(None),
        }
    }
}

/// Reads an answer by the schema, and has the codec agree with it.
fn read(step: &Step, frame: &[u8]) -> Result<Value, String> {
    let row = api::row(step.api as i16).ok_or("an API that is not served")?;
    // A version that a broker does not know is answered in the layout of version 0.
    let is_known = row.versions().contains(step.version);
    let version = if is_known { step.version } else { 0 };
    let mut reader = Reader::new(frame);
    let header = ResponseHeader::decode(&mut reader, row, version).map_err(|it| it.to_string())?;
    if header.correlation_id != wire::CORRELATION {
        return Err(format!("an answer to request {}", header.correlation_id));
    }
    let body = bytes::Bytes::copy_from_slice(reader.rest());
    let target = value::target(step.api as i16, "Response");
    match (target.recode)(&body, version) {
        Ok((again, 0)) if again == body => value::decode(target, version, &body),
        Ok((_, left)) => Err(format!("the codec writes something else ({left} bytes left over)")),
        Err(error) => Err(error.to_string()),
    }
}

/// Codes of a broker that is still at something.
const TRANSIENT: [i64; 6] = [5, 6, 14, 15, 16, 51];

fn is_transient(step: &Step, answer: &Value) -> bool {
    // A topic that is being created is not known yet.
    let is_created = step.api == ApiKey::Metadata
        && (step.version < 4 || step.body.int("allow_auto_topic_creation") != Some(0))
        && answer.each("topics").any(|topic| topic.int("error_code") == Some(3));
    let is_ending = matches!(step.api, ApiKey::ListTransactions | ApiKey::DescribeTransactions)
        && answer.each("transaction_states").any(is_under_way);
    let is_busy = is_created || is_ending || has_code(answer, |code| TRANSIENT.contains(&code));
    step.damage == Damage::None && is_busy
}

/// Whether a transaction's markers are still being written.
fn is_under_way(transaction: &Value) -> bool {
    let states = ["state", "transaction_state"].into_iter();
    states.filter_map(|name| transaction.str(name)).any(|state| state.starts_with("Prepare"))
}
