//! The simulator: the whole broker, its clients and a hostile world in one thread, decided by one seed.
//!
//! The code under test is the real broker ([`pelton_broker::boot::run`]) on a simulated environment: [`net`], [`mesh`], [`disk`] and
//! the clock of [`world`]. Clients ([`producer`], [`consumer`]) tell the [`oracle`] what they were told, and it compares. A run
//! ([`simulation`]) has a phase of faults (kills, orderly stops, resets), then a phase in which everything must get done, then the
//! whole of the data is compared, also after a stop and after a kill. Runs of their own ([`simulation::run_vanishing`]) have topics
//! with retention, deleted records and compaction, of which the oracle knows what may go. Others ([`simulation::run_transactions`]) have [`transactional`] producers and
//! readers of what is committed ([`audit`]), whose facts the [`ledger`] compares.
//!
//! Invariants:
//! 1. One seed, one run: two runs of a seed have the same fingerprint.
//! 2. The kernel keeps what was written: a kill loses memory, never the disk. A power cut, where a run has any, loses what was not synced.
//!
//! A failure prints its seed; the seed joins `tests/seeds.txt`. Not simulated: the runtime's adapters, TLS, what a disk may do to
//! synced sectors.

pub mod audit;
pub mod bench;
pub mod broker;
pub mod client;
pub mod consumer;
pub mod disk;
pub mod extremes;
pub mod ledger;
pub mod mesh;
pub mod net;
pub mod oracle;
pub mod producer;
pub mod random;
pub mod records;
pub mod simulation;
pub mod stage;
pub mod topics;
pub mod trace;
pub mod transactional;
pub mod vanish;
pub mod world;
