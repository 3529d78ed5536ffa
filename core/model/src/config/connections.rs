//! The settings that bound connections and what their requests may hold.

use super::ConfigError;
use super::key::list;
use super::values::Values;
use crate::id::NodeId;

const PER_IP: &str = "max.connections.per.ip";
const OVERRIDES: &str = "max.connections.per.ip.overrides";
const QUEUED_BYTES: &str = "queued.max.request.bytes";
const CORE_DIRECT: &str = "core.direct.listeners";

/// How many connections may be there, and how fast they may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// `max.connections`.
    pub max_connections: u32,
    /// `max.connections.per.ip`.
    pub max_connections_per_ip: u32,
    /// `max.connections.per.ip.overrides`: an address or a host's name, and its limit.
    pub overrides: Vec<(String, u32)>,
    /// `max.connection.creation.rate`, connections a second.
    pub creation_rate: u32,
}

impl ConnectionLimits {
    pub(super) fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        let overrides = list(values.get(OVERRIDES).unwrap_or_default())
            .map(parse_override)
            .collect::<Result<Vec<_>, _>>()?;
        let max_connections_per_ip = values.u32(PER_IP)?;
        if max_connections_per_ip == 0 && overrides.is_empty() {
            return Err(ConfigError::Conflict {
                reason: format!("{PER_IP} can be set to zero only if {OVERRIDES} is set"),
            });
        }
        Ok(Self {
            max_connections: values.u32("max.connections")?,
            max_connections_per_ip,
            overrides,
            creation_rate: values.u32("max.connection.creation.rate")?,
        })
    }
}

fn parse_override(text: &str) -> Result<(String, u32), ConfigError> {
    let invalid = || ConfigError::invalid(OVERRIDES, text, "must look like host:count");
    let (host, count) = text.rsplit_once(':').ok_or_else(invalid)?;
    let host = host.trim().trim_start_matches('[').trim_end_matches(']');
    let count = count.trim().parse::<i32>().ok();
    let count = count.and_then(|count| u32::try_from(count).ok());
    match count {
        Some(count) if !host.is_empty() && !host.contains(char::is_whitespace) => {
            Ok((host.to_owned(), count))
        }
        Some(_) | None => Err(invalid()),
    }
}

/// What requests may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// `queued.max.request.bytes`: the memory that requests and answers of the whole process may hold; `None` leaves it to the
    /// size of the machine.
    pub queued_max_request_bytes: Option<u64>,
    /// `queued.max.requests`: Produce requests that one shard has under way at once.
    pub queued_max_requests: u32,
}

impl RequestLimits {
    pub(super) fn resolve(values: Values<'_>) -> Result<Self, ConfigError> {
        let queued_max_request_bytes = u64::try_from(values.i64(QUEUED_BYTES)?).ok();
        let queued_max_request_bytes = queued_max_request_bytes.filter(|&bytes| bytes > 0);
        let frame_bytes_max = u64::from(values.u32("socket.request.max.bytes")?);
        if queued_max_request_bytes.is_some_and(|bytes| bytes < frame_bytes_max) {
            return Err(ConfigError::Conflict {
                reason: format!(
                    "{QUEUED_BYTES} must be larger or equal to socket.request.max.bytes"
                ),
            });
        }
        Ok(Self {
            queued_max_request_bytes,
            queued_max_requests: values.u32("queued.max.requests")?,
        })
    }
}

/// Node ids below this can be told apart from the cores of a core-direct listener.
const DIRECT_NODE_ID_END: i32 = 1 << 20;

/// Which listeners show every core as a node of its own.
pub(super) fn core_direct(
    values: Values<'_>,
    node_id: NodeId,
    names: &[&str],
) -> Result<Vec<bool>, ConfigError> {
    let asked: Vec<String> = values
        .list(CORE_DIRECT)
        .map(str::to_ascii_uppercase)
        .collect();
    let shown = values.get(CORE_DIRECT).unwrap_or_default();
    if let Some(stranger) = asked.iter().find(|name| !names.contains(&name.as_str())) {
        let reason = format!("{stranger} is not among the listeners for clients");
        return Err(ConfigError::invalid(CORE_DIRECT, shown, reason));
    }
    if !asked.is_empty() && !(0..DIRECT_NODE_ID_END).contains(&node_id.0) {
        let reason = format!("needs a node.id below {DIRECT_NODE_ID_END}");
        return Err(ConfigError::invalid(CORE_DIRECT, shown, reason));
    }
    let is_direct = |name: &&str| asked.iter().any(|asked| asked == name);
    Ok(names.iter().map(is_direct).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::broker::BrokerConfig;

    fn resolve(set: &[(&str, &str)]) -> Result<BrokerConfig, ConfigError> {
        let set: BTreeMap<String, String> = set
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        BrokerConfig::resolve(set, "machine")
    }

    // Goal: limits for single addresses are read as Kafka reads them, and no others. Method: a table.
    #[test]
    fn overrides() {
        fn check(text: &str, expected: Option<&[(&str, u32)]>) {
            let found = resolve(&[(OVERRIDES, text)]).ok();
            let found = found.map(|config| config.connection_limits.overrides);
            let expected = expected.map(|pairs| {
                let owned = pairs.iter().map(|&(host, count)| (host.to_owned(), count));
                owned.collect::<Vec<_>>()
            });
            assert_eq!(found, expected, "{text}");
        }
        check("", Some(&[]));
        check("127.0.0.1:5", Some(&[("127.0.0.1", 5)]));
        check("a.example:0, ::1:7", Some(&[("a.example", 0), ("::1", 7)]));
        check("[::1]:7", Some(&[("::1", 7)]));
        check("127.0.0.1", None);
        check("127.0.0.1:", None);
        check("127.0.0.1:-1", None);
        check("127.0.0.1:many", None);
        check(":5", None);
    }

    // Goal: limits that contradict others are refused at the start. Method: pairs.
    #[test]
    fn contradictions() {
        fn check(set: &[(&str, &str)], is_usable: bool) {
            assert_eq!(resolve(set).is_ok(), is_usable, "{set:?}");
        }
        check(&[(PER_IP, "0")], false);
        check(&[(PER_IP, "0"), (OVERRIDES, "127.0.0.1:1")], true);
        check(&[(QUEUED_BYTES, "1000")], false);
        check(&[(QUEUED_BYTES, "0")], true);
        check(&[(QUEUED_BYTES, "104857600")], true);
        check(
            &[(QUEUED_BYTES, "1000"), ("socket.request.max.bytes", "1000")],
            true,
        );
        check(&[(CORE_DIRECT, "PLAINTEXT")], true);
        check(&[(CORE_DIRECT, "plaintext")], true);
        check(&[(CORE_DIRECT, "OTHER")], false);
        check(&[(CORE_DIRECT, "PLAINTEXT"), ("node.id", "1048576")], false);
    }
}
