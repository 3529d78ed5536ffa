//! A connection's decisions: where frames begin and end, how its buffer may grow, which request may run, which answer
//! leaves next.
//!
//! Not here: sockets, request contents, authentication.

pub mod budget;
mod frame;
mod pipeline;
pub mod quota;
#[cfg(test)]
mod tests;
mod traffic;

pub use budget::{Admission, BudgetSizes, Grant, HolderId, MemoryBudget, Pool, Reserved};
pub use frame::{Frame, FrameReader, FrameRefused, Room, Stall, Step};
pub use pipeline::{Outcome, Outgoing, Pipeline, RequestClass, Ticket};
pub use traffic::Traffic;
