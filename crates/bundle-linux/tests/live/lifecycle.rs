//! What is there before and after: nobody else's queueing discipline is touched, and nothing stays.

use fairwater_bundle_linux::{
    BoxError, HtbOptions, HtbSendbox, KernelScheduler, LeafScheduler, remove_leftovers,
};
use fairwater_netlink::{Batch, Netlink, index_of, link_facts};

use crate::site::{PORT, Sites, send_config};

/// Puts a FIFO with a number of its own at the port, as `tc qdisc add dev … root handle 1: pfifo` does, or removes it.
fn pfifo(add: bool) {
    let mut body = vec![0; 4];
    for word in [index_of(PORT).unwrap(), 0x10000, u32::MAX, 0] {
        body.extend(word.to_ne_bytes());
    }
    body.extend([10, 0, 1, 0]);
    body.extend(*b"pfifo\0\0\0");
    let mut batch = Batch::default();
    batch.push(
        if add { 36 } else { 37 },
        if add { 0x600 } else { 0 },
        &body,
    );
    Netlink::new(0)
        .unwrap()
        .submit(&mut batch, |_, _| ())
        .unwrap();
}

#[test]
fn refuses_others_and_leaves_nothing() {
    let Some(sites) = Sites::new() else {
        return;
    };
    let checked = sites.sender.inside(|| {
        let options = HtbOptions {
            max_segments: Some(2),
            bands: 3,
            ..HtbOptions::default()
        };
        let attach = || HtbSendbox::attach(PORT, &[send_config(1)], &options);
        pfifo(true);
        let error = attach().unwrap_err();
        assert!(matches!(error, BoxError::ForeignQdisc { .. }), "{error}");
        println!("{error}");
        pfifo(false);
        let before = link_facts(PORT).unwrap();
        let first = attach().unwrap();
        assert_eq!(link_facts(PORT).unwrap().gso_max_segs, Some(2));
        let error = attach().unwrap_err();
        assert!(matches!(error, BoxError::Taken(_)), "{error}");
        println!("{error}");
        drop(first);
        assert_eq!(link_facts(PORT).unwrap(), before);
        assert!(!remove_leftovers(PORT).unwrap());
        drop(attach().unwrap());
        let error = HtbSendbox::attach("nowhere0", &[send_config(1)], &options).unwrap_err();
        assert!(matches!(error, BoxError::NoPort(_)), "{error}");
    });
    checked.unwrap();
}

/// A kernel's own scheduler is used if it is there, and refused by name if it is not.
#[test]
fn kernel_schedulers_are_probed() {
    let Some(sites) = Sites::new() else {
        return;
    };
    for kind in [
        KernelScheduler::FqCodel,
        KernelScheduler::Cake,
        KernelScheduler::Sfq,
    ] {
        let is_available = kind.is_available().unwrap();
        let options = HtbOptions {
            leaves: LeafScheduler::Kernel(kind),
            ..HtbOptions::default()
        };
        let attached = sites
            .sender
            .inside(|| HtbSendbox::attach(PORT, &[send_config(1)], &options).map(drop));
        match attached.unwrap() {
            Ok(()) => assert!(is_available, "{kind:?}"),
            Err(BoxError::NoScheduler(name)) => assert!(!is_available && name == kind.name()),
            Err(error) => panic!("{error}"),
        }
    }
}
