//! A coordinator with a clock that only tests move, and short ways to ask it.

use std::collections::BTreeMap;

use bytes::Bytes;
use pelton_machine::group::{
    Client, Command, CommitPartition, CommitTopic, Decision, FetchTopic, GroupShard, Heartbeat,
    JoinGroup, JoinGroupReply, LeaveGroup, LeavingMember, LeftMember, Now, OffsetCommit,
    OffsetFetch, OffsetFetchReply, Protocol, Reply, SyncGroup, SyncGroupReply, Token,
};
use pelton_machine::image::MetadataImage;
use pelton_model::config::broker::{BrokerConfig, single_node_settings};
use pelton_model::config::group::GroupConfig;
use pelton_model::record_type::group::GroupRecord;
use pelton_model::{ErrorCode, Monotonic, Str, Timestamp, TopicId};

/// When tests begin, on the wall clock.
pub(crate) const BEGIN: i64 = 1_000_000_000;

/// Kafka's settings, save that the first rebalance does not wait.
pub(crate) fn config() -> GroupConfig {
    let config = BrokerConfig::resolve(single_node_settings(), "host").unwrap();
    GroupConfig {
        initial_rebalance_delay_ms: 0,
        ..config.group
    }
}

pub(crate) struct Bench {
    pub(crate) shard: GroupShard,
    pub(crate) config: GroupConfig,
    pub(crate) image: MetadataImage,
    pub(crate) log: Vec<GroupRecord>,
    clock_ms: u64,
    next_token: u64,
    replies: BTreeMap<Token, Reply>,
}

impl Bench {
    pub(crate) fn new(config: GroupConfig) -> Self {
        let mut bench = Self {
            shard: GroupShard::new(config.clone()),
            config,
            image: MetadataImage::new(),
            log: Vec::new(),
            clock_ms: 0,
            next_token: 0,
            replies: BTreeMap::new(),
        };
        let now = bench.now();
        bench.shard.loaded(now);
        bench
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            clock: Monotonic(0).plus_ms(self.clock_ms),
            time: Timestamp(BEGIN + i64::try_from(self.clock_ms).unwrap()),
        }
    }

    /// The broker dies and another loads what was written.
    pub(crate) fn restart(&mut self) {
        self.shard = GroupShard::new(self.config.clone());
        for record in &self.log {
            self.shard.replay(record);
        }
        let now = self.now();
        self.shard.loaded(now);
        self.replies.clear();
    }

    pub(crate) fn take(&mut self, decision: Decision) {
        self.log.extend(decision.records);
        for (token, reply) in decision.replies {
            let before = self.replies.insert(token, reply);
            assert_eq!(before, None, "{token:?} is answered twice");
        }
    }

    pub(crate) fn send(&mut self, command: Command) -> Token {
        self.next_token += 1;
        let token = Token(self.next_token);
        let decision = self.shard.decide(self.now(), token, command, &self.image);
        self.take(decision);
        token
    }

    /// The answer to a request, once.
    pub(crate) fn answer(&mut self, token: Token) -> Option<Reply> {
        self.replies.remove(&token)
    }

    /// All answers that nobody has taken.
    pub(crate) fn answers(&mut self) -> BTreeMap<Token, Reply> {
        std::mem::take(&mut self.replies)
    }

    pub(crate) fn ask(&mut self, command: Command) -> Reply {
        let token = self.send(command);
        self.answer(token).expect("answered at once")
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
            let decision = self.shard.tick(self.now(), &self.image);
            self.take(decision);
        }
        self.clock_ms = end;
    }

    pub(crate) fn joined(&mut self, token: Token) -> JoinGroupReply {
        let Some(Reply::JoinGroup(reply)) = self.answer(token) else {
            panic!("no answer to JoinGroup");
        };
        reply
    }

    pub(crate) fn synced(&mut self, token: Token) -> SyncGroupReply {
        let Some(Reply::SyncGroup(reply)) = self.answer(token) else {
            panic!("no answer to SyncGroup");
        };
        reply
    }

    pub(crate) fn heartbeat(&mut self, member_id: &str, generation_id: i32) -> ErrorCode {
        let heartbeat = Heartbeat {
            group_id: group(),
            generation_id,
            member_id: member_id.into(),
            group_instance_id: None,
        };
        let Reply::Heartbeat(error) = self.ask(Command::Heartbeat(heartbeat)) else {
            panic!("an answer to another request");
        };
        error
    }

    pub(crate) fn leave(&mut self, members: &[(&str, Option<&str>)]) -> Vec<LeftMember> {
        let member = |(id, instance): &(&str, Option<&str>)| LeavingMember {
            member_id: (*id).into(),
            group_instance_id: instance.map(Str::from),
            reason: None,
        };
        let leave = LeaveGroup {
            group_id: group(),
            members: members.iter().map(member).collect(),
        };
        let Reply::LeaveGroup(reply) = self.ask(Command::LeaveGroup(leave)) else {
            panic!("an answer to another request");
        };
        assert_eq!(reply.error, ErrorCode::None);
        reply.members
    }

    /// The known member joins again, and so ends the rebalance that a newcomer began.
    pub(crate) fn rejoin(&mut self, id: &str, newcomer: Token) {
        let rejoined = self.send(Command::JoinGroup(join(id)));
        assert_eq!(self.joined(newcomer).generation_id, 2);
        self.joined(rejoined);
        assert_eq!(self.state(), "CompletingRebalance");
    }

    /// A new dynamic member gets its id and joins with it.
    pub(crate) fn join_new(&mut self) -> (Str, Token) {
        let reply = self.ask(Command::JoinGroup(join("")));
        let Reply::JoinGroup(reply) = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(reply.error, ErrorCode::MemberIdRequired);
        let token = self.send(Command::JoinGroup(join(&reply.member_id)));
        (reply.member_id, token)
    }

    /// A stable group of `count` members, the leader first; generation 1.
    pub(crate) fn stable(&mut self, count: usize) -> Vec<Str> {
        let members: Vec<(Str, Token)> = (0..count).map(|_| self.join_new()).collect();
        self.pass(0);
        let mut ids = Vec::new();
        for (id, token) in members {
            let reply = self.joined(token);
            assert_eq!((reply.error, reply.generation_id), (ErrorCode::None, 1));
            if reply.leader == id {
                ids.insert(0, id);
            } else {
                ids.push(id);
            }
        }
        let all: Vec<_> = ids.iter().map(|id| (id.clone(), assignment(id))).collect();
        for id in ids.iter().rev() {
            let assignments = if *id == ids[0] {
                all.clone()
            } else {
                Vec::new()
            };
            self.send(Command::SyncGroup(sync(id, 1, assignments)));
        }
        let answers = self.answers();
        assert_eq!(answers.len(), count);
        ids
    }

    pub(crate) fn commit(&mut self, commit: OffsetCommit) -> Vec<ErrorCode> {
        let Reply::OffsetCommit(topics) = self.ask(Command::OffsetCommit(commit)) else {
            panic!("an answer to another request");
        };
        let codes = topics.into_iter().flat_map(|topic| topic.partitions);
        codes.map(|(_, error)| error).collect()
    }

    pub(crate) fn fetch(&mut self, topics: Option<Vec<FetchTopic>>) -> OffsetFetchReply {
        let fetch = OffsetFetch {
            group_id: group(),
            topics,
            require_stable: true,
            member_epoch: -1,
            ..OffsetFetch::default()
        };
        let Reply::OffsetFetch(reply) = self.ask(Command::OffsetFetch(fetch)) else {
            panic!("an answer to another request");
        };
        reply
    }

    /// The committed offset of `t`-0; −1 for none.
    pub(crate) fn offset(&mut self) -> i64 {
        let topic = FetchTopic {
            name: "t".into(),
            topic_id: TopicId::ZERO,
            partitions: vec![0],
        };
        self.fetch(Some(vec![topic])).topics[0].partitions[0].offset
    }

    /// The group's state, as tools see it; `Dead` for none.
    pub(crate) fn state(&mut self) -> &'static str {
        self.described().state
    }

    /// The group, as tools see it.
    pub(crate) fn described(&mut self) -> pelton_machine::group::DescribedGroup {
        let describe = pelton_machine::group::DescribeGroups {
            group_ids: vec![group()],
            knows_group_id_not_found: false,
        };
        let Reply::DescribeGroups(mut groups) = self.ask(Command::DescribeGroups(describe)) else {
            panic!("an answer to another request");
        };
        groups.remove(0)
    }
}

pub(crate) fn group() -> Str {
    Str::new_static("g")
}

pub(crate) fn assignment(member_id: &str) -> Bytes {
    Bytes::from(format!("for {member_id}"))
}

/// A consumer's subscription to topics.
pub(crate) fn subscription(topics: &[&str]) -> Bytes {
    let mut bytes = vec![0, 0];
    bytes.extend(u32::try_from(topics.len()).unwrap().to_be_bytes());
    for topic in topics {
        bytes.extend(u16::try_from(topic.len()).unwrap().to_be_bytes());
        bytes.extend(topic.as_bytes());
    }
    Bytes::from(bytes)
}

pub(crate) fn protocol(name: &str) -> Protocol {
    Protocol {
        name: name.into(),
        metadata: subscription(&["t"]),
    }
}

/// A JoinGroup of a client of today.
pub(crate) fn join(member_id: &str) -> JoinGroup {
    static DRAWN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let drawn = DRAWN.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    JoinGroup {
        group_id: group(),
        member_id: member_id.into(),
        group_instance_id: None,
        client: Client {
            id: "client".into(),
            host: "/127.0.0.1".into(),
        },
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 60_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range")],
        reason: None,
        requires_member_id: true,
        skips_assignment: true,
        random: u128::from(drawn) << 80,
    }
}

pub(crate) fn static_join(member_id: &str, instance_id: &str) -> JoinGroup {
    JoinGroup {
        group_instance_id: Some(instance_id.into()),
        ..join(member_id)
    }
}

pub(crate) fn sync(
    member_id: &str,
    generation_id: i32,
    assignments: Vec<(Str, Bytes)>,
) -> SyncGroup {
    SyncGroup {
        group_id: group(),
        generation_id,
        member_id: member_id.into(),
        group_instance_id: None,
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments,
    }
}

/// A commit of `offset` for `t`-0.
pub(crate) fn commit(member_id: &str, generation_id: i32, offset: i64) -> OffsetCommit {
    OffsetCommit {
        group_id: group(),
        member_id: member_id.into(),
        group_instance_id: None,
        generation_id_or_member_epoch: generation_id,
        retention_ms: None,
        knows_stale_epochs: true,
        producer: None,
        topics: vec![CommitTopic {
            name: "t".into(),
            topic_id: TopicId([7; 16]),
            partitions: vec![CommitPartition {
                index: 0,
                offset,
                leader_epoch: 3,
                metadata: Some("note".into()),
            }],
        }],
    }
}
