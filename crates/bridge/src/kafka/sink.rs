//! The thread of a sink.

use super::{KafkaSettings, run};
use crate::counts::Shared;
use crate::{Inlet, Prepared};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// A sink on its thread, which ends with this.
pub(crate) struct Sink {
    pub(crate) name: String,
    /// That of its queue in the own broker.
    pub(crate) client_id: String,
    pub(crate) shared: Arc<Shared>,
    stop: Arc<Notify>,
    handle: Option<JoinHandle<()>>,
}

impl Sink {
    pub(crate) fn start(
        settings: Box<KafkaSettings>,
        inlet: Arc<dyn Inlet>,
        prepared: Arc<Prepared>,
    ) -> io::Result<Self> {
        let (name, client_id) = (settings.name.clone(), settings.local_client_id.clone());
        let (shared, stop) = (Arc::<Shared>::default(), Arc::<Notify>::default());
        let (own, shared_there) = (Arc::clone(&stop), Arc::clone(&shared));
        let work = move || {
            let ended = run(&settings, &shared_there, &own, (&*inlet, prepared));
            if let Err(error) = ended {
                tracing::error!(bridge = settings.name, %error, "the bridge has ended");
                shared_there.failed("", &error.to_string());
            }
        };
        let handle = Some(std::thread::Builder::new().name("kafka".into()).spawn(work)?);
        Ok(Self { name, client_id, shared, stop, handle })
    }

    pub(crate) fn stop(&self) {
        self.stop.notify_one();
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.stop();
        // It has said why, if it could not go on.
        let _ = self.handle.take().map(JoinHandle::join);
    }
}
