//! The mesh between two real shards.

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use pelton_model::ShardId;
    use pelton_model::task::oneshot;
    use pelton_transport::boot::{BootOptions, ShardContext, run_shards};
    use pelton_transport::net::{Mesh, Net, TaskClass};

    // Goal: messages arrive all, once, in order, whether the peer sleeps or not. Method: 100 000 numbers go from shard
    // 0 to shard 1 and back, with 1 or 200 under way.
    #[test]
    fn ping_pong_in_order() {
        fn check(under_way: u64, total: u64) {
            let main = move |context: ShardContext<u64>| async move {
                let mesh = context.mesh.clone();
                if context.shard == ShardId(0) {
                    let mut sent = 0;
                    for expected in 0..total {
                        while sent < total && sent < expected + under_way {
                            mesh.send(ShardId(1), sent).unwrap();
                            sent += 1;
                        }
                        assert_eq!(mesh.recv().await, Some((ShardId(1), expected)));
                    }
                } else {
                    for _ in 0..total {
                        let (from, number) = mesh.recv().await.unwrap();
                        mesh.send(from, number).unwrap();
                    }
                }
                context.meeting().all_arrived().await;
                Ok::<(), Infallible>(())
            };
            run_shards(&BootOptions::unpinned(2), main).unwrap();
        }
        check(1, 3_000);
        check(200, 100_000);
    }

    // Goal: all directions at once, a shard to itself too, each in order. Method: every shard floods every shard.
    #[test]
    fn flood_in_all_directions() {
        const TOTAL: u64 = 20_000;
        let main = |context: ShardContext<u64>| async move {
            let (sender, received) = oneshot();
            let mesh = context.mesh.clone();
            context.net.spawn(TaskClass::Request, async move {
                let mut expected = [0; 2];
                while expected != [TOTAL; 2] {
                    let (from, number) = mesh.recv().await.unwrap();
                    let next = &mut expected[usize::from(from.0)];
                    assert_eq!(number, *next);
                    *next += 1;
                }
                sender.send(());
            });
            for number in 0..TOTAL {
                for to in [ShardId(0), ShardId(1)] {
                    while context.mesh.send(to, number).is_err() {
                        context.net.yield_now().await;
                    }
                }
            }
            received.await.unwrap();
            context.meeting().all_arrived().await;
            Ok::<(), Infallible>(())
        };
        run_shards(&BootOptions::unpinned(2), main).unwrap();
    }

    // Goal: a full queue gives the message back and loses nothing. Method: send to a shard that does not receive yet.
    #[test]
    fn a_full_queue_refuses() {
        const CAPACITY: usize = 8;
        let main = |context: ShardContext<usize>| async move {
            let mesh = context.mesh.clone();
            if context.shard == ShardId(0) {
                for number in 0..CAPACITY {
                    mesh.send(ShardId(1), number).unwrap();
                }
                assert_eq!(mesh.send(ShardId(1), 99).unwrap_err().0, 99);
                // Its own queue is another one.
                mesh.send(ShardId(0), 7).unwrap();
                assert_eq!(mesh.recv().await, Some((ShardId(0), 7)));
                context.meeting().all_arrived().await;
            } else {
                context.meeting().all_arrived().await;
                for number in 0..CAPACITY {
                    assert_eq!(mesh.recv().await, Some((ShardId(0), number)));
                }
            }
            context.meeting().all_arrived().await;
            Ok::<(), Infallible>(())
        };
        let options = BootOptions {
            mesh_capacity: CAPACITY,
            ..BootOptions::unpinned(2)
        };
        run_shards(&options, main).unwrap();
    }

    /// Counts drops.
    struct Counted(Arc<AtomicU64>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    // Goal: a closed end receives nothing, refuses, and drops what was under way. Method: close with messages waiting.
    #[test]
    fn close_ends_an_end() {
        let dropped = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&dropped);
        let main = move |context: ShardContext<Counted>| {
            let counter = Arc::clone(&counter);
            async move {
                let mesh = context.mesh.clone();
                if context.shard == ShardId(0) {
                    for _ in 0..3 {
                        mesh.send(ShardId(1), Counted(Arc::clone(&counter)))
                            .unwrap();
                    }
                    context.meeting().all_arrived().await;
                    context.meeting().all_arrived().await;
                    assert_eq!(counter.load(Ordering::SeqCst), 3);
                    assert!(
                        mesh.send(ShardId(1), Counted(Arc::clone(&counter)))
                            .is_err()
                    );
                } else {
                    context.meeting().all_arrived().await;
                    drop(mesh.recv().await.unwrap());
                    mesh.close();
                    assert!(mesh.recv().await.is_none());
                    context.meeting().all_arrived().await;
                }
                context.meeting().all_arrived().await;
                Ok::<(), Infallible>(())
            }
        };
        run_shards(&BootOptions::unpinned(2), main).unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 4);
    }
}
