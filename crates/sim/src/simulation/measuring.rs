//! Samples, summaries, and the outcome.

use std::ops::Deref;

use super::Simulation;
use crate::events::Event;
use crate::flow::Open;
use crate::{BoxOutcome, Experiment, Observer, Outcome};

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// Every edge lets out what is due: queues are as they are now.
    fn settle(&mut self) {
        for edge in 0..self.edges.len() {
            self.let_out(edge);
        }
    }

    /// By flow: its open connections.
    fn open_connections(&self) -> Vec<Open> {
        let mut open = vec![Open::NONE; self.flows.len()];
        for connection in self.connections.iter() {
            open[connection.flow as usize].add(connection);
        }
        open
    }

    /// Summaries begin.
    pub(super) fn begin_summaries(&mut self) {
        self.settle();
        self.edges.begin(self.now);
        self.sendboxes.begin();
        let open = self.open_connections();
        for (flow, open) in self.flows.iter_mut().zip(&open) {
            flow.measured.begin(&open.totals);
        }
    }

    /// An interval ends.
    pub(super) fn sample(&mut self) {
        self.settle();
        self.edges.sample(self.now);
        self.sendboxes.sample(self.now, &mut self.plane);
        let open = self.open_connections();
        for (flow, open) in self.flows.iter_mut().zip(&open) {
            flow.measured.sample(self.now, open);
        }
        if let Some(interval) = self.config.measure.interval {
            self.events.push(self.now + interval, Event::Sample);
        }
    }

    pub(super) fn outcome(mut self) -> Outcome {
        self.settle();
        debug_assert_eq!(
            self.segments.len(),
            self.edges.in_transit() + self.sendboxes.held()
        );
        let open = self.open_connections();
        let flows = self.flows.into_iter().zip(&open);
        Outcome {
            flows: flows
                .map(|(flow, open)| flow.measured.finish(&open.totals))
                .collect(),
            sendboxes: self.sendboxes.finish(),
            hops: self.edges.hops,
            edges: self.edges.finish(&self.config, self.now),
            events: self.taken,
            reports: self.plane.reports(),
            fallbacks: self.plane.fallbacks(),
            host_edges: self
                .host_edges
                .iter()
                .filter_map(|(node, host)| Some((*node, self.plane.edge_statistics(*host)?)))
                .collect(),
            boxes: self
                .host_edges
                .iter()
                .filter_map(|(node, host)| {
                    let (buffers, switches) = self.plane.box_statistics(*host)?;
                    let faults = self.boxes.faults(*host);
                    let outcome = BoxOutcome {
                        buffers,
                        switches,
                        early_acks: faults.early_acks,
                        altered_packets: faults.altered,
                    };
                    Some((*node, outcome))
                })
                .collect(),
            careful_resume: self.plane.careful_resume(),
            notices: self.plane.into_notices(self.now),
        }
    }
}
