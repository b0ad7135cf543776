//! Throughput of a transfer over loopback, as a ratio to noq's own Cubic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairwater_quic::certificate::Certificate;
use fairwater_quic::transfer::{Content, FileServer, GetConfig, ServeConfig, get};
use fairwater_quic::{Factory, Options};

use super::Arguments;
use crate::statistics::Rounds;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let factories: Vec<_> = arguments
        .algorithms
        .iter()
        .map(|name| anyhow::Ok((name.clone(), Options::default().embedded().noq(name)?)))
        .collect::<Result<_, _>>()?;
    let mut base = Rounds::default();
    let mut ratios = vec![Rounds::default(); factories.len()];
    // The first round warms up and is not counted.
    for round in 0..=arguments.rounds {
        let own = bits_per_second(None, arguments.bytes)?;
        for ((_, factory), ratios) in factories.iter().zip(&mut ratios) {
            let rate = bits_per_second(Some(Arc::clone(factory)), arguments.bytes)?;
            if round > 0 {
                ratios.push(rate / own);
            }
        }
        if round > 0 {
            base.push(own / 1e9);
        }
    }
    println!("transfer of {} bytes over loopback", arguments.bytes);
    println!("  noq's Cubic: {base:.2} Gbit/s");
    for ((name, _), ratios) in factories.iter().zip(&ratios) {
        println!("  {name}: {ratios:.3} of it");
    }
    Ok(())
}

/// Of one transfer on a connection of its own.
fn bits_per_second(controllers: Option<Arc<Factory>>, bytes: u64) -> anyhow::Result<f64> {
    let mut server = FileServer::bind(ServeConfig {
        listen: "127.0.0.1:0".parse()?,
        content: Content::Zeros(bytes),
        controllers,
        certificate: Certificate::generate(["localhost".to_owned()])?,
        qlog: None,
    })?;
    let config = GetConfig {
        remote: server.address(),
        trust: server.fingerprint(),
        output: None,
        qlog: None,
    };
    let stop = AtomicBool::new(false);
    let fetched = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                server.turn(Duration::from_millis(100), &stop);
            }
        });
        let fetched = get(&config, &AtomicBool::new(false), &mut |_| ());
        stop.store(true, Ordering::Relaxed);
        let served = serving.join();
        served.ok().context("the server panicked")?;
        anyhow::Ok(fetched?)
    })?;
    ensure!(fetched.bytes == bytes, "{} bytes arrived", fetched.bytes);
    Ok(8.0 * bytes as f64 / fetched.took.as_secs_f64())
}
