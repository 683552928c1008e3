//! What is said of certificates and lists that have expired, or soon will have.

use super::TlsFault;
use std::path::Path;
use std::time::Duration;
use weir_transport::tls::Dates;

pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate that is valid for fewer days is spoken of.
const CERTIFICATE_DAYS: u64 = 30;

/// A list is: authorities publish them often.
const LIST_DAYS: u64 = 2;

/// The broker's own: it starts with one that is not valid, so that clients that do not look at that
/// are served, and a wrong clock is no reason to serve nobody.
pub(super) fn of_certificate(file: &Path, dates: Option<Dates>, now: Duration) -> Option<String> {
    let Dates { start, end } = dates?;
    let file = file.display();
    if now >= end {
        let days = (now - end).as_secs() / DAY.as_secs();
        return Some(format!(
            "{file}: THE CERTIFICATE HAS EXPIRED ({days} days ago), and clients will not connect; \
             renew it, and send SIGHUP"
        ));
    }
    if now < start {
        return Some(format!(
            "{file}: THE CERTIFICATE IS NOT VALID YET, and clients will not connect; look at the \
             clock of this host, and at that of who has made it"
        ));
    }
    let days = (end - now).as_secs() / DAY.as_secs();
    (days < CERTIFICATE_DAYS).then(|| {
        format!("{file}: the certificate expires in {days} days; renew it, and send SIGHUP")
    })
}

/// One of revoked certificates.
pub(super) fn of_list(
    file: &Path,
    end: Option<Duration>,
    now: Duration,
) -> Result<Option<String>, TlsFault> {
    let Some(end) = end else { return Ok(None) };
    if now >= end {
        let why = "the list of revoked certificates has expired; its authority publishes another \
                   one, which is to be fetched";
        return Err(TlsFault::new(file, &why));
    }
    let days = (end - now).as_secs() / DAY.as_secs();
    let warning = || {
        format!(
            "{}: the list of revoked certificates expires in {days} days, and then nobody comes in \
             whose certificate it is about; fetch the next one, and send SIGHUP",
            file.display()
        )
    };
    Ok((days < LIST_DAYS).then(warning))
}
