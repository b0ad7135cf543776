/* libfairwater: congestion control for your transport, by programs and algorithms of a plane.
 *
 * Fill in what you measured, call one function for each ACK, apply the window and the rate that
 * come back. Without a plane, or when it falls silent, flows run under Reno within this library.
 * docs/c.md has the whole of it in one page; the example toy.c is a transport of 150 lines.
 *
 * Pointers that functions take are valid for the call, or NULL where the description allows it;
 * NULL elsewhere is FW_ERROR_ARGUMENT. Nothing is kept that a pointer points to, but for
 * `user_data`. Structures start with their size, so that programs and libraries of different
 * versions fit together: set it, and zero the members that you do not use. Times are of the
 * transport's own monotonic clock, in microseconds, the same one throughout a datapath.
 *
 * This file is generated from the library's source. */

#ifndef FAIRWATER_H
#define FAIRWATER_H

#include <stddef.h>
#include <stdint.h>

// `rtt_sample_us` when there is no sample yet.
#define FW_NO_RTT UINT64_MAX

// `bytes_acked` is filled in.
#define FW_SIGNAL_BYTES_ACKED 1

// `bytes_misordered` is filled in.
#define FW_SIGNAL_BYTES_MISORDERED 2

// `ecn_bytes` is filled in.
#define FW_SIGNAL_ECN_BYTES 4

// `ecn_packets` is filled in.
#define FW_SIGNAL_ECN_PACKETS 8

// `lost_packets` is filled in.
#define FW_SIGNAL_LOST_PACKETS 16

// `now_us` is filled in; it always must be.
#define FW_SIGNAL_NOW 32

// `packets_acked` is filled in.
#define FW_SIGNAL_PACKETS_ACKED 64

// `packets_misordered` is filled in.
#define FW_SIGNAL_PACKETS_MISORDERED 128

// `bytes_in_flight` is filled in.
#define FW_SIGNAL_BYTES_IN_FLIGHT 256

// `bytes_pending` is filled in.
#define FW_SIGNAL_BYTES_PENDING 512

// `packets_in_flight` is filled in.
#define FW_SIGNAL_PACKETS_IN_FLIGHT 1024

// `rate_incoming` is filled in.
#define FW_SIGNAL_RATE_INCOMING 2048

// `rate_outgoing` is filled in.
#define FW_SIGNAL_RATE_OUTGOING 4096

// `rtt_sample_us` is filled in.
#define FW_SIGNAL_RTT_SAMPLE 8192

// `was_timeout` is filled in.
#define FW_SIGNAL_WAS_TIMEOUT 16384

// `app_limited` is filled in.
#define FW_SIGNAL_APP_LIMITED 32768

// `undo` is filled in.
#define FW_SIGNAL_UNDO 65536

// What a function of this library returns: FW_OK, or why it did nothing. Unless its description
// says otherwise, a function that fails has changed nothing.
typedef enum fw_error {
  // It worked.
  FW_OK = 0,
  // An argument is NULL that may not be, or has a value outside of what is documented for it.
  FW_ERROR_ARGUMENT = -1,
  // A structure is smaller than its first version, or larger than the library knows and not
  // zero there: set `size` to `sizeof`, and zero what you do not use.
  FW_ERROR_SIZE = -2,
  // No such flow: it is closed, or it is another datapath's.
  FW_ERROR_UNKNOWN_FLOW = -3,
  // The datapath keeps no more flows (`max_flows`).
  FW_ERROR_FULL = -4,
  // The call does not fit the state of the datapath: fw_datapath_connect or
  // fw_datapath_attach a second time, a flow before either, bytes received by a datapath that
  // has a link of its own.
  FW_ERROR_STATE = -5,
  // The datapath is in use: a callback called a function of its own datapath, or two threads
  // share a datapath.
  FW_ERROR_BUSY = -6,
  // No plane answers at the path. It is tried again by fw_datapath_service, and flows run under
  // the fallback meanwhile.
  FW_ERROR_NO_PLANE = -7,
  // The operating system refused what the call needs.
  FW_ERROR_IO = -8,
  // A defect of this library. The datapath does nothing any more but to be freed.
  FW_ERROR_INTERNAL = -9,
  // The plane takes no more datapaths (`fairwater serve --max-peers`). It is asked again by
  // fw_datapath_service, and flows run under the fallback meanwhile.
  FW_ERROR_PLANE_FULL = -10,
} fw_error;

// How much a line of the log matters.
typedef enum fw_log_level {
  // Something is lost or refused.
  FW_LOG_WARNING = 0,
  // The state of the link to the plane changed.
  FW_LOG_INFO = 1,
} fw_log_level;

// What runs the programs that the plane installs.
typedef enum fw_backend {
  // Machine code, compiled when a program is installed. The default.
  FW_BACKEND_NATIVE = 0,
  // The interpreter: slower, and never makes memory executable.
  FW_BACKEND_INTERPRETER = 1,
} fw_backend;

// What controls a flow while no program of a plane does.
typedef enum fw_fallback {
  // CUBIC (RFC 9438). The default.
  FW_FALLBACK_CUBIC = 0,
  // Reno (RFC 5681).
  FW_FALLBACK_RENO = 1,
  // Nothing: for boxes that carry other people's traffic. The flow is released: set_cwnd is called
  // with UINT64_MAX and set_rate with 0, until a program takes the flow (again).
  FW_FALLBACK_RELEASE = 2,
} fw_fallback;

// How a datapath reaches its plane.
typedef enum fw_link {
  // A Unix socket of sequenced packets: Fairwater's own.
  FW_LINK_SEQPACKET = 0,
  // Rings in shared memory, agreed on over such a socket: the fastest.
  FW_LINK_SHARED_MEMORY = 1,
  // Unix datagrams in the encoding of libccp, to whatever agent binds the path: the CCP agents
  // that use portus, or Fairwater.
  FW_LINK_CCP_DATAGRAM = 2,
} fw_link;

// The encoding that a datapath speaks when the transport carries the messages itself.
typedef enum fw_dialect {
  // Fairwater's own.
  FW_DIALECT_FAIRWATER = 0,
  // libccp's: 32-bit windows and rates, IPv4 only.
  FW_DIALECT_CCP = 1,
} fw_dialect;

// What controls a flow: a program of the plane, or the fallback (an fw_fallback).
typedef enum fw_controller {
  // The fallback, until the plane has chosen a program.
  FW_CONTROLLER_WAITING = 0,
  // A program of the plane's.
  FW_CONTROLLER_PROGRAM = 1,
  // The fallback, while the plane is silent.
  FW_CONTROLLER_SILENT = 2,
  // The fallback for good: the program or the plane set a window of 0 or an absurd rate.
  FW_CONTROLLER_FAULTED = 3,
  // The fallback for good: the plane gave the flow up.
  FW_CONTROLLER_WITHDRAWN = 4,
} fw_controller;

// A datapath: some flows of one transport, and the way to their plane.
//
// One thread at a time may use a datapath; it need not be always the same. Datapaths are
// independent of each other: a transport with several threads makes one for each.
typedef struct fw_datapath fw_datapath;

// What the library calls. Each is called from within a function of this library that was called
// for the same datapath, on the same thread; none may call a function of that datapath (it would
// return FW_ERROR_BUSY), throw a C++ exception or longjmp.
typedef struct fw_callbacks {
  // Apply a congestion window, bytes, to the flow that was started with `flow_user_data`.
  // Called when the window differs from the one before, only from fw_flow_ack of that flow.
  // From 1 to UINT64_MAX, as a program's arithmetic saturates and a flow that is released has no
  // window: compare with it, do not add to it. NULL for a transport that paces and has no window, if
  // set_rate is there: programs' windows then bound the rate, which is at most cwnd / SRTT.
  void (*set_cwnd)(void *flow_user_data, uint64_t bytes);
  // Pace the flow at this rate, bytes per second, at most 2^40; 0 is no rate: the window alone
  // limits. Called as set_cwnd is. NULL for a transport that does not pace, if set_cwnd is there:
  // programs' rates then bound the window, which is at most rate times minimum RTT. Algorithms
  // for whose rates no window can stand are refused.
  void (*set_rate)(void *flow_user_data, uint64_t bytes_per_second);
  // Send one packet of `len` bytes to the plane; returns 0 when it was taken, anything else
  // when it was not and is dropped. Used after fw_datapath_attach only, and not NULL then.
  int (*send)(void *user_data, const void *packet, size_t len);
  // A line for whoever operates the transport, without a line feed. May be NULL.
  void (*log)(void *user_data, enum fw_log_level level, const char *line);
} fw_callbacks;

// What a datapath is made with. Set `size` to sizeof(fw_options) and leave at zero what has no
// need to differ from its default.
typedef struct fw_options {
  // sizeof(fw_options).
  size_t size;
  // What the library calls.
  struct fw_callbacks callbacks;
  // Handed to `send` and `log`.
  void *user_data;
  // The datapath's name, for people: UTF-8; NULL for "libfairwater". Copied.
  const char *name;
  // The signals that the transport fills in: the sum of FW_SIGNAL_…, 0 for all up to
  // FW_SIGNAL_WAS_TIMEOUT. A program that reads others is refused.
  uint32_t signals;
  // An fw_backend.
  uint32_t backend;
  // Flows kept at once; 0 for the default.
  uint32_t max_flows;
  // Programs kept at once; 0 for the default.
  uint32_t max_programs;
  // The plane is taken for dead when nothing came from it for this long although something was
  // due, microseconds; 0 for the default. Flows then run under the fallback.
  uint64_t silence_us;
  // Tells the successive lives of this datapath apart; 0 to have one made from the clock and
  // the process. In libccp's encoding, the low 32 bits are the id in READY.
  uint64_t instance;
  // An fw_fallback.
  uint32_t fallback;
} fw_options;

// Counts since the datapath was made. Set `size` to sizeof(fw_statistics) before the call.
typedef struct fw_statistics {
  // sizeof(fw_statistics).
  size_t size;
  // Flows that are open now.
  uint64_t flows;
  // Programs that are installed now.
  uint64_t programs;
  // Reports that were queued for the plane.
  uint64_t reports;
  // Reports that were dropped because the plane did not take them in time.
  uint64_t reports_dropped;
  // Messages of the plane's that were refused; none of them changed anything.
  uint64_t refused;
  // Times that a flow went under the fallback because the plane was silent.
  uint64_t fallbacks;
  // Flows whose program was stopped for good because of what it did.
  uint64_t faults;
} fw_statistics;

// An address and port. All zero when they are not known.
typedef struct fw_address {
  // 4 for IPv4, 6 for IPv6, 0 for none.
  uint16_t version;
  // The port, in the host's byte order.
  uint16_t port;
  // The address in network byte order: the first 4 bytes for IPv4, all 16 for IPv6.
  uint8_t ip[16];
} fw_address;

// Description of a flow that starts. Set `size` to sizeof(fw_flow_info).
typedef struct fw_flow_info {
  // sizeof(fw_flow_info).
  size_t size;
  // This end.
  struct fw_address local;
  // The other end.
  struct fw_address remote;
  // The algorithm that the plane is asked for, UTF-8; NULL for the plane's first. Copied.
  const char *algorithm;
  // Maximum segment size, bytes of payload; at least 1.
  uint32_t mss;
  // The initial window, bytes; at least 1.
  uint64_t cwnd;
  // Smoothed RTT so far, microseconds; 0 when none was measured.
  uint64_t srtt_us;
  // The time on the transport's clock, microseconds.
  uint64_t now_us;
  // Tag of the transport or its application, for algorithms that control flows together; 0 is none.
  uint32_t tag;
} fw_flow_info;

// A flow of one datapath: a value, to be copied as you like. 0 is never a flow. A closed flow's
// value is not given out again for a long time, so that its late use is FW_ERROR_UNKNOWN_FLOW
// rather than another flow's business.
typedef uint64_t fw_flow;

// What the transport measured: for this ACK, and of the flow now (the primitive congestion
// signals of the CCP paper, Table 2, up to `was_timeout`). What a transport does not measure
// stays zero, and is left out of `signals` in fw_options.
typedef struct fw_signals {
  // sizeof(fw_signals).
  size_t size;
  // Bytes that this ACK newly acknowledges in order.
  uint64_t bytes_acked;
  // Bytes that it newly acknowledges out of order (SACK).
  uint64_t bytes_misordered;
  // Bytes that it says were marked with ECN CE.
  uint64_t ecn_bytes;
  // Packets that it says were marked with ECN CE.
  uint64_t ecn_packets;
  // Packets newly declared lost.
  uint64_t lost_packets;
  // The time of this ACK on the transport's clock, microseconds.
  uint64_t now_us;
  // Packets that this ACK newly acknowledges in order.
  uint64_t packets_acked;
  // Packets that it newly acknowledges out of order (SACK).
  uint64_t packets_misordered;
  // Bytes sent and neither acknowledged nor declared lost, after this ACK.
  uint64_t bytes_in_flight;
  // Bytes that the application has written and the transport has not sent yet.
  uint64_t bytes_pending;
  // Packets sent and neither acknowledged nor declared lost, after this ACK.
  uint64_t packets_in_flight;
  // The rate at which data arrives at the receiver, bytes per second; 0 until measured.
  uint64_t rate_incoming;
  // The rate at which data is sent, bytes per second; 0 until measured.
  uint64_t rate_outgoing;
  // The most recent RTT sample, microseconds; 0 or FW_NO_RTT before the first.
  uint64_t rtt_sample_us;
  // Not 0 when this call is due to a retransmission timeout rather than an ACK.
  uint64_t was_timeout;
  // Not 0 when the most recently sent of the data that this ACK newly acknowledges was sent
  // while the application had less to send than window and rate allowed (RFC 9002 section
  // 7.8); as before when this ACK acknowledges nothing.
  uint64_t app_limited;
  // Not 0 when the transport found since the last call that its last reduction of the window
  // was for a spurious loss or timeout (RFC 4015, RFC 3708, RFC 5682) and took it back, and
  // fw_set_controls() has been told.
  uint64_t undo;
} fw_signals;

// The live state of a flow. Set `size` to sizeof(fw_flow_state) before the call.
typedef struct fw_flow_state {
  // sizeof(fw_flow_state).
  size_t size;
  // The congestion window in force, bytes; UINT64_MAX when the fallback has released the flow.
  uint64_t cwnd;
  // The pacing rate in force, bytes per second; 0 is none.
  uint64_t rate;
  // An fw_controller.
  uint32_t controller;
  // The number of the program that runs; 0 for none.
  uint32_t program;
  // The last delivery rate that fw_flow_ack was told (Flow.rate_incoming), bytes per second, for the
  // program that owns the connection: the window over the RTT is no rate. 0 before the first.
  uint64_t delivery_rate;
  // Whether the application had less to send than the path takes: the path may carry more. 0 or 1.
  uint32_t app_limited;
  // How many of the last 16 ACKs that delivered something were not application-limited: 0 says
  // nothing about what the path could carry.
  uint32_t confidence;
} fw_flow_state;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The meaning of a code in one English clause; never NULL, never to be freed.
const char *fw_strerror(int code);

// The version of this library: 65536 × major + 256 × minor + patch.
uint32_t fw_version(void);

// Makes a datapath. The next step is fw_datapath_connect, or fw_datapath_attach for a transport
// that carries the messages itself.
//
// FW_ERROR_ARGUMENT, FW_ERROR_SIZE; `*out` is then NULL.
enum fw_error fw_datapath_new(const struct fw_options *options, struct fw_datapath **out);

// Closes the link to the plane and frees the datapath, flows and all; no callback is called, and
// the plane finds the flows gone. NULL is allowed and does nothing. FW_ERROR_BUSY from a callback:
// nothing is freed then.
enum fw_error fw_datapath_free(struct fw_datapath *datapath);

// Joins the datapath to the plane at a path, by a link of its own. `link` is an fw_link; `path`
// is copied. Once per datapath, before the first flow.
//
// FW_ERROR_NO_PLANE when nobody answers there yet: the datapath is joined nevertheless, flows
// may start, fw_datapath_service tries again, and `log` tells why. Otherwise FW_ERROR_ARGUMENT,
// also for a path that is too long for a socket (107 bytes); FW_ERROR_STATE the second time;
// FW_ERROR_IO when no file descriptors are left; nothing is changed then.
enum fw_error fw_datapath_connect(struct fw_datapath *datapath,
                                  uint32_t link,
                                  const char *path,
                                  uint64_t now_us);

// Joins the datapath to a plane whose messages the transport carries itself: packets for the
// plane go to the `send` callback, and the plane's come in by fw_datapath_receive. `dialect` is
// an fw_dialect. Once per datapath, before the first flow.
//
// FW_ERROR_ARGUMENT, also when there is no `send`; FW_ERROR_STATE the second time.
enum fw_error fw_datapath_attach(struct fw_datapath *datapath, uint32_t dialect, uint64_t now_us);

// A file descriptor to wait on: when it is readable, call fw_datapath_service. It stays the same
// from fw_datapath_connect to fw_datapath_free; -1 before, and after fw_datapath_attach. It
// belongs to the library: do not read from it or close it.
int fw_datapath_fd(struct fw_datapath *datapath);

// The time on the transport's clock at which to call fw_datapath_service at the latest, if nothing
// comes before; UINT64_MAX when there is no such time. It may change with every other call.
uint64_t fw_datapath_next_timeout(struct fw_datapath *datapath);

// Takes in what the plane sent, notices its silence or return, and sends what is due. Call it
// when fw_datapath_fd is readable and at fw_datapath_next_timeout, or simply every 10 ms or so. It
// does not block, but for making FW_LINK_SHARED_MEMORY: a plane then has 10 ms to answer. What the
// plane asks for is applied at each flow's next fw_flow_ack.
//
// FW_ERROR_PLANE_FULL for as long as the plane takes no more datapaths: the call has done all else,
// and asks the plane again from time to time. FW_ERROR_STATE before fw_datapath_connect or
// fw_datapath_attach. That the plane is gone is not an error.
enum fw_error fw_datapath_service(struct fw_datapath *datapath, uint64_t now_us);

// Takes in one packet of the plane's, after fw_datapath_attach. What is wrong with it is
// answered and counted (fw_datapath_statistics), and changes nothing.
//
// FW_ERROR_ARGUMENT when `packet` is NULL; FW_ERROR_STATE without fw_datapath_attach.
enum fw_error fw_datapath_receive(struct fw_datapath *datapath,
                                  const void *packet,
                                  size_t len,
                                  uint64_t now_us);

// Fills `out` with the datapath's counts.
//
// FW_ERROR_ARGUMENT, FW_ERROR_SIZE.
enum fw_error fw_datapath_statistics(struct fw_datapath *datapath, struct fw_statistics *out);

// Fills `out` from a `struct sockaddr_in` or `struct sockaddr_in6` of `len` bytes, as getsockname
// and getpeername give it. FW_ERROR_ARGUMENT for NULL, another family, or too short a length.
enum fw_error fw_address_from_sockaddr(const void *sockaddr, size_t len, struct fw_address *out);

// Starts a flow: tells the plane, and puts the flow under the fallback until the plane answers.
// `user_data` is what the callbacks get; it must stay valid until fw_flow_close. The flow's
// value goes to `out`.
//
// FW_ERROR_ARGUMENT, FW_ERROR_SIZE; FW_ERROR_FULL when there are `max_flows` already;
// FW_ERROR_STATE before fw_datapath_connect or fw_datapath_attach. It does not fail for want of a
// plane.
enum fw_error fw_flow_start(struct fw_datapath *datapath,
                            const struct fw_flow_info *info,
                            void *user_data,
                            fw_flow *out);

// Processes one ACK, or a retransmission timeout: runs the flow's program, or the fallback.
// set_cwnd and set_rate are called from here when the window or the rate changed, and reports
// leave for the plane from here. To call it once for several ACKs taken together is allowed.
//
// FW_ERROR_ARGUMENT, FW_ERROR_SIZE, FW_ERROR_UNKNOWN_FLOW.
enum fw_error fw_flow_ack(struct fw_datapath *datapath,
                          fw_flow flow,
                          const struct fw_signals *signals);

// Writes the live state of a flow to `out`.
//
// FW_ERROR_ARGUMENT, FW_ERROR_SIZE, FW_ERROR_UNKNOWN_FLOW.
enum fw_error fw_flow_status(struct fw_datapath *datapath, fw_flow flow, struct fw_flow_state *out);

// Sets the window and rate that the transport enforces, when it has changed them by itself: a
// restart after idle, for instance, or a limit of its own. `cwnd` in bytes, at least 1; `rate` in
// bytes per second, 0 for none. Programs see it from the next fw_flow_ack on.
//
// FW_ERROR_ARGUMENT, FW_ERROR_UNKNOWN_FLOW.
enum fw_error fw_flow_set_controls(struct fw_datapath *datapath,
                                   fw_flow flow,
                                   uint64_t cwnd,
                                   uint64_t rate);

// Tells that the flow's segments are of `mss` bytes of payload from now on, at least 1: the path's
// MTU was found to be another (RFC 4821, RFC 8899). The window, in bytes, stays as it was.
//
// FW_ERROR_ARGUMENT, FW_ERROR_UNKNOWN_FLOW.
enum fw_error fw_flow_set_mss(struct fw_datapath *datapath, fw_flow flow, uint32_t mss);

// Ends a flow and announces that to the plane. The value is no longer valid, and the flow's callbacks
// are not called again.
//
// FW_ERROR_ARGUMENT, FW_ERROR_UNKNOWN_FLOW.
enum fw_error fw_flow_close(struct fw_datapath *datapath,
                            fw_flow flow);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FAIRWATER_H */
