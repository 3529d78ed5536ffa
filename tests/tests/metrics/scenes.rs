//! In the simulator.

use pelton_tests::prometheus::{Scrape, parse};
use pelton_tests::sim::stage::{METRICS, Stage, play};
use serde_json::Value;

fn get(stage: &Stage, request: &'static [u8]) -> String {
    let answer = stage.http(request);
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
    body.to_owned()
}

pub(crate) fn scrape(stage: &Stage) -> Scrape {
    let text = get(stage, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    parse(&text).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"))
}

fn json(stage: &Stage, request: &'static [u8]) -> Value {
    serde_json::from_str(&get(stage, request)).expect("JSON")
}

/// Plays a scene on three shards with a metrics port.
pub(crate) fn scene(seed: u64, config: &[(&str, &str)], scene: impl FnOnce(&mut Stage)) {
    let mut all = vec![("metrics.listener", METRICS)];
    all.extend(config);
    play(seed, 3, &all, scene).unwrap_or_else(|report| panic!("{report}"));
}

// Goal: counters equal what was done, over all shards. Method: a known number of requests to partitions of three shards, some refused.
#[test]
fn counters_equal_the_workload() {
    scene(1, &[], |stage| {
        let topic = stage.create_topic("topic", 6, &[]);
        let before = scrape(stage);
        let produced = |scrape: &Scrape| scrape.get("pelton_requests_total", &[("api", "Produce")]);
        assert_eq!(produced(&before), None);
        for number in 0..12 {
            assert_eq!(stage.produce(&topic, number % 6, -1, 3).0, 0);
        }
        for _ in 0..2 {
            assert_eq!(stage.produce(&topic, 99, 1, 1).0, 3);
        }
        assert_eq!(stage.fetch(&topic, 0, 0).0, 0);
        assert_eq!(stage.fetch(&topic, 0, 7).0, 1);
        let now = scrape(stage);
        let check = |name: &str, labels: &[(&str, &str)], expected: f64| {
            assert_eq!(now.get(name, labels), Some(expected), "{name} {labels:?}");
        };
        assert_eq!(produced(&now), Some(14.0));
        check("pelton_requests_total", &[("api", "Fetch")], 2.0);
        let unknown = [("api", "Produce"), ("code", "UNKNOWN_TOPIC_OR_PARTITION")];
        check("pelton_request_errors_total", &unknown, 2.0);
        let out_of_range = [("api", "Fetch"), ("code", "OFFSET_OUT_OF_RANGE")];
        check("pelton_request_errors_total", &out_of_range, 1.0);
        check("pelton_request_duration_seconds_count", &[("api", "Produce")], 14.0);
        let of_topic = [("api", "Produce"), ("topic", "topic")];
        check("pelton_topic_request_duration_seconds_count", &of_topic, 14.0);
        let of_client = [("api", "Produce"), ("client_id", "producer")];
        check("pelton_client_request_duration_seconds_count", &of_client, 14.0);
        assert_eq!(now.sum("pelton_append_batches_total"), 12.0);
        assert_eq!(now.sum("pelton_partition_high_watermark"), 36.0);
        assert_eq!(now.sum("pelton_partition_log_end_offset"), 36.0);
        check("pelton_partition_log_segments", &[("topic", "topic"), ("partition", "5")], 1.0);
        check("pelton_partitions", &[], 6.0);
        let bytes = now.sum("pelton_append_bytes_total");
        assert_eq!(bytes, now.sum("pelton_partition_log_bytes"));
        let request_bytes = now.get("pelton_request_bytes_total", &[("api", "Produce")]);
        assert!(request_bytes.expect("counted") > bytes);
        assert_eq!(now.sum("pelton_shard_up"), 3.0);
        check("pelton_ready", &[], 1.0);
        check("pelton_log_dir_offline", &[("dir", "/data")], 0.0);
    });
}

// Goal: a fetch that waits as it asked to is not slow; its wait is told apart. Method: a fetch of 500 ms with nothing to read.
#[test]
fn waits_are_told_apart() {
    scene(2, &[("slow.request.threshold.ms", "0")], |stage| {
        let topic = stage.create_topic("topic", 1, &[]);
        stage.fetch_waiting(&topic, 500);
        let slow = json(stage, b"GET /slow.json HTTP/1.1\r\n\r\n");
        let requests = slow["requests"].as_array().expect("a list");
        let fetch = requests.iter().find(|row| row["api"] == "Fetch").expect("kept: 0 ms and more");
        let wait_ns = fetch["stages_ns"]["wait"].as_u64().expect("it waited");
        assert!((450_000_000..600_000_000).contains(&wait_ns), "{fetch}");
        assert!(fetch["total_ns"].as_u64().expect("a number") >= wait_ns);
        let latency = json(stage, b"GET /latency.json HTTP/1.1\r\n\r\n");
        let apis = latency["apis"].as_array().expect("a list");
        let fetch = apis.iter().find(|row| row["api"] == "Fetch").expect("counted");
        assert!(fetch["max_ns"].as_u64().expect("a number") < 100_000_000, "{fetch}");
    });
}

// Goal: stages of appends are where the time went, also across shards. Method: durable appends to partitions of three shards, on a disk
// whose syncs take time.
#[test]
fn stages_of_appends() {
    let config = [("slow.request.threshold.ms", "0"), ("log.sync.policy", "group")];
    scene(3, &config, |stage| {
        let topic = stage.create_topic("topic", 6, &[]);
        for number in 0..60 {
            assert_eq!(stage.produce(&topic, number % 6, -1, 1).0, 0);
        }
        let slow = json(stage, b"GET /slow.json HTTP/1.1\r\n\r\n");
        let requests = slow["requests"].as_array().expect("a list");
        let produced: Vec<&Value> = requests.iter().filter(|row| row["api"] == "Produce").collect();
        assert_eq!(produced.len(), 60);
        let having = |stage: &str| {
            produced.iter().filter(|row| row["stages_ns"][stage].as_u64() > Some(0)).count()
        };
        // The simulated disk often takes no time at all.
        assert!(having("sync") > 5, "{slow}");
        assert!(having("mesh") > 5, "{slow}");
        for row in &produced {
            let stages = row["stages_ns"].as_object().expect("an object");
            let sum: u64 = stages.values().filter_map(Value::as_u64).sum();
            assert_eq!(row["total_ns"].as_u64(), Some(sum));
            assert_eq!((&row["topic"], &row["client_id"]), (&"topic".into(), &"producer".into()));
        }
        assert_eq!(scrape(stage).sum("pelton_syncs_total"), 60.0);
    });
}

// Goal: names and partitions are bounded, sums stay whole, the slow list forgets the oldest. Method: more of each than there is room for.
#[test]
fn cardinality_is_bounded() {
    let config = [
        ("metrics.series.max", "4"),
        ("metrics.partitions.max", "2"),
        ("slow.request.threshold.ms", "0"),
    ];
    scene(4, &config, |stage| {
        let topic = stage.create_topic("topic", 7, &[]);
        for number in 0..500 {
            assert_eq!(stage.produce_as(format!("client-{number}"), &topic, number % 7), 0);
        }
        let now = scrape(stage);
        let name = "pelton_client_request_duration_seconds_count";
        let clients: Vec<_> =
            now.of(name).filter(|(labels, _)| labels["api"] == "Produce").collect();
        assert!(clients.len() <= 3 * 4 + 1, "{clients:?}");
        assert_eq!(clients.iter().map(|(_, count)| count).sum::<f64>(), 500.0);
        assert!(clients.iter().any(|(labels, _)| labels["client_id"] == "(other)"));
        let partitions: Vec<_> = now.of("pelton_partition_log_end_offset").collect();
        let told: Vec<&str> = partitions.iter().map(|(l, _)| l["partition"].as_str()).collect();
        assert_eq!(told, ["0", "1"]);
        assert_eq!(now.get("pelton_partitions", &[]), Some(7.0));
        assert_eq!(now.get("pelton_other_partitions", &[]), Some(5.0));
        let of_all = now.get("pelton_partitions_log_bytes", &[]);
        assert_eq!(of_all, Some(now.sum("pelton_append_bytes_total")));
        assert!(now.sum("pelton_slow_requests_total") >= 500.0);
        let slow = json(stage, b"GET /slow.json HTTP/1.1\r\n\r\n");
        let kept = slow["requests"].as_array().expect("a list").len();
        assert!((128..=3 * 128).contains(&kept), "{kept}");
    });
}

// Goal: the port answers while logs are recovered, and says how far that is. Method: kill -9, a start on a slow disk, asked all the while.
#[test]
fn readiness_during_recovery() {
    scene(5, &[], |stage| {
        let topic = stage.create_topic("topic", 60, &[]);
        for partition in 0..60 {
            assert_eq!(stage.produce(&topic, partition, 1, 5).0, 0);
        }
        let answers = stage.restart_watched(b"GET /readyz HTTP/1.1\r\n\r\n");
        let mut phases: Vec<String> = Vec::new();
        let mut has_progress = false;
        for answer in &answers {
            let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
            let document: Value = serde_json::from_str(body).expect("JSON");
            let is_ready = document["ready"] == true;
            assert_eq!(head.starts_with("HTTP/1.1 200 "), is_ready, "{answer}");
            assert_eq!(head.starts_with("HTTP/1.1 503 "), !is_ready, "{answer}");
            let phase = document["phase"].as_str().expect("a phase").to_owned();
            if phases.last() != Some(&phase) {
                phases.push(phase);
            }
            let shards = document["shards"].as_array().expect("a list");
            has_progress |= shards.iter().any(|shard| {
                let (open, all) = (shard["logs_open"].as_u64(), shard["logs"].as_u64());
                Some(0) < open && open < all
            });
        }
        let expected = ["starting", "recovering"];
        assert_eq!(phases[..2], expected, "{phases:?}");
        assert!(has_progress, "{answers:?}");
        assert_eq!(json(stage, b"GET /readyz HTTP/1.1\r\n\r\n")["phase"], "serving");
    });
}

// Goal: any bytes are answered or closed, and nobody is kept from the port for long. Method: odd requests, silent peers, then a scrape.
#[test]
fn hostile_requests() {
    scene(6, &[], |stage| {
        let check = |request: &'static [u8], expected: &str| {
            let answer = stage.http(request);
            assert!(answer.starts_with(expected), "{request:?}: {answer}");
        };
        check(b"GET /healthz HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK");
        check(b"GET /nothing HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ");
        check(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 ");
        check(b"\x00\x00\x00\x10\x00\x12\x00\x03\x00\x00\x00\x01", "HTTP/1.1 400 ");
        check(b"GET /metrics HTTP/1.1\r\nHost", "HTTP/1.1 408 ");
        check(b"", "HTTP/1.1 408 ");
        check(&[b'a'; 100_000], "HTTP/1.1 4");
        let answer = stage.http(b"HEAD /healthz HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\n"));
        stage.http_silently(40);
        assert_eq!(get(stage, b"GET /healthz HTTP/1.1\r\n\r\n"), "ok\n");
    });
}
