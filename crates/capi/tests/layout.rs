//! The structures of `ccp.h` are laid out in Rust as a C compiler lays them out.

mod support;

use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

use fairwater::{ccp_connection, ccp_datapath, ccp_datapath_info, ccp_primitives};
use support::{STRICT, cc, crate_dir, run, succeed};

/// The size of what a structure's member is.
fn size_of_member<S, M>(_: fn(&S) -> &M) -> usize {
    size_of::<M>()
}

/// Adds lines for a structure and its members to those that are `expected`, and C that prints
/// them to `program`. Members that Rust and C name differently are given by both names.
macro_rules! structure {
    ($expected:ident, $program:ident, $structure:ident { $($member:ident $(= $c:literal)?),* $(,)? }) => {
        // Does not compile when a member is missing.
        #[expect(dead_code, unused_variables, reason = "compiled is all that it is to be")]
        fn every_member($structure { $($member),* }: $structure) {}

        let name = stringify!($structure);
        writeln!($expected, "{name} {} {}", size_of::<$structure>(), align_of::<$structure>()).unwrap();
        writeln!(
            $program,
            r#"printf("%s %zu %zu\n", "{name}", sizeof(struct {name}), _Alignof(struct {name}));"#
        )
        .unwrap();
        $(
            #[allow(unused_mut, unused_assignments, reason = "not every member has a second name")]
            let mut member = stringify!($member);
            $(member = $c;)?
            let size = size_of_member(|it: &$structure| &it.$member);
            writeln!($expected, "{name}.{member} {} {size}", offset_of!($structure, $member)).unwrap();
            writeln!(
                $program,
                r#"printf("%s %zu %zu\n", "{name}.{member}", offsetof(struct {name}, {member}), sizeof(((struct {name} *)0)->{member}));"#
            )
            .unwrap();
        )*
    };
}

#[test]
fn every_member_is_where_c_has_it() {
    let mut expected = String::new();
    let mut program = "#include <stdio.h>\n#include <ccp.h>\nint main(void) {\n".to_owned();
    {
        structure!(
            expected,
            program,
            ccp_primitives {
                bytes_acked,
                packets_acked,
                bytes_misordered,
                packets_misordered,
                ecn_bytes,
                ecn_packets,
                lost_pkts_sample,
                was_timeout,
                rtt_sample_us,
                rate_outgoing,
                rate_incoming,
                bytes_in_flight,
                packets_in_flight,
                snd_cwnd,
                snd_rate,
                bytes_pending,
            }
        );
    }
    {
        structure!(expected, program, ccp_datapath_info {
            init_cwnd, mss, src_ip, src_port, dst_ip, dst_port, cong_alg = "congAlg",
        });
    }
    {
        structure!(expected, program, ccp_connection {
            index, last_create_msg_sent, prims, flow_info, state, impl_ = "impl", datapath,
        });
    }
    {
        structure!(expected, program, ccp_datapath {
            set_cwnd, set_rate_abs, send_msg, log, time_zero, now, since_usecs, after_usecs,
            max_connections, ccp_active_connections, fto_us, last_msg_sent, _in_fallback,
            max_programs, programs, impl_ = "impl",
        });
    }
    program += "return 0;\n}\n";

    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("layout.c"), folder.path().join("layout"));
    std::fs::write(&source, program).unwrap();
    let mut compile = cc();
    compile
        .args(STRICT)
        .arg("-I")
        .arg(crate_dir().join("include/ccp"));
    succeed(compile.arg(&source).arg("-o").arg(&binary));
    let said = run(&mut Command::new(&binary), "");
    assert_eq!(said, expected, "C is on the left");
    assert_eq!(expected.lines().count(), 4 + 16 + 7 + 7 + 16);
}
