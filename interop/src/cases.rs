//! Programs of portus's own tests that are run both ways: on libccp under our plane, and on our
//! datapath under portus.

/// A program, and the fields of its reports in the order in which a test reads them.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// In CCP's language.
    pub source: &'static str,
    /// As portus names them.
    pub fields: &'static [&'static str],
}

impl Case {
    /// A program whose reports have these fields.
    #[must_use]
    pub const fn new(source: &'static str, fields: &'static [&'static str]) -> Self {
        Self { source, fields }
    }
}

/// Reports a control variable, which the algorithm may preset.
pub const PRESET: Case = Case {
    source: "(def (Report (testFoo 0)) (foo 0))
        (when true (:= Report.testFoo foo) (report))",
    fields: &["Report.testFoo"],
};

/// Reports each tenth ACK; what is volatile counts from its initial value again.
pub const VOLATILE: Case = Case {
    source: "(def (volatile foo1 0)
            (Report (volatile foo 0) (bar 0) (volatile sum 0))
            (bar1 0))
        (when true
            (:= Report.foo (+ Report.foo 1))
            (:= Report.bar (+ Report.bar 1))
            (:= foo1 (+ foo1 1))
            (:= bar1 (+ bar1 1))
            (:= Report.sum (+ foo1 bar1))
            (fallthrough))
        (when (== Report.foo 10) (report))",
    fields: &["Report.foo", "Report.bar", "Report.sum"],
};

/// Reports each new minimum of the RTT, µs.
pub const MIN_RTT: Case = Case {
    source: "(def (Report (minrtt +infinity)))
        (when (< Flow.rtt_sample_us Report.minrtt)
            (:= Report.minrtt Flow.rtt_sample_us)
            (report))",
    fields: &["Report.minrtt"],
};

/// Reports, at each ACK of new data, how many came since the last that acknowledged none.
pub const QUIET: Case = Case {
    source: "(def (Report (volatile quiet 0)))
        (when (> Ack.bytes_acked 0) (report))
        (when true (:= Report.quiet (+ Report.quiet 1)))",
    fields: &["Report.quiet"],
};

/// Sets cwnd to 5 bytes, and reports 1 if it reads that.
pub const OWN_WINDOW: Case = Case {
    source: "(def (Report (equal 0)))
        (when true (:= Cwnd 5) (fallthrough))
        (when (== Cwnd 5) (:= Report.equal 1) (report))",
    fields: &["Report.equal"],
};
