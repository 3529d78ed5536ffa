//! Makes a sequence that shows a difference small: fewer requests, then fewer fields and elements.
//!
//! Invariants:
//! 1. Each cut is tried where the last one stood, not from the beginning again: so many attempts as the sequence has parts.
//! 2. The last step stays: it is the one that shows the difference.

use super::step::{Damage, Step};
use super::value::Value;

/// The smallest sequence found that `shows` the same; it is asked `attempts` times at most.
pub fn shrink(
    steps: Vec<Step>,
    attempts: usize,
    mut shows: impl FnMut(&[Step]) -> bool,
) -> Vec<Step> {
    let mut left = attempts;
    let mut ask = |candidate: &[Step]| {
        let may_ask = left > 0;
        left = left.saturating_sub(1);
        may_ask && shows(candidate)
    };
    let mut best = fewer_steps(steps, &mut ask);
    for place in (0..best.len()).rev() {
        best = simpler_step(best, place, &mut ask);
    }
    best
}

/// Takes steps out, half of them first, then quarters, in the end one by one.
fn fewer_steps(mut best: Vec<Step>, ask: &mut impl FnMut(&[Step]) -> bool) -> Vec<Step> {
    let mut chunk = best.len().saturating_sub(1);
    while chunk > 0 {
        let mut place = 0;
        while place + 1 < best.len() {
            let end = (place + chunk).min(best.len() - 1);
            let candidate = [&best[..place], &best[end..]].concat();
            if ask(&candidate) {
                best = candidate;
            } else {
                place = end;
            }
        }
        chunk /= 2;
    }
    best
}

/// Makes one step simpler, as often as that shows the same.
fn simpler_step(
    mut best: Vec<Step>,
    place: usize,
    ask: &mut impl FnMut(&[Step]) -> bool,
) -> Vec<Step> {
    let mut at = 0;
    while let Some(simpler) = simpler_steps(&best[place]).into_iter().nth(at) {
        let mut candidate = best.clone();
        candidate[place] = simpler;
        if ask(&candidate) {
            best = candidate;
        } else {
            at += 1;
        }
    }
    best
}

fn simpler_steps(step: &Step) -> Vec<Step> {
    let mut all = Vec::new();
    if step.damage != Damage::None {
        all.push(Step { damage: Damage::None, ..step.clone() });
    }
    if step.actor != 0 {
        all.push(Step { actor: 0, ..step.clone() });
    }
    all.extend(simpler_values(&step.body).into_iter().map(|body| Step { body, ..step.clone() }));
    all
}

/// Values with one field or element less.
fn simpler_values(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Struct(fields) => {
            for place in 0..fields.len() {
                let mut fewer = fields.clone();
                fewer.remove(place);
                all.push(Value::Struct(fewer));
            }
            for (place, (_, inner)) in fields.iter().enumerate() {
                for simpler in simpler_values(inner) {
                    let mut changed = fields.clone();
                    changed[place].1 = simpler;
                    all.push(Value::Struct(changed));
                }
            }
        }
        Value::List(items) => {
            for place in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(place);
                all.push(Value::List(fewer));
            }
            for (place, inner) in items.iter().enumerate() {
                for simpler in simpler_values(inner) {
                    let mut changed = items.clone();
                    changed[place] = simpler;
                    all.push(Value::List(changed));
                }
            }
        }
        _ => {}
    }
    all
}
