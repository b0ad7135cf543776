//! A peer's Hello, and what stands for one where libccp sends none.

use fairwater_proto::{Dialect, Hello, RefusalReason, ToPlane, ccp};

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

    /// Our library for transports written for libccp greets in our dialect and in libccp's, in this
    /// order, and speaks libccp's until it is welcomed. If it was taken for libccp, because the plane
    /// came after another agent, its Hello begins anew: our dialect has no bounds on programs.
    pub(super) fn our_hello(&mut self, peer: &mut Peer, packet: &[u8]) {
        let is_hello = || {
            let mut messages = Dialect::Own.to_plane(packet);
            matches!(messages.next(), Some(Ok(ToPlane::Hello(_))))
        };
        if peer.dialect == Some(Dialect::Ccp)
            && Dialect::of(packet) == Some(Dialect::Own)
            && is_hello()
        {
            self.end_flows(peer);
            peer.forget();
            peer.introduction = None;
            peer.dialect = None;
        }
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
