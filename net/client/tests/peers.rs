//! The client against peers that are not there, not brokers, or not well; they run in the test itself.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::future::Future;
use std::rc::Rc;

use bytes::{Buf, BytesMut};
use pelton_client::{Address, Client, ClientError, ClientOptions, Connection};
use pelton_model::slice::Slice;
use pelton_protocol::codec::{Reader, Writer};
use pelton_protocol::header::RequestHeader;
use pelton_protocol::message::api_versions::{ApiVersion, ApiVersionsResponse};
use pelton_protocol::message::fetch::FetchRequest;
use pelton_protocol::message::metadata::{MetadataRequest, MetadataResponse};
use pelton_protocol::message::produce::ProduceRequest;
use pelton_transport::boot::block_on;
use pelton_transport::net::{Connection as _, Listener, Net, SocketOptions, TaskClass};
use pelton_transport::ring::RingNet;

/// What a peer does about a request: bytes to send, or the end of the connection.
type Script = fn(&RequestHeader) -> Option<Vec<u8>>;

fn run<F, R>(test: F)
where
    F: FnOnce(RingNet) -> R,
    R: Future<Output = ()>,
{
    block_on(|net| Box::pin(test(net))).unwrap();
}

fn options() -> ClientOptions {
    ClientOptions {
        connect_timeout_ms: 300,
        request_timeout_ms: 300,
        ..ClientOptions::default()
    }
}

/// A peer that follows `script` on every connection.
fn peer(net: &RingNet, script: Script) -> Address {
    let any = "127.0.0.1:0".parse().unwrap();
    let listener = net.listen(any, SocketOptions::default()).unwrap();
    let address = Address::from(listener.local_addr().unwrap());
    let task = net.clone();
    net.spawn(TaskClass::Request, async move {
        while let Ok(connection) = listener.accept().await {
            let connection = Rc::new(connection);
            task.spawn(TaskClass::Request, async move {
                let mut buffer = BytesMut::with_capacity(100_000);
                while connection.recv(&mut buffer).await.unwrap_or(0) > 0 {
                    while let Some(header) = take_request(&mut buffer) {
                        let Some(bytes) = script(&header) else {
                            connection.shutdown();
                            return;
                        };
                        let mut slices = vec![Slice::Bytes(bytes.into())];
                        connection.send(&mut slices).await.unwrap();
                    }
                }
            });
        }
    });
    address
}

fn take_request(buffer: &mut BytesMut) -> Option<RequestHeader> {
    let length = i32::from_be_bytes(*buffer.first_chunk()?);
    let length = usize::try_from(length).unwrap();
    if buffer.len() < 4 + length {
        return None;
    }
    buffer.advance(4);
    let frame = buffer.split_to(length);
    Some(RequestHeader::decode(&mut Reader::new(&frame)).unwrap())
}

/// A frame of a correlation id and a body.
fn frame(correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(4 + body.len()).unwrap();
    [&length.to_be_bytes(), &correlation_id.to_be_bytes(), body].concat()
}

fn versions(header: &RequestHeader, response: &ApiVersionsResponse, version: i16) -> Vec<u8> {
    let mut writer = Writer::new();
    response.encode(&mut writer, version);
    frame(header.correlation_id, &writer.into_bytes())
}

/// Answers ApiVersions as a broker does, and nothing else.
fn mute(header: &RequestHeader) -> Option<Vec<u8>> {
    if header.api_key != 18 {
        return Some(Vec::new());
    }
    let version = header.api_version;
    let served = ApiVersionsResponse::served(version, Vec::new());
    Some(versions(header, &served, version))
}

// Goal: each way in which a peer is no broker has its error, in time and without memory by claim. Method: a script each.
#[test]
fn peers_that_are_no_brokers() {
    fn check(script: Script, is_expected: fn(&ClientError) -> bool) {
        run(|net| async move {
            let address = peer(&net, script);
            let Err(error) = Connection::open(&net, &address, &options()).await else {
                panic!("that is no broker");
            };
            assert!(is_expected(&error), "{error:?}");
            assert!(error.to_string().contains(&address.to_string()), "{error}");
        });
    }
    check(
        |_| Some(Vec::new()),
        |error| matches!(error, ClientError::TimedOut { .. }),
    );
    check(
        |_| None,
        |error| matches!(error, ClientError::Disconnected { .. }),
    );
    check(
        |header| Some(frame(header.correlation_id + 1, &[])),
        |error| matches!(error, ClientError::Protocol { .. }),
    );
    check(
        |header| Some(frame(header.correlation_id, &[0, 0, 0])),
        |error| matches!(error, ClientError::Malformed { .. }),
    );
    check(
        |_| Some(vec![0x7f, 0xff, 0xff, 0xff]),
        |error| matches!(error, ClientError::Protocol { .. }),
    );
    check(
        |_| Some(frame(0, &[])[..6].to_vec()),
        |error| matches!(error, ClientError::TimedOut { .. }),
    );
    check(
        |_| Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        |error| matches!(error, ClientError::Protocol { .. }),
    );
}

// Goal: a broker that does not know our ApiVersions is asked again in its own. Method: one that serves version 1 only.
#[test]
fn falls_back_to_old_api_versions() {
    fn old(header: &RequestHeader) -> Option<Vec<u8>> {
        let mut response = ApiVersionsResponse::unsupported_version();
        response.api_keys[0].max_version = 1;
        if header.api_version != 1 {
            return Some(versions(header, &response, 0));
        }
        response.error_code = 0;
        response.api_keys.push(ApiVersion {
            api_key: 0,
            min_version: 0,
            max_version: 7,
        });
        Some(versions(header, &response, 1))
    }
    run(|net| async move {
        let address = peer(&net, old);
        let connection = Connection::open(&net, &address, &options()).await.unwrap();
        assert_eq!(connection.version::<ProduceRequest>().unwrap(), 7);
        let error = connection.version::<FetchRequest>().unwrap_err();
        assert!(
            matches!(error, ClientError::UnsupportedVersion { theirs: None, .. }),
            "{error}"
        );
    });
}

// Goal: a broker that falls silent costs the request its time and the connection its life. Method: ask one for metadata,
// twice at once.
#[test]
fn silence_ends_the_connection() {
    run(|net| async move {
        let address = peer(&net, mute);
        let connection = Connection::open(&net, &address, &options()).await.unwrap();
        let request = MetadataRequest::default();
        let begin = net.now();
        let start = || {
            connection
                .start::<_, MetadataResponse>(12, &request, 200)
                .unwrap()
        };
        let (first, second) = (start(), start());
        assert_eq!(connection.in_flight(), 2);
        assert!(matches!(
            first.await,
            Err(ClientError::TimedOut { after_ms: 200, .. })
        ));
        assert!(matches!(second.await, Err(ClientError::TimedOut { .. })));
        assert!(begin.plus_ms(200) <= net.now());
        assert!(!connection.is_open());
        let refused = connection.call::<_, MetadataResponse>(12, &request).await;
        assert!(matches!(refused, Err(ClientError::TimedOut { .. })));
    });
}

// Goal: dropping the last handle ends the connection. Method: the answer to a request that outlives it.
#[test]
fn dropping_ends_the_connection() {
    run(|net| async move {
        let address = peer(&net, mute);
        let connection = Connection::open(&net, &address, &options()).await.unwrap();
        let request = MetadataRequest::default();
        let reply = connection
            .start::<_, MetadataResponse>(12, &request, 60_000)
            .unwrap();
        drop(connection);
        assert!(matches!(reply.await, Err(ClientError::Closed { .. })));
    });
}

// Goal: nobody there is told at once, with the cause. Method: a port that was just given back, a name that is none.
#[test]
fn nobody_there() {
    fn check(bootstrap: &[Address], expected: &str) {
        let bootstrap = bootstrap.to_vec();
        let expected = expected.to_owned();
        run(|net| async move {
            let Err(error) = Client::connect(&net, &bootstrap, options()).await else {
                panic!("nobody is there");
            };
            assert!(matches!(error, ClientError::NoBroker { .. }));
            assert!(error.to_string().contains(&expected), "{error}");
        });
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = Address::from(listener.local_addr().unwrap());
    drop(listener);
    check(&[], "no bootstrap address");
    check(
        std::slice::from_ref(&free),
        &format!("cannot connect to {free}"),
    );
    check(
        &[free, Address::new("no.such.host.invalid", 1)],
        "no.such.host.invalid",
    );
}
