//! `fairwater edge explain`.

use std::net::SocketAddr;
use std::path::PathBuf;

use fairwater_edge::FlowKey;
use fairwater_wire::VlanTags;

use crate::failure::Failure;
use crate::hosting::read_edge_policy;
use crate::output;

const EXAMPLES: &str = "\
Example:
  fairwater edge explain 10.0.0.5:443 192.0.2.9:51000 --port vnet3 --policy edge.toml";

/// Tell which rule of a policy decides about a connection, and what follows
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The guest's address and port
    #[arg(value_name = "GUEST")]
    guest: SocketAddr,
    /// The other end's address and port
    #[arg(value_name = "PEER")]
    peer: SocketAddr,
    /// Name of the guest's port on this host
    #[arg(long, value_name = "NAME")]
    port: String,
    /// The policy
    #[arg(long, value_name = "FILE")]
    policy: PathBuf,
    /// VLAN identifier of the connection's packets
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..4095))]
    vlan: Option<u16>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.guest.is_ipv4() != args.peer.is_ipv4() {
        return Err(Failure::BadInput(
            "one address is IPv4 and the other IPv6: no connection has both".to_owned(),
        ));
    }
    let policy = read_edge_policy(&args.policy, None)?;
    let key = FlowKey {
        interface: 0,
        vlan: args
            .vlan
            .and_then(|id| VlanTags::NONE.with(id))
            .unwrap_or(VlanTags::NONE),
        guest: args.guest,
        peer: args.peer,
    };
    let sentences = policy.explain(&key, &args.port);
    if args.json {
        return output::json(&sentences);
    }
    let lines: String = sentences
        .iter()
        .map(|sentence| format!("{sentence}\n"))
        .collect();
    output::print(lines)
}
