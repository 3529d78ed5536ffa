//! The bounds of the client. They complete `pelton_model::limits`, which bounds the broker.

/// The largest response frame that is read. A fetch asks for less, but one oversized batch comes whole.
pub const RESPONSE_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Room made for a frame at once while it arrives.
pub const RESPONSE_GROW_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Room offered to a `recv` that begins a frame.
pub const RECV_BYTES: usize = 64 * 1024;
/// Requests that one connection may have unanswered.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Addresses of one host name that are tried.
pub const ADDRESSES_MAX: usize = 16;
/// Bootstrap addresses.
pub const BOOTSTRAP_MAX: usize = 64;
/// Topics whose metadata is remembered; beyond, all but the newest answer's are forgotten.
pub const TOPICS_CACHED_MAX: usize = 10_000;
/// Batches of one partition that an idempotent producer may have unacknowledged: as many as a broker recognises.
pub const IDEMPOTENT_IN_FLIGHT_MAX: usize = pelton_model::limits::PRODUCER_BATCHES_MAX;
/// Decompressed bytes of one fetched batch.
pub const DECOMPRESSED_BYTES_MAX: u64 = pelton_model::limits::DECOMPRESSED_BYTES_MAX;
