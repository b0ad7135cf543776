//! The interfaces of this machine.

use fairwater_netlink::Interfaces;

#[test]
fn the_loopback_interface_is_there_and_nothing_has_changed() {
    let mut interfaces = Interfaces::new().unwrap();
    let listed = interfaces.list().unwrap();
    let loopback = listed
        .iter()
        .find(|interface| interface.name == "lo")
        .unwrap();
    assert!(loopback.is_loopback);
    assert_eq!(loopback.index, 1);
    assert!(
        listed
            .iter()
            .all(|interface| interface.index > 0 && !interface.name.is_empty())
    );
}
