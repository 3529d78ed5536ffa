//! Starting and stopping shards.

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use pelton_model::ShardId;
    use pelton_transport::boot::{BootError, BootOptions, ShardContext, StopHandle, run_shards};
    use pelton_transport::net::{Net, TaskClass};

    type Context = ShardContext<()>;

    // Goal: a request to stop reaches every shard, whoever makes it. Method: one shard asks, two wait.
    #[test]
    fn stop_by_handle() {
        let stopped = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&stopped);
        let main = move |context: Context| {
            let counter = Arc::clone(&counter);
            async move {
                if context.shard == ShardId(2) {
                    let deadline = context.net.now().plus_ms(10);
                    context.net.sleep_until(deadline).await;
                    context.stop.request();
                }
                context.stop().await;
                counter.fetch_add(1, Ordering::SeqCst);
                Ok::<(), Infallible>(())
            }
        };
        run_shards(&BootOptions::unpinned(3), main).unwrap();
        assert_eq!(stopped.load(Ordering::SeqCst), 3);
    }

    // Goal: stopping before the start is not lost. Method: ask first.
    #[test]
    fn stop_before_the_start() {
        let options = BootOptions {
            stop: StopHandle::new(),
            ..BootOptions::default()
        };
        options.stop.request();
        let main = |context: Context| async move {
            assert_eq!(context.shard_count, 1);
            context.stop().await;
            Ok::<(), Infallible>(())
        };
        run_shards(&options, main).unwrap();
    }

    // Goal: the first error stops all shards and is the one told. Method: one fails, the others fail later by it.
    #[test]
    fn the_first_error_is_told() {
        let main = |context: Context| async move {
            if context.shard == ShardId(1) {
                return Err("first");
            }
            context.stop().await;
            // A shard has ended: nobody waits for it.
            assert!(!context.meeting().all_arrived().await);
            Err("second")
        };
        let error = run_shards(&BootOptions::unpinned(2), main).unwrap_err();
        let BootError::Shard { shard, source } = error else {
            panic!("{error}");
        };
        assert_eq!((shard, source), (ShardId(1), "first"));
    }

    // Goal: a panic (where it unwinds) ends the run like an error. Method: panic on one shard.
    #[test]
    fn a_panic_stops_all() {
        let main = |context: Context| async move {
            assert!(context.shard != ShardId(0), "on purpose");
            context.stop().await;
            Ok::<(), Infallible>(())
        };
        let error = run_shards(&BootOptions::unpinned(2), main).unwrap_err();
        assert!(matches!(error, BootError::Panicked(ShardId(0))), "{error}");
    }

    // Goal: a shard that cannot start fails the whole start, and no shard runs anything. Method: a core that no
    // machine has.
    #[test]
    fn a_start_fails_whole() {
        let first = pelton_transport::cores::available()[0];
        let options = BootOptions::pinned(vec![first, 1_000_000]);
        let main = |_: Context| async { panic!("no shard may run") };
        let error = run_shards::<(), Infallible, _, _>(&options, main).unwrap_err();
        let BootError::Start { shard, core, .. } = &error else {
            panic!("{error}");
        };
        assert_eq!((*shard, *core), (ShardId(1), Some(1_000_000)));
        assert!(error.to_string().contains("core 1000000"));
    }

    // Goal: pinned shards run where they were told, spinning or not. Method: ask the kernel.
    #[test]
    fn shards_are_pinned() {
        let cores = pelton_transport::cores::available();
        let expected = cores.clone();
        let options = BootOptions {
            spin: Duration::from_micros(50),
            ..BootOptions::pinned(cores)
        };
        let main = move |context: Context| {
            let core = expected[usize::from(context.shard.0)];
            async move {
                let set = rustix::thread::sched_getaffinity(None)?;
                assert_eq!(set.count(), 1);
                assert!(set.is_set(core));
                Ok::<(), io::Error>(())
            }
        };
        run_shards(&options, main).unwrap();
    }

    // Goal: SIGTERM asks all shards to stop. Method: a shard signals its own process.
    #[test]
    fn stop_by_signal() {
        let options = BootOptions {
            signals: true,
            ..BootOptions::unpinned(2)
        };
        let main = |context: Context| async move {
            if context.shard == ShardId(0) {
                rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::TERM,
                )?;
            }
            context.stop().await;
            Ok::<(), io::Error>(())
        };
        run_shards(&options, main).unwrap();
    }

    // Goal: tasks that still wait do not keep a shard. Method: leave a sleeper and a waiter behind.
    #[test]
    fn tasks_left_behind_are_dropped() {
        let main = |context: Context| async move {
            let (net, stop) = (context.net.clone(), context.stop.clone());
            context.net.spawn(TaskClass::Background, async move {
                net.sleep_until(net.now().plus_ms(3_600_000)).await;
            });
            context.net.spawn(TaskClass::Request, stop.requested());
            context.net.spawn(TaskClass::Request, future::pending());
            context.net.yield_now().await;
            Ok::<(), Infallible>(())
        };
        run_shards(&BootOptions::unpinned(1), main).unwrap();
    }
}
