//! What a reload changes.

use fairwater_edge::policy::EdgePolicy;

use crate::policy;

#[test]
fn a_reload_says_what_changes() {
    let old = policy(crate::EXAMPLE);
    assert_eq!(EdgePolicy::difference(&old, &old), Vec::<String>::new());
    // Lines and comments are no difference.
    let moved = policy(&format!("# More.\n\n{}", crate::EXAMPLE));
    assert_eq!(EdgePolicy::difference(&old, &moved), Vec::<String>::new());
    let source = crate::EXAMPLE
        .replace("grace = \"100ms\"", "propose = true")
        .replace("\"fd00:1::/32\"", "\"fd00:2::/32\"")
        .replace("weight = 3", "weight = 5\necn = true")
        .replace(
            "guest_port = 22\npass = true",
            "guest_port = 23\npass = true",
        );
    let new = policy(&format!("{source}\n[[rule]]\npass = true\n"));
    let changed = EdgePolicy::difference(&old, &new);
    let swapped =
        policy("[[rule]]\nguest_port = 1\npass = true\n[[rule]]\nguest_port = 2\npass = true\n");
    let back =
        policy("[[rule]]\nguest_port = 2\npass = true\n[[rule]]\nguest_port = 1\npass = true\n");
    let swapped = EdgePolicy::difference(&swapped, &back);
    insta::assert_snapshot!([changed, swapped].concat().join("\n"));
}
