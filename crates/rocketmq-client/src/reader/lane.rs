//! One queue: pull, hand over, wait at its end, try again.

use super::{Consumer, Message, Shared, Trouble, trouble_of};
use bytes::Bytes;
use cheetah_string::CheetahString;
use rocketmq_client_rust::{ClientResult, MessageSelector, PullOptions, PullResult, PullStatus};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::message::MessageQueue;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Sender;

/// Messages that are asked for at once; brokers send 32 at most unless they are told otherwise.
const PULL_MESSAGES: i32 = 1024;
/// Bytes that are asked for at once; the first message comes whatever its size.
const PULL_BYTES: i32 = 256 << 10;
/// How long a broker may let a pull wait at the queue's end.
const SUSPEND: Duration = Duration::from_secs(10);
/// The client's own limit for a pull: brokers look every 5 s for pulls that have waited long enough.
const PULL_TIMEOUT: Duration = Duration::from_secs(25);
/// A pull that need not wait.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before a second try, and its bound.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Before an offset that the broker refuses is told: a broker that starts may not know its queues yet.
const DOUBT: Duration = Duration::from_secs(1);
/// Where queues end is asked this often while pulls do not tell.
const ENDS_PERIOD: Duration = Duration::from_secs(1);

/// Flag of a message that came in one entry with others, all with the entry's offset.
// Source: Apache RocketMQ, `MessageSysFlag`.
const INNER_BATCH_FLAG: i32 = 1 << 7;

/// What one pull gave.
pub(crate) struct Pulled {
    pub index: usize,
    pub outcome: Result<Vec<Packed>, Trouble>,
}

/// A message as it was pulled: what waits to be taken is not inflated yet.
#[derive(Debug)]
pub(crate) struct Packed {
    pub message: Message,
    pub flags: i32,
}

/// See the module's page.
pub(crate) struct Lane {
    pub index: usize,
    pub queue: MessageQueue,
    /// The first offset that was not pulled yet.
    pub next: i64,
    pub consumer: Consumer,
    pub shared: Arc<Shared>,
    pub sender: Sender<Pulled>,
    /// For errors.
    pub place: Arc<str>,
}

/// What follows a pull.
enum Step {
    /// These are next.
    Take(Vec<Packed>),
    /// The queue's end, or nothing yet: ask again.
    Nothing,
    /// The client read none of the messages that came: ask for the first alone.
    One,
    /// Ask again after a pause.
    Pause,
    /// It does not go on.
    End(Trouble),
}

/// How a pull is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// An answer at once: the first pull, and those after a failure.
    Probe,
    /// The broker may wait for a message.
    Wait,
    /// One message alone, which may be none that the client can read.
    One,
}

impl Lane {
    /// Pulls until it is aborted, or messages that are wanted are gone.
    pub async fn follow(mut self) {
        let mut ask = Ask::Probe;
        let mut pause = PAUSE.0;
        loop {
            self.shared
                .note(self.index, |k| k.is_waiting = ask == Ask::Wait);
            let since = Instant::now();
            let pulled = self.pull(ask).await;
            let step = match &pulled {
                Ok(pulled) => {
                    self.answered(pulled);
                    self.step(pulled, ask)
                }
                Err(error) => {
                    let trouble = trouble_of(&self.place, error);
                    tracing::debug!(queue = %self.queue, "{trouble:?}");
                    self.shared.note(self.index, |k| k.is_failed = true);
                    if !self.hand_over(Err(trouble)).await {
                        return;
                    }
                    Step::Pause
                }
            };
            ask = match step {
                Step::Take(messages) => {
                    pause = PAUSE.0;
                    if !self.hand_over(Ok(messages)).await {
                        return;
                    }
                    Ask::Wait
                }
                Step::Nothing => {
                    pause = PAUSE.0;
                    // A broker that lets no pull wait is not asked without end.
                    if ask == Ask::Wait && since.elapsed() < PAUSE.0 {
                        tokio::time::sleep(PAUSE.0).await;
                    }
                    Ask::Wait
                }
                Step::One => Ask::One,
                Step::Pause => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE.1);
                    Ask::Probe
                }
                Step::End(trouble) => {
                    tokio::time::sleep(DOUBT).await;
                    self.hand_over(Err(trouble)).await;
                    return;
                }
            };
        }
    }

    async fn pull(&self, ask: Ask) -> ClientResult<PullResult> {
        let count = match ask {
            Ask::One => 1,
            Ask::Probe | Ask::Wait => PULL_MESSAGES,
        };
        let selector = MessageSelector::by_tag("*");
        let options = PullOptions::new(self.queue.clone(), selector, self.next, count)?
            .max_size_in_bytes(PULL_BYTES)
            .broker_suspend_timeout(SUSPEND);
        let options = match ask {
            Ask::Wait => options.timeout(PULL_TIMEOUT).block_if_not_found(true),
            Ask::Probe | Ask::One => options.timeout(PROBE_TIMEOUT),
        };
        self.consumer.pull_with_options(options).await
    }

    fn answered(&self, pulled: &PullResult) {
        self.shared.note(self.index, |known| {
            known.end = i64::try_from(pulled.max_offset()).ok();
            known.answered = Some(Instant::now());
            known.is_failed = false;
            known.is_waiting = false;
        });
    }

    /// False when nobody takes it.
    async fn hand_over(&self, outcome: Result<Vec<Packed>, Trouble>) -> bool {
        let pulled = Pulled {
            index: self.index,
            outcome,
        };
        self.sender.send(pulled).await.is_ok()
    }

    fn step(&mut self, pulled: &PullResult, ask: Ask) -> Step {
        match pulled.pull_status() {
            PullStatus::Found => take(
                &mut self.next,
                pulled.msg_found_list().unwrap_or_default(),
                ask,
            ),
            PullStatus::NoNewMsg => Step::Nothing,
            // Messages are being removed: soon the queue begins later.
            PullStatus::NoMatchedMsg => Step::Pause,
            PullStatus::OffsetIllegal => Step::End(Trouble::Offsets),
        }
    }
}

/// Takes messages in their order from `next` on, and moves it.
fn take(next: &mut i64, found: &[MessageExt], ask: Ask) -> Step {
    if found.is_empty() {
        if ask != Ask::One {
            return Step::One;
        }
        let offset = *next;
        *next += 1;
        let message = Message {
            offset,
            time_ms: 0,
            key: None,
            body: Bytes::new(),
            fault: Some("rocketmq's client cannot read it"),
        };
        return Step::Take(vec![Packed { message, flags: 0 }]);
    }
    let mut messages = Vec::with_capacity(found.len());
    let mut before: Option<(i64, i64)> = None;
    for message in found {
        let told = message.queue_offset();
        let is_inner = message.sys_flag() & INNER_BATCH_FLAG != 0;
        let offset = match before {
            Some((entry, last)) if is_inner && entry == told => last + 1,
            _ => told,
        };
        before = Some((told, offset));
        if offset < *next {
            continue;
        }
        if offset > *next {
            // What comes before is told first; the next pull finds the gap again.
            if messages.is_empty() {
                return Step::End(Trouble::Gap {
                    from: *next,
                    to: offset,
                });
            }
            break;
        }
        *next = offset + 1;
        messages.push(Packed {
            flags: message.sys_flag(),
            message: Message {
                offset,
                time_ms: message.born_timestamp(),
                key: message.property("KEYS").map(CheetahString::from_slice),
                body: message.body().unwrap_or_default(),
                fault: None,
            },
        });
    }
    match messages.is_empty() {
        true => Step::Pause,
        false => Step::Take(messages),
    }
}

/// Asks where queues end, of those whose pulls do not tell: because nobody takes what they pulled.
pub(crate) async fn watch_ends(consumer: Consumer, shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(ENDS_PERIOD).await;
        let is_old = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() > ENDS_PERIOD);
        let wanted: Vec<(usize, MessageQueue)> = {
            let known = shared.known();
            let known = known.iter().enumerate();
            known
                .filter(|(_, k)| !k.is_waiting && !k.is_failed && is_old(k.answered))
                .map(|(index, k)| (index, k.queue.clone()))
                .collect()
        };
        for (index, queue) in wanted {
            let end = consumer.max_offset(&queue).await;
            if let Ok(end) = end {
                shared.note(index, |known| known.end = known.end.max(Some(end)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(offset: i64, flags: i32) -> MessageExt {
        let mut message = MessageExt::default();
        message.set_queue_offset(offset);
        message.set_sys_flag(flags);
        message
    }

    /// Offsets that are taken, and the next one.
    fn taken(mut next: i64, found: &[MessageExt]) -> (Vec<i64>, i64) {
        match take(&mut next, found, Ask::Wait) {
            Step::Take(messages) => (messages.iter().map(|m| m.message.offset).collect(), next),
            _ => (Vec::new(), next),
        }
    }

    #[test]
    fn messages_are_taken_from_the_wanted_one_on() {
        let found = [message(4, 0), message(5, 0), message(6, 0)];
        assert_eq!(taken(4, &found), (vec![4, 5, 6], 7));
        assert_eq!(taken(6, &found), (vec![6], 7));
        assert_eq!(taken(7, &found), (vec![], 7));
    }

    #[test]
    fn a_gap_is_told_after_what_comes_before_it() {
        let found = [message(4, 0), message(9, 0)];
        assert_eq!(taken(4, &found), (vec![4], 5));
        let mut next = 5;
        let step = take(&mut next, &found[1..], Ask::Wait);
        let Step::End(trouble) = step else {
            panic!("a gap is passed over");
        };
        assert_eq!(trouble, Trouble::Gap { from: 5, to: 9 });
    }

    #[test]
    fn messages_of_one_entry_are_counted_from_its_offset() {
        let inner = |offset| message(offset, INNER_BATCH_FLAG);
        let found = [inner(4), inner(4), inner(4), inner(7), message(8, 0)];
        assert_eq!(taken(4, &found), (vec![4, 5, 6, 7, 8], 9));
        // A restart in the middle of an entry gets all of it again.
        assert_eq!(taken(6, &found), (vec![6, 7, 8], 9));
    }

    #[test]
    fn a_message_that_the_client_drops_is_asked_for_alone_and_then_told() {
        let mut next = 4;
        assert!(matches!(take(&mut next, &[], Ask::Wait), Step::One));
        let Step::Take(messages) = take(&mut next, &[], Ask::One) else {
            panic!("it is passed over");
        };
        assert!(messages[0].message.fault.is_some());
        assert_eq!((messages[0].message.offset, next), (4, 5));
    }
}
