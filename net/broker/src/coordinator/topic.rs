//! The topics of coordinators: created when they are first needed.

use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_transport::net::Net;

use super::Kind;
use crate::controller::Command;
use crate::env::Env;
use crate::shard::{CONTROLLER_SHARD, Shard, message};

impl<E: Env> Shard<E> {
    /// Makes sure that the coordinators of a kind have their topic. Kafka answers COORDINATOR_NOT_AVAILABLE while it is being created; here
    /// whoever asks waits for it.
    pub(crate) async fn create_coordinator_topic(self: &Rc<Self>, kind: Kind) {
        let topic = kind.topic();
        if self.topic_by_name(topic).is_some() {
            return;
        }
        let command = Command::AutoCreateTopics(vec![topic.to_owned()]);
        let request = message::Request::Control(command);
        let answer = self.ask(CONTROLLER_SHARD, request).await.into_control();
        if self.topic_by_name(topic).is_none()
            && let Some(untold) = self.repeats.coordinators.tell(self.net.now())
        {
            tracing::error!(
                topic,
                ?answer,
                untold,
                "cannot create a coordinator's topic: it is not served"
            );
        }
    }

    /// Why a name has no coordinator: its partition is not there, or has no leader.
    pub(crate) fn coordinator_unavailable(&self, kind: Kind, name: &str) -> Option<ErrorCode> {
        let image = self.image();
        let partition = self
            .coordinator_partition(kind, name)
            .and_then(|id| image.partition(id));
        let is_led = partition
            .is_some_and(|known| known.leader().is_some() && !self.is_replica_offline(known));
        (!is_led).then_some(ErrorCode::CoordinatorNotAvailable)
    }
}
