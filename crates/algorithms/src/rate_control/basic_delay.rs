//! BasicDelay, the delay control of Nimbus' paper ("Elasticity detection", §4), without what runs
//! around it: `basicdelay` and `nimbus` share it.

/// The gains of the paper: α of the spare rate, and β of the queueing delay.
const ALPHA: f64 = 0.8;
const BETA: f64 = 0.3;

/// What one step of the control starts from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loop {
    /// What both gains are relative to, bytes/s: μ in the paper.
    pub(crate) scale: f64,
    /// μ − S − z, bytes/s: negative while the queue grows.
    pub(crate) spare: f64,
    /// RTT beyond RTTmin and the target d_t, µs; negative below.
    pub(crate) late_us: f64,
    /// Time until a change of the rate shows in the spare rate, µs.
    pub(crate) loop_us: f64,
    /// Time since the last step, µs.
    pub(crate) since_us: f64,
}

impl Loop {
    /// What to add to the rate, bytes/s. The paper sets S + α(μ − S − z) + β·(μ/x)(x_min + d_t − x)
    /// with S of a round trip ago, and x is how long its loop is. This goes on from the rate that
    /// was set, and takes at each report the part of the step that its share of the loop has.
    pub(crate) fn step(&self) -> f64 {
        let step = ALPHA * self.spare - BETA * self.scale * self.late_us / self.loop_us;
        step * (self.since_us / self.loop_us).min(1.0)
    }
}
