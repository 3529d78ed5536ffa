//! Each fuzz target on a bounded number of mutated inputs, on stable Rust.
//!
//! Goal: no bytes make a decoder panic, and what it accepts survives a round trip. Method: inputs that decode (captured
//! frames, built batches) and random ones are mutated with a fixed seed (`PELTON_SEED` sets another) and given to every
//! target; the whole fuzzer is `cargo +nightly fuzz run NAME` in `tests/`.

#[path = "../fuzz/src/targets.rs"]
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use pelton_tests::batch::{Batch, Record};
use pelton_tests::peer::own_file;

/// Inputs per target; the time ends slow ones earlier.
const INPUTS: usize = 20_000;
const TIME: Duration = Duration::from_secs(4);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Bytes worth mutating: bodies of captured frames behind their version, whole requests, batches, text files.
fn corpus() -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new(), vec![0; 64]];
    for entry in std::fs::read_dir(own_file("golden")).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            continue;
        }
        for line in std::fs::read_to_string(&path).expect("text").lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, version, request, response] = words[..] else { continue };
            let Ok(version) = version.parse::<u8>() else { continue };
            let (request, response) = (unhex(request), unhex(response));
            let id = usize::from(u16::from_be_bytes([request[8], request[9]]));
            for (frame, header) in
                [(&request, 10 + id), (&request, 11 + id), (&response, 4), (&response, 5)]
            {
                all.push([&[version], frame.get(header..).unwrap_or_default()].concat());
            }
            all.push(request);
        }
    }
    let headers = [2_u8, b'h', 2, b'v'].to_vec();
    let full = Record { header_count: 1, extra: headers, ..Record::at(0) };
    let batch = Batch::with(vec![full, Record { key: None, ..Record::at(1) }]);
    all.push([&[0, 2], batch.payload.as_slice()].concat());
    all.extend([
        batch.build(),
        batch.clone().by(7, 0, 0).build(),
        [batch.build(), Batch::of(3).build()].concat(),
    ]);
    all.push([&[9, 0, 0, 0, 12], [7; 12].as_slice(), &[0, 0, 0, 12, 0]].concat());
    for text in [
        "0\n2\ntopic 0 5\ntopic 1 7\n",
        "0\n1\n0 0\n",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
        "#\nversion=1\ncluster.id=abc\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
        "{\"version\":0,\"brokerEpoch\":5}",
    ] {
        all.push(text.as_bytes().to_vec());
    }
    all
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digits).collect()
}

/// One to four changes: a bit, a byte that means much, a run removed, doubled or from elsewhere, a cut, rubbish.
fn mutate(random: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    const TELLING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xfe, 0x40, 2];
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let end = at + random.below(bytes.len() - at.min(bytes.len())).min(40);
        match random.below(8) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            1 if !bytes.is_empty() => bytes[at] = TELLING[random.below(TELLING.len())],
            2 if end + 4 <= bytes.len() => {
                bytes[end..end + 4].fill(TELLING[random.below(TELLING.len())])
            }
            3 if end <= bytes.len() => drop(bytes.drain(at..end)),
            4 if end <= bytes.len() => {
                let run = bytes[at..end].to_vec();
                bytes.splice(at..at, run);
            }
            5 => bytes.truncate(at),
            6 => {
                let other = &corpus[random.below(corpus.len())];
                let from = random.below(other.len());
                bytes.splice(at..at, other[from..].iter().take(40).copied());
            }
            _ => bytes.extend(
                (0..random.below(20)).map(|_| random.next().to_be_bytes()[0]).collect::<Vec<_>>(),
            ),
        }
    }
    bytes
}

// Goal: what is mutated has frames of many APIs, batches and text files; `PELTON_FUZZ_CORPUS` names a folder that gets them as files, for the
// whole fuzzer. Method: the corpus is counted.
#[test]
fn corpus_has_what_it_promises() {
    let mut corpus = corpus();
    corpus.sort_unstable();
    corpus.dedup();
    assert!(corpus.len() > 300, "only {} inputs", corpus.len());
    let Some(folder) = std::env::var_os("PELTON_FUZZ_CORPUS").map(std::path::PathBuf::from) else {
        return;
    };
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    for (number, bytes) in corpus.iter().enumerate() {
        std::fs::write(folder.join(number.to_string()), bytes).expect("the folder takes files");
    }
}

/// Every target takes every input.
#[test]
fn targets_take_anything() {
    let seed =
        std::env::var("PELTON_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
    println!("PELTON_SEED={seed}");
    let corpus = corpus();
    let mut failures = Vec::new();
    for (name, run) in targets::all() {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let begin = Instant::now();
        let mut inputs = 0;
        while inputs < INPUTS && begin.elapsed() < TIME {
            let bytes = match corpus.get(inputs) {
                Some(bytes) => bytes.clone(),
                None => mutate(&mut random, &corpus),
            };
            inputs += 1;
            if catch_unwind(AssertUnwindSafe(|| run(&bytes))).is_err() {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                failures.push(format!("{name}: {hex}"));
                break;
            }
        }
        assert!(inputs > 500 || !failures.is_empty(), "{name} took {inputs} inputs in {TIME:?}");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The fuzzer's manifest has a binary for each target and no other.
#[test]
fn each_target_has_a_binary() {
    let manifest =
        std::fs::read_to_string(own_file("fuzz/Cargo.toml")).expect("the manifest is there");
    let names = manifest.lines().filter_map(|line| line.strip_prefix("name = \""));
    let mut listed: Vec<&str> = names.map(|rest| rest.trim_end_matches('"')).collect();
    listed.retain(|name| *name != "pelton-fuzz");
    listed.sort_unstable();
    let mut names: Vec<String> = targets::all().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(listed, names);
}
