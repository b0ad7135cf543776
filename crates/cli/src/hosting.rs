//! What commands need of `fairwater-hosting`, with its errors as failures of a command.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use fairwater_bundle_linux::BoxError;
use fairwater_document::diagnostic::Diagnostics;
use fairwater_edge::policy::{EdgePolicy, ParsedPolicy};
use fairwater_edge_tc::EdgeError;
use fairwater_hosting::bundle::{BoxConfig, ReceiveFailure};
use fairwater_hosting::host::{EdgePolicyError, HostConfig, HostFailure};
use fairwater_hosting::{
    AttachError, DefaultError, DuplicateName, HostError, NamedAlgorithm, ProcessError,
    ResolveError, Stop, plane_of,
};
use fairwater_lab::input::{MAX_INPUT_BYTES, read_text};
use fairwater_plane::Plane;
use fairwater_service::Server;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::failure::Failure;

/// Files open besides those of peers: sockets, timers, and those of processes of algorithms.
const OTHER_FILES: u64 = 256;

/// A plane with these algorithms, each under the name before it.
pub(crate) fn plane(algorithms: &[NamedAlgorithm]) -> Result<Plane, Failure> {
    let named = algorithms
        .iter()
        .map(|(name, algorithm)| (name.as_str(), &algorithm.choice));
    plane_of(named).map_err(|error| Failure::BadInput(error.to_string()))
}

/// The configuration of a host.
pub(crate) fn read_host_config(file: &Path) -> Result<HostConfig, Failure> {
    let name = file.display().to_string();
    let text = read_text(file, MAX_INPUT_BYTES).map_err(|error| {
        let hint = match file.exists() {
            true => "",
            false => "; `fairwater up --help` shows one",
        };
        Failure::BadInput(format!("{name}: {error}{hint}"))
    })?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let mut config = HostConfig::parse(&name, &text, folder).map_err(report)?;
    let names: Vec<_> = config
        .algorithms
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    if let Some(edge) = &mut config.edge {
        edge.policy = Arc::new(read_edge_policy(&edge.policy_file, Some(&names))?);
    }
    Ok(config)
}

/// The configuration of a box of bundles.
pub(crate) fn read_box_config(file: &Path) -> Result<BoxConfig, Failure> {
    let name = file.display().to_string();
    let text = read_text(file, MAX_INPUT_BYTES).map_err(|error| {
        let hint = match file.exists() {
            true => "",
            false => "; `fairwater bundle --help` shows one",
        };
        Failure::BadInput(format!("{name}: {error}{hint}"))
    })?;
    let folder = file.parent().unwrap_or(Path::new(""));
    BoxConfig::parse(&name, &text, folder).map_err(report)
}

/// The policy of an edge; warnings are printed.
pub(crate) fn read_edge_policy(
    file: &Path,
    algorithms: Option<&[&str]>,
) -> Result<EdgePolicy, Failure> {
    let parsed = fairwater_hosting::host::read_edge_policy(file, algorithms);
    match parsed {
        Ok(ParsedPolicy { policy, warnings }) => {
            anstream::eprint!("{}", warnings.render(true));
            Ok(policy)
        }
        Err(EdgePolicyError::Mistakes(_, diagnostics)) => Err(report(diagnostics)),
        Err(unreadable) => Err(Failure::BadInput(unreadable.to_string())),
    }
}

fn report(diagnostics: Diagnostics) -> Failure {
    anstream::eprint!("{}", diagnostics.render(true));
    Failure::AlreadyReported(2)
}

/// Lets this process open the files of so many peers, as far as its hard limit allows.
pub(crate) fn raise_open_files(max_peers: u32) {
    let needed = u64::from(max_peers) * Server::FILES_PER_PEER + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(needed, |most| most.min(needed));
    if limit.current.is_some_and(|now| now < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            ..limit
        };
        // Within the hard limit this is allowed; if not, the server says when files run out.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}

/// Where an algorithm in Python runs in this process, which it may block for ever: lets SIGTERM end
/// the process all the same, and remove its sockets.
pub(crate) fn remove_sockets_if_stuck(config: &HostConfig, stop: &Stop) -> Result<(), Failure> {
    let in_process = config.linux.is_none();
    let Some(links) = config.links.as_ref().filter(|_| in_process) else {
        return Ok(());
    };
    if !config.algorithms.iter().any(|(_, each)| each.is_python) {
        return Ok(());
    }
    let sockets = links.sockets();
    let remove = move || sockets.iter().for_each(|path| drop(fs::remove_file(path)));
    stop.exit_if_stuck(remove)
        .map_err(Failure::io("handling signals"))
}

/// The failure of `attach` or `serve`, whose options are flags.
pub(crate) fn of_short_form(failure: HostFailure) -> Failure {
    match failure {
        over @ HostFailure::OverBudget { .. } => {
            Failure::BadInput(format!("{over}; see --max-instructions"))
        }
        HostFailure::Links(error) => {
            Failure::Other(format!("cannot serve: {error}; see --listen and --ccp"))
        }
        other => other.into(),
    }
}

impl From<HostFailure> for Failure {
    fn from(failure: HostFailure) -> Self {
        match failure {
            HostFailure::Missing(missing) => missing.into(),
            HostFailure::Linux(error) => error.into(),
            HostFailure::Edge(error) if error.is_permission() => Self::LabMissing(format!(
                "{error}: the edge needs root, or CAP_BPF and CAP_NET_ADMIN"
            )),
            HostFailure::Edge(
                error @ EdgeError::NotServed(_) | error @ EdgeError::NotInKernel(_),
            ) => Self::BadInput(error.to_string()),
            HostFailure::Box(error) => error.into(),
            HostFailure::Process(error) => error.into(),
            HostFailure::Namespace(error) => Self::io("the network namespace")(error),
            HostFailure::Default(error @ DefaultError::Io { .. }) => Self::Other(error.to_string()),
            HostFailure::Links(error) => Self::Other(format!("cannot serve: {error}")),
            HostFailure::NoAlgorithm
            | HostFailure::Duplicate(_)
            | HostFailure::Plane(_)
            | HostFailure::OverBudget { .. }
            | HostFailure::NotOnLinux(_) => Self::BadInput(failure.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<BoxError> for Failure {
    fn from(error: BoxError) -> Self {
        match error {
            error if error.is_permission() => Self::LabMissing(format!(
                "{error}: the boxes of bundles need root, or CAP_BPF and CAP_NET_ADMIN"
            )),
            BoxError::Bundle(_)
            | BoxError::NoPort(_)
            | BoxError::NotEthernet(_)
            | BoxError::MixedPorts(_)
            | BoxError::TooManyBundles(_) => Self::BadInput(error.to_string()),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ReceiveFailure> for Failure {
    fn from(failure: ReceiveFailure) -> Self {
        match failure {
            ReceiveFailure::Box(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ResolveError> for Failure {
    fn from(error: ResolveError) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<DuplicateName> for Failure {
    fn from(error: DuplicateName) -> Self {
        Self::BadInput(error.to_string())
    }
}

impl From<AttachError> for Failure {
    fn from(error: AttachError) -> Self {
        match error {
            AttachError::Linux(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<ProcessError> for Failure {
    fn from(error: ProcessError) -> Self {
        match error {
            ProcessError::Exited(code) => Self::AlreadyReported(code),
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Plane(error) => Self::BadInput(error.to_string()),
            HostError::Attach(error) => error.into(),
            HostError::Process(error) => error.into(),
            other => Self::Other(other.to_string()),
        }
    }
}
