//! A node's lease while its store is read, which may take longer than a lease: its post does not
//! run before that.

use crate::post::Post;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often what etcd has said is heard.
const EACH: Duration = Duration::from_millis(50);

/// The thread that has the post until then.
pub(super) struct Renewing {
    thread: Option<JoinHandle<Post>>,
    stop: Arc<AtomicBool>,
}

impl Renewing {
    pub(super) fn begin(mut post: Post) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let run = move || {
            while !asked.load(Ordering::Acquire) {
                post.renew();
                std::thread::park_timeout(EACH);
            }
            post
        };
        let thread = std::thread::Builder::new().name("lease".into()).spawn(run)?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// The post runs from here on; nothing if the thread has panicked.
    pub(super) fn end(mut self) -> Option<Post> {
        self.join()
    }

    fn join(&mut self) -> Option<Post> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take()?;
        thread.thread().unpark();
        thread.join().ok()
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        drop(self.join());
    }
}
