//! Where brokers are reached, and how names become socket addresses.
//!
//! Names are resolved when a connection is made, on a helper thread; numeric addresses never leave the shard.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use pelton_model::config::listener::parse_host_port;
use pelton_protocol::codec::Str;
use pelton_transport::net::Net;

use crate::error::{ClientError, IoFailure};
use crate::limits;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The host: a name or a numeric address without brackets.
    pub host: Str,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Puts the two together.
    #[must_use]
    pub fn new(host: impl Into<Str>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }

    /// The socket addresses behind the name, at most [`limits::ADDRESSES_MAX`].
    ///
    /// # Errors
    /// [`ClientError::Resolve`] when there is none.
    pub(crate) async fn resolve<N: Net>(&self, net: &N) -> Result<Vec<SocketAddr>, ClientError> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let (host, port) = (self.host.to_string(), self.port);
        let found = net.run_blocking(move || {
            let addresses = (host.as_str(), port).to_socket_addrs()?;
            Ok::<Vec<_>, io::Error>(addresses.take(limits::ADDRESSES_MAX).collect())
        });
        let failed = |source| ClientError::Resolve {
            address: self.clone(),
            source,
        };
        match found.await {
            Ok(addresses) if addresses.is_empty() => {
                Err(failed(IoFailure::from(io::ErrorKind::NotFound)))
            }
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(failed(IoFailure::from(&error))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::new(address.ip().to_string(), address.port())
    }
}

/// The text is not `HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidAddress;

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must look like HOST:PORT, such as 127.0.0.1:9092 or [::1]:9092")
    }
}

impl std::error::Error for InvalidAddress {}

impl FromStr for Address {
    type Err = InvalidAddress;

    fn from_str(text: &str) -> Result<Self, InvalidAddress> {
        parse_host_port(text)
            .map(|(host, port)| Self::new(host, port))
            .ok_or(InvalidAddress)
    }
}
