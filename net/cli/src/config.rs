//! `pelton config`: list, describe, set, delete.

use pelton_client::{Admin, ClientError, ConfigChange, ConfigEntry, ConfigResource, Str};
use pelton_model::config::described::Source;
use pelton_transport::ring::RingNet;

use crate::args::{
    ConfigCommand, ConfigDeleteArgs, ConfigDescribeArgs, ConfigListArgs, ConfigSetArgs, Output,
    Resource, Setting,
};
use crate::client;
use crate::error::CliError;
use crate::output::{self, array, columns, json_text, print};

type Configs = Admin<RingNet>;

/// Runs one of the configuration commands.
pub(crate) fn run(command: ConfigCommand) -> Result<(), CliError> {
    match command {
        ConfigCommand::List(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| list(Admin::new(&client), args))
        }
        ConfigCommand::Describe(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| describe(Admin::new(&client), args))
        }
        ConfigCommand::Set(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| set(Admin::new(&client), args))
        }
        ConfigCommand::Delete(args) => {
            let connect = args.connect.clone();
            client::run(&connect, |client| delete(Admin::new(&client), args))
        }
    }
}

fn failed(error: ClientError) -> CliError {
    client::failure(&error)
}

async fn list(admin: Configs, args: ConfigListArgs) -> Result<(), CliError> {
    let resources = admin.list_config_resources().await.map_err(failed)?;
    let names = resources.into_iter().map(|one| Resource(one).to_string());
    print(&match args.output {
        Output::Json => array(names.map(|name| json_text(&name))),
        Output::Table => names.map(|name| name + "\n").collect(),
    })
}

async fn describe(admin: Configs, args: ConfigDescribeArgs) -> Result<(), CliError> {
    let mut is_complete = true;
    let mut described = Vec::new();
    for Resource(resource) in &args.resources {
        match admin.describe_configs(resource).await {
            Ok(entries) => {
                let mut entries = entries;
                entries.retain(|entry| args.all || is_set(resource, entry));
                described.push((Resource(resource.clone()), entries));
            }
            Err(error) => {
                output::error_line(&failed(error).to_string());
                is_complete = false;
            }
        }
    }
    print(&match args.output {
        Output::Json => array(described.iter().map(json)),
        Output::Table => {
            let tables: Vec<String> = described
                .iter()
                .map(|(resource, entries)| table(resource, entries, &args))
                .collect();
            tables.join("\n")
        }
    })?;
    if is_complete {
        Ok(())
    } else {
        Err(CliError::Reported)
    }
}

/// Whether the value was set on this very resource while brokers run.
fn is_set(resource: &ConfigResource, entry: &ConfigEntry) -> bool {
    let own = match resource {
        ConfigResource::Topic(_) => Source::DynamicTopic,
        ConfigResource::Broker(_) => Source::DynamicBroker,
        ConfigResource::AllBrokers => Source::DynamicDefaultBroker,
        ConfigResource::Loggers(_) => Source::DynamicLogger,
        ConfigResource::ClientMetrics(_) => Source::ClientMetrics,
        ConfigResource::Group(_) => Source::DynamicGroup,
    };
    entry.source == own.code()
}

/// The place that sets a value, in a word.
fn place(source: i8) -> &'static str {
    const PLACES: &[(Source, &str)] = &[
        (Source::DynamicTopic, "topic"),
        (Source::DynamicBroker, "broker"),
        (Source::DynamicDefaultBroker, "all brokers"),
        (Source::StaticBroker, "file"),
        (Source::Default, "default"),
        (Source::DynamicLogger, "logger"),
        (Source::ClientMetrics, "client metrics"),
        (Source::DynamicGroup, "group"),
    ];
    let known = PLACES.iter().find(|(known, _)| known.code() == source);
    known.map_or("unknown", |(_, place)| place)
}

fn shown_value(entry: &ConfigEntry) -> &str {
    match &entry.value {
        Some(value) => value,
        None if entry.is_sensitive => "(secret)",
        None => "(null)",
    }
}

fn table(resource: &Resource, entries: &[ConfigEntry], args: &ConfigDescribeArgs) -> String {
    if entries.is_empty() {
        return format!("{resource}: nothing is set; --all shows what counts\n");
    }
    let mut head = vec!["NAME", "VALUE", "FROM"];
    if args.docs {
        head.push("MEANING");
    }
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for entry in entries {
        let from = if entry.is_read_only {
            format!("{}, read-only", place(entry.source))
        } else {
            place(entry.source).to_owned()
        };
        let mut row = vec![entry.name.to_string(), shown_value(entry).to_owned(), from];
        if args.docs {
            row.push(entry.documentation.as_deref().unwrap_or("-").to_owned());
        }
        rows.push(row);
    }
    format!("{resource}\n{}", columns(&rows))
}

fn json((resource, entries): &(Resource, Vec<ConfigEntry>)) -> String {
    let entries = entries.iter().map(|entry| {
        format!(
            "{{\"name\":{},\"value\":{},\"from\":{},\"readOnly\":{},\"sensitive\":{},\"documentation\":{}}}",
            json_text(&entry.name),
            nullable(entry.value.as_ref()),
            json_text(place(entry.source)),
            entry.is_read_only,
            entry.is_sensitive,
            nullable(entry.documentation.as_ref())
        )
    });
    let entries: Vec<String> = entries.collect();
    format!(
        "{{\"resource\":{},\"configs\":[{}]}}",
        json_text(&resource.to_string()),
        entries.join(",")
    )
}

fn nullable(text: Option<&Str>) -> String {
    text.map_or_else(|| "null".to_owned(), |text| json_text(text))
}

async fn set(admin: Configs, args: ConfigSetArgs) -> Result<(), CliError> {
    type Make = fn(Str, Str) -> ConfigChange;
    let changes = |settings: &[Setting], make: Make| -> Vec<ConfigChange> {
        let changes = settings.iter();
        changes
            .map(|setting| make(setting.name.as_str().into(), setting.value.as_str().into()))
            .collect()
    };
    let mut all = changes(&args.settings, ConfigChange::Set);
    all.extend(changes(&args.append, ConfigChange::Append));
    all.extend(changes(&args.subtract, ConfigChange::Subtract));
    alter(&admin, &args.resource, &all, args.validate_only).await
}

async fn delete(admin: Configs, args: ConfigDeleteArgs) -> Result<(), CliError> {
    let changes = args.keys.iter();
    let changes: Vec<ConfigChange> = changes
        .map(|key| ConfigChange::Delete(key.as_str().into()))
        .collect();
    alter(&admin, &args.resource, &changes, args.validate_only).await
}

async fn alter(
    admin: &Configs,
    resource: &Resource,
    changes: &[ConfigChange],
    validate_only: bool,
) -> Result<(), CliError> {
    let Resource(changed) = resource;
    let outcome = admin.alter_configs(changed, changes, validate_only).await;
    outcome.map_err(failed)?;
    if validate_only {
        print(&format!("{resource} could be changed\n"))
    } else {
        print(&format!("changed {resource}\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: a description reads as a table, and as JSON. Method: a value that is set, a secret and a null.
    #[test]
    fn descriptions() {
        let entry = |name: &str, value: Option<&str>, source: Source| ConfigEntry {
            name: name.into(),
            value: value.map(Str::from),
            source: source.code(),
            is_read_only: name == "node.id",
            is_sensitive: name == "password",
            documentation: Some("Words.".into()),
        };
        let entries = vec![
            entry("node.id", Some("1"), Source::StaticBroker),
            entry("password", None, Source::DynamicBroker),
            entry("rack", None, Source::Default),
        ];
        let resource = Resource(ConfigResource::Broker(1));
        let args = ConfigDescribeArgs {
            resources: Vec::new(),
            all: true,
            docs: false,
            output: Output::Table,
            connect: crate::args::Connect {
                bootstrap: "h:1".parse().expect("an address"),
                timeout: 1,
            },
        };
        assert_eq!(
            table(&resource, &entries, &args),
            "broker:1\nNAME      VALUE     FROM\nnode.id   1         file, read-only\n\
             password  (secret)  broker\nrack      (null)    default\n"
        );
        assert_eq!(
            json(&(resource, entries[..1].to_vec())),
            "{\"resource\":\"broker:1\",\"configs\":[{\"name\":\"node.id\",\"value\":\"1\",\
             \"from\":\"file\",\"readOnly\":true,\"sensitive\":false,\"documentation\":\"Words.\"}]}"
        );
        assert!(is_set(
            &ConfigResource::Broker(1),
            &entry("a", None, Source::DynamicBroker)
        ));
        assert!(!is_set(
            &ConfigResource::Broker(1),
            &entry("a", None, Source::Default)
        ));
    }
}
