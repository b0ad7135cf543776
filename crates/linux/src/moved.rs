//! Existing connections that are moved onto an algorithm, and back in the end.

use crate::LinuxError;
use crate::congestion_controls::default_without_fairwater;
use crate::migration::{MigrationCounts, Mode, migrate};
use crate::observe::{self, FoundPlane};

/// Moves existing connections onto an algorithm; dropping it gives them back.
#[derive(Debug)]
pub struct MovedConnections {
    /// The algorithm that existing connections were moved onto.
    onto: Option<String>,
    /// Congestion control for connections that are given back and have no origin.
    otherwise: String,
}

impl Default for MovedConnections {
    fn default() -> Self {
        Self {
            onto: None,
            otherwise: default_without_fairwater(),
        }
    }
}

impl MovedConnections {
    /// Moves every existing TCP connection of this machine onto a registered algorithm, by the
    /// kernel's name, whichever process hosts it.
    ///
    /// # Errors
    /// The kernel has no iterator over TCP sockets, or the walk failed.
    pub fn move_onto(&mut self, name: &str) -> Result<MigrationCounts, LinuxError> {
        let planes = observe::found();
        let Some(onto) = observe::registered(&planes, name) else {
            return Ok(MigrationCounts::default());
        };
        for former in planes.iter().filter(|plane| !plane.is_alive()) {
            for name in former.names() {
                inherit(former, &name, onto)?;
            }
        }
        self.onto = Some(name.to_owned());
        migrate(Mode::Onto, name, onto.origins())
    }

    /// Gives the connections that were moved back to where they came from.
    pub fn give_back_moved(&mut self) {
        if let Some(name) = self.onto.take() {
            self.give_back(&name);
        }
    }

    /// Gives the connections that have this congestion control back to where they came from, or to
    /// the machine's default. Connections that cannot be moved go on under the fallback of their
    /// own congestion control.
    pub fn give_back(&self, name: &str) {
        let planes = observe::found();
        if let Some(plane) = observe::registered(&planes, name) {
            let otherwise = &self.otherwise;
            let _ = migrate(Mode::Back { otherwise }, name, plane.origins());
        }
    }
}

impl Drop for MovedConnections {
    fn drop(&mut self) {
        self.give_back_moved();
    }
}

/// Notes the origins of connections that a plane that is gone called so, for the plane that will
/// have them.
pub(crate) fn inherit(
    former: &FoundPlane,
    name: &str,
    heir: &FoundPlane,
) -> Result<(), LinuxError> {
    let mode = Mode::Inherit {
        former: name,
        origins: former.origins(),
    };
    migrate(mode, "", heir.origins())?;
    Ok(())
}
