//! Groups for people and for programs.

use pelton_client::GroupListing;

use super::Described;
use super::lag::PartitionLag;
use crate::args::Output;
use crate::output::{array, columns, json_text, seconds};

/// What stands where there is nothing to say.
const NOTHING: &str = "-";

/// The list of groups.
pub(super) fn list(groups: &[GroupListing], output: Output) -> String {
    match output {
        Output::Json => {
            let rows = groups.iter().map(|group| {
                format!(
                    "{{\"group\":{},\"state\":{},\"type\":{},\"protocolType\":{}}}",
                    json_text(&group.group_id),
                    json_text(&group.state),
                    json_text(&group.group_type),
                    json_text(&group.protocol_type)
                )
            });
            array(rows)
        }
        Output::Table => {
            let mut rows = vec![row(["GROUP", "STATE", "TYPE", "KIND"])];
            rows.extend(groups.iter().map(|group| {
                row([
                    &group.group_id,
                    &group.state,
                    or_nothing(&group.group_type),
                    or_nothing(&group.protocol_type),
                ])
            }));
            columns(&rows)
        }
    }
}

/// Groups with their members and lags.
pub(super) fn described(groups: &[Described], output: Output) -> String {
    match output {
        Output::Json => array(groups.iter().map(group_json)),
        Output::Table => {
            let tables: Vec<String> = groups.iter().map(group_table).collect();
            tables.join("\n")
        }
    }
}

fn group_table(described: &Described) -> String {
    let group = &described.group;
    let mut text = format!(
        "group {}: {}, {} member{}{}\n",
        group.group_id,
        group.state,
        group.members.len(),
        if group.members.len() == 1 { "" } else { "s" },
        if group.protocol.is_empty() {
            String::new()
        } else {
            format!(", {}", group.protocol)
        },
    );
    let mut rows = vec![row([
        "TOPIC",
        "PARTITION",
        "COMMITTED",
        "END",
        "LAG",
        "BEHIND",
        "MEMBER",
        "HOST",
    ])];
    for lag in &described.lags {
        let member = lag.member.and_then(|index| group.members.get(index));
        rows.push(vec![
            lag.topic.to_string(),
            lag.partition.to_string(),
            number(lag.committed),
            number(lag.end),
            number(lag.records()),
            lag.lag_ms.map_or_else(|| NOTHING.to_owned(), seconds),
            member
                .map_or(NOTHING, |member| &member.member_id)
                .to_owned(),
            member.map_or(NOTHING, |member| &member.host).to_owned(),
        ]);
    }
    for (index, member) in group.members.iter().enumerate() {
        let has_any = described.lags.iter().any(|lag| lag.member == Some(index));
        if !has_any {
            let mut idle = vec![NOTHING.to_owned(); 6];
            idle.push(member.member_id.to_string());
            idle.push(member.host.to_string());
            rows.push(idle);
        }
    }
    text.push_str(&columns(&rows));
    text
}

fn group_json(described: &Described) -> String {
    let group = &described.group;
    let members = group.members.iter().map(|member| {
        let instance = member.instance_id.as_deref();
        format!(
            "{{\"member\":{},\"instance\":{},\"client\":{},\"host\":{}}}",
            json_text(&member.member_id),
            instance.map_or_else(|| "null".to_owned(), json_text),
            json_text(&member.client_id),
            json_text(&member.host)
        )
    });
    let members: Vec<String> = members.collect();
    let partitions: Vec<String> = described
        .lags
        .iter()
        .map(|lag| partition_json(described, lag))
        .collect();
    format!(
        "{{\"group\":{},\"state\":{},\"protocol\":{},\"members\":[{}],\"partitions\":[{}]}}",
        json_text(&group.group_id),
        json_text(&group.state),
        json_text(&group.protocol),
        members.join(","),
        partitions.join(",")
    )
}

fn partition_json(described: &Described, lag: &PartitionLag) -> String {
    let number =
        |value: Option<i64>| value.map_or_else(|| "null".to_owned(), |value| value.to_string());
    let members = &described.group.members;
    let member = lag.member.and_then(|index| members.get(index));
    format!(
        "{{\"topic\":{},\"partition\":{},\"committed\":{},\"end\":{},\"lag\":{},\"behindMs\":{},\"member\":{}}}",
        json_text(&lag.topic),
        lag.partition,
        number(lag.committed),
        number(lag.end),
        number(lag.records()),
        number(lag.lag_ms),
        member.map_or_else(|| "null".to_owned(), |member| json_text(&member.member_id))
    )
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { NOTHING } else { text }
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use pelton_client::{GroupDescription, GroupMember, TopicPartitions};

    use super::*;

    // Goal: spans of time read well. Method: the edges of units.
    #[test]
    fn spans() {
        fn check(ms: i64, expected: &str) {
            assert_eq!(seconds(ms), expected);
        }
        check(0, "0 s");
        check(1_234, "1.234 s");
        check(59_999, "59 s");
        check(600_000, "10 min");
        check(36_000_000, "10 h");
        check(864_000_000, "10 d");
    }

    fn example() -> Described {
        let member = |id: &str| GroupMember {
            member_id: id.into(),
            instance_id: None,
            client_id: "c".into(),
            host: "/127.0.0.1".into(),
            assignment: TopicPartitions::new(),
        };
        let lag = |partition, committed, end, lag_ms, member| PartitionLag {
            topic: "orders".into(),
            partition,
            committed,
            end,
            lag_ms,
            member,
        };
        Described {
            group: GroupDescription {
                group_id: "billing".into(),
                state: "Stable".into(),
                protocol: "range".into(),
                members: vec![member("one"), member("idle \"x\"")],
            },
            lags: vec![
                lag(0, Some(5), Some(7), Some(1_500), Some(0)),
                lag(1, None, Some(3), None, None),
            ],
        }
    }

    // Goal: who owns what, lag in records and time, idle members. Method: a group with one of each.
    #[test]
    fn a_table() {
        let shown = described(&[example()], Output::Table);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "group billing: Stable, 2 members, range");
        assert!(lines[1].starts_with("TOPIC   PARTITION"), "{shown}");
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            [
                "orders",
                "0",
                "5",
                "7",
                "2",
                "1.500",
                "s",
                "one",
                "/127.0.0.1"
            ]
        );
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>(),
            ["orders", "1", "-", "3", "-", "-", "-", "-"]
        );
        assert!(lines[4].contains("idle \"x\""), "{shown}");
    }

    // Goal: the same as JSON, with names escaped. Method: the same group.
    #[test]
    fn json() {
        let shown = described(&[example()], Output::Json);
        assert_eq!(
            shown,
            "[{\"group\":\"billing\",\"state\":\"Stable\",\"protocol\":\"range\",\"members\":[\
             {\"member\":\"one\",\"instance\":null,\"client\":\"c\",\"host\":\"/127.0.0.1\"},\
             {\"member\":\"idle \\\"x\\\"\",\"instance\":null,\"client\":\"c\",\"host\":\"/127.0.0.1\"}],\
             \"partitions\":[{\"topic\":\"orders\",\"partition\":0,\"committed\":5,\"end\":7,\"lag\":2,\
             \"behindMs\":1500,\"member\":\"one\"},{\"topic\":\"orders\",\"partition\":1,\"committed\":null,\
             \"end\":3,\"lag\":null,\"behindMs\":null,\"member\":null}]}]\n"
        );
    }
}
