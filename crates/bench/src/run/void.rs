//! The result of a run that never began: why, and no figures.

use super::{RunOptions, suite};
use crate::driver::{Driver, DriverError, Profile};
use crate::live::events::{Ended, Event, Started};
use crate::result::{
    Broker, Connections, Disclosed, Generator, Handshakes, Messages, Operations, Rates, RunResult,
    SCHEMA, Status, Verdict,
};
use crate::usecase::{self, Times, UseCase};
use crate::{export, folder, host};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// A use case and the broker that it was not run on.
#[derive(Clone, Copy)]
pub(super) struct Void<'a> {
    pub(super) use_case: &'a UseCase,
    pub(super) driver: &'a dyn Driver,
    pub(super) options: &'a RunOptions,
}

type Kept = anyhow::Result<(RunResult, PathBuf)>;

impl Void<'_> {
    /// The broker lacks what the use case needs, and was not started.
    ///
    /// # Errors
    /// The folder, the scale, a broker that is not there.
    pub(super) fn unsupported(self, lacks: &str) -> Kept {
        let broker = self.driver.about(self.profile())?;
        self.keep(None, broker, Status::Unsupported, format!("not supported: {lacks}"))
    }

    /// The broker is not there, or did not start. `folder` is that of the run, with the broker's
    /// log, if there is one yet.
    ///
    /// # Errors
    /// Where nothing else is run, why; and the folder, the scale.
    pub(super) fn unstarted(self, folder: Option<PathBuf>, why: DriverError) -> Kept {
        let Self { driver, options, .. } = self;
        if !options.is_one_of_many {
            folder.inspect(|folder| folder::remove_if_empty(folder));
            return Err(why.into());
        }
        let broker = driver.about(self.profile()).unwrap_or_else(|_| Broker {
            driver: driver.name().into(),
            name: driver.name().into(),
            version: "unknown".into(),
            profile: self.profile().to_string(),
            ..Broker::default()
        });
        self.keep(folder, broker, Status::Failed, format!("not started: {why}"))
    }

    fn profile(self) -> Profile {
        self.options.profile_of(self.use_case, self.driver)
    }

    fn keep(self, folder: Option<PathBuf>, broker: Broker, status: Status, reason: String) -> Kept {
        let Self { use_case, driver, options } = self;
        let connections_max = usecase::connections_max(&[]).min(options.brokers_hold);
        let scaled = usecase::scale(use_case, options.scale, connections_max)?;
        let times = Times::new(use_case, options.warm_up_s, options.measure_s);
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let plan = usecase::plan(&scaled, nowhere, 0, times);
        let result = RunResult {
            repetition: options.repetition.clone(),
            invalid_before: options.invalid_before.clone(),
            schema: SCHEMA,
            suite: suite(options, jiff::Timestamp::now()),
            use_case: scaled.run_description(&plan),
            broker,
            host: host::facts("nothing ran"),
            verdict: Verdict { status, reasons: vec![reason.clone()] },
            phases: Vec::new(),
            connections: Connections::default(),
            handshakes: Handshakes::default(),
            subscriptions: Operations::default(),
            warm_up: Messages::default(),
            measure: Messages::default(),
            rates: Rates::default(),
            latencies: BTreeMap::new(),
            resources: None,
            system: None,
            generator: Generator::default(),
            series: Vec::new(),
            course: None,
            cluster: None,
            memory_slope: None,
            silences: Vec::new(),
            marks: Vec::new(),
            interval_histograms: BTreeMap::new(),
            disclosed: Disclosed::default(),
            not_measured: BTreeMap::from([("every metric".to_owned(), reason)]),
        };
        let folder = match folder {
            Some(folder) => folder,
            None => folder::create(&options.out, &use_case.name, driver.name())?,
        };
        folder::write(&folder, "result.json", &(serde_json::to_string_pretty(&result)? + "\n"))?;
        for (name, text) in export::files(&result)? {
            folder::write(&folder, name, &text)?;
        }
        tell(&result, driver, &folder, options);
        Ok((result, folder))
    }
}

/// A run that ends as it begins.
fn tell(result: &RunResult, driver: &dyn Driver, folder: &Path, options: &RunOptions) {
    let (case, broker) = (&result.use_case, &result.broker);
    let started = Started {
        use_case: case.name.clone(),
        about: case.about.clone(),
        driver: driver.name().into(),
        broker: broker.title(),
        address: broker.address.clone(),
        profile: broker.profile.clone(),
        folder: folder.display().to_string(),
        ..Started::default()
    };
    options.live.tell(&Event::Started(Box::new(started)));
    options.live.tell(&Event::Ended(Box::new(Ended::of(result))));
}
