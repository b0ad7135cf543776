//! What is known of a flow when it begins.

use std::net::SocketAddr;

use fairwater_plane as plane;
use pyo3::prelude::*;

/// What is known of a flow when it begins, or comes back from the datapath's fallback.
#[pyclass(frozen, module = "fairwater")]
pub(crate) struct FlowInfo(plane::FlowInfo);

impl From<&plane::FlowInfo> for FlowInfo {
    fn from(info: &plane::FlowInfo) -> Self {
        Self(info.clone())
    }
}

fn address(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}

#[pymethods]
impl FlowInfo {
    #[getter]
    fn local(&self) -> (String, u16) {
        address(self.0.local)
    }

    #[getter]
    fn remote(&self) -> (String, u16) {
        address(self.0.remote)
    }

    #[getter]
    fn mss(&self) -> u32 {
        self.0.mss
    }

    #[getter]
    fn cwnd(&self) -> u64 {
        self.0.cwnd
    }

    #[getter]
    fn srtt_us(&self) -> u64 {
        self.0.srtt_us
    }

    #[getter]
    fn now_us(&self) -> u64 {
        self.0.now_us
    }

    #[getter]
    fn tag(&self) -> u64 {
        self.0.tag.into()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}
