//! `pelton doctor`: what this machine offers a broker, and what to do about the rest.
//!
//! The facts come from the transport's checks and from `/proc` and `/sys`; the verdicts and remedies are made here, by
//! pure functions over those facts. The start of a broker uses the same verdicts for its third line.

mod facts;
mod verdict;

use std::io::{self, Write};

use pelton_transport::checks::IoUringRefused;

use self::verdict::{Finding, Grade};
use crate::args::DoctorArgs;
use crate::error::CliError;
use crate::output::{self, Colour};

/// Checks everything and prints a table; an error when a broker would not start.
pub(crate) fn run(args: &DoctorArgs) -> Result<(), CliError> {
    let findings = verdict::all(&facts::gather(&args.data_dir));
    let colour = output::stdout_colour();
    let text: String = findings
        .iter()
        .map(|finding| shown(finding, colour))
        .collect();
    output::written(io::stdout().lock().write_all(text.as_bytes()))?;
    let failed = findings
        .iter()
        .filter(|finding| finding.grade == Grade::Fails)
        .count();
    if failed == 0 {
        Ok(())
    } else {
        Err(CliError::failed(format!(
            "a broker does not run here: {failed} of {} checks failed",
            findings.len()
        )))
    }
}

fn shown(finding: &Finding, colour: bool) -> String {
    let (word, paint) = match finding.grade {
        Grade::Fine => ("ok  ", Colour::Green),
        Grade::Costs => ("warn", Colour::Yellow),
        Grade::Fails => ("FAIL", Colour::Red),
    };
    let word = output::paint(word, paint, colour);
    let mut lines = format!("{word}  {:<11} {}\n", finding.subject, finding.found);
    if let Some(cost) = &finding.cost {
        lines.push_str(&format!("                  {cost}\n"));
    }
    if let Some(remedy) = &finding.remedy {
        let arrow = output::paint("→", Colour::Dim, colour);
        lines.push_str(&format!("                  {arrow} {remedy}\n"));
    }
    lines
}

/// What to do when the kernel refuses io_uring.
pub(crate) fn io_uring_remedy(refused: &IoUringRefused) -> String {
    verdict::io_uring_remedy(refused)
}

/// What a broker that starts now lacks and what that costs, one sentence each.
pub(crate) fn shortcomings() -> Vec<String> {
    verdict::machine(&facts::machine())
        .into_iter()
        .filter(|finding| finding.grade != Grade::Fine)
        .map(|finding| {
            let cost = finding
                .cost
                .map(|cost| format!(" ({cost})"))
                .unwrap_or_default();
            format!("{}: {}{cost}", finding.subject, finding.found)
        })
        .collect()
}
