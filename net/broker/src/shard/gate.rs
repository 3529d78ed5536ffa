//! The one place where all shards count connections: limits are the process's, and sockets come to any shard.
//!
//! Its lock is held for a look-up, once for each connection that comes or goes; no request meets it.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pelton_machine::connection::quota::{ConnectionQuota, Entry, PeerAddress, QuotaLimits};
use pelton_model::Monotonic;
use pelton_model::config::connections::ConnectionLimits;

/// See the module.
#[derive(Debug)]
pub struct ConnectionGate {
    quota: Mutex<ConnectionQuota>,
    descriptors_max: usize,
}

impl ConnectionGate {
    /// A gate for as many connections as the process has descriptors for.
    #[must_use]
    pub fn new(descriptors_max: usize) -> Arc<Self> {
        Arc::new(Self {
            quota: Mutex::new(ConnectionQuota::new(descriptors_max)),
            descriptors_max,
        })
    }

    /// Connections that the descriptors suffice for.
    pub(crate) fn descriptors_max(&self) -> usize {
        self.descriptors_max
    }

    /// Judges a connection; it is counted as long as the permit lives.
    pub(crate) fn enter(
        self: &Arc<Self>,
        peer: SocketAddr,
        now: Monotonic,
    ) -> Result<Permit, Entry> {
        let address = address_of(peer.ip());
        match self.quota().enter(address, now) {
            Entry::Granted => Ok(Permit {
                gate: Arc::clone(self),
                address,
            }),
            entry @ (Entry::TooManyFromAddress
            | Entry::NoDescriptors
            | Entry::Full
            | Entry::NotBefore(_)) => Err(entry),
        }
    }

    /// Whether there are more connections than a limit allows that was lowered.
    pub(crate) fn is_overfull(&self) -> bool {
        self.quota().excess() > 0
    }

    /// Replaces the limits. Names of hosts are left out, see [`resolve_overrides`].
    pub(crate) fn set_limits(&self, limits: &ConnectionLimits, resolved: &[(IpAddr, u32)]) {
        let literal = limits.overrides.iter().filter_map(|(host, limit)| {
            let address: IpAddr = host.parse().ok()?;
            Some((address_of(address), *limit))
        });
        let named = resolved
            .iter()
            .map(|&(address, limit)| (address_of(address), limit));
        self.quota().set_limits(QuotaLimits {
            connections_max: limits.max_connections,
            per_address_max: limits.max_connections_per_ip,
            overrides: literal.chain(named).collect(),
            per_second_max: limits.creation_rate,
        });
    }

    fn quota(&self) -> MutexGuard<'_, ConnectionQuota> {
        // Nothing panics while it holds the lock.
        self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether limits name hosts whose addresses have to be asked for.
pub(crate) fn names_hosts(limits: &ConnectionLimits) -> bool {
    let is_name = |host: &str| host.parse::<IpAddr>().is_err();
    limits.overrides.iter().any(|(host, _)| is_name(host))
}

/// Asks the system for the addresses of hosts that limits name, which may take long. Those without an address are left out.
pub(crate) fn resolve_overrides(limits: &ConnectionLimits) -> Vec<(IpAddr, u32)> {
    let named = limits
        .overrides
        .iter()
        .filter(|(host, _)| host.parse::<IpAddr>().is_err());
    named
        .filter_map(|(host, limit)| {
            let mut found = (host.as_str(), 0).to_socket_addrs().ok()?;
            Some((found.next()?.ip(), *limit))
        })
        .collect()
}

fn address_of(address: IpAddr) -> PeerAddress {
    match address {
        IpAddr::V4(address) => PeerAddress(address.to_ipv6_mapped().octets()),
        IpAddr::V6(address) => PeerAddress(address.octets()),
    }
}

/// A connection's place among those that may be there.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<ConnectionGate>,
    address: PeerAddress,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.quota().leave(self.address);
    }
}
