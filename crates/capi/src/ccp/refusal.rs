//! libccp's error codes for messages that were refused.

use core::ffi::c_int;

use fairwater_datapath::DatapathStatistics;
use fairwater_proto::{DecodeErrorKind, Dialect, RefusalReason};

/// A value of `ccp_error.h`.
pub(super) type Code = c_int;

pub(super) const OK: Code = 0;
pub(super) const MISSING_ARG: Code = -11;
pub(super) const NULL_ARG: Code = -12;
pub(super) const BUFSIZE_NEGATIVE: Code = -21;
pub(super) const PROG_IS_NULL: Code = -96;
pub(super) const UNKNOWN_CONNECTION: Code = -71;
const BUFSIZE_TOO_SMALL: Code = -22;
const MSG_TOO_LONG: Code = -23;
const READ_INVALID_HEADER_TYPE: Code = -32;
const READ_INVALID_OP: Code = -33;
const UPDATE_INVALID_REG_TYPE: Code = -53;
const PROG_TABLE_FULL: Code = -81;
const PROG_NOT_FOUND: Code = -82;
/// TYPE_MISMATCH of INSTALL, UPDATE_FIELDS and CHANGE_PROG, from their types on the wire.
const MISMATCHES: [(u8, Code); 3] = [(2, -41), (3, -51), (4, -61)];

/// The code for what was sent: the first defect of its bytes, or the reason for which the datapath
/// refused what they say.
pub(super) fn of(
    dialect: Dialect,
    bytes: &[u8],
    before: &DatapathStatistics,
    after: &DatapathStatistics,
) -> Code {
    let malformed = dialect.to_datapath(bytes).find_map(Result::err);
    if let Some(malformed) = malformed {
        return match malformed.kind {
            DecodeErrorKind::Truncated => BUFSIZE_TOO_SMALL,
            DecodeErrorKind::TooLong => MSG_TOO_LONG,
            DecodeErrorKind::Register => UPDATE_INVALID_REG_TYPE,
            _ => MISMATCHES
                .into_iter()
                .find(|(kind, _)| *kind == malformed.message)
                .map_or(READ_INVALID_HEADER_TYPE, |(_, code)| code),
        };
    }
    let refused = |reason: &RefusalReason| after.refused(*reason) > before.refused(*reason);
    match RefusalReason::ALL.into_iter().find(refused) {
        None => OK,
        Some(RefusalReason::UnknownFlow) => UNKNOWN_CONNECTION,
        Some(RefusalReason::UnknownProgram) => PROG_NOT_FOUND,
        Some(RefusalReason::Full | RefusalReason::ProgramInUse) => PROG_TABLE_FULL,
        Some(RefusalReason::BadProgram | RefusalReason::MissingSignals) => READ_INVALID_OP,
        Some(RefusalReason::BadUpdate | RefusalReason::BadControl) => UPDATE_INVALID_REG_TYPE,
        Some(_) => READ_INVALID_HEADER_TYPE,
    }
}
