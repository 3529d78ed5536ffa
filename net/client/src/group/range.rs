//! The range assignor: each topic's partitions in ranges over the members that want it. Pure.
//!
//! 1. Every partition of a topic that anybody wants has one owner.
//! 2. The same members and topics give the same assignment, whoever leads: it is Kafka's, so that leaders may be of other clients.
//!
//! Source: KIP-54; Kafka's `RangeAssignor` (static members go by their names, dynamic ones behind them by their ids).

use std::collections::BTreeMap;

use pelton_protocol::codec::Str;

use super::protocol::TopicPartitions;

/// The name under which members offer it.
pub(crate) const NAME: &str = "range";

/// A member and the topics it wants.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) member_id: Str,
    pub(crate) instance_id: Option<Str>,
    pub(crate) topics: Vec<Str>,
}

/// Each member's partitions, by member id; `counts` has the number of partitions of each topic that exists.
pub(crate) fn assign(
    members: &[Member],
    counts: &BTreeMap<Str, i32>,
) -> BTreeMap<Str, TopicPartitions> {
    let mut members: Vec<&Member> = members.iter().collect();
    let order = |member: &&Member| {
        let instance = member.instance_id.clone();
        (instance.is_none(), instance, member.member_id.clone())
    };
    members.sort_by_key(order);
    let mut assignments: BTreeMap<Str, TopicPartitions> = members
        .iter()
        .map(|member| (member.member_id.clone(), TopicPartitions::new()))
        .collect();
    for (topic, &count) in counts {
        let wanting = members
            .iter()
            .filter(|member| member.topics.contains(topic));
        let wanting: Vec<&&Member> = wanting.collect();
        let Ok(shares) = i32::try_from(wanting.len()) else {
            continue;
        };
        let mut next = 0;
        for (turn, member) in (0..shares).zip(wanting) {
            let share = count / shares + i32::from(turn < count % shares);
            let range: Vec<i32> = (next..next + share).collect();
            next += share;
            if !range.is_empty() {
                let assignment = assignments.entry(member.member_id.clone()).or_default();
                assignment.insert(topic.clone(), range);
            }
        }
    }
    assignments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, instance: Option<&str>, topics: &[&str]) -> Member {
        Member {
            member_id: id.into(),
            instance_id: instance.map(Str::from),
            topics: topics.iter().map(|topic| Str::from(*topic)).collect(),
        }
    }

    // Goal: Kafka's ranges. Method: a table of members, topics and who gets what.
    #[test]
    fn ranges() {
        fn check(members: &[Member], counts: &[(&str, i32)], expected: &[(&str, &str, &[i32])]) {
            let counts = counts
                .iter()
                .map(|(topic, count)| (Str::from(*topic), *count));
            let got = assign(members, &counts.collect());
            assert_eq!(got.len(), members.len());
            let flat: Vec<_> = got
                .iter()
                .flat_map(|(member, topics)| {
                    topics
                        .iter()
                        .map(move |(topic, partitions)| (&**member, &**topic, &partitions[..]))
                })
                .collect();
            assert_eq!(flat, expected);
        }
        let two = [member("b", None, &["t", "u"]), member("a", None, &["t"])];
        check(
            &two,
            &[("t", 3), ("u", 2)],
            &[("a", "t", &[0, 1]), ("b", "t", &[2]), ("b", "u", &[0, 1])],
        );
        check(&two, &[("t", 1)], &[("a", "t", &[0])]);
        check(&two, &[], &[]);
        // Static members come first, by their names.
        let named = [member("a", None, &["t"]), member("z", Some("one"), &["t"])];
        check(
            &named,
            &[("t", 3)],
            &[("a", "t", &[2]), ("z", "t", &[0, 1])],
        );
    }
}
