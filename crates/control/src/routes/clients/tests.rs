//! A list of very many clients, of a port that answers at once.

use super::*;
use crate::asks::tests::Nothing;
use crate::bans::{BanPage, Changed, NewBan, Unchanged, Whom};
use crate::keeper::Keeper;
use crate::port::{ClientPage, Full, Port};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};

const CLIENTS: u32 = 100_000;

/// Two shards, each with clients `SHARD-0` to `SHARD-99999`.
struct Crowd {
    answers: Vec<(u16, Answer)>,
    bell: UnixStream,
    wakes: UnixStream,
    asked: Arc<AtomicU32>,
}

fn client(client_id: String) -> Client {
    Client {
        client_id,
        user: None,
        connection: None,
        session_expiry_s: None,
        subscriptions: 0,
        queued_messages: 0,
        queued_bytes: 0,
        in_flight: 0,
    }
}

impl Port for Crowd {
    fn shards(&self) -> u16 {
        2
    }

    fn owner(&self, _client_id: &str) -> u16 {
        0
    }

    fn ask(&mut self, shard: u16, request: Request) -> Result<(), Full> {
        let Request::Clients { from, clients_max } = request else { return Err(Full) };
        self.asked.fetch_add(1, Ordering::Relaxed);
        let to = CLIENTS.min(from + u32::from(clients_max));
        let page = ClientPage {
            clients: (from..to).map(|at| client(format!("{shard}-{at}"))).collect(),
            behind: (from + 1..=to).collect(),
            next: (to < CLIENTS).then_some(to),
        };
        self.answers.push((shard, Answer::Clients(page)));
        self.bell.write_all(&[0]).unwrap();
        Ok(())
    }

    fn take_answers(&mut self, take: &mut dyn FnMut(u16, Answer)) {
        self.answers.drain(..).for_each(|(shard, answer)| take(shard, answer));
    }

    fn wakes(&self) -> io::Result<UnixStream> {
        self.wakes.try_clone()
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

    fn check_trace(&self, _of: &crate::traces::TraceOf) -> Result<(), String> {
        Ok(())
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(Nothing)
    }
}

/// Every client whose identifier has this part, by pages of `limit`; and the most requests to
/// shards that one page took.
async fn listed(part: &str, limit: usize) -> (Vec<String>, u32) {
    let (bell, wakes) = UnixStream::pair().unwrap();
    let asked = Arc::new(AtomicU32::new(0));
    let crowd = Crowd { answers: Vec::new(), bell, wakes, asked: Arc::clone(&asked) };
    let asks = Arc::new(Asks::new(Box::new(crowd)));
    let delivering = Arc::clone(&asks);
    let deliver = tokio::spawn(async move { delivering.deliver().await });
    let (mut ids, mut cursor, mut most) = (Vec::new(), None, 0);
    loop {
        asked.store(0, Ordering::Relaxed);
        let (id, limit) = (Some(part.to_owned()), Some(limit));
        let query = ListQuery { limit, cursor, id, user: None, waiting: None, state: None };
        let Ok(Json(list)) = clients(Site(Arc::clone(&asks)), Ok(Query(query))).await else {
            panic!("refused");
        };
        assert!(list.clients.len() <= limit.unwrap_or(0));
        ids.extend(list.clients.into_iter().map(|client| client.client_id));
        most = most.max(asked.load(Ordering::Relaxed));
        cursor = list.cursor;
        if cursor.is_none() {
            deliver.abort();
            return (ids, most);
        }
    }
}

#[tokio::test]
async fn a_small_page_of_a_filter_that_nobody_matches_asks_for_full_pages_and_few_of_them() {
    let (ids, most) = listed("nobody", 1).await;
    assert_eq!((ids.len(), most), (0, ASKED_MAX));
}

#[tokio::test]
async fn pages_of_a_filter_have_each_client_once_though_a_shard_had_more_than_they_take() {
    let (ids, _) = listed("-777", 3).await;
    let numbers = [777..778, 7_770..7_780, 77_700..77_800].into_iter().flatten();
    let numbers: Vec<u32> = numbers.collect();
    let wanted: Vec<_> =
        (0..2).flat_map(|shard| numbers.iter().map(move |at| format!("{shard}-{at}"))).collect();
    assert_eq!(ids, wanted);
}
