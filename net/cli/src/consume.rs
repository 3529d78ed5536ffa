//! `pelton consume`: records of a topic to stdout.
//!
//! Invariants:
//! 1. without `--follow` the command ends at the offsets that were the ends when it began, however fast others append;
//! 2. records of one partition are printed in the order of their offsets; partitions may interleave;
//! 3. the end of committed records is the last stable offset: what lies behind belongs to transactions that are open.

mod group;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use pelton_client::{
    Admin, Client, ClientError, ConsumedRecord, Consumer, ConsumerOptions, IsolationLevel,
    OffsetQuery, OffsetReset, Position as At, Str,
};
use pelton_transport::ring::RingNet;

use crate::args::{ConsumeArgs, Isolation};
use crate::client;
use crate::error::CliError;
use crate::output;
use crate::records::position::Position;
use crate::records::template::{Shown, Template};

/// How long one poll waits; between polls what was printed is flushed.
const POLL: Duration = Duration::from_millis(500);
const OUT_BYTES: usize = 64 * 1024;
const POLL_RECORDS_MAX: usize = 5_000;

/// Prints records until the end, `--max`, or for ever.
pub(crate) fn run(args: &ConsumeArgs) -> Result<(), CliError> {
    match &args.group {
        Some(group) => client::run(&args.connect, |client| group::consume(client, args, group)),
        None => client::run(&args.connect, |client| consume(client, args)),
    }
}

async fn consume(client: Client<RingNet>, args: &ConsumeArgs) -> Result<(), CliError> {
    let failed = |error: ClientError| client::failure(&error);
    let topic = Str::from(args.topic.as_str());
    let partitions = partitions(&client, args).await.map_err(failed)?;
    let ends = ends(&client, args, &partitions).await.map_err(failed)?;
    let starts = starts(&client, args, &partitions, &ends).await?;
    let mut consumer = Consumer::new(&client, options(args));
    let assignment = starts
        .into_iter()
        .map(|(partition, at)| (topic.clone(), partition, at));
    consumer.assign(assignment).await.map_err(failed)?;
    let mut printer = Printer::new(args)?;
    while printer.left > 0 && (args.follow || is_before(&consumer, &ends)) {
        let records = consumer
            .poll(POLL)
            .await
            .map_err(|error| explained(&error, args))?;
        let is_wanted = |record: &&ConsumedRecord| {
            args.follow
                || ends
                    .get(&record.partition)
                    .is_some_and(|&end| record.offset < end)
        };
        output::written(printer.print(records.iter().filter(is_wanted)))?;
    }
    Ok(())
}

fn options(args: &ConsumeArgs) -> ConsumerOptions {
    ConsumerOptions {
        isolation_level: match args.isolation {
            Isolation::ReadUncommitted => IsolationLevel::ReadUncommitted,
            Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
        },
        // A position that was asked for is not silently replaced by another.
        offset_reset: match args.from {
            Position::Offset(_) => OffsetReset::Fail,
            Position::Beginning
            | Position::End
            | Position::BeforeEnd(_)
            | Position::Timestamp(_) => OffsetReset::Earliest,
        },
        poll_records_max: POLL_RECORDS_MAX,
        ..ConsumerOptions::default()
    }
}

/// The partitions asked for, or all.
async fn partitions(client: &Client<RingNet>, args: &ConsumeArgs) -> Result<Vec<i32>, ClientError> {
    let known = client.topic(&args.topic, false).await?;
    if let Some(&stranger) = args
        .partition
        .iter()
        .find(|&&asked| known.partition(asked).is_none())
    {
        return Err(ClientError::NoPartition {
            topic: known.name.clone(),
            partition: Some(stranger),
            count: known.partitions.len(),
        });
    }
    let mut partitions = args.partition.clone();
    if partitions.is_empty() {
        partitions.extend(known.partitions.iter().map(|known| known.partition));
    }
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}

/// Where each partition ends, for readers of the level asked for; says so when open transactions hide the rest.
async fn ends(
    client: &Client<RingNet>,
    args: &ConsumeArgs,
    partitions: &[i32],
) -> Result<BTreeMap<i32, i64>, ClientError> {
    let topic = Str::from(args.topic.as_str());
    let all = offsets(client, &topic, partitions, OffsetQuery::Latest).await?;
    if args.isolation == Isolation::ReadUncommitted {
        return Ok(all);
    }
    let stable = offsets(client, &topic, partitions, OffsetQuery::LastStable).await?;
    let is_held = |(partition, end): (&i32, &i64)| stable.get(partition) < Some(end);
    if !args.follow && all.iter().any(is_held) {
        output::warning_line("the rest belongs to transactions that are still open");
    }
    Ok(stable)
}

async fn offsets(
    client: &Client<RingNet>,
    topic: &Str,
    partitions: &[i32],
    query: OffsetQuery,
) -> Result<BTreeMap<i32, i64>, ClientError> {
    let queries: Vec<_> = partitions
        .iter()
        .map(|&partition| (topic.clone(), partition, query))
        .collect();
    let found = Admin::new(client).list_offsets(&queries).await?;
    let offsets = found.into_iter().map(|listed| listed.offset.unwrap_or(0));
    Ok(partitions.iter().copied().zip(offsets).collect())
}

/// Where each partition begins.
async fn starts(
    client: &Client<RingNet>,
    args: &ConsumeArgs,
    partitions: &[i32],
    ends: &BTreeMap<i32, i64>,
) -> Result<Vec<(i32, At)>, CliError> {
    let everywhere = |at: At| {
        partitions
            .iter()
            .map(|&partition| (partition, at))
            .collect()
    };
    let firsts = async {
        let topic = Str::from(args.topic.as_str());
        let found = offsets(client, &topic, partitions, OffsetQuery::Earliest).await;
        found.map_err(|error| client::failure(&error))
    };
    Ok(match args.from {
        Position::Beginning => everywhere(At::Beginning),
        // The ends are known already; asking again could skip what came in between.
        Position::End => at_offsets(ends),
        Position::Timestamp(timestamp) => everywhere(At::Timestamp(timestamp)),
        Position::BeforeEnd(count) => at_offsets(&before(ends, &firsts.await?, count)),
        Position::Offset(offset) => {
            let (starts, is_inside) = at(offset, ends, &firsts.await?);
            if !is_inside {
                return Err(CliError::with_remedy(
                    format!("offset {offset} lies outside of {}", args.topic),
                    format!("pelton topic describe {} shows what there is", args.topic),
                ));
            }
            for (partition, start) in starts.iter().filter(|&(_, &start)| start != offset) {
                output::warning_line(&format!(
                    "{}-{partition} does not hold offset {offset}: reading it from {start}",
                    args.topic
                ));
            }
            at_offsets(&starts)
        }
    })
}

/// The offset in each partition, or the nearest that it has; and whether any of them has the offset itself.
fn at(
    offset: i64,
    ends: &BTreeMap<i32, i64>,
    firsts: &BTreeMap<i32, i64>,
) -> (BTreeMap<i32, i64>, bool) {
    let first = |partition| firsts.get(partition).copied().unwrap_or(0);
    let starts: BTreeMap<_, _> = ends
        .iter()
        .map(|(partition, &end)| (*partition, offset.min(end).max(first(partition))))
        .collect();
    let is_inside = starts.values().any(|&start| start == offset);
    (starts, is_inside)
}

fn at_offsets(offsets: &BTreeMap<i32, i64>) -> Vec<(i32, At)> {
    offsets
        .iter()
        .map(|(&partition, &offset)| (partition, At::Offset(offset)))
        .collect()
}

/// `count` records before each end, but not before the first that is kept.
fn before(
    ends: &BTreeMap<i32, i64>,
    firsts: &BTreeMap<i32, i64>,
    count: i64,
) -> BTreeMap<i32, i64> {
    let first = |partition| firsts.get(partition).copied().unwrap_or(0);
    ends.iter()
        .map(|(partition, &end)| (*partition, end.saturating_sub(count).max(first(partition))))
        .collect()
}

/// Whether a partition has not come to its end yet.
fn is_before(consumer: &Consumer<RingNet>, ends: &BTreeMap<i32, i64>) -> bool {
    consumer.positions().iter().any(|at| {
        ends.get(&at.partition)
            .is_some_and(|&end| at.next_offset < end)
    })
}

fn explained(error: &ClientError, args: &ConsumeArgs) -> CliError {
    if let ClientError::OutOfRange { .. } = error {
        let remedy = format!(
            "pelton topic describe {} shows its first and next offset",
            args.topic
        );
        return CliError::with_remedy(error.to_string(), remedy);
    }
    client::failure(error)
}

/// Prints records in a format, so many at most.
struct Printer<'a> {
    format: Template,
    null: &'a [u8],
    left: u64,
    out: BufWriter<io::StdoutLock<'static>>,
}

impl<'a> Printer<'a> {
    fn new(args: &'a ConsumeArgs) -> Result<Self, CliError> {
        let keyed = || {
            "{key}\\t{value}\\n"
                .parse::<Template>()
                .map_err(CliError::Usage)
        };
        Ok(Self {
            format: if args.keys {
                keyed()?
            } else {
                args.format.clone()
            },
            null: args.null.as_bytes(),
            left: args.max.unwrap_or(u64::MAX),
            out: BufWriter::with_capacity(OUT_BYTES, io::stdout().lock()),
        })
    }

    /// Prints and flushes.
    fn print<'r>(&mut self, records: impl Iterator<Item = &'r ConsumedRecord>) -> io::Result<()> {
        for record in records {
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let headers: Vec<_> = record
                .headers
                .iter()
                .map(|(name, value)| (&name[..], value.as_deref()))
                .collect();
            let shown = Shown {
                topic: &record.topic,
                partition: record.partition,
                offset: record.offset,
                timestamp: record.timestamp.0,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: &headers,
            };
            self.format.write(&shown, self.null, &mut self.out)?;
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the last records of each partition, never from before what is kept. Method: three partitions.
    #[test]
    fn before_the_end() {
        let ends = BTreeMap::from([(0, 100), (1, 5), (2, 50)]);
        let firsts = BTreeMap::from([(0, 0), (1, 0), (2, 45)]);
        assert_eq!(
            before(&ends, &firsts, 10),
            BTreeMap::from([(0, 90), (1, 0), (2, 45)])
        );
        assert_eq!(before(&ends, &firsts, 0), ends);
        assert_eq!(before(&ends, &firsts, i64::MAX), firsts);
    }

    // Goal: an offset that only some partitions have begins the others where they can. Method: inside, outside, at ends.
    #[test]
    fn at_an_offset() {
        let (ends, firsts) = (
            BTreeMap::from([(0, 100), (1, 5)]),
            BTreeMap::from([(0, 10), (1, 0)]),
        );
        assert_eq!(
            at(7, &ends, &firsts),
            (BTreeMap::from([(0, 10), (1, 5)]), false)
        );
        assert_eq!(
            at(50, &ends, &firsts),
            (BTreeMap::from([(0, 50), (1, 5)]), true)
        );
        assert_eq!(
            at(100, &ends, &firsts),
            (BTreeMap::from([(0, 100), (1, 5)]), true)
        );
        assert_eq!(
            at(101, &ends, &firsts),
            (BTreeMap::from([(0, 100), (1, 5)]), false)
        );
    }
}
