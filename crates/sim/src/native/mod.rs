//! Congestion controls inside the simulated sender, decided at each ACK: what algorithms of the
//! plane are compared with. They count in segments, as Linux's do.

mod cubic;
mod cubic_curve;
mod hystart;
mod reduction;
mod reno;

use crate::{Native, TcpConfig};
use fairwater_tcp::{Controls, Invocation};

/// A congestion control of one flow.
#[derive(Debug, Clone)]
pub struct NativeController(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Reno(reno::Reno),
    Cubic(Box<cubic::Cubic>),
    Constant(u64),
}

impl NativeController {
    /// For a connection that begins.
    #[must_use]
    pub fn new(native: Native, config: &TcpConfig) -> Self {
        Self(match native {
            Native::Reno => Kind::Reno(reno::Reno::new(config.prr)),
            Native::Cubic => Kind::Cubic(Box::new(cubic::Cubic::new(config.prr))),
            Native::Constant(cwnd) => Kind::Constant(cwnd),
        })
    }

    /// The answer to an event of the sender, whatever its cause. cwnd is in whole segments; the
    /// rate is none.
    pub fn on_invocation(&mut self, invocation: &Invocation) -> Controls {
        let mss = u64::from(invocation.mss);
        let cwnd = match &mut self.0 {
            Kind::Reno(reno) => reno.on_invocation(invocation).saturating_mul(mss),
            Kind::Cubic(cubic) => cubic.on_invocation(invocation).saturating_mul(mss),
            Kind::Constant(cwnd) => *cwnd,
        };
        Controls { cwnd, rate: 0 }
    }

    /// The slow-start threshold, segments, once a loss, a mark or HyStart has set one.
    #[must_use]
    pub fn ssthresh(&self) -> Option<u64> {
        match &self.0 {
            Kind::Reno(reno) => reno.ssthresh(),
            Kind::Cubic(cubic) => cubic.ssthresh(),
            Kind::Constant(_) => None,
        }
    }
}
