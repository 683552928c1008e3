//! The thread that asks: tokens are checked there one after the other, services are asked side by
//! side.

use crate::config::HttpConfig;
use crate::counts::{Counts, add};
use crate::lasting::Lasting;
use crate::recent::{Digest, Digester, Recent};
use crate::service::{NoAnswer, Question, Service};
use crate::tokens::Checker;
use crate::{Answer, Identity, Ready, Setup};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{JoinSet, LocalSet};

/// Clients that wait where no service says how many may.
const QUEUE: u16 = 4_096;

/// Answers of a service that are known at most.
const KNOWN_MAX: usize = 65_536;

/// How long of a time a log keeps silent about a service that does not answer.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The keys of tokens.
    Token,
    /// The service.
    Service,
}

enum Work<T> {
    Ask(T, By, Question),
    Reload(Ready),
}

/// The way to the thread, which ends with the last of them.
#[derive(Debug)]
pub struct Asker<T> {
    to: UnboundedSender<Work<T>>,
    queue_max: u64,
    counts: Arc<Counts>,
}

impl<T> Clone for Asker<T> {
    fn clone(&self) -> Self {
        let Self { to, queue_max, counts } = self;
        Self { to: to.clone(), queue_max: *queue_max, counts: Arc::clone(counts) }
    }
}

/// Too many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

impl<T> Asker<T> {
    /// Asks; the answer comes with `tag`, and whoever has taken it calls [`Counts::answered`].
    ///
    /// # Errors
    /// Too many wait already, or the thread has ended.
    pub fn ask(&self, tag: T, by: By, question: Question) -> Result<(), Busy> {
        let before = self.counts.auth_service_queue.fetch_add(1, Ordering::Relaxed);
        if before >= self.queue_max || self.to.send(Work::Ask(tag, by, question)).is_err() {
            self.counts.answered();
            add(&self.counts.auth_service_busy);
            return Err(Busy);
        }
        Ok(())
    }

    /// Has the keys of files be these.
    pub fn reload(&self, ready: Ready) {
        // Who has ended needs none.
        let _ = self.to.send(Work::Reload(ready));
    }

    /// How many may wait at most.
    pub fn queue_max(&self) -> usize {
        self.queue_max as usize
    }

    /// The counts.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }
}

/// How many may wait, by this setup.
fn queue_max(setup: &Setup) -> u16 {
    setup.http.as_ref().map_or(QUEUE, |http| http.queue)
}

/// Starts the thread. `answer` is called there, with the tag of each question; `make_answer` makes
/// it, and is told how many may wait. What was asked when the last [`Asker`] is dropped is answered
/// still.
///
/// # Errors
/// What the system says of a thread and of what a runtime needs.
pub fn start<T, F>(
    setup: &Setup,
    ready: Ready,
    lasting: &Lasting,
    make_answer: impl FnOnce(usize) -> io::Result<F>,
) -> io::Result<Asker<T>>
where
    T: Send + 'static,
    F: FnMut(T, Answer) + Send + 'static,
{
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // Names are looked up on another thread.
    let runtime = builder.enable_io().enable_time().max_blocking_threads(2).build()?;
    let (to, given) = unbounded_channel();
    let queue_max = queue_max(setup);
    let answer = make_answer(queue_max.into())?;
    let (setup, counts, lasting) = (setup.clone(), Arc::clone(&lasting.counts), lasting.clone());
    let run = move || {
        let desk = Rc::new(Desk::new(&setup, &ready, &lasting, answer));
        LocalSet::new().block_on(&runtime, desk.serve(given));
    };
    std::thread::Builder::new().name("access".into()).spawn(run)?;
    Ok(Asker { to, queue_max: queue_max.into(), counts })
}

/// What the thread has.
struct Desk<F> {
    tokens: Option<Checker>,
    service: Option<Desked>,
    counts: Arc<Counts>,
    answer: RefCell<F>,
}

/// The service, and what it said of late.
struct Desked {
    service: Service,
    config: HttpConfig,
    places: Semaphore,
    digester: Digester,
    known: RefCell<Recent<Identity>>,
    /// How often all of that was forgotten.
    forgotten: Cell<u64>,
    said_at: Cell<Option<Instant>>,
}

impl<F> Desk<F> {
    fn new(setup: &Setup, ready: &Ready, lasting: &Lasting, answer: F) -> Self {
        let checker = |tokens| Checker::new(tokens, lasting);
        let tokens = ready.0.as_deref().map(checker);
        // It was made once to check it.
        let service = setup.http.as_ref().and_then(|config| {
            Some(Desked {
                service: Service::new(config).ok()?,
                places: Semaphore::new(config.pool.into()),
                digester: Digester::new(&lasting.secret),
                known: RefCell::new(Recent::new(KNOWN_MAX)),
                forgotten: Cell::default(),
                said_at: Cell::default(),
                config: config.clone(),
            })
        });
        let counts = Arc::clone(&lasting.counts);
        Self { tokens, service, counts, answer: RefCell::new(answer) }
    }

    async fn serve<T: 'static>(self: Rc<Self>, mut given: UnboundedReceiver<Work<T>>)
    where
        F: FnMut(T, Answer) + 'static,
    {
        let refreshing = Rc::clone(&self);
        let refresh = tokio::task::spawn_local(async move { refreshing.refresh().await });
        // Each has a time-out, so they all end.
        let mut open = JoinSet::new();
        while let Some(work) = given.recv().await {
            while open.try_join_next().is_some() {}
            match work {
                Work::Ask(tag, by, question) => {
                    let asked = Instant::now();
                    let desk = Rc::clone(&self);
                    open.spawn_local(async move {
                        let answer = match by {
                            By::Token => desk.check(&question).await,
                            By::Service => desk.ask(&question, asked).await,
                        };
                        (desk.answer.borrow_mut())(tag, answer);
                    });
                }
                Work::Reload(ready) => {
                    if let Some((checker, tokens)) = self.tokens.as_ref().zip(ready.0.as_ref()) {
                        checker.reload(tokens);
                    }
                    if let Some(desked) = &self.service {
                        desked.forget();
                    }
                }
            }
        }
        refresh.abort();
        while open.join_next().await.is_some() {}
    }

    /// Has the keys of tokens be those of their address, again and again.
    async fn refresh(&self) {
        let Some(checker) = &self.tokens else { return };
        while checker.refresh().is_some() {
            checker.fetch(Instant::now()).await;
            let rest = checker.refresh().unwrap_or(SAY_AGAIN);
            tokio::time::sleep(rest).await;
        }
    }

    async fn check(&self, question: &Question) -> Answer {
        match &self.tokens {
            Some(checker) => checker.check(question).await,
            None => Answer::Ignore,
        }
    }

    /// What the service says, or has said not long ago.
    async fn ask(&self, question: &Question, asked: Instant) -> Answer {
        let (Some(desked), counts) = (&self.service, &*self.counts) else {
            return Answer::Ignore;
        };
        let digest = desked.digest(question);
        let known = desked.known.borrow().get(&digest, Instant::now()).cloned();
        if let Some(identity) = known {
            add(&counts.auth_service_known);
            return Answer::Allow(Box::new(identity));
        }
        add(&counts.auth_service_asked);
        let forgotten = desked.forgotten.get();
        let answering = async {
            // It is never closed.
            let _place = desked.places.acquire().await;
            desked.service.ask(question).await
        };
        let time_max = Duration::from_millis(desked.config.timeout_ms.into());
        let until = tokio::time::Instant::from_std(asked + time_max);
        let answered = tokio::time::timeout_at(until, answering).await;
        let answered = answered.unwrap_or(Err(NoAnswer::Fault(weir_http::client::Fault::Late)));
        counts.took(asked.elapsed());
        counts.auth_service_up.store(u64::from(answered.is_ok()), Ordering::Relaxed);
        match answered {
            Ok(answer) => {
                add(match &answer {
                    Answer::Allow(_) => &counts.auth_service_allowed,
                    Answer::Ignore => &counts.auth_service_ignored,
                    Answer::Deny | Answer::Unfit | Answer::Unavailable => {
                        &counts.auth_service_denied
                    }
                });
                // What was asked before a reload is not known after it.
                if let Answer::Allow(identity) = &answer
                    && desked.forgotten.get() == forgotten
                {
                    desked.note(digest, identity);
                }
                answer
            }
            Err(error) => {
                if matches!(error, NoAnswer::Fault(weir_http::client::Fault::Late)) {
                    add(&counts.auth_service_timed_out);
                }
                add(&counts.auth_service_failed);
                desked.say(&error);
                Answer::Unavailable
            }
        }
    }
}

impl Desked {
    fn digest(&self, question: &Question) -> Digest {
        let Question { client_id, user_name, password, peer } = question;
        let peer = peer.map(|peer| peer.to_string());
        // What is not there is not the same as what is empty.
        let is_there = [user_name.is_some(), password.is_some(), peer.is_some()].map(u8::from);
        self.digester.digest(&[
            client_id.as_bytes(),
            user_name.as_deref().unwrap_or_default().as_bytes(),
            password.as_deref().unwrap_or_default(),
            peer.as_deref().unwrap_or_default().as_bytes(),
            &is_there,
        ])
    }

    fn forget(&self) {
        self.known.borrow_mut().clear();
        self.forgotten.set(self.forgotten.get() + 1);
    }

    /// Whoever comes back is let in by this for a while, but not when it is over.
    fn note(&self, digest: Digest, identity: &Identity) {
        let now = Instant::now();
        let mut known_for = Duration::from_secs(self.config.cache_s.into());
        if let Some(expires_at_s) = identity.expires_at_s {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            known_for = known_for.min(Duration::from_secs(expires_at_s).saturating_sub(since));
        }
        self.known.borrow_mut().add(digest, identity.clone(), now + known_for, now);
    }

    fn say(&self, error: &NoAnswer) {
        if self.said_at.get().is_none_or(|at| at.elapsed() >= SAY_AGAIN) {
            self.said_at.set(Some(Instant::now()));
            // What is behind it may be a secret.
            let url = self.config.url.split('?').next();
            tracing::warn!(url, %error, "the authentication service gives no answer");
        }
    }
}
