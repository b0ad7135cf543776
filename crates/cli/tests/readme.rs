//! What the README shows that needs no privileges, run as it stands.

#[test]
fn the_readme_shows_what_happens() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::env::set_current_dir(root).expect("the repository's root");
    trycmd::TestCases::new().case("README.md");
}
