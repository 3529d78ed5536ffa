//! Makes a sequence that shows a difference small: fewer requests, then fewer fields and elements.

use super::step::{Damage, Step};
use super::value::Value;

/// The smallest sequence found that `shows` the same; `budget` bounds how often it is asked.
pub fn shrink(
    steps: Vec<Step>,
    mut budget: usize,
    mut shows: impl FnMut(&[Step]) -> bool,
) -> Vec<Step> {
    let mut best = steps;
    while let Some(smaller) = first(&best, &mut budget, &mut shows) {
        best = smaller;
    }
    best
}

fn first(
    steps: &[Step],
    budget: &mut usize,
    shows: &mut impl FnMut(&[Step]) -> bool,
) -> Option<Vec<Step>> {
    candidates(steps).find(|candidate| {
        let may_ask = *budget > 0;
        *budget = budget.saturating_sub(1);
        may_ask && shows(candidate)
    })
}

/// Sequences that are a little smaller, the much smaller first.
fn candidates(steps: &[Step]) -> impl Iterator<Item = Vec<Step>> {
    let halves = (1..steps.len()).rev().filter(|_| steps.len() > 3).step_by(3);
    let ends = halves.map(|end| steps[..end].to_vec()).collect::<Vec<_>>();
    let without = (0..steps.len()).rev().map(move |place| {
        let mut fewer = steps.to_vec();
        fewer.remove(place);
        fewer
    });
    let simpler = (0..steps.len()).rev().flat_map(move |place| {
        let simpler = simpler_steps(&steps[place]).into_iter();
        simpler.map(move |step| {
            let mut changed = steps.to_vec();
            changed[place] = step;
            changed
        })
    });
    ends.into_iter().rev().chain(without).chain(simpler).filter(|steps| !steps.is_empty())
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
