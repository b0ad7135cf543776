//! The programs in the kernel, and a plane of few words for them.

use std::cell::RefCell;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fairwater_edge::track::TableConfig;
use fairwater_edge::{Direction, EdgeStatistics, Verdict};
use fairwater_edge_tc::{Options, Programs, Rule, run};
use fairwater_exec::ebpf::fit;
use fairwater_exec::frame;
use fairwater_kernel::{NamedProgram, PAGE_BYTES, PlanePage, Shared, load};
use fairwater_lang::Program;
use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use crate::plane::ALIVE_US;

const MAX_FLOWS: u32 = 8;
const CREATED: u32 = 1;
const CLOSED: u32 = 3;
const FAULT: u32 = 4;

/// Whether programs can be loaded here; having said why, if not.
pub(crate) fn is_privileged() -> bool {
    let layout = frame::FrameLayout::new(8);
    let Err(why) = Programs::load(&Options::new(layout)) else {
        return true;
    };
    let required = std::env::var_os("FAIRWATER_REQUIRE_PRIVILEGED").is_some_and(|v| v == "1");
    assert!(!required, "the edge's programs cannot be loaded: {why}");
    eprintln!("skipped: the edge's programs cannot be loaded: {why}");
    false
}

/// The programs, their maps, and the flows' program.
pub(crate) struct Kernel {
    pub(crate) programs: Programs,
    pub(crate) is_alive: bool,
    frames: Shared,
    frame_size: usize,
    page: PlanePage,
    ring: RingBuffer<'static>,
    events: Rc<RefCell<Vec<Vec<u8>>>>,
    pub(crate) created: u64,
    pub(crate) closed: u64,
    pub(crate) faults: u64,
    /// What was counted when the present connections began.
    before: EdgeStatistics,
}

impl Kernel {
    pub(crate) fn new(program: &Program) -> Self {
        let layout = fit([program]);
        let options = Options {
            max_flows: MAX_FLOWS,
            max_connections: 64,
            max_candidates: 1024,
            ring_bytes: 1 << 16,
            silent_after: Duration::from_micros(10 * u64::from(ALIVE_US)),
            test_clock: true,
            ..Options::new(layout)
        };
        let programs = Programs::load(&options).unwrap();
        let named = NamedProgram {
            algorithm: "test",
            name: "test",
            program,
            idle_restart: true,
        };
        let loaded = load(&named, layout, &programs.target(0)).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&loaded).to_ne_bytes();
        let index = 0u32.to_ne_bytes();
        programs
            .programs
            .update(&index, &fd, MapFlags::ANY)
            .unwrap();
        let bytes = layout.size() * MAX_FLOWS as usize;
        let frames = Shared::writable(programs.frames.as_fd(), bytes).unwrap();
        let page = Shared::writable(programs.page.as_fd(), PAGE_BYTES).unwrap();
        let events = Rc::new(RefCell::new(Vec::new()));
        let into = Rc::clone(&events);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&programs.events, move |event: &[u8]| {
                into.borrow_mut().push(event.to_vec());
                0
            })
            .unwrap();
        Self {
            ring: builder.build().unwrap(),
            programs,
            is_alive: true,
            frames,
            frame_size: layout.size(),
            page: PlanePage::new(page),
            events,
            created: 0,
            closed: 0,
            faults: 0,
            before: EdgeStatistics::default(),
        }
    }

    /// Forgets all, and takes these rules.
    pub(crate) fn begin(&mut self, rules: &[Rule]) {
        self.programs.set_rules(rules).unwrap();
        self.programs.set_clock(u64::MAX >> 1);
        let at_once = TableConfig {
            idle: Duration::ZERO,
            closing: Duration::ZERO,
            ..TableConfig::default()
        };
        self.programs.expire(&at_once).unwrap();
        let candidates: Vec<_> = self.programs.candidates.keys().collect();
        for key in candidates {
            self.programs.candidates.delete(&key).unwrap();
        }
        self.is_alive = true;
        self.serve(0);
        assert_eq!(self.created, self.closed, "each flow ends once");
        self.before = self.programs.statistics().unwrap();
    }

    /// What was counted since the beginning.
    pub(crate) fn statistics(&self) -> EdgeStatistics {
        let (now, before) = (self.programs.statistics().unwrap(), &self.before);
        EdgeStatistics {
            unreadable: std::array::from_fn(|at| now.unreadable[at] - before.unreadable[at]),
            ignored: now.ignored - before.ignored,
            resets_ignored: now.resets_ignored - before.resets_ignored,
            full: now.full - before.full,
            policed: now.policed - before.policed,
            controlled: now.controlled - before.controlled,
            exempt: now.exempt - before.exempt,
        }
    }

    /// Whether `BPF_PROG_TEST_RUN` takes a frame: it wants whole IP headers, except behind VLAN tags.
    pub(crate) fn takes(frame: &[u8]) -> bool {
        match frame.get(12..14) {
            Some([8, 0]) => frame.len() >= 34,
            Some([0x86, 0xdd]) => frame.len() >= 54,
            Some(_) => true,
            None => false,
        }
    }

    /// A packet passes at `now_ns`; as it leaves, and whether it does.
    pub(crate) fn pass(
        &mut self,
        now_ns: u64,
        direction: Direction,
        bytes: &[u8],
    ) -> (Verdict, Vec<u8>) {
        self.programs.set_clock(now_ns);
        let program = match direction {
            Direction::FromGuest => &self.programs.from_guest,
            Direction::ToGuest => &self.programs.to_guest,
        };
        let mut out = vec![0; bytes.len() + 64];
        let outcome = run(program.as_fd(), bytes, &mut out, 1).unwrap();
        out.truncate(outcome.length);
        let verdict = match outcome.verdict {
            -1 => Verdict::Pass,
            2 => Verdict::Police,
            other => panic!("verdict {other}"),
        };
        self.serve(now_ns);
        (verdict, out)
    }

    /// The plane hears of new flows, and gives them the program.
    pub(crate) fn serve(&mut self, now_ns: u64) {
        if self.is_alive {
            self.page.heartbeat_us().store(now_ns / 1_000, Relaxed);
        }
        self.ring.consume().unwrap();
        for event in self.events.take() {
            let word =
                |at: usize| u32::from_ne_bytes(event[4 * at..4 * at + 4].try_into().unwrap());
            match word(0) {
                CREATED => {
                    self.created += 1;
                    if self.is_alive {
                        self.switch(word(1), word(2));
                    }
                }
                CLOSED => self.closed += 1,
                FAULT => self.faults += 1,
                _ => {}
            }
        }
    }

    /// Stages the program for the flow of that slot and generation.
    fn switch(&self, slot: u32, generation: u32) {
        let sequence = self.u32(slot, frame::STAGE_SEQUENCE as usize);
        let next = sequence.load(Relaxed) + 2;
        let stage = frame::STAGE as usize;
        self.u32(slot, frame::STAGE_PROGRAM as usize)
            .store(0, Relaxed);
        self.u32(slot, frame::STAGE_INSTALL as usize)
            .fetch_add(1, Relaxed);
        self.u32(slot, frame::STAGE_SET as usize).store(0, Relaxed);
        self.u32(slot, stage + 32).store(generation, Relaxed);
        sequence.store(next, Relaxed);
    }

    fn u32(&self, slot: u32, at: usize) -> &std::sync::atomic::AtomicU32 {
        self.frames.u32(self.frame_size * slot as usize + at)
    }

    fn u64(&self, slot: u32, at: usize) -> u64 {
        let at = self.frame_size * slot as usize + at;
        self.frames.u64(at).load(Relaxed)
    }

    /// The first variables of the flow's program.
    pub(crate) fn variables(&self, slot: u32, count: usize) -> Vec<u64> {
        let at = |n| self.u64(slot, frame::VARIABLES as usize + 8 * n);
        (0..count).map(at).collect()
    }
}
