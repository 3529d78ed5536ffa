//! Encoded answers to Metadata that asks for all topics: made once for each image and way of asking, whoever asks.
//!
//! Invariants:
//! 1. An answer is kept only while the image and the state of the directories are those it was made from.
//! 2. One answer is made at a time; who asks meanwhile waits for it rather than making another.
//! 3. At most [`METADATA_ANSWERS_MAX`] answers with [`METADATA_ANSWERS_BYTES_MAX`] bytes.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::Bytes;
use pelton_model::limits::{METADATA_ANSWERS_BYTES_MAX, METADATA_ANSWERS_MAX};
use pelton_model::task::Notify;

/// What an answer depends on beside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AnswerKey {
    /// The version spoken.
    pub(crate) version: i16,
    /// The listener asked: it decides how the node is named.
    pub(crate) listener_index: usize,
    /// Whether it tells what the client may do to topics.
    pub(crate) topic_operations: bool,
    /// Whether it tells what the client may do to the cluster.
    pub(crate) cluster_operations: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct MetadataAnswers {
    kept: RefCell<Vec<(AnswerKey, Bytes)>>,
    /// Grows when what is kept is no longer true.
    generation: Cell<u64>,
    is_making: Cell<bool>,
    waiting: RefCell<Vec<Rc<Notify>>>,
}

/// The right to make an answer; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Making<'a> {
    answers: &'a MetadataAnswers,
    generation: u64,
}

impl MetadataAnswers {
    /// Forgets every answer: the image or a directory changed.
    pub(crate) fn clear(&self) {
        self.generation.set(self.generation.get() + 1);
        self.kept.borrow_mut().clear();
    }

    /// The answer, or the right to make it.
    pub(crate) async fn get(&self, key: AnswerKey) -> Result<Bytes, Making<'_>> {
        loop {
            let kept = self.kept.borrow().iter().find(|(k, _)| *k == key).cloned();
            if let Some((_, answer)) = kept {
                return Ok(answer);
            }
            if !self.is_making.replace(true) {
                let generation = self.generation.get();
                return Err(Making {
                    answers: self,
                    generation,
                });
            }
            let made = Rc::new(Notify::default());
            self.waiting.borrow_mut().push(Rc::clone(&made));
            made.notified().await;
        }
    }
}

impl Making<'_> {
    /// Keeps the answer if it is still true, the oldest giving way.
    pub(crate) fn keep(&self, key: AnswerKey, answer: &Bytes) {
        if self.generation != self.answers.generation.get() {
            return;
        }
        let mut kept = self.answers.kept.borrow_mut();
        let is_full = |kept: &Vec<(AnswerKey, Bytes)>| {
            let bytes: usize = kept.iter().map(|(_, answer)| answer.len()).sum();
            METADATA_ANSWERS_MAX <= kept.len() || METADATA_ANSWERS_BYTES_MAX < bytes + answer.len()
        };
        while !kept.is_empty() && is_full(&kept) {
            kept.remove(0);
        }
        if !is_full(&kept) {
            kept.push((key, answer.clone()));
        }
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.answers.is_making.set(false);
        for waiting in self.answers.waiting.take() {
            waiting.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn key(version: i16) -> AnswerKey {
        AnswerKey {
            version,
            listener_index: 0,
            topic_operations: false,
            cluster_operations: false,
        }
    }

    fn poll<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    // Goal: an answer is made once, kept while it is true, and within bounds. Method: step by step.
    #[test]
    fn kept_while_true() {
        let answers = MetadataAnswers::default();
        let make = |version, bytes: &Bytes| match poll(answers.get(key(version))) {
            Some(Ok(kept)) => Some(kept),
            Some(Err(making)) => {
                making.keep(key(version), bytes);
                None
            }
            None => panic!("nobody else makes one"),
        };
        let small = Bytes::from_static(b"answer");
        assert_eq!(make(1, &small), None);
        assert_eq!(make(1, &small), Some(small.clone()));
        assert_eq!(make(2, &small), None);
        answers.clear();
        assert_eq!(make(1, &small), None);

        let Some(Err(making)) = poll(answers.get(key(3))) else {
            panic!("there is none");
        };
        let mut waits = pin!(answers.get(key(3)));
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        answers.clear();
        making.keep(key(3), &small);
        drop(making);
        // What was made has become untrue meanwhile: whoever waited makes another.
        let Poll::Ready(Err(making)) = waits.poll(&mut context) else {
            panic!("it is kept, or still waited for");
        };
        drop(making);

        for version in 10..40 {
            assert_eq!(make(version, &small), None);
            assert!(answers.kept.borrow().len() <= METADATA_ANSWERS_MAX);
        }
        let large = Bytes::from(vec![0; METADATA_ANSWERS_BYTES_MAX + 1]);
        assert_eq!(make(1, &large), None);
        assert!(answers.kept.borrow().is_empty(), "it is too large to keep");
    }
}
