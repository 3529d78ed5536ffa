//! Listeners: `NAME://host:port`, and which security protocol a name stands for.
//!
//! Only PLAINTEXT is served; the listeners of Kafka's controllers are dropped, for the embedded controller needs none.
//! Source: KIP-103, and what Kafka 4.3 refuses at start.

use std::fmt;

use super::ConfigError;
use super::values::Values;

const LISTENERS: &str = "listeners";
const ADVERTISED: &str = "advertised.listeners";

/// One address to listen on or to tell clients about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The listener's name in upper case.
    pub name: String,
    /// The host: a name, or an IPv4 or IPv6 address without brackets. Empty in `listeners` for every interface.
    pub host: String,
    /// The port; 0 lets the system choose.
    pub port: u16,
}

impl fmt::Display for Listener {
    /// Kafka's form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.name, HostPort(&self.host, self.port))
    }
}

/// Shows `host:port`, with brackets around an IPv6 address.
#[derive(Clone, Copy, Debug)]
pub struct HostPort<'a>(pub &'a str, pub u16);

impl fmt::Display for HostPort<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.contains(':') {
            write!(f, "[{}]:{}", self.0, self.1)
        } else {
            write!(f, "{}:{}", self.0, self.1)
        }
    }
}

/// Splits `host:port`, `[v6]:port` or `:port`; `None` when there is no port or it is not one.
#[must_use]
pub fn parse_host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    // Java takes signs in a port, people do not mean them.
    if host.contains(char::is_whitespace) || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((host, port.parse().ok()?))
}

/// The client listeners of a broker and what clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listeners {
    /// Where to listen, in the order given.
    pub(super) bound: Vec<Listener>,
    /// What to tell clients: one for each of `bound`, in its order.
    pub(super) advertised: Vec<Listener>,
    /// What a Kafka on these settings would tell other controllers.
    pub(super) controllers: Vec<Listener>,
}

/// Reads the three listener settings.
pub(super) fn resolve(values: Values<'_>, hostname: &str) -> Result<Listeners, ConfigError> {
    let controllers: Vec<String> = values
        .list("controller.listener.names")
        .map(str::to_ascii_uppercase)
        .collect();
    let is_client = |listener: &Listener| !controllers.contains(&listener.name);
    let all_bound = parse_list(values, LISTENERS)?;
    let all_told = parse_list(values, ADVERTISED)?;
    let controllers = of_controllers(&controllers, &all_bound, &all_told, hostname);
    let bound: Vec<Listener> = all_bound.into_iter().filter(is_client).collect();
    check_bound(values, &bound)?;
    let told: Vec<Listener> = all_told.into_iter().filter(is_client).collect();
    check_advertised(values, &bound, &told)?;
    let advertised = bound
        .iter()
        .map(|listener| {
            let given = told.iter().find(|told| told.name == listener.name);
            advertise(given.unwrap_or(listener), hostname)
        })
        .collect::<Result<_, _>>()?;
    Ok(Listeners {
        bound,
        advertised,
        controllers,
    })
}

/// The listeners of a controller as they are advertised: a host that stands for every interface becomes this machine's name.
fn of_controllers(
    names: &[String],
    bound: &[Listener],
    told: &[Listener],
    hostname: &str,
) -> Vec<Listener> {
    let by_name = |listeners: &[Listener], name: &String| {
        let found = listeners.iter().find(|listener| listener.name == *name);
        found.cloned()
    };
    let found = names
        .iter()
        .filter_map(|name| by_name(told, name).or_else(|| by_name(bound, name)));
    found
        .map(|mut listener| {
            if matches!(listener.host.as_str(), "" | "0.0.0.0" | "::") {
                hostname.clone_into(&mut listener.host);
            }
            listener
        })
        .collect()
}

fn parse_list(values: Values<'_>, key: &str) -> Result<Vec<Listener>, ConfigError> {
    values.list(key).map(|text| parse(key, text)).collect()
}

fn parse(key: &str, text: &str) -> Result<Listener, ConfigError> {
    let invalid = || ConfigError::invalid(key, text, "must look like NAME://host:port");
    let (name, address) = text.split_once("://").ok_or_else(invalid)?;
    let (host, port) = parse_host_port(address).ok_or_else(invalid)?;
    if name.is_empty() {
        return Err(invalid());
    }
    Ok(Listener {
        name: name.to_ascii_uppercase(),
        host: host.to_owned(),
        port,
    })
}

fn check_bound(values: Values<'_>, bound: &[Listener]) -> Result<(), ConfigError> {
    let shown = values.get(LISTENERS).unwrap_or("null");
    if bound.is_empty() {
        return Err(ConfigError::invalid(
            LISTENERS,
            shown,
            "needs a listener for clients",
        ));
    }
    for (index, listener) in bound.iter().enumerate() {
        check_protocol(values, listener)?;
        let earlier = &bound[..index];
        if earlier.iter().any(|other| other.name == listener.name) {
            return Err(ConfigError::invalid(
                LISTENERS,
                shown,
                "every listener needs its own name",
            ));
        }
        let same_place = |other: &Listener| {
            other.port == listener.port && listener.port != 0 && other.host == listener.host
        };
        if earlier.iter().any(same_place) {
            return Err(ConfigError::invalid(
                LISTENERS,
                shown,
                "every listener needs its own port",
            ));
        }
    }
    Ok(())
}

fn check_protocol(values: Values<'_>, listener: &Listener) -> Result<(), ConfigError> {
    const MAP: &str = "listener.security.protocol.map";
    let map = values.get(MAP).unwrap_or_default();
    let protocol = super::key::list(map)
        .filter_map(|pair| pair.split_once(':'))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case(&listener.name))
        .map(|(_, protocol)| protocol.trim().to_ascii_uppercase());
    match protocol.as_deref() {
        Some("PLAINTEXT") => Ok(()),
        Some("SSL" | "SASL_PLAINTEXT" | "SASL_SSL") => Err(ConfigError::Unsupported {
            name: LISTENERS,
            value: listener.to_string(),
            remedy: "only PLAINTEXT listeners are served; map its name to PLAINTEXT or remove it",
        }),
        Some(_) => Err(ConfigError::invalid(
            MAP,
            map,
            "the protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL",
        )),
        None => Err(ConfigError::invalid(
            LISTENERS,
            &listener.to_string(),
            format!("{} has no protocol in {MAP}", listener.name),
        )),
    }
}

fn check_advertised(
    values: Values<'_>,
    bound: &[Listener],
    told: &[Listener],
) -> Result<(), ConfigError> {
    let known = |listener: &&Listener| bound.iter().any(|bound| bound.name == listener.name);
    match told.iter().find(|listener| !known(listener)) {
        None => Ok(()),
        Some(stranger) => Err(ConfigError::invalid(
            ADVERTISED,
            values.get(ADVERTISED).unwrap_or("null"),
            format!("{} is not among the listeners", stranger.name),
        )),
    }
}

/// What clients are told for a listener: an empty host becomes this machine's name.
fn advertise(listener: &Listener, hostname: &str) -> Result<Listener, ConfigError> {
    if matches!(listener.host.as_str(), "0.0.0.0" | "::") {
        return Err(ConfigError::invalid(
            ADVERTISED,
            &listener.to_string(),
            "clients cannot connect to this address; set advertised.listeners (--advertise) to theirs",
        ));
    }
    let host = if listener.host.is_empty() {
        hostname
    } else {
        &listener.host
    };
    Ok(Listener {
        host: host.to_owned(),
        ..listener.clone()
    })
}
