//! Linux TCP as a datapath, through eBPF struct_ops.
