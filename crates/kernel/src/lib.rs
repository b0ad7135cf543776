//! What datapaths in the kernel share.
