//! `pelton serve`: settings, checks of the machine, three lines to the operator, then the broker.

mod entry;
mod settings;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use pelton_broker::loggers::Loggers;
use pelton_model::config::broker::BrokerConfig;
use pelton_model::config::listener::HostPort;
use pelton_transport::{checks, cores};

use self::entry::ServeOptions;
use self::settings::Settings;
use crate::allocator;
use crate::args::{Cores, ServeArgs};
use crate::doctor;
use crate::error::CliError;
use crate::output;

/// Starts a broker and returns when it was asked to stop.
pub(crate) fn run(args: &ServeArgs, loggers: Arc<dyn Loggers>) -> Result<(), CliError> {
    let hostname = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let settings = settings::load(args, &hostname)?;
    report_names(&settings, args.strict)?;
    let (cores, pinned) = placement(args.cores.as_ref())?;
    let lacking = machine()?;
    let banner = banner(&settings.config, &cores, pinned, &lacking);
    let options = ServeOptions {
        cores,
        pinned,
        spin: Duration::from_micros(u64::from(args.spin)),
        on_listening: Box::new(move |bound| output::say(&banner.lines(bound))),
        loggers,
    };
    entry::run(settings.config, options).map_err(|error| CliError::failed(error.to_string()))
}

/// Tells what settings have no effect; unknown ones are warnings, or with `--strict` the end.
fn report_names(settings: &Settings, strict: bool) -> Result<(), CliError> {
    let unknown = settings.unknown_lines();
    if strict && let Some(first) = unknown.first() {
        let more = match unknown.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        return Err(CliError::with_remedy(
            format!("{first}{more}"),
            "correct it, or start without --strict",
        ));
    }
    for line in unknown {
        output::warning_line(&line);
    }
    let review = &settings.review;
    if !review.without_effect.is_empty() {
        let names = review.without_effect.join(", ");
        tracing::info!(%names, "settings accepted without effect");
    }
    if !review.retired.is_empty() {
        let names = review.retired.join(", ");
        tracing::info!(%names, "settings that Kafka 4 no longer has");
    }
    for note in &settings.config.notes {
        tracing::info!("{note}");
    }
    Ok(())
}

/// Which cores get a shard, and whether it stays there.
fn placement(asked: Option<&Cores>) -> Result<(Vec<usize>, bool), CliError> {
    let available = cores::available();
    match asked {
        None => Ok((available, true)),
        Some(Cores::Count(count)) => Ok(((0..*count).collect(), false)),
        Some(Cores::List(list)) => match list.iter().find(|core| !available.contains(core)) {
            None => Ok((list.clone(), true)),
            Some(core) => Err(CliError::with_remedy(
                format!(
                    "cannot pin a shard to core {core}: this process may use {}",
                    ranges(&available)
                ),
                "name only those in --cores, or widen its CPU set (taskset, cgroup)",
            )),
        },
    }
}

/// Takes from the machine what it gives; an error when a broker cannot run at all.
fn machine() -> Result<Vec<String>, CliError> {
    let limits = checks::raise_limits();
    checks::io_uring().map_err(|refused| {
        CliError::with_remedy(refused.to_string(), doctor::io_uring_remedy(&refused))
    })?;
    let mut lacking = Vec::new();
    if limits.is_err() {
        lacking.push("the limit of open files could not be raised".to_owned());
    }
    if allocator::keep_to_small_pages().is_err() {
        lacking.push("huge pages could not be switched off: it will hold more memory".to_owned());
    }
    lacking.extend(doctor::shortcomings());
    Ok(lacking)
}

/// What the operator is told once the broker serves; only the ports are still open.
struct Banner {
    node: String,
    told: Vec<(String, u16)>,
    data: String,
    machine: String,
}

fn banner(config: &BrokerConfig, cores: &[usize], pinned: bool, lacking: &[String]) -> Banner {
    let shards = match (cores, pinned) {
        (cores, true) => format!("cores {}", ranges(cores)),
        ([_], false) => "1 shard, not pinned".to_owned(),
        (cores, false) => format!("{} shards, not pinned", cores.len()),
    };
    let machine = if lacking.is_empty() {
        format!("{shards}; nothing is missing")
    } else {
        format!("{shards}; {}", lacking.join("; "))
    };
    Banner {
        node: config.node_id.to_string(),
        told: config
            .advertised_listeners
            .iter()
            .map(|listener| (listener.host.clone(), listener.port))
            .collect(),
        data: directories(config),
        machine,
    }
}

/// Every directory, as configured.
fn directories(config: &BrokerConfig) -> String {
    let mut named: Vec<String> = config
        .log_dirs
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    if !config.log_dirs.contains(&config.metadata_log_dir) {
        named.push(format!("{} (metadata)", config.metadata_log_dir.display()));
    }
    named.join(", ")
}

impl Banner {
    fn lines(&self, bound: &[SocketAddr]) -> String {
        let addresses: Vec<_> = bound.iter().map(ToString::to_string).collect();
        let told: Vec<_> = self
            .told
            .iter()
            .zip(bound)
            .map(|((host, port), bound)| {
                let port = if *port == 0 { bound.port() } else { *port };
                HostPort(host, port).to_string()
            })
            .collect();
        let aside = if told == addresses {
            String::new()
        } else {
            format!(" (clients are told {})", told.join(", "))
        };
        let addresses = addresses.join(", ");
        format!(
            "pelton {} node {} listening on {addresses}{aside}\ndata in {}\n{}",
            env!("CARGO_PKG_VERSION"),
            self.node,
            self.data,
            self.machine
        )
    }
}

/// Shows sorted numbers with ranges: `0-2,5`.
pub(crate) fn ranges(numbers: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            Some(_) | None => parts.push((number, number)),
        }
    }
    parts
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Goal: the start says where, with the real port, and what clients hear when it differs. Method: three listeners.
    #[test]
    fn three_lines() {
        fn check(told: (&str, u16), bound: &str, expected: &str) {
            let banner = Banner {
                node: "1".to_owned(),
                told: vec![(told.0.to_owned(), told.1)],
                data: "/d".to_owned(),
                machine: "cores 0-1; nothing is missing".to_owned(),
            };
            let text = banner.lines(&[bound.parse().expect("an address")]);
            let (first, rest) = text.split_once('\n').expect("three lines");
            assert_eq!(
                first.split_once(" node ").map(|(_, rest)| rest),
                Some(expected)
            );
            assert_eq!(rest, "data in /d\ncores 0-1; nothing is missing");
        }
        check(
            ("127.0.0.1", 9092),
            "127.0.0.1:9092",
            "1 listening on 127.0.0.1:9092",
        );
        check(
            ("127.0.0.1", 0),
            "127.0.0.1:4711",
            "1 listening on 127.0.0.1:4711",
        );
        check(
            ("h", 1),
            "0.0.0.0:9092",
            "1 listening on 0.0.0.0:9092 (clients are told h:1)",
        );
    }

    // Goal: core lists read well. Method: a table.
    #[test]
    fn core_ranges() {
        fn check(numbers: &[usize], expected: &str) {
            assert_eq!(ranges(numbers), expected);
        }
        check(&[], "");
        check(&[3], "3");
        check(&[0, 1, 2, 5, 7, 8], "0-2,5,7-8");
    }

    // Goal: counts are not pinned, foreign cores are refused with the remedy. Method: each form.
    #[test]
    fn placements() {
        assert_eq!(placement(Some(&Cores::Count(2))), Ok((vec![0, 1], false)));
        let own = cores::available();
        assert_eq!(placement(None), Ok((own.clone(), true)));
        assert_eq!(placement(Some(&Cores::List(own.clone()))), Ok((own, true)));
        let error = placement(Some(&Cores::List(vec![9999]))).expect_err("no such core");
        assert!(error.to_string().contains("core 9999"), "{error}");
    }
}
