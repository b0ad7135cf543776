//! What experiments measured, whichever back end ran them: the model of results, the folder that
//! keeps the points of a grid, tables, and report pages.

mod benchmark;
mod bottleneck;
mod comparison;
mod fallback;
mod files;
mod folder;
pub mod grid;
mod packet_log;
mod parquet;
mod point;
pub mod report;
mod rounds;
mod size_class;
mod spread;
mod tables;

pub use benchmark::{BenchmarkResult, BenchmarkSeries};
pub use bottleneck::{AtBottleneck, Window};
pub use comparison::{
    CongestionState, Lateness, LinkInterval, Percentiles, Results, RunResult, Series, SocketSample,
    TrafficProgram,
};
pub use fallback::{ControllerProbe, ControllerSample, Fallback, FallbackCause, FallbackCount};
pub use files::{WholeFile, write_whole};
pub use folder::{Folder, FolderError};
pub use packet_log::{NO_FLOW, PacketLog, PacketRecord};
pub use parquet::{Column, Table};
pub use point::{
    BundleResult, BundleSample, EdgeResult, EdgeSample, FlowResult, FlowSample, GroupResult,
    PointResult, RequestClass,
};
pub use rounds::{RoundResults, RunSummary, Summary};
pub use size_class::{RequestResult, class_names, classes};
pub use spread::{Spread, jain};
pub use tables::tables;
