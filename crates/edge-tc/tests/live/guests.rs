//! What the edge does to the connections of a guest.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_edge::policy::EdgePolicy;
use fairwater_edge_tc::ConnectionState;
use fairwater_netlink::{Namespace, make_veth, remove, rename};
use fairwater_testbed::Family;

use crate::at_work::{AtWork, eventually, site};
use crate::transfer::{receive, transfer};

/// Window of the algorithm in these tests, bytes: ten segments of Ethernet with timestamps.
const WINDOW: u64 = 14_480;

/// Bytes of a transfer.
const BYTES: usize = 8 << 20;

/// A policy that holds every connection to [`WINDOW`].
const HOLD: &str = "[[rule]]\nalgorithm = \"constant:cwnd=10\"\n";

#[test]
fn a_guest_keeps_to_the_window_of_its_algorithm_and_every_byte_arrives() {
    let Some(site) = site() else { return };
    for family in [Family::V4, Family::V6] {
        let free = transfer(&site, family, BYTES, || ());
        assert!(free.intact);
        assert!(free.greatest_window > 4 * WINDOW, "{free:?}");

        let edge = AtWork::start(&site, HOLD);
        let mut seen = Vec::new();
        let held = transfer(&site, family, BYTES, || {
            edge.await_running();
            seen = edge.connections();
        });
        assert!(held.intact);
        // Rounded up to the unit of the window's scale, 2¹⁰ on this kernel at most 2¹⁴.
        assert!(held.greatest_window < WINDOW + (1 << 14), "{held:?}");
        let running = seen.iter().find(|c| c.state == ConnectionState::Running);
        let running = running.unwrap_or_else(|| panic!("{seen:?}"));
        let of_v6 = WINDOW - 10 * 20; // its header is 20 bytes longer
        assert_eq!(
            running.limit_bytes,
            Some(if family == Family::V6 { of_v6 } else { WINDOW })
        );
        assert_eq!(running.why, "rule 1 (line 1)");
        assert!(running.bytes_acked.unwrap() > 1 << 20, "{running:?}");
        edge.stop();
    }
}

#[test]
fn guests_go_on_by_themselves_when_the_edge_ends_under_load() {
    let Some(site) = site() else { return };
    let edge = AtWork::start(&site, HOLD);
    let mut edge = Some(edge);
    let began = Instant::now();
    let transfer = transfer(&site, Family::V4, BYTES, || edge.take().unwrap().stop());
    assert!(transfer.intact);
    // The window that the guest is told is its peer's again.
    assert!(transfer.greatest_window > 4 * WINDOW, "{transfer:?}");
    println!("{:?}", began.elapsed());
}

#[test]
fn a_connection_from_before_the_edge_and_one_that_no_rule_is_for_are_left_alone() {
    let Some(site) = site() else { return };
    let listener = site.listen(Family::V4).unwrap();
    let mut before = site.connect(&listener).unwrap();
    let _reader = receive(listener);
    let policy = "[[rule]]\npeer_port = 1\nalgorithm = \"reno\"\n\n".to_owned() + HOLD;
    let edge = AtWork::start(&site, &policy);
    std::io::Write::write_all(&mut before, &[7; 100_000]).unwrap();
    let exempt = eventually(|| edge.connections().pop());
    assert_eq!(exempt.state, ConnectionState::Exempt, "{exempt:?}");
    edge.stop();

    let edge = AtWork::start(&site, "[[rule]]\npeer_port = 1\nalgorithm = \"reno\"\n");
    let transfer = transfer(&site, Family::V4, BYTES, || ());
    assert!(transfer.intact && transfer.greatest_window > 4 * WINDOW);
    edge.stop();
}

#[test]
fn a_selector_changes_the_algorithm_of_a_flow_that_runs() {
    let Some(site) = site() else { return };
    let policy = "[selector.s]\nfirst = \"constant:cwnd=4\"\nhold = \"10ms\"\n\
        [[selector.s.when]]\nmin_rtt_below = \"10s\"\nalgorithm = \"constant:cwnd=10\"\n\
        [[selector.s.when]]\nalgorithm = \"constant:cwnd=4\"\n\
        [[rule]]\nselect = \"s\"\n";
    let edge = AtWork::start(&site, policy);
    let mut seen = Vec::new();
    let transfer = transfer(&site, Family::V4, BYTES, || {
        seen = edge.connections();
    });
    assert!(transfer.intact);
    let flow = seen.pop().unwrap();
    assert_eq!(
        flow.algorithm.as_deref(),
        Some("constant:cwnd=10"),
        "{flow:?}"
    );
    assert_eq!(flow.limit_bytes, Some(WINDOW), "{flow:?}");
    edge.stop();
}

#[test]
fn flows_of_a_group_divide_the_sum_of_their_windows_by_weight() {
    let Some(site) = site() else { return };
    let listeners = [(); 2].map(|()| site.listen(Family::V4).unwrap());
    let ports = [&listeners[0], &listeners[1]].map(|it| it.local_addr().unwrap().port());
    let rule = |port: u16, weight: u8| {
        format!(
            "[[rule]]\npeer_port = {port}\nalgorithm = \"constant:cwnd=8\"\nweight = {weight}\n"
        )
    };
    let policy = rule(ports[0], 3) + &rule(ports[1], 1);
    let edge = AtWork::start(&site, &policy);
    let stop = AtomicBool::new(false);
    let mss = WINDOW / 10;
    thread::scope(|scope| {
        for listener in listeners {
            let mut stream = site.connect(&listener).unwrap();
            receive(listener);
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    std::io::Write::write_all(&mut stream, &[7; 65_536]).unwrap();
                }
            });
        }
        let mut limits = None;
        eventually(|| {
            let mut seen = edge.connections();
            seen.sort_by_key(|flow| flow.key.peer.port() != ports[0]);
            limits = Some(seen.iter().map(|flow| flow.limit_bytes).collect::<Vec<_>>());
            (limits.as_deref() == Some(&[Some(12 * mss), Some(4 * mss)])).then_some(())
        });
        stop.store(true, Ordering::Release);
    });
    edge.stop();
}

#[test]
fn connections_of_a_port_that_goes_are_forgotten() {
    let Some(site) = site() else { return };
    let edge = AtWork::start(&site, HOLD);
    let listener = site.listen(Family::V4).unwrap();
    let mut stream = site.connect(&listener).unwrap();
    let _reader = receive(listener);
    std::io::Write::write_all(&mut stream, &[7; 100_000]).unwrap();
    eventually(|| edge.connections().pop());
    // The other end of the port goes with it.
    site.host().inside(|| remove("vnet0")).unwrap().unwrap();
    eventually(|| edge.connections().is_empty().then_some(()));
    edge.stop();
}

#[test]
fn a_port_that_comes_later_is_found() {
    let Some(site) = site() else { return };
    let edge = AtWork::start(&site, HOLD);
    assert!(edge.connections().is_empty());
    let later = Namespace::new().unwrap();
    site.host()
        .inside(|| make_veth("vnet7", "eth0", later.as_fd()))
        .unwrap()
        .unwrap();
    // The kernel says which programs are at an interface only by number: it is enough that the edge goes on.
    thread::sleep(Duration::from_millis(200));
    let transfer = transfer(&site, Family::V4, BYTES, || edge.await_running());
    assert!(transfer.intact && transfer.greatest_window < WINDOW + (1 << 14));
    edge.stop();
}

#[test]
fn a_port_that_is_renamed_stays_in_its_sets() {
    let Some(site) = site() else { return };
    let policy = "[[rule]]\nport = \"vnet*\"\nalgorithm = \"constant:cwnd=10\"\n";
    let edge = AtWork::start(&site, policy);
    let renamed = site.host().inside(|| rename("vnet0", "vnet9")).unwrap();
    renamed.unwrap();
    eventually(|| {
        let is_known = edge.with(|edge| edge.ports().any(|(_, name)| name == "vnet9"));
        is_known.then_some(())
    });
    let transfer = transfer(&site, Family::V4, BYTES, || edge.await_running());
    assert!(transfer.intact && transfer.greatest_window < WINDOW + (1 << 14));
    edge.stop();
}

#[test]
fn a_policy_that_cannot_be_in_force_changes_nothing() {
    let Some(site) = site() else { return };
    let policy = "[[rule]]\nport = \"vnet*\"\nalgorithm = \"constant:cwnd=10\"\n";
    let edge = AtWork::start(&site, policy);
    let unhosted = "[selector.s]\nfirst = \"constant:cwnd=10\"\n\
        [[selector.s.when]]\nlost = true\nalgorithm = \"reno\"\n\
        [[selector.s.when]]\nalgorithm = \"constant:cwnd=10\"\n\
        [[rule]]\nport = \"tap*\"\nselect = \"s\"\n";
    let sized = "[defaults]\nmax_flows = 77\n".to_owned() + policy;
    for (text, why) in [(unhosted, "reno"), (&sized, "max_flows")] {
        let parsed = EdgePolicy::parse("test", text, None).unwrap();
        let taken = edge.with(|edge| edge.set_policy(Arc::new(parsed.policy)));
        let error = taken.unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let transfer = transfer(&site, Family::V4, BYTES, || edge.await_running());
    assert!(transfer.intact && transfer.greatest_window < WINDOW + (1 << 14));
    edge.stop();
}
