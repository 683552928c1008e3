//! Requests to a port that the test answers when it wants to.

use super::*;
use crate::keeper::{ConfigSection, ListenerPlace, NotKept, PutConfig, Reloaded};
use crate::port::Kicked;
use std::future::Future;
use std::io::Write;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Keeps no file.
#[derive(Debug)]
pub(crate) struct Nothing;

impl Keeper for Nothing {
    fn reload(&self) -> Reloaded {
        Reloaded::default()
    }

    fn config(&self) -> String {
        String::new()
    }

    fn config_file(&self) -> Result<String, NotKept> {
        Err(NotKept::NoFile(String::new()))
    }

    fn may_guests_write(&self) -> bool {
        false
    }

    fn sections(&self) -> Vec<ConfigSection> {
        Vec::new()
    }

    fn put_config(&self, _text: &str, _how: PutConfig) -> Result<Reloaded, NotKept> {
        Err(NotKept::NoFile(String::new()))
    }

    fn users(&self) -> Result<Vec<String>, NotKept> {
        Err(NotKept::NoFile(String::new()))
    }

    fn put_user(&self, _name: &str, _password: Option<&str>) -> Result<bool, NotKept> {
        Err(NotKept::NoFile(String::new()))
    }

    fn rights(&self, _user: Option<&str>) -> Result<String, NotKept> {
        Err(NotKept::NoFile(String::new()))
    }

    fn put_rights(&self, _user: Option<&str>, _text: &str) -> Result<(), NotKept> {
        Err(NotKept::NoFile(String::new()))
    }

    fn listeners(&self) -> Vec<ListenerPlace> {
        Vec::new()
    }
}

struct Toy {
    asked: Sender<(u16, Request)>,
    answers: Receiver<(u16, Answer)>,
    wakes: StdStream,
    room: usize,
}

impl Port for Toy {
    fn shards(&self) -> u16 {
        2
    }

    fn owner(&self, client_id: &str) -> u16 {
        client_id.len() as u16 % 2
    }

    fn check_trace(&self, _of: &TraceOf) -> Result<(), String> {
        Ok(())
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(Nothing)
    }

    fn ask(&mut self, shard: u16, request: Request) -> Result<(), Full> {
        self.room = self.room.checked_sub(1).ok_or(Full)?;
        self.asked.send((shard, request)).unwrap();
        Ok(())
    }

    fn ban(&mut self, _ban: NewBan) -> Result<Changed, Unchanged> {
        Err(Unchanged::Full(0))
    }

    fn unban(&mut self, _whom: &Whom) -> Result<Changed, Unchanged> {
        Err(Unchanged::Unknown)
    }

    fn bans(&self, _from: usize, _bans_max: usize) -> BanPage {
        BanPage::default()
    }

    fn take_answers(&mut self, take: &mut dyn FnMut(u16, Answer)) {
        self.answers.try_iter().for_each(|(shard, answer)| take(shard, answer));
    }

    fn wakes(&self) -> io::Result<StdStream> {
        self.wakes.try_clone()
    }
}

/// The broker's side.
struct Broker {
    asked: Receiver<(u16, Request)>,
    answers: Sender<(u16, Answer)>,
    bell: StdStream,
}

impl Broker {
    /// The next requests, so many; in the order of shards, then kinds.
    async fn seen(&self, count: usize) -> Vec<(u16, Request)> {
        let mut seen = Vec::new();
        while seen.len() < count {
            tokio::time::sleep(REST).await;
            seen.extend(self.asked.try_iter());
        }
        seen.sort_by_key(|(shard, request)| (*shard, request.kind()));
        seen
    }

    /// Nothing is asked, though there was time for it.
    async fn sees_nothing(&self) {
        tokio::time::sleep(REST * 10).await;
        assert_eq!(self.asked.try_iter().collect::<Vec<_>>(), []);
    }

    fn answer(&mut self, shard: u16, answer: Answer) {
        self.answers.send((shard, answer)).unwrap();
        self.bell.write_all(&[0]).unwrap();
    }
}

fn kick(id: &str) -> Request {
    Request::Kick(id.into())
}

fn run<F: Future<Output = ()>>(room: usize, test: impl FnOnce(Arc<Asks>, Broker) -> F) {
    let (ask, asked) = channel();
    let (answer, answers) = channel();
    let (bell, wakes) = StdStream::pair().unwrap();
    let asks = Arc::new(Asks::new(Box::new(Toy { asked: ask, answers, wakes, room })));
    let broker = Broker { asked, answers: answer, bell };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_io().enable_time().build().unwrap().block_on(async {
        let deliver = Arc::clone(&asks);
        tokio::spawn(async move { deliver.deliver().await.unwrap() });
        test(asks, broker).await;
    });
}

fn spawn(
    asks: &Arc<Asks>,
    shard: u16,
    request: Request,
) -> tokio::task::JoinHandle<Result<Answer, Full>> {
    let asks = Arc::clone(asks);
    tokio::spawn(async move { asks.ask(shard, request).await })
}

#[test]
fn one_of_a_kind_is_under_way_to_a_shard_and_the_next_follows_its_answer() {
    run(99, |asks, mut broker| async move {
        let first = spawn(&asks, 0, kick("a"));
        assert_eq!(broker.seen(1).await, [(0, kick("a"))]);
        let second = spawn(&asks, 0, kick("b"));
        // Another kind and another shard do not wait for it.
        let _others = [spawn(&asks, 0, Request::Counters), spawn(&asks, 1, kick("c"))];
        assert_eq!(broker.seen(2).await, [(0, Request::Counters), (1, kick("c"))]);
        broker.sees_nothing().await;
        broker.answer(0, Answer::Kicked(Kicked::Ended));
        assert_eq!(first.await.unwrap(), Ok(Answer::Kicked(Kicked::Ended)));
        assert_eq!(broker.seen(1).await, [(0, kick("b"))]);
        broker.answer(0, Answer::Kicked(Kicked::Unknown));
        assert_eq!(second.await.unwrap(), Ok(Answer::Kicked(Kicked::Unknown)));
    });
}

#[test]
fn who_gave_up_gets_nobody_elses_answer_and_keeps_the_turn_until_it_came() {
    run(99, |asks, mut broker| async move {
        let first = spawn(&asks, 0, kick("a"));
        assert_eq!(broker.seen(1).await.len(), 1);
        first.abort();
        let second = spawn(&asks, 0, kick("b"));
        broker.sees_nothing().await;
        broker.answer(0, Answer::Kicked(Kicked::Ended));
        assert_eq!(broker.seen(1).await, [(0, kick("b"))]);
        assert!(!second.is_finished(), "that answer was not for it");
        broker.answer(0, Answer::Kicked(Kicked::Absent));
        assert_eq!(second.await.unwrap(), Ok(Answer::Kicked(Kicked::Absent)));
    });
}

#[test]
fn a_request_that_the_port_has_no_room_for_is_refused_and_its_turn_is_free() {
    run(1, |asks, mut broker| async move {
        let first = spawn(&asks, 0, kick("a"));
        assert_eq!(broker.seen(1).await.len(), 1);
        assert_eq!(asks.ask(1, kick("b")).await, Err(Full));
        assert_eq!(asks.ask(1, kick("b")).await, Err(Full), "and not stuck");
        assert_eq!(asks.ask(9, kick("b")).await, Err(Full), "no such shard");
        broker.answer(0, Answer::Kicked(Kicked::Ended));
        assert!(first.await.unwrap().is_ok());
    });
}

#[test]
fn an_answer_that_nobody_waits_for_is_passed_over() {
    run(99, |asks, mut broker| async move {
        broker.answer(0, Answer::Kicked(Kicked::Ended));
        broker.answer(7, Answer::Kicked(Kicked::Ended));
        broker.sees_nothing().await;
        let asked = spawn(&asks, 0, kick("a"));
        assert_eq!(broker.seen(1).await.len(), 1);
        broker.answer(0, Answer::Kicked(Kicked::Unknown));
        assert_eq!(asked.await.unwrap(), Ok(Answer::Kicked(Kicked::Unknown)));
    });
}
