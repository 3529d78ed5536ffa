//! The glommio adapter: the only folder of this crate that names the runtime.
//!
//! Not here: decisions about requests, and any knowledge of who talks. TLS and moving a live connection to another
//! shard will have their place in `connection.rs`.

mod bell;
mod connection;
pub(crate) mod executor;
mod helper;
mod listener;
mod mesh;
mod runtime;
mod timers;

pub use connection::GlommioConnection;
pub use listener::GlommioListener;
pub use mesh::GlommioMesh;
pub(crate) use mesh::{MeshSeed, mesh};
pub use runtime::GlommioNet;
