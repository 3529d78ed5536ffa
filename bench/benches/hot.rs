//! The hot functions of `pelton_bench::hot` by the clock.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use pelton_bench::hot;

fn hot(criterion: &mut Criterion) {
    pelton_model::map::seed(1);
    let mut group = criterion.benchmark_group("hot");
    for name in hot::NAMES {
        let mut case = hot::find(name).expect("each name has a case");
        group.bench_function(name, |bench| bench.iter(|| (case.step)()));
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(700));
    targets = hot
}
criterion_main!(benches);
