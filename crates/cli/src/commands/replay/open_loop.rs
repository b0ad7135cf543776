//! Another program or algorithm over the recorded signals.

use std::io::{self, BufWriter, Write};

use fairwater_exec::frame::Fault;
use fairwater_hosting::resolve_argument;
use fairwater_lab::input::read_text;
use fairwater_lang::bounds::MAX_SOURCE;
use fairwater_lang::compile;
use fairwater_recording::Recording;
use fairwater_recording::replay::{Compared, OpenLoop, open_loop};
use serde_json::json;

use super::Args;
use crate::failure::Failure;
use crate::hosting;

pub(super) fn run(args: &Args, recording: &Recording) -> Result<(), Failure> {
    let instead = match (&args.program, &args.algorithm) {
        (Some(file), _) => {
            let name = file.display().to_string();
            let source = read_text(file, MAX_SOURCE as u64)
                .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
            let compiled = compile(&name, &source).map_err(|diagnostics| {
                anstream::eprint!("{}", diagnostics.render(true));
                Failure::AlreadyReported(2)
            })?;
            OpenLoop::Program(Box::new(compiled.program))
        }
        (None, spec) => {
            let spec = spec.clone().unwrap_or_default();
            let chosen = resolve_argument(&spec)?;
            OpenLoop::Algorithm(Box::new(hosting::plane(&[(spec, chosen)])?))
        }
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let mut lines = 0_u64;
    let mut tell = |compared: &Compared<'_>| {
        // A report is when something can be compared with a person's eyes.
        if written.is_ok() && (compared.report.is_some() || compared.fault != 0) {
            lines += 1;
            written = writeln!(out, "{}", line(compared, args.json));
        }
    };
    open_loop(recording, instead, &mut tell)
        .map_err(|error| Failure::BadInput(error.to_string()))?;
    written
        .and_then(|()| out.flush())
        .map_err(Failure::io("standard output"))?;
    if lines == 0 {
        eprintln!("fairwater: open loop: nothing was reported over the recording's signals");
    }
    Ok(())
}

fn line(compared: &Compared<'_>, is_json: bool) -> String {
    let fields = compared.report.as_deref().unwrap_or_default();
    if is_json {
        let report: serde_json::Map<_, _> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!(value)))
            .collect();
        return json!({
            "open_loop": true,
            "invocation": compared.invocation,
            "flow": compared.flow,
            "time_us": compared.time_us,
            "cwnd_bytes": compared.instead.cwnd,
            "rate_bytes_per_s": compared.instead.rate,
            "recorded_cwnd_bytes": compared.recorded.cwnd,
            "recorded_rate_bytes_per_s": compared.recorded.rate,
            "report": report,
            "fault": (compared.fault != 0).then(|| Fault::reason(compared.fault.into())),
        })
        .to_string();
    }
    let mut text = format!(
        "open loop: invocation {}, flow {}, {} µs: Cwnd {} (recorded {}), Rate {} (recorded {})",
        compared.invocation,
        compared.flow,
        compared.time_us,
        compared.instead.cwnd,
        compared.recorded.cwnd,
        compared.instead.rate,
        compared.recorded.rate
    );
    for (name, value) in fields {
        text += &format!(" {name}={value}");
    }
    if compared.fault != 0 {
        text += &format!(" stopped: {}", Fault::reason(compared.fault.into()));
    }
    text
}
