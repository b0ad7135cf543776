//! A peer's Hello, and what stands for one where libccp sends none.

use fairwater_proto::{Dialect, Hello, RefusalReason, ccp};

use super::{Arrival, Refused};
use crate::notice::ServiceNotice;
use crate::peer::{Introduction, Peer};
use crate::service::Shared;
use fairwater_plane::FlowId;

impl Shared {
    pub(super) fn hello(
        &mut self,
        peer: &mut Peer,
        Arrival { dialect, now_us }: Arrival,
        hello: &Hello<'_>,
        implied: bool,
    ) {
        // libccp's READY is sent once, when its state is fresh.
        let same = |introduction: &Introduction| {
            introduction.instance == hello.instance && dialect == Dialect::Own
        };
        let known = peer.introduction.as_ref().is_some_and(same);
        if !known {
            self.end_flows(peer);
            peer.forget();
            peer.introduction = Some(Introduction {
                name: hello.name.to_owned(),
                instance: hello.instance,
                capabilities: hello.capabilities,
                implied,
            });
            self.notice(ServiceNotice::Connected {
                peer: hello.name.to_owned(),
                dialect,
            });
        }
        peer.welcomed_us = now_us;
        peer.outgoing.welcome = dialect == Dialect::Own;
    }

    /// A libccp that began before the plane did says no READY again.
    pub(super) fn introduced(
        &mut self,
        peer: &mut Peer,
        arrival: Arrival,
        flow: FlowId,
    ) -> Result<(), Refused> {
        match (&peer.introduction, arrival.dialect) {
            (Some(_), _) => Ok(()),
            (None, Dialect::Own) => Err(Refused::flow(RefusalReason::UnknownPeer, flow)),
            (None, Dialect::Ccp) => {
                let hello = Hello {
                    name: "libccp",
                    instance: 0,
                    capabilities: ccp::CAPABILITIES,
                };
                self.hello(peer, arrival, &hello, true);
                Ok(())
            }
        }
    }
}
