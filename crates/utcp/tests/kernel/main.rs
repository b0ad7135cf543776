//! A user-space TCP against the kernel's, over a TUN device in a network namespace. Needs root; skipped elsewhere,
//! unless `FAIRWATER_REQUIRE_PRIVILEGED=1`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod lossy;
mod site;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use fairwater_utcp::{CloseReason, State};
use lossy::Impairment;
use site::{PATIENCE, Site, hash_of, pattern};

const BYTES: u64 = 5_000_000;

#[test]
fn the_kernel_receives_what_is_sent_whatever_is_lost_and_beyond_the_last_number() {
    let Some(site) = Site::before_wrap(Impairment::ONE_PERCENT, BYTES as u32 / 2) else {
        return;
    };
    send(site, BYTES, PATIENCE);
}

/// Each number is used, and 2³² passed; prints the time that it took.
#[test]
#[ignore = "takes minutes: `make bench-utcp`"]
fn the_kernel_receives_six_gigabytes() {
    let Some(site) = Site::new(Impairment::ONE_PERCENT) else {
        return;
    };
    let begin = Instant::now();
    send(site, 6_000_000_000, Duration::from_secs(3600));
    eprintln!("{:.1} s", begin.elapsed().as_secs_f64());
}

/// Sends so many bytes to the kernel, past 2³², and compares the hashes.
fn send(mut site: Site, bytes: u64, patience: Duration) {
    let (id, mut kernel) = site.connect();
    let reader = thread::spawn(move || {
        let mut all = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 16];
        let mut count = 0;
        loop {
            match kernel.read(&mut buffer).unwrap() {
                0 => break,
                read => {
                    all.update(&buffer[..read]);
                    count += read as u64;
                }
            }
        }
        (count, all.finalize())
    });
    let mut sent = 0;
    let mut all = blake3::Hasher::new();
    site.until_within("all is acknowledged", patience, |site| {
        while sent < bytes {
            let chunk = pattern(sent, (bytes - sent).min(1 << 15));
            let taken = site.driver.write(id, &chunk).unwrap();
            all.update(&chunk[..taken]);
            sent += taken as u64;
            if taken < chunk.len() {
                break;
            }
        }
        if sent == bytes {
            site.driver.endpoint_mut().shutdown(id).unwrap();
        }
        matches!(site.state(id), State::FinWait2 | State::TimeWait)
    });
    let (count, hash) = reader.join().unwrap();
    assert_eq!((count, hash), (bytes, all.finalize()));
    assert!(site.has_wrapped());
    let counters = site.driver.endpoint().connection(id).map(|c| c.counters());
    eprintln!("{counters:?}");
    site.assert_sound();
}

#[test]
fn what_the_kernel_sends_is_received_whatever_is_lost() {
    let Some(mut site) = Site::new(Impairment::ONE_PERCENT) else {
        return;
    };
    // The kernel connects, so that this end accepts.
    let (id, mut kernel) = site.accept();
    let writer = thread::spawn(move || {
        let mut sent = 0;
        while sent < BYTES {
            let chunk = pattern(sent, (BYTES - sent).min(1 << 15));
            kernel.write_all(&chunk).unwrap();
            sent += chunk.len() as u64;
        }
        kernel.shutdown(Shutdown::Write).unwrap();
        // The other direction goes on: a half-close.
        let mut answer = String::new();
        kernel.read_to_string(&mut answer).unwrap();
        answer
    });
    let mut all = blake3::Hasher::new();
    let mut count = 0;
    let mut buffer = vec![0; 1 << 16];
    site.until("all has arrived", |site| {
        loop {
            let read = site.driver.read(id, &mut buffer).unwrap();
            all.update(&buffer[..read]);
            count += read as u64;
            if read == 0 {
                break;
            }
        }
        site.connection(id).is_read_finished()
    });
    assert_eq!((count, all.finalize()), (BYTES, hash_of(BYTES)));
    assert_eq!(site.state(id), State::CloseWait);
    site.driver.write(id, b"thank you").unwrap();
    site.driver.endpoint_mut().shutdown(id).unwrap();
    site.until("the last ACK", |site| site.state(id) == State::Closed);
    assert_eq!(writer.join().unwrap(), "thank you");
    assert_eq!(
        site.connection(id).close_reason(),
        Some(CloseReason::Finished)
    );
    site.assert_sound();
}

#[test]
fn a_kernel_that_does_not_read_closes_the_window_and_opens_it() {
    let Some(mut site) = Site::new(Impairment::NONE) else {
        return;
    };
    let (id, mut kernel) = site.connect();
    let chunk = vec![7; 1 << 16];
    let mut sent = 0_usize;
    let mut last = Instant::now();
    site.until("the window is closed", |site| {
        let taken = site.driver.write(id, &chunk).unwrap();
        sent += taken;
        if taken > 0 {
            last = Instant::now();
        }
        last.elapsed() > Duration::from_secs(2)
    });
    assert_eq!(site.state(id), State::Established);
    site.driver.endpoint_mut().shutdown(id).unwrap();
    let reader = thread::spawn(move || {
        let mut all = Vec::new();
        kernel.read_to_end(&mut all).unwrap();
        all.len()
    });
    site.until("all is acknowledged", |site| {
        matches!(site.state(id), State::FinWait2 | State::TimeWait)
    });
    assert_eq!(reader.join().unwrap(), sent);
    site.assert_sound();
}

#[test]
fn a_kernel_socket_that_dies_resets_the_connection() {
    let Some(mut site) = Site::new(Impairment::NONE) else {
        return;
    };
    let (id, kernel) = site.connect();
    site.driver.write(id, &vec![1; 100_000]).unwrap();
    site.until("some has arrived", |site| {
        site.connection(id).acknowledged() > 0
    });
    // With bytes that nobody read, closing resets, as the end of a process does.
    drop(kernel);
    site.until("the reset", |site| {
        let _ = site.driver.write(id, &[1; 1000]);
        site.state(id) == State::Closed
    });
    assert_eq!(site.connection(id).close_reason(), Some(CloseReason::Reset));
    assert_eq!(site.driver.plane().datapath().flows().count(), 0);
}

#[test]
fn a_port_that_nobody_listens_at_is_refused_by_either_end() {
    let Some(mut site) = Site::new(Impairment::NONE) else {
        return;
    };
    let id = site.connect_to(9);
    site.until("the answer", |site| site.state(id) == State::Closed);
    assert_eq!(
        site.connection(id).close_reason(),
        Some(CloseReason::Refused)
    );
    let attempt = site.kernel_connects_to(10);
    let mut is_done = false;
    site.until("the refusal", |_| {
        is_done |= attempt.is_finished();
        is_done
    });
    let error = attempt.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
}
