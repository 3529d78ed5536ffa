//! `pelton txn`: list, describe, abort.

use pelton_client::{Admin, Client, ClientError, Str, TransactionDescription, TransactionListing};
use pelton_model::ErrorCode;
use pelton_transport::net::Net;
use pelton_transport::ring::RingNet;

use crate::args::{Output, TxnAbortArgs, TxnCommand, TxnDescribeArgs, TxnListArgs};
use crate::client;
use crate::error::CliError;
use crate::output::{self, array, columns, json_text, print, seconds};

/// What stands where there is nothing to say.
const NOTHING: &str = "-";

/// Runs one of the commands about transactions.
pub(crate) fn run(command: TxnCommand) -> Result<(), CliError> {
    match command {
        TxnCommand::List(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| list(client, args))
        }
        TxnCommand::Describe(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| describe(client, args))
        }
        TxnCommand::Abort(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| abort(client, args))
        }
    }
}

async fn list(client: Client<RingNet>, args: TxnListArgs) -> Result<(), CliError> {
    let states: Vec<Str> = args.states.iter().map(Str::from).collect();
    let listed = Admin::new(&client).list_transactions(&states).await;
    let listed = listed.map_err(|error| client::failure(&error))?;
    print(&listing(&listed, args.output))
}

async fn describe(client: Client<RingNet>, args: TxnDescribeArgs) -> Result<(), CliError> {
    let admin = Admin::new(&client);
    let now_ms = client.net().wall_clock().0;
    let mut described = Vec::new();
    let mut is_complete = true;
    for id in &args.ids {
        match admin.describe_transaction(&Str::from(id)).await {
            Ok(one) => described.push(one),
            Err(error) => {
                output::error_line(&advised(&error).to_string());
                is_complete = false;
            }
        }
    }
    print(&description(&described, now_ms, args.output))?;
    complete(is_complete)
}

async fn abort(client: Client<RingNet>, args: TxnAbortArgs) -> Result<(), CliError> {
    let admin = Admin::new(&client);
    let mut is_complete = true;
    for id in &args.ids {
        match admin.abort_transaction(&Str::from(id)).await {
            Ok(()) => print(&format!("aborted {id}\n"))?,
            Err(error) => {
                output::error_line(&advised(&error).to_string());
                is_complete = false;
            }
        }
    }
    complete(is_complete)
}

fn complete(is_complete: bool) -> Result<(), CliError> {
    if is_complete {
        Ok(())
    } else {
        Err(CliError::Reported)
    }
}

/// A refusal about a transactional id, with advice.
fn advised(error: &ClientError) -> CliError {
    if error.error_code() == Some(ErrorCode::TransactionalIdNotFound) {
        return CliError::with_remedy(error.to_string(), "pelton txn list shows what there is");
    }
    client::failure(error)
}

fn listing(listed: &[TransactionListing], output: Output) -> String {
    match output {
        Output::Json => {
            let rows = listed.iter().map(|one| {
                format!(
                    "{{\"transactionalId\":{},\"state\":{},\"producerId\":{}}}",
                    json_text(&one.transactional_id),
                    json_text(&one.state),
                    one.producer_id
                )
            });
            array(rows)
        }
        Output::Table => {
            let head = ["TRANSACTIONAL ID", "STATE", "PRODUCER"];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(listed.iter().map(|one| {
                vec![
                    one.transactional_id.to_string(),
                    one.state.to_string(),
                    one.producer_id.to_string(),
                ]
            }));
            columns(&rows)
        }
    }
}

fn description(described: &[TransactionDescription], now_ms: i64, output: Output) -> String {
    match output {
        Output::Json => array(described.iter().map(json)),
        Output::Table => {
            let head = [
                "TRANSACTIONAL ID",
                "STATE",
                "PRODUCER",
                "EPOCH",
                "TIMEOUT",
                "AGE",
                "PARTITIONS",
            ];
            let mut rows = vec![head.map(str::to_owned).to_vec()];
            rows.extend(described.iter().map(|one| row(one, now_ms)));
            columns(&rows)
        }
    }
}

/// Whether a transaction is open or ending: otherwise its beginning says nothing of now.
fn is_under_way(described: &TransactionDescription) -> bool {
    matches!(
        described.state.as_str(),
        "Ongoing" | "PrepareCommit" | "PrepareAbort"
    )
}

fn row(one: &TransactionDescription, now_ms: i64) -> Vec<String> {
    let started = one.started_ms.filter(|_| is_under_way(one));
    let age = started.map(|started| seconds(now_ms.saturating_sub(started)));
    let partitions = one.partitions.iter();
    let partitions = partitions.flat_map(|(topic, all)| {
        let named = all.iter();
        named.map(move |partition| format!("{topic}-{partition}"))
    });
    let partitions: Vec<String> = partitions.collect();
    vec![
        one.transactional_id.to_string(),
        one.state.to_string(),
        one.producer_id.to_string(),
        one.producer_epoch.to_string(),
        seconds(i64::from(one.timeout_ms)),
        age.unwrap_or_else(|| NOTHING.to_owned()),
        if partitions.is_empty() {
            NOTHING.to_owned()
        } else {
            partitions.join(" ")
        },
    ]
}

fn json(one: &TransactionDescription) -> String {
    let topics = one.partitions.iter().map(|(topic, partitions)| {
        let partitions: Vec<String> = partitions.iter().map(i32::to_string).collect();
        format!(
            "{{\"topic\":{},\"partitions\":[{}]}}",
            json_text(topic),
            partitions.join(",")
        )
    });
    let topics: Vec<String> = topics.collect();
    format!(
        "{{\"transactionalId\":{},\"state\":{},\"producerId\":{},\"producerEpoch\":{},\"timeoutMs\":{},\"startedMs\":{},\"topics\":[{}]}}",
        json_text(&one.transactional_id),
        json_text(&one.state),
        one.producer_id,
        one.producer_epoch,
        one.timeout_ms,
        one.started_ms
            .map_or_else(|| "null".to_owned(), |time| time.to_string()),
        topics.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(state: &str) -> TransactionDescription {
        TransactionDescription {
            transactional_id: "tx".into(),
            state: state.into(),
            timeout_ms: 60_000,
            started_ms: Some(1_000),
            producer_id: 7,
            producer_epoch: 3,
            partitions: vec![("t".into(), vec![0, 2])],
        }
    }

    // Goal: people see what matters, programs everything. Method: both forms of one transaction.
    #[test]
    fn both_forms() {
        let table = description(&[one("Ongoing")], 3_500, Output::Table);
        let mut words = table.lines().nth(1).unwrap_or_default().split_whitespace();
        assert_eq!(words.next(), Some("tx"));
        assert!(table.contains("2.500 s"), "{table}");
        assert!(table.contains("t-0 t-2"), "{table}");
        let ended = description(&[one("CompleteCommit")], 3_500, Output::Table);
        assert!(!ended.contains("2.500 s"), "{ended}");
        let json = description(&[one("Ongoing")], 3_500, Output::Json);
        let expected = "{\"transactionalId\":\"tx\",\"state\":\"Ongoing\",\"producerId\":7,\"producerEpoch\":3,\
            \"timeoutMs\":60000,\"startedMs\":1000,\"topics\":[{\"topic\":\"t\",\"partitions\":[0,2]}]}";
        assert!(json.contains(expected), "{json}");
    }
}
