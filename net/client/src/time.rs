//! Deadlines for futures.

use std::future::Future;

use futures_lite::future;
use pelton_model::Monotonic;
use pelton_transport::net::Net;

/// The future's value, or none when `deadline` comes first; the future is then dropped.
pub(crate) async fn before<N: Net, T>(
    net: &N,
    deadline: Monotonic,
    work: impl Future<Output = T>,
) -> Option<T> {
    let timer = async {
        net.sleep_until(deadline).await;
        None
    };
    future::or(async { Some(work.await) }, timer).await
}
