//! The listeners of a running broker: which there are, which come and which go.

use crate::config::{Config, ConfigError};
use crate::listener::{Door, Doors, Listener, Passed, Place};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use weir_control::{ListenerPlace, SocketFile};
use weir_reactor::{ListenerId, Transport};

/// Listeners that there may ever be. The numbers of those that are gone are not used again.
const LISTENERS_MAX: usize = u16::MAX as usize;

/// A listener that is there.
#[derive(Debug)]
pub(crate) struct Heard {
    place: Place,
    /// Where it is, as the system says.
    pub(crate) name: String,
    pub(crate) address: Option<SocketAddr>,
    /// Removed when it goes.
    _file: Option<SocketFile>,
}

/// Those of a broker.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    pub(crate) heard: BTreeMap<ListenerId, Heard>,
    /// By number, those that are gone too: their connections may be here for a while.
    pub(crate) doors: Vec<Option<Arc<Door>>>,
}

/// What they are to be.
#[derive(Debug)]
pub(crate) struct Next {
    /// By number, of those that there will be.
    doors: BTreeMap<ListenerId, Option<Arc<Door>>>,
    /// New ones, which are bound.
    pub(crate) added: Vec<Listener>,
    heard: BTreeMap<ListenerId, Heard>,
    /// Those that stay, with what their files may do from now on.
    kept: Vec<(ListenerId, Place)>,
    pub(crate) removed: Vec<ListenerId>,
    pub(crate) transports: Vec<(ListenerId, Transport)>,
}

/// A place where it is to listen, and what is spoken there.
pub(crate) type Wanted = (Place, Option<Arc<Door>>);

/// Why an address cannot be listened on.
#[derive(Debug)]
pub(crate) struct NotBound {
    pub(crate) place: String,
    pub(crate) hint: String,
}

impl Listening {
    /// Finds out what changes, and binds what is new. Nothing that is there is touched.
    pub(crate) fn next(&self, wanted: Vec<Wanted>, passed: &mut Passed) -> Result<Next, NotBound> {
        let mut left: Vec<(ListenerId, &Place)> =
            self.heard.iter().map(|(&id, heard)| (id, &heard.place)).collect();
        let (doors, transports) = (BTreeMap::new(), Vec::new());
        let (added, heard) = (Vec::new(), BTreeMap::new());
        let (kept, removed) = (Vec::new(), Vec::new());
        let mut next = Next { doors, added, heard, kept, removed, transports };
        let mut number = self.doors.len();
        for (place, door) in wanted {
            let known = left.iter().position(|(_, there)| there.is_same(&place));
            if let Some(at) = known {
                let (id, _) = left.remove(at);
                let door = match self.door(id) {
                    Some(before) => door.map(|door| door.following(before)),
                    None => door,
                };
                next.transports.push((id, Listener::transport(door.as_ref())));
                next.doors.insert(id, door);
                next.kept.push((id, place));
                continue;
            }
            let named = place.to_string();
            let not_bound = |hint| NotBound { place: named.clone(), hint };
            if number >= LISTENERS_MAX {
                return Err(not_bound("too many listeners have come and gone: restart".into()));
            }
            let id = ListenerId(number as u16);
            number += 1;
            let bound = Listener::bind(id, &place, passed, door.as_ref());
            let (listener, file) = bound.map_err(not_bound)?;
            let address = rustix::net::getsockname(&listener.socket).ok();
            let address = address.and_then(|address| SocketAddr::try_from(address).ok());
            let name = address.map_or(named, |address| address.to_string());
            next.heard.insert(id, Heard { place, name, address, _file: file });
            next.doors.insert(id, door);
            next.added.push(listener);
        }
        next.removed = left.into_iter().map(|(id, _)| id).collect();
        Ok(next)
    }

    /// They are these from now on.
    pub(crate) fn set(&mut self, next: Next) -> Doors {
        let Next { doors, heard, kept, removed, .. } = next;
        for id in removed {
            if let Some(gone) = self.heard.remove(&id) {
                let name = gone.name;
                match gone.place {
                    Place::Systemd(_) => tracing::warn!(
                        "no longer listening on {name}: systemd passes its socket again at a \
                         restart only"
                    ),
                    _ => tracing::info!("no longer listening on {name}"),
                }
            }
        }
        for (id, place) in kept {
            if let Some(heard) = self.heard.get_mut(&id).filter(|heard| heard.place != place) {
                place.set_mode();
                heard.place = place;
            }
        }
        self.heard.extend(heard);
        for (id, door) in doors {
            let at = usize::from(id.0);
            self.doors.resize(self.doors.len().max(at + 1), None);
            self.doors[at] = door;
        }
        self.doors.clone().into()
    }

    /// What is spoken by one.
    pub(crate) fn door(&self, id: ListenerId) -> Option<&Arc<Door>> {
        self.doors.get(usize::from(id.0))?.as_ref()
    }

    /// Each, as the API shows it.
    pub(crate) fn shown(&self) -> Vec<ListenerPlace> {
        let place = |(&id, heard): (&ListenerId, &Heard)| {
            let door = self.door(id);
            let speaks = door.and_then(|door| door.name());
            ListenerPlace {
                id: id.0,
                address: heard.name.clone(),
                speaks: speaks.map_or("MQTT".into(), |below| format!("MQTT over {below}")),
                certificate: door.and_then(|door| door.shown()),
            }
        };
        self.heard.iter().map(place).collect()
    }

    /// Each, as the log has it.
    pub(crate) fn spoken(&self) -> impl Iterator<Item = String> {
        self.heard.iter().map(|(&id, heard)| {
            let spoken = self.door(id).and_then(|door| door.name());
            let name = &heard.name;
            spoken.map_or(name.clone(), |spoken| format!("{name} with {spoken}"))
        })
    }
}

/// Where a configuration listens, and what is spoken there.
pub(crate) fn wanted(
    config: &Config,
    doors: Vec<Option<Arc<Door>>>,
) -> Result<Vec<Wanted>, ConfigError> {
    Ok(config.places()?.into_iter().zip(doors).collect())
}
