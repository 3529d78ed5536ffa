//! A differential oracle: the same random requests to Pelton and to a real Apache Kafka, answers compared field by field.
//!
//! A sequence comes from a seed ([`generate`]), is played on both brokers at once ([`side`]), each answer is read by the schema and
//! masked ([`mask`]), the answers are compared ([`compare`]), a difference is made small ([`shrink`]) and held against the list of
//! those that are meant (`tests/oracle/FINDINGS.md`, [`findings`]). The command is `src/bin/oracle.rs`.
//!
//! [`tour`] uses the same parts to have frames of every version recorded for `tests/golden/`.
//!
//! Invariants:
//! 1. A run is the seeds' and the brokers' only: no other chance, and names of each playing are fresh.
//! 2. A difference counts when it comes again in a second playing.
//! 3. Brokers are the command's caller's: nothing is started, stopped or cleaned up.

pub mod compare;
pub mod findings;
pub mod flows;
pub mod generate;
pub mod mask;
pub mod records;
pub mod run;
pub mod shrink;
pub mod side;
pub mod step;
#[cfg(test)]
mod tests;
pub mod tour;
pub mod usual;
pub mod value;
