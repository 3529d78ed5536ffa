//! A connection's decisions: where frames begin and end, how its buffer may grow, which request may run, which answer
//! leaves next.
//!
//! Not here: sockets, request contents, authentication.

pub mod budget;
mod frame;
mod pipeline;
#[cfg(test)]
mod tests;

pub use budget::{Admission, HolderId, MemoryBudget, Pool, Reserved};
pub use frame::{Frame, FrameReader, FrameRefused, Step};
pub use pipeline::{Outcome, Outgoing, Pipeline, RequestClass, Ticket};
