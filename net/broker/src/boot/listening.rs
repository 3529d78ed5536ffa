//! Where the node listens: every listener on one address that all shards share, or, core-direct, on one port for each shard.
//!
//! Invariants:
//! 1. A port of a core-direct listener is accepted by its shard alone.
//! 2. No two listeners meet on a port: with SO_REUSEPORT the kernel would let them.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::rc::Rc;

use pelton_model::ShardId;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::config::listener::Listener;
use pelton_protocol::codec::Str;
use pelton_transport::net::{Listener as _, Net, SocketOptions, TaskClass};

use super::{BootError, Endpoint};
use crate::connection;
use crate::env::Env;
use crate::metrics;
use crate::shard::Shard;
use crate::shard::message::{Request, Response};

/// SO_SNDBUF where nothing is configured: bulk `sendfile` over loopback, 4 connections, 1 MiB each: 4.2 GB/s of CPU time with Kafka's
/// 100 KiB, 5.4 with 256 KiB, 3.2 with 512 KiB.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// Where one listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Every shard, on one port.
    Shared(SocketAddr),
    /// Each shard on its own port, in their order.
    Direct(Vec<SocketAddr>),
}

impl Place {
    /// What is told of it.
    pub(super) fn first(&self) -> SocketAddr {
        match self {
            Self::Shared(address) => *address,
            Self::Direct(addresses) => addresses[0],
        }
    }

    fn of(&self, shard: ShardId) -> SocketAddr {
        match self {
            Self::Shared(address) => *address,
            Self::Direct(addresses) => addresses[usize::from(shard.0)],
        }
    }

    fn all(&self) -> &[SocketAddr] {
        match self {
            Self::Shared(address) => std::slice::from_ref(address),
            Self::Direct(addresses) => addresses,
        }
    }
}

/// For each listener: the sockets that are bound already.
pub(super) type BoundListeners<E> = Vec<Vec<<<E as Env>::Net as Net>::Listener>>;

/// Where the listeners of a configuration will listen with so many shards, and where metrics will be served.
///
/// # Errors
/// `Resolve` for a host without an address, `Listen` for ports that do not exist or meet.
pub fn addresses(config: &BrokerConfig, shards: usize) -> Result<Vec<SocketAddr>, BootError> {
    let places = places(config, shards)?;
    let mut addresses: Vec<SocketAddr> = places.iter().flat_map(Place::all).copied().collect();
    addresses.extend(metrics::resolve(&config.metrics)?);
    Ok(addresses)
}

fn places(config: &BrokerConfig, shards: usize) -> Result<Vec<Place>, BootError> {
    let mut places = Vec::new();
    for (listener, is_direct) in config.listeners.iter().zip(&config.core_direct) {
        let address = resolve(listener)?;
        places.push(if *is_direct {
            Place::Direct(ports(address, shards)?)
        } else {
            Place::Shared(address)
        });
    }
    let mut taken: Vec<SocketAddr> = Vec::new();
    for &address in places.iter().flat_map(Place::all) {
        if address.port() != 0 && taken.contains(&address) {
            let source = io::Error::new(io::ErrorKind::AddrInUse, "two listeners meet there");
            return Err(BootError::Listen { address, source });
        }
        taken.push(address);
    }
    Ok(places)
}

/// The ports of a core-direct listener: those that follow the first, or any.
fn ports(first: SocketAddr, shards: usize) -> Result<Vec<SocketAddr>, BootError> {
    let of_shard = |shard: usize| {
        let offset = if first.port() == 0 { 0 } else { shard };
        let port = u16::try_from(usize::from(first.port()) + offset);
        let port = port.map_err(|_| BootError::Listen {
            address: first,
            source: io::Error::new(io::ErrorKind::InvalidInput, "a core's port is above 65535"),
        })?;
        Ok(SocketAddr::new(first.ip(), port))
    };
    (0..shards.max(1)).map(of_shard).collect()
}

fn resolve(listener: &Listener) -> Result<SocketAddr, BootError> {
    let host = if listener.host.is_empty() {
        "0.0.0.0"
    } else {
        &listener.host
    };
    let failed = |source| BootError::Resolve {
        listener: listener.to_string(),
        source,
    };
    let mut found = (host, listener.port).to_socket_addrs().map_err(failed)?;
    found.next().ok_or_else(|| {
        failed(io::Error::new(
            io::ErrorKind::NotFound,
            "the name has no address",
        ))
    })
}

/// What was configured, else what was measured: Kafka's own default send buffer costs a fifth of the speed of bulk fetches.
fn socket_options<E: Env>(shard: &Shard<E>) -> SocketOptions {
    let bytes = |value: Option<u32>| value.and_then(|bytes| usize::try_from(bytes).ok());
    let is_set = shard
        .config
        .set_values()
        .contains_key("socket.send.buffer.bytes");
    SocketOptions {
        send_buffer_bytes: if is_set {
            bytes(shard.config.socket_send_buffer_bytes)
        } else {
            Some(SEND_BUFFER_BYTES)
        },
        receive_buffer_bytes: bytes(shard.config.socket_receive_buffer_bytes),
    }
}

fn bind<E: Env>(
    shard: &Shard<E>,
    address: SocketAddr,
) -> Result<<E::Net as Net>::Listener, BootError> {
    let bound = shard.net.listen(address, socket_options(shard));
    bound.map_err(|source| BootError::Listen { address, source })
}

/// Resolves the listeners' addresses. Those with port 0 are bound now, since their ports must be known before they are told to
/// anyone: also those of other shards, whose sockets are closed when the others listen there.
pub(super) fn bind_early<E: Env>(
    shard: &Shard<E>,
) -> Result<(Vec<Place>, BoundListeners<E>), BootError> {
    let mut places = places(&shard.config, usize::from(shard.shard_count))?;
    let mut early = Vec::new();
    for place in &mut places {
        let mut bound = Vec::new();
        let addresses = match place {
            Place::Shared(address) => std::slice::from_mut(address),
            Place::Direct(addresses) => addresses.as_mut_slice(),
        };
        for address in addresses.iter_mut().filter(|address| address.port() == 0) {
            let listener = bind(shard, *address)?;
            *address = listener.local_addr().map_err(|source| BootError::Listen {
                address: *address,
                source,
            })?;
            bound.push(listener);
        }
        early.push(bound);
    }
    Ok((places, early))
}

/// Listens on every shard, this one last.
pub(super) async fn listen_everywhere<E: Env>(
    shard: &Rc<Shard<E>>,
    places: &[Place],
    early: BoundListeners<E>,
) -> Result<(), BootError> {
    let mut own = Vec::new();
    let mut of_others = Vec::new();
    for (place, early) in places.iter().zip(early) {
        let mut early = early.into_iter();
        let listener = match early.next() {
            Some(listener) => listener,
            None => bind(shard, place.of(shard.id))?,
        };
        own.push(listener);
        of_others.extend(early);
    }
    for peer in shard.shards().filter(|peer| *peer != shard.id) {
        let addresses = places.iter().map(|place| place.of(peer)).collect();
        let answer = shard.calls.call(peer, Request::Listen(addresses)).await;
        let Response::Listening(listening) = answer else {
            return Err(BootError::Stopped);
        };
        listening.map_err(|problem| BootError::ListenElsewhere { problem })?;
    }
    drop(of_others);
    for (index, listener) in own.into_iter().enumerate() {
        shard.net.spawn(
            TaskClass::Request,
            connection::accept(Rc::clone(shard), listener, index),
        );
    }
    Ok(())
}

/// Listens on this shard too: on one address for each listener. What opening the logs has left is given back before.
pub(crate) fn listen<E: Env>(shard: &Rc<Shard<E>>, addresses: &[SocketAddr]) -> Result<(), String> {
    E::give_memory_back();
    for (index, &address) in addresses.iter().enumerate() {
        let listener = shard
            .net
            .listen(address, socket_options(shard))
            .map_err(|error| format!("cannot listen on {address}: {error}"))?;
        shard.net.spawn(
            TaskClass::Request,
            connection::accept(Rc::clone(shard), listener, index),
        );
    }
    Ok(())
}

/// What clients are told: the advertised listeners, with the bound port where none was given.
pub(super) fn endpoints(advertised: &[Listener], places: &[Place]) -> Vec<Endpoint> {
    let told = advertised.iter().zip(places);
    told.map(|(listener, place)| endpoint(listener, place.first(), 0))
        .collect()
}

/// What clients of each core-direct listener are told of the cores; nothing of other listeners.
pub(super) fn core_endpoints(config: &BrokerConfig, places: &[Place]) -> Vec<Vec<Endpoint>> {
    let of_place = |(listener, place): (&Listener, &Place)| match place {
        Place::Shared(_) => Vec::new(),
        Place::Direct(addresses) => (0..)
            .zip(addresses)
            .map(|(core, &address)| endpoint(listener, address, core))
            .collect(),
    };
    config
        .advertised_listeners
        .iter()
        .zip(places)
        .map(of_place)
        .collect()
}

fn endpoint(listener: &Listener, bound: SocketAddr, core: u16) -> Endpoint {
    Endpoint {
        host: Str::from(&listener.host),
        port: match listener.port {
            0 => bound.port(),
            // The last ports there are stand for what an operator cannot have meant.
            port => port.saturating_add(core),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn config(listeners: &str, direct: &str) -> BrokerConfig {
        let set = [
            ("listeners", listeners),
            ("core.direct.listeners", direct),
            ("listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT"),
        ];
        let set: BTreeMap<String, String> = set
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        BrokerConfig::resolve(set, "machine").expect("a configuration")
    }

    // Goal: every core has its port, and no two listeners share one. Method: listeners, those that are direct, what is bound.
    #[test]
    fn ports_of_cores() {
        fn check(listeners: &str, direct: &str, shards: usize, expected: Option<&[u16]>) {
            let found = addresses(&config(listeners, direct), shards).ok();
            let ports = found.map(|found| found.iter().map(SocketAddr::port).collect::<Vec<_>>());
            assert_eq!(ports.as_deref(), expected, "{listeners} {direct}");
        }
        let two = "A://127.0.0.1:9092,B://127.0.0.1:9094";
        check(two, "", 2, Some(&[9092, 9094]));
        check(two, "A", 2, Some(&[9092, 9093, 9094]));
        check(two, "A,B", 2, Some(&[9092, 9093, 9094, 9095]));
        check(two, "A", 3, None);
        check("A://127.0.0.1:0", "A", 2, Some(&[0, 0]));
        check("A://127.0.0.1:65535", "A", 1, Some(&[65535]));
        check("A://127.0.0.1:65535", "A", 2, None);
    }
}
