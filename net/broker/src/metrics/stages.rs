//! The stages of a request; what they mean stands in [`super::timeline`].

use pelton_model::Monotonic;

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its bytes come in.
    Receive,
    /// It waits for those before it.
    Queue,
    /// Its handler runs.
    Handle,
    /// It is on its way to other shards or back.
    Mesh,
    /// Its batches are queued and written.
    Append,
    /// They are made durable.
    Sync,
    /// They wait for the high watermark.
    Commit,
    /// It waits for records, as it asked to.
    Wait,
    /// Its answer waits for its turn and leaves.
    Respond,
}

/// The number of stages.
pub const STAGES: usize = 9;

/// Nanoseconds of each stage, in their order.
pub type StageTimes = [u64; STAGES];

impl Stage {
    /// All of them, in order.
    pub const ALL: [Self; STAGES] = [
        Self::Receive,
        Self::Queue,
        Self::Handle,
        Self::Mesh,
        Self::Append,
        Self::Sync,
        Self::Commit,
        Self::Wait,
        Self::Respond,
    ];

    /// Its name as people read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Queue => "queue",
            Self::Handle => "handle",
            Self::Mesh => "mesh",
            Self::Append => "append",
            Self::Sync => "sync",
            Self::Commit => "commit",
            Self::Wait => "wait",
            Self::Respond => "respond",
        }
    }
}

/// When the batches of a request were where, at their owner; of several owners or partitions, where the last was decided.
///
/// All stamps are zero where nothing is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendStages {
    /// Written.
    pub written: Monotonic,
    /// Durable, or written where that need not be waited for.
    pub synced: Monotonic,
    /// The outcome was known.
    pub decided: Monotonic,
    /// When another shard took them in, and when its answer was noticed.
    pub mesh: Option<(Monotonic, Monotonic)>,
}

impl AppendStages {
    /// Everything at once: refused, or nothing is measured.
    #[must_use]
    pub const fn at(now: Monotonic) -> Self {
        Self {
            written: now,
            synced: now,
            decided: now,
            mesh: None,
        }
    }
}
