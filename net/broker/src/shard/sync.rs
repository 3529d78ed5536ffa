//! When logs are synced, and many at once.
//!
//! Invariants:
//! 1. At most [`AT_ONCE_MAX`] logs of a shard are under way in one sweep: the disk shares its work among those, and each holds files.
//!
//! Not here: what a sync of one log is (`storage::log`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use pelton_model::task::Notify;
use pelton_transport::net::{Net, TaskClass};

/// Logs that are worked on at once.
pub(crate) const AT_ONCE_MAX: usize = 64;

/// Does `work` for each of `items`, [`AT_ONCE_MAX`] at a time, and waits until all is done.
pub(crate) async fn for_each<N: Net, T: 'static, F: Future<Output = ()>>(
    net: &N,
    class: TaskClass,
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> F + 'static,
) {
    struct Sweep<T, W> {
        items: RefCell<VecDeque<T>>,
        work: W,
        workers: Cell<usize>,
        done: Notify,
    }
    let items: VecDeque<T> = items.into_iter().collect();
    let workers = items.len().min(AT_ONCE_MAX);
    if workers == 0 {
        return;
    }
    let sweep = Rc::new(Sweep {
        items: RefCell::new(items),
        work,
        workers: Cell::new(workers),
        done: Notify::default(),
    });
    for _ in 0..workers {
        let sweep = Rc::clone(&sweep);
        net.spawn(class, async move {
            loop {
                let next = sweep.items.borrow_mut().pop_front();
                let Some(item) = next else { break };
                (sweep.work)(item).await;
            }
            sweep.workers.set(sweep.workers.get() - 1);
            if sweep.workers.get() == 0 {
                sweep.done.notify();
            }
        });
    }
    sweep.done.notified().await;
}
