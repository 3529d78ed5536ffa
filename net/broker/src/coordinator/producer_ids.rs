//! The producer ids that a shard may hand out: blocks that the controller gives it.
//!
//! 1. One request for a block is under way at most; whoever waits for ids waits for that one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pelton_model::ErrorCode;
use pelton_model::task::{OnceSender, oneshot};
use pelton_transport::net::{Net, TaskClass};

use crate::controller::{Answer, Command};
use crate::env::Env;
use crate::shard::{CONTROLLER_SHARD, Shard, message};

/// Who waits for the controller's next block.
#[derive(Default)]
pub(crate) struct ProducerIds {
    is_asking: Cell<bool>,
    waiting: RefCell<Vec<OnceSender<Result<(), ErrorCode>>>>,
}

impl<E: Env> Shard<E> {
    /// Whether an id can be had at once.
    pub(super) fn has_producer_ids(&self) -> bool {
        !self.producer_ids.borrow().is_empty()
    }

    /// A producer id that nobody has.
    pub(crate) async fn next_producer_id(self: &Rc<Self>) -> Result<i64, ErrorCode> {
        loop {
            if let Some(id) = self.producer_ids.borrow_mut().next() {
                return Ok(id);
            }
            self.get_producer_ids().await?;
        }
    }

    /// Has ids ready for whoever wants one soon.
    pub(super) fn want_producer_ids(self: &Rc<Self>) {
        if self.has_producer_ids() || self.coordinators.producer_ids.is_asking.get() {
            return;
        }
        let shard = Rc::clone(self);
        self.net.spawn(TaskClass::Request, async move {
            // Whoever needs one asks again and hears why there is none.
            shard.get_producer_ids().await.ok();
        });
    }

    /// Waits for the controller's next block.
    pub(super) async fn get_producer_ids(self: &Rc<Self>) -> Result<(), ErrorCode> {
        let ids = &self.coordinators.producer_ids;
        if ids.is_asking.get() {
            let (sender, receiver) = oneshot();
            ids.waiting.borrow_mut().push(sender);
            let got = receiver.await;
            return got.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable));
        }
        ids.is_asking.set(true);
        let command = message::Request::Control(Command::AllocateProducerIds);
        let answer = self.ask(CONTROLLER_SHARD, command).await.into_control();
        ids.is_asking.set(false);
        let got = if let Answer::ProducerIds(block) = answer {
            block.map_err(|refusal| refusal.error)
        } else {
            Err(ErrorCode::CoordinatorNotAvailable)
        };
        let got = got.map(|block| {
            // Ids of a block that is not used up are lost, which is allowed.
            *self.producer_ids.borrow_mut() = block.first..block.first + block.count;
        });
        for waiting in ids.waiting.take() {
            waiting.send(got);
        }
        got
    }
}
