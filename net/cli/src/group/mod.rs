//! `pelton group`: list, describe, reset, delete.

mod lag;
mod reset;
mod show;

use pelton_client::{Admin, Client, ClientError, GroupDescription, Str};
use pelton_model::ErrorCode;
use pelton_transport::ring::RingNet;

use self::lag::PartitionLag;
use crate::args::{GroupCommand, GroupDeleteArgs, GroupDescribeArgs, GroupListArgs};
use crate::client;
use crate::error::CliError;
use crate::output::{self, print};

/// The state of a group that does not exist.
const DEAD: &str = "Dead";

/// Runs one of the group commands.
pub(crate) fn run(command: GroupCommand) -> Result<(), CliError> {
    match command {
        GroupCommand::List(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| list(client, args))
        }
        GroupCommand::Describe(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| describe(client, args))
        }
        GroupCommand::Reset(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| reset::reset(client, args))
        }
        GroupCommand::Delete(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| delete(client, args))
        }
    }
}

fn failed(error: ClientError) -> CliError {
    client::failure(&error)
}

async fn list(client: Client<RingNet>, args: GroupListArgs) -> Result<(), CliError> {
    let groups = Admin::new(&client).list_groups().await.map_err(failed)?;
    print(&show::list(&groups, args.output))
}

/// A group with what it reads.
struct Described {
    group: GroupDescription,
    lags: Vec<PartitionLag>,
}

async fn describe(client: Client<RingNet>, args: GroupDescribeArgs) -> Result<(), CliError> {
    let admin = Admin::new(&client);
    let names: Vec<Str> = if args.groups.is_empty() {
        let listed = admin.list_groups().await.map_err(failed)?;
        listed.into_iter().map(|group| group.group_id).collect()
    } else {
        args.groups.iter().map(Str::from).collect()
    };
    let mut is_complete = true;
    let mut described = Vec::new();
    for name in &names {
        let group = admin.describe_group(name).await.map_err(failed)?;
        let lags = lag::of(&client, &group).await.map_err(failed)?;
        if group.state == DEAD && lags.is_empty() {
            let unknown = CliError::with_remedy(
                format!("there is no group {name}"),
                "pelton group list shows what there is",
            );
            output::error_line(&unknown.to_string());
            is_complete = false;
            continue;
        }
        described.push(Described { group, lags });
    }
    print(&show::described(&described, args.output))?;
    if is_complete {
        Ok(())
    } else {
        Err(CliError::Reported)
    }
}

async fn delete(client: Client<RingNet>, args: GroupDeleteArgs) -> Result<(), CliError> {
    let admin = Admin::new(&client);
    let mut is_complete = true;
    for name in &args.groups {
        match admin.delete_group(&Str::from(name)).await {
            Ok(()) => print(&format!("deleted {name}\n"))?,
            Err(error) => {
                output::error_line(&advised(&error).to_string());
                is_complete = false;
            }
        }
    }
    if is_complete {
        Ok(())
    } else {
        Err(CliError::Reported)
    }
}

/// A failed change of a group, with advice.
fn advised(error: &ClientError) -> CliError {
    let remedy = match error.error_code() {
        Some(ErrorCode::NonEmptyGroup | ErrorCode::UnknownMemberId) => {
            "the group has members: stop them first"
        }
        Some(ErrorCode::GroupIdNotFound) => "pelton group list shows what there is",
        _ => return client::failure(error),
    };
    CliError::with_remedy(error.to_string(), remedy)
}
