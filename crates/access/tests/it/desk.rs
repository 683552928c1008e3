//! The thread, and whoever asks it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use weir_access::{
    Answer, Asker, BadSetup, Busy, By, Identity, Lasting, Question, Ready, Setup, start,
};

pub(crate) struct Desk {
    pub(crate) asker: Asker<u32>,
    answers: Receiver<(u32, Answer)>,
}

impl Desk {
    pub(crate) fn new(setup: &Setup) -> Result<Self, BadSetup> {
        Self::after(&Lasting::new([7; 32]), setup)
    }

    /// One more of the same process.
    pub(crate) fn after(lasting: &Lasting, setup: &Setup) -> Result<Self, BadSetup> {
        let ready: Ready = setup.check()?;
        let (to, answers): (Sender<(u32, Answer)>, _) = channel();
        let make_answer = |_: usize| -> io::Result<_> {
            Ok(move |tag, answer| {
                // A test that is over needs none.
                let _ = to.send((tag, answer));
            })
        };
        let asker = start(setup, ready, lasting, make_answer).unwrap();
        Ok(Self { asker, answers })
    }

    pub(crate) fn ask(&self, by: By, question: &Question) -> Answer {
        self.put(1, by, question).unwrap();
        self.answer().1
    }

    pub(crate) fn put(&self, tag: u32, by: By, question: &Question) -> Result<(), Busy> {
        self.asker.ask(tag, by, question.clone())
    }

    pub(crate) fn answer(&self) -> (u32, Answer) {
        let answer = self.answers.recv_timeout(Duration::from_secs(60)).unwrap();
        self.asker.counts().answered();
        answer
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.asker.counts().by_name().find(|(it, _)| *it == name).unwrap().1
    }
}

pub(crate) fn question(client_id: &str, user_name: &str, password: &str) -> Question {
    Question {
        client_id: client_id.into(),
        user_name: Some(user_name.into()),
        password: Some(password.into()),
        peer: Some([192, 0, 2, 7].into()),
    }
}

/// Lets in, with nothing said of rights and time.
pub(crate) fn allowed() -> Answer {
    Answer::Allow(Box::<Identity>::default())
}
