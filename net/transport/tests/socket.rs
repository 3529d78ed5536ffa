//! Sockets, timers and helpers over loopback, through the seam that the broker uses.

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::Future;
    use std::io::Write;
    use std::net::SocketAddr;
    use std::os::fd::OwnedFd;
    use std::rc::Rc;
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use bytes::{Bytes, BytesMut};
    use futures_lite::future;
    use pelton_model::slice::{FileRange, Slice};
    use pelton_transport::boot::block_on;
    use pelton_transport::net::{Connection, Listener, Net, SocketOptions, TaskClass};
    use pelton_transport::probe_bind;
    use pelton_transport::ring::{RingConnection, RingNet};

    const BOUND_MS: u64 = 20_000;

    /// Runs `main` on one executor, for a bounded time.
    fn run<T, R: Future<Output = T>>(main: impl FnOnce(RingNet) -> R) -> T {
        block_on(|net| async move {
            let deadline = net.now().plus_ms(BOUND_MS);
            let late = async {
                net.sleep_until(deadline).await;
                None
            };
            let done = async { Some(main(net.clone()).await) };
            future::or(done, late).await.expect("in time")
        })
        .unwrap()
    }

    fn any_port() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    /// A connected pair: the accepted end and the connecting one.
    async fn pair(net: &RingNet, options: SocketOptions) -> [Rc<RingConnection>; 2] {
        let listener = net.listen(any_port(), options).unwrap();
        let client = net.connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap();
        assert_eq!(client.local_addr(), server.peer_addr());
        assert_eq!(client.peer_addr(), server.local_addr());
        [Rc::new(server), Rc::new(client)]
    }

    /// Bytes that tell their position.
    fn pattern(size: usize) -> Vec<u8> {
        let word = |index: usize| u32::try_from(index).unwrap().to_le_bytes();
        (0..size.div_ceil(4)).flat_map(word).take(size).collect()
    }

    /// Receives until `size` bytes or the end of the stream.
    async fn receive(connection: &RingConnection, size: usize) -> BytesMut {
        let mut all = BytesMut::new();
        while all.len() < size {
            all.reserve(4096);
            if connection.recv(&mut all).await.unwrap() == 0 {
                break;
            }
        }
        all
    }

    // Goal: large bodies survive partial writes, many slices and empty ones. Method: an echo with small socket buffers;
    // the client sends and receives at once, as a pipelining client does.
    #[test]
    fn echo_of_large_bodies() {
        fn check(slice_sizes: &[usize]) {
            let total: usize = slice_sizes.iter().sum();
            let sent = pattern(total);
            let echoed = run(|net| async move {
                let options = SocketOptions {
                    send_buffer_bytes: Some(8 * 1024),
                    receive_buffer_bytes: Some(8 * 1024),
                };
                let [server, client] = pair(&net, options).await;
                net.spawn(TaskClass::Request, async move {
                    loop {
                        let mut some = BytesMut::with_capacity(64 * 1024);
                        if server.recv(&mut some).await.unwrap() == 0 {
                            break;
                        }
                        let mut slices = vec![Slice::Bytes(some.freeze())];
                        server.send(&mut slices).await.unwrap();
                        assert!(slices.is_empty());
                    }
                });
                let mut rest = Bytes::from(pattern(total));
                let split = |&size: &usize| Slice::Bytes(rest.split_to(size));
                let mut slices: Vec<Slice> = slice_sizes.iter().map(split).collect();
                let writer = Rc::clone(&client);
                net.spawn(TaskClass::Request, async move {
                    writer.send(&mut slices).await.unwrap();
                });
                receive(&client, total).await
            });
            assert!(echoed == sent, "{} bytes of {total}", echoed.len());
        }
        check(&[1]);
        check(&[0, 1, 0, 0]);
        check(&[5 * 1024 * 1024]);
        check(&[1000; 700]);
        check(&[0; 200]);
        check(&[3, 0, 2_000_000, 1, 900_000, 0]);
    }

    // Goal: file ranges arrive whole and in place among memory slices. Method: a big file and a slow reader.
    #[test]
    fn sendfile_to_a_slow_reader() {
        const FILE_BYTES: usize = 24 * 1024 * 1024;
        let content = pattern(FILE_BYTES);
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&content).unwrap();
        let file = Arc::new(OwnedFd::from(file));
        let range = |position: usize, size_bytes| {
            Slice::File(FileRange {
                file: Arc::clone(&file),
                position: u64::try_from(position).unwrap(),
                size_bytes,
            })
        };
        let mut slices = vec![
            Slice::Bytes(Bytes::from_static(b"head")),
            range(3, FILE_BYTES - 3),
            Slice::Bytes(Bytes::from_static(b"middle")),
            range(0, 0),
            range(100, 10),
            Slice::Bytes(Bytes::from_static(b"tail")),
        ];
        let expected = [
            b"head",
            &content[3..],
            b"middle",
            &content[100..110],
            b"tail",
        ]
        .concat();
        let total = expected.len();
        let received = run(|net| async move {
            let [server, client] = pair(&net, SocketOptions::default()).await;
            let sender = Rc::clone(&server);
            net.spawn(TaskClass::Request, async move {
                sender.send(&mut slices).await.unwrap();
            });
            let mut all = BytesMut::with_capacity(total);
            while all.len() < total {
                all.reserve(1);
                assert!(client.recv(&mut all).await.unwrap() > 0);
                net.sleep_until(net.now().plus_ms(1)).await;
            }
            all
        });
        assert!(received == expected);
    }

    // Goal: a file that ends before its range is an error, not a hang. Method: a range beyond the end.
    #[test]
    fn a_file_shorter_than_promised_fails() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"short").unwrap();
        let file = Arc::new(OwnedFd::from(file));
        run(|net| async move {
            let [server, _client] = pair(&net, SocketOptions::default()).await;
            let range = FileRange {
                file,
                position: 0,
                size_bytes: 6,
            };
            let mut slices = vec![Slice::File(range)];
            assert!(server.send(&mut slices).await.is_err());
            assert!(slices.is_empty());
        });
    }

    // Goal: `shutdown` ends a waiting reader and a waiting writer, and the peer sees the end. Method: a peer that
    // neither reads nor writes.
    #[test]
    fn shutdown_ends_both_directions() {
        run(|net| async move {
            let [server, client] = pair(&net, SocketOptions::default()).await;
            let ended = Rc::new(RefCell::new(Vec::new()));
            let (reader, list) = (Rc::clone(&server), Rc::clone(&ended));
            net.spawn(TaskClass::Request, async move {
                let mut buffer = BytesMut::with_capacity(16);
                assert_eq!(reader.recv(&mut buffer).await.unwrap(), 0);
                list.borrow_mut().push("reader");
            });
            let (writer, list) = (Rc::clone(&server), Rc::clone(&ended));
            net.spawn(TaskClass::Request, async move {
                let mut slices = vec![Slice::Bytes(Bytes::from(vec![0; 64 * 1024 * 1024]))];
                assert!(writer.send(&mut slices).await.is_err());
                list.borrow_mut().push("writer");
            });
            net.sleep_until(net.now().plus_ms(30)).await;
            assert!(ended.borrow().is_empty());
            server.shutdown();
            while ended.borrow().len() < 2 {
                net.sleep_until(net.now().plus_ms(1)).await;
            }
            let mut slices = vec![Slice::Bytes(Bytes::from_static(b"late"))];
            assert!(server.send(&mut slices).await.is_err());
            // The peer reads what was sent before, then the end.
            let got = receive(&client, usize::MAX).await;
            assert!(got.len() < 64 * 1024 * 1024);
        });
    }

    // Goal: bytes that arrived before a shutdown are not handed out after it. Method: shut down with bytes waiting.
    #[test]
    fn nothing_is_received_after_shutdown() {
        run(|net| async move {
            let [server, client] = pair(&net, SocketOptions::default()).await;
            let mut slices = vec![Slice::Bytes(Bytes::from_static(b"bytes"))];
            client.send(&mut slices).await.unwrap();
            server.shutdown();
            let mut buffer = BytesMut::with_capacity(16);
            assert_eq!(server.recv(&mut buffer).await.unwrap(), 0);
            assert_eq!(receive(&client, 1).await.len(), 0);
        });
    }

    // Goal: a dropped `recv` loses no bytes. Method: cancel while waiting, then send.
    #[test]
    fn a_cancelled_recv_loses_nothing() {
        run(|net| async move {
            let [server, client] = pair(&net, SocketOptions::default()).await;
            for round in 0..100_u8 {
                let mut buffer = BytesMut::with_capacity(16);
                let receive = async { Some(server.recv(&mut buffer).await.unwrap()) };
                let give_up = async {
                    net.yield_now().await;
                    None
                };
                assert_eq!(future::or(receive, give_up).await, None);
                let mut slices = vec![Slice::Bytes(Bytes::copy_from_slice(&[round]))];
                client.send(&mut slices).await.unwrap();
                assert_eq!(server.recv(&mut buffer).await.unwrap(), 1);
                assert_eq!(buffer[..], [round]);
            }
        });
    }

    // Goal: an end that arrives together with the last bytes is seen. Method: the reader waits once, so that its poll tells of
    // bytes and end at once, and reads the bytes with room to spare.
    #[test]
    fn an_end_behind_the_last_bytes_is_seen() {
        run(|net| async move {
            for _ in 0..50 {
                let [server, client] = pair(&net, SocketOptions::default()).await;
                let mut buffer = BytesMut::with_capacity(64);
                let waits = async { Some(server.recv(&mut buffer).await.unwrap()) };
                let sends = async {
                    net.yield_now().await;
                    None
                };
                assert_eq!(future::or(waits, sends).await, None);
                let mut slices = vec![Slice::Bytes(Bytes::from_static(b"last"))];
                client.send(&mut slices).await.unwrap();
                client.shutdown();
                net.sleep_until(net.now().plus_ms(1)).await;
                assert_eq!(server.recv(&mut buffer).await.unwrap(), 4);
                assert_eq!(server.recv(&mut buffer).await.unwrap(), 0);
                assert_eq!(server.recv(&mut buffer).await.unwrap(), 0);
            }
        });
    }

    // Goal: a connection that is dropped while it waits is closed, though the kernel polls it. Method: drop it, read its end.
    #[test]
    fn a_dropped_connection_is_closed() {
        run(|net| async move {
            let [server, client] = pair(&net, SocketOptions::default()).await;
            let (waiting, task_net) = (Rc::clone(&server), net.clone());
            net.spawn(TaskClass::Request, async move {
                let mut buffer = BytesMut::with_capacity(16);
                let deadline = task_net.now().plus_ms(5);
                let given_up = async {
                    task_net.sleep_until(deadline).await;
                    Ok(99)
                };
                let waits = waiting.recv(&mut buffer);
                assert_eq!(future::or(waits, given_up).await.unwrap(), 99);
            });
            drop(server);
            assert_eq!(receive(&client, 1).await.len(), 0);
        });
    }

    // Goal: so is one that is dropped just when bytes arrive. Method: the kernel has an event for a poll that is then cancelled.
    #[test]
    fn a_connection_dropped_with_an_event_on_its_way_is_closed() {
        run(|net| async move {
            for _ in 0..50 {
                let [server, client] = pair(&net, SocketOptions::default()).await;
                let mut buffer = BytesMut::with_capacity(16);
                let waits = async { Some(server.recv(&mut buffer).await.unwrap()) };
                let given_up = async {
                    net.sleep_until(net.now().plus_ms(1)).await;
                    None
                };
                assert_eq!(future::or(waits, given_up).await, None);
                let mut slices = vec![Slice::Bytes(Bytes::from_static(b"bytes"))];
                client.send(&mut slices).await.unwrap();
                drop(server);
                // Bytes that nobody has read make it a reset.
                let ended = client.recv(&mut buffer).await;
                assert!(!matches!(ended, Ok(1..)), "{ended:?}");
            }
        });
    }

    // Goal: more connections than the ring has entries. Method: 300 idle ones, then one byte through each.
    #[test]
    fn many_connections_wait_at_once() {
        run(|net| async move {
            let listener = net.listen(any_port(), SocketOptions::default()).unwrap();
            let address = listener.local_addr().unwrap();
            let task_net = net.clone();
            net.spawn(TaskClass::Request, async move {
                loop {
                    let connection = listener.accept().await.unwrap();
                    task_net.spawn(TaskClass::Request, async move {
                        let byte = receive(&connection, 1).await.freeze();
                        let mut slices = vec![Slice::Bytes(byte)];
                        connection.send(&mut slices).await.unwrap();
                    });
                }
            });
            let mut clients = Vec::new();
            for _ in 0..300 {
                clients.push(net.connect(address).await.unwrap());
            }
            net.sleep_until(net.now().plus_ms(20)).await;
            for (index, client) in clients.iter().enumerate() {
                let byte = index.to_le_bytes()[0];
                let mut slices = vec![Slice::Bytes(Bytes::copy_from_slice(&[byte]))];
                client.send(&mut slices).await.unwrap();
            }
            for (index, client) in clients.iter().enumerate() {
                assert_eq!(receive(client, 1).await[..], index.to_le_bytes()[..1]);
            }
        });
    }

    // Goal: a taken port is told, shared listening works, nobody listening is an error. Method: one port, step by step.
    #[test]
    fn ports() {
        run(|net| async move {
            let first = net.listen(any_port(), SocketOptions::default()).unwrap();
            let address = first.local_addr().unwrap();
            let taken = probe_bind(address).unwrap_err();
            assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
            let second = net.listen(address, SocketOptions::default()).unwrap();
            assert_eq!(second.local_addr().unwrap(), address);
            drop((first, second));
            probe_bind(address).unwrap();
            let refused = net.connect(address).await.unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        });
    }

    // Goal: timers end, never early, dropped ones too. Method: started in another order than their deadlines'.
    #[test]
    fn timers_end_after_their_deadline() {
        let mut ended = run(|net| async move {
            let start = net.now();
            let ended = Rc::new(RefCell::new(Vec::new()));
            for ms in [40, 5, 20, 0, 10] {
                let (task_net, ended) = (net.clone(), Rc::clone(&ended));
                net.spawn(TaskClass::Request, async move {
                    let never = task_net.sleep_until(start.plus_ms(3_600_000));
                    future::or(task_net.sleep_until(start.plus_ms(ms)), never).await;
                    assert!(task_net.now() >= start.plus_ms(ms));
                    ended.borrow_mut().push(ms);
                });
            }
            while ended.borrow().len() < 5 {
                net.sleep_until(net.now().plus_ms(5)).await;
            }
            ended.take()
        });
        ended.sort_unstable();
        assert_eq!(ended, [0, 5, 10, 20, 40]);
    }

    // Goal: a task that is always ready starves neither timers nor background tasks. Method: spin by yielding until
    // both have run.
    #[test]
    fn a_busy_task_starves_nobody() {
        run(|net| async move {
            let done = Rc::new(Cell::new(0));
            for class in [TaskClass::Request, TaskClass::Background] {
                let (task_net, done) = (net.clone(), Rc::clone(&done));
                net.spawn(class, async move {
                    task_net.sleep_until(task_net.now().plus_ms(3)).await;
                    done.set(done.get() + 1);
                });
            }
            while done.get() < 2 {
                net.yield_now().await;
            }
        });
    }

    // Goal: an executor may end while helpers work: their answers are awaited. Method: end with work under way.
    #[test]
    fn helpers_finish_before_the_executor() {
        let (sender, receiver) = mpsc::channel();
        run(|net| async move {
            assert_eq!(net.run_blocking(|| 6 * 7).await, 42);
            let task_net = net.clone();
            net.spawn(TaskClass::Background, async move {
                let work = move || {
                    let (_open, never) = mpsc::channel::<()>();
                    assert!(never.recv_timeout(Duration::from_millis(50)).is_err());
                    sender.send("done").unwrap();
                };
                task_net.run_blocking(work).await;
            });
            net.sleep_until(net.now().plus_ms(10)).await;
        });
        assert_eq!(receiver.try_recv(), Ok("done"));
    }

    // Goal: syncs run beside each other and beside slow work. Method: each waits until the others have begun, while other
    // work is held up until all are done.
    #[test]
    fn syncs_overlap() {
        run(|net| async move {
            let (release, held) = mpsc::channel::<()>();
            let task_net = net.clone();
            net.spawn(TaskClass::Background, async move {
                task_net.run_blocking(move || held.recv()).await.unwrap();
            });
            let barrier = Arc::new(std::sync::Barrier::new(8));
            let met = Rc::new(Cell::new(0));
            for _ in 0..8 {
                let (task_net, met, barrier) = (net.clone(), Rc::clone(&met), Arc::clone(&barrier));
                net.spawn(TaskClass::Request, async move {
                    task_net.run_sync(move || barrier.wait()).await;
                    met.set(met.get() + 1);
                });
            }
            while met.get() < 8 {
                net.sleep_until(net.now().plus_ms(1)).await;
            }
            release.send(()).unwrap();
        });
    }

    // Goal: entropy fills the whole slice. Method: two long draws differ, none ends in zeros.
    #[test]
    fn random_fills_all() {
        run(|net| async move {
            let (mut first, mut second) = ([0; 1000], [0; 1000]);
            net.random(&mut first);
            net.random(&mut second);
            assert_ne!(first, second);
            assert_ne!(first[968..], [0; 32]);
            assert!(net.wall_clock().0 > 1_700_000_000_000);
        });
    }
}
