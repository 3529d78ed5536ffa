//! `pelton produce`: records from stdin to a topic.
//!
//! Invariants:
//! 1. exit code 0 means that every record of the input was acknowledged as `--acks` says;
//! 2. a failure ends the command: what follows it in the input is not sent;
//! 3. with a transactional id the input is one transaction: it is committed only when invariant 1 holds.

use std::collections::VecDeque;
use std::io::{IsTerminal, Read, Write};

use futures_lite::future;
use pelton_client::{
    Acks, Client, ClientError, Delivery, Producer, ProducerOptions, ProducerRecord, Str,
    TransactionOptions,
};
use pelton_model::Monotonic;
use pelton_model::compression::Compression;
use pelton_transport::net::Net;
use pelton_transport::ring::RingNet;

use crate::args::{AcksArg, Codec, ProduceArgs};
use crate::client;
use crate::error::CliError;
use crate::output;
use crate::records::input::{InputFormat, InputRecord, Splitter};
use crate::records::unescape;

/// What one read from stdin may bring.
const READ_BYTES: usize = 256 * 1024;
/// The largest request; brokers refuse records beyond their own bound long before.
const REQUEST_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Records whose outcome is still open; beyond, the oldest is waited for.
const OPEN_DELIVERIES_MAX: usize = 64 * 1024;
/// How often progress is shown.
const PROGRESS_NS: u64 = 500_000_000;

/// Sends stdin, record by record.
pub(crate) fn run(args: &ProduceArgs) -> Result<(), CliError> {
    let splitter = Splitter::new(format(args)?);
    client::run(&args.connect, |client| produce(client, args, splitter))
}

fn format(args: &ProduceArgs) -> Result<InputFormat, CliError> {
    let separator = |option: &str, text: &str| {
        unescape(text).filter(|bytes| !bytes.is_empty()).ok_or_else(|| {
            CliError::Usage(format!(
                "{option} '{text}' must not be empty; its escapes are \\t \\n \\r \\0 \\\\ and \\xHH"
            ))
        })
    };
    let key = args.key_separator.as_deref();
    Ok(InputFormat {
        record_separator: separator("--record-separator", &args.record_separator)?,
        key_separator: key
            .map(|text| separator("--key-separator", text))
            .transpose()?,
        null: args.null.as_ref().map(|text| text.clone().into_bytes()),
        record_bytes_max: REQUEST_BYTES_MAX / 2,
    })
}

fn options(args: &ProduceArgs) -> ProducerOptions {
    ProducerOptions {
        acks: match args.acks {
            AcksArg::All => Acks::All,
            AcksArg::Leader => Acks::Leader,
            AcksArg::None => Acks::None,
        },
        linger_ms: u64::from(args.linger),
        batch_size_bytes: 256 * 1024,
        compression: match args.compression {
            Codec::None => Compression::None,
            Codec::Gzip => Compression::Gzip,
            Codec::Snappy => Compression::Snappy,
            Codec::Lz4 => Compression::Lz4,
            Codec::Zstd => Compression::Zstd,
        },
        max_request_bytes: REQUEST_BYTES_MAX,
        buffer_memory_bytes: 2 * REQUEST_BYTES_MAX,
        delivery_timeout_ms: u64::from(args.connect.timeout).max(1) * 1000,
        idempotence: !args.no_idempotence,
        transaction: args
            .transactional_id
            .as_deref()
            .map(TransactionOptions::new),
        ..ProducerOptions::default()
    }
}

async fn produce(
    client: Client<RingNet>,
    args: &ProduceArgs,
    mut splitter: Splitter,
) -> Result<(), CliError> {
    let net = client.net().clone();
    let mut run = Run {
        producer: Producer::new(&client, options(args)),
        template: template(args),
        open: VecDeque::new(),
        is_printing: args.print_offsets,
        progress: Progress::new(&net, args.quiet),
    };
    let outcome = if args.transactional_id.is_some() {
        run.transact(&net, &mut splitter).await
    } else {
        run.send_all(&net, &mut splitter).await
    };
    run.progress.erase();
    outcome?;
    run.progress.total(&net);
    Ok(())
}

/// What every record has in common.
fn template(args: &ProduceArgs) -> ProducerRecord {
    ProducerRecord {
        topic: Str::from(args.topic.as_str()),
        partition: args.partition,
        headers: args
            .headers
            .iter()
            .map(|header| {
                let value = header.value.clone().into_bytes();
                (header.name.clone().into_bytes().into(), Some(value.into()))
            })
            .collect(),
        ..ProducerRecord::default()
    }
}

/// One stream of records on its way.
struct Run {
    producer: Producer<RingNet>,
    template: ProducerRecord,
    open: VecDeque<Delivery>,
    is_printing: bool,
    progress: Progress,
}

impl Run {
    /// Sends all in one transaction.
    async fn transact(&mut self, net: &RingNet, splitter: &mut Splitter) -> Result<(), CliError> {
        let failure = |error: ClientError| client::failure(&error);
        self.producer.init_transactions().await.map_err(failure)?;
        self.producer.begin_transaction().map_err(failure)?;
        let sent = self.send_all(net, splitter).await;
        if sent.is_ok() {
            return self.producer.commit_transaction().await.map_err(failure);
        }
        // What failed is what the user must hear of. A transaction that cannot be aborted either is aborted by its timeout.
        drop(self.producer.abort_transaction().await);
        sent
    }

    async fn send_all(&mut self, net: &RingNet, splitter: &mut Splitter) -> Result<(), CliError> {
        loop {
            // Reading waits for whoever writes the pipe, so it must not hold up the sender.
            let bytes = net.run_blocking(read_stdin).await;
            let bytes =
                bytes.map_err(|error| CliError::failed(format!("cannot read stdin: {error}")))?;
            if bytes.is_empty() {
                break;
            }
            let records = splitter.push(&bytes).map_err(|error| bad_input(&error))?;
            self.send(records).await?;
            self.progress.show(net);
        }
        let last = splitter.finish().map_err(|error| bad_input(&error))?;
        self.send(last.into_iter().collect()).await?;
        self.producer
            .flush()
            .await
            .map_err(|error| client::failure(&error))?;
        while let Some(delivery) = self.open.pop_front() {
            self.settled(delivery.await)?;
        }
        Ok(())
    }

    async fn send(&mut self, records: Vec<InputRecord>) -> Result<(), CliError> {
        for record in records {
            let size_bytes =
                record.key.as_ref().map_or(0, Vec::len) + record.value.as_ref().map_or(0, Vec::len);
            let record = ProducerRecord {
                key: record.key.map(Into::into),
                value: record.value.map(Into::into),
                ..self.template.clone()
            };
            let delivery = self.producer.send(record).await;
            self.open
                .push_back(delivery.map_err(|error| client::failure(&error))?);
            self.progress.add(size_bytes);
            if self.open.len() > OPEN_DELIVERIES_MAX
                && let Some(oldest) = self.open.pop_front()
            {
                self.settled(oldest.await)?;
            }
        }
        // What is settled by now is told now, not at the end of the input.
        while let Some(oldest) = self.open.front_mut() {
            let Some(outcome) = future::poll_once(oldest).await else {
                break;
            };
            self.open.pop_front();
            self.settled(outcome)?;
        }
        Ok(())
    }

    fn settled(
        &self,
        outcome: Result<pelton_client::RecordMetadata, ClientError>,
    ) -> Result<(), CliError> {
        let metadata = outcome.map_err(|error| client::failure(&error))?;
        if !self.is_printing {
            return Ok(());
        }
        let offset = metadata
            .offset
            .map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        output::written(writeln!(
            std::io::stdout().lock(),
            "{} {offset}",
            metadata.partition
        ))
    }
}

fn read_stdin() -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; READ_BYTES];
    let count = std::io::stdin().lock().read(&mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

fn bad_input(error: &crate::records::input::InputError) -> CliError {
    CliError::with_remedy(
        error.to_string(),
        "check --key-separator and --record-separator",
    )
}

/// What has been taken so far, shown on a terminal while it lasts and in one line at the end.
struct Progress {
    records: u64,
    bytes: u64,
    since: Monotonic,
    shown: Monotonic,
    is_live: bool,
    is_quiet: bool,
    is_drawn: bool,
}

impl Progress {
    fn new(net: &RingNet, is_quiet: bool) -> Self {
        let now = net.now();
        // A person who types records needs no progress of it.
        let is_live =
            !is_quiet && std::io::stderr().is_terminal() && !std::io::stdin().is_terminal();
        Self {
            records: 0,
            bytes: 0,
            since: now,
            shown: now,
            is_live,
            is_quiet,
            is_drawn: false,
        }
    }

    fn add(&mut self, size_bytes: usize) {
        self.records += 1;
        self.bytes += u64::try_from(size_bytes).unwrap_or(u64::MAX);
    }

    fn show(&mut self, net: &RingNet) {
        let now = net.now();
        if self.is_live && now.since(self.shown) >= PROGRESS_NS {
            self.shown = now;
            self.is_drawn = true;
            output::draw(&self.text(now));
        }
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            output::draw("");
        }
    }

    fn total(&self, net: &RingNet) {
        if !self.is_quiet {
            output::say(&self.text(net.now()));
        }
    }

    fn text(&self, now: Monotonic) -> String {
        let ms = now.since(self.since) / 1_000_000;
        let rate = self.records.saturating_mul(1000) / ms.max(1);
        format!(
            "{} {} ({}) in {}.{:03} s, {rate}/s",
            self.records,
            if self.records == 1 {
                "record"
            } else {
                "records"
            },
            output::bytes(self.bytes),
            ms / 1000,
            ms % 1000,
        )
    }
}
