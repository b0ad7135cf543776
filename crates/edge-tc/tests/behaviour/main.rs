//! t
#[test]
fn loads() {
    let o = fairwater_edge_tc::Options::new(fairwater_exec::frame::FrameLayout::new(8));
    if let Err(e) = fairwater_edge_tc::Programs::load(&o) {
        panic!("{e}");
    }
}
