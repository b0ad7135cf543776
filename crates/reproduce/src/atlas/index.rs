//! The index of the atlas.

use std::fmt::Write;

use fairwater_results::report::escaped;

use super::{class, overall};
use crate::entry::{Entry, World};
use crate::verdict::{Judged, Verdict};

/// A result in the index.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    paper: String,
    id: String,
    title: String,
    place: String,
    worlds: Vec<(World, Vec<Verdict>, Verdict)>,
}

impl Listing {
    /// An entry with its verdicts in each world.
    #[must_use]
    pub fn new(entry: &Entry, judged: &[Judged]) -> Self {
        let mut worlds = Vec::new();
        for world in World::ALL {
            let of = || judged.iter().filter(|judged| judged.world == world);
            let verdicts: Vec<Verdict> = of().map(|judged| judged.verdict).collect();
            if !verdicts.is_empty() {
                worlds.push((world, verdicts, overall(of())));
            }
        }
        // The entry's own world first.
        worlds.sort_by_key(|(world, ..)| *world != entry.world);
        Self {
            paper: entry.paper.clone(),
            id: entry.id.clone(),
            title: entry.title.clone(),
            place: super::page::place(&entry.section, entry.figure.as_deref()),
            worlds,
        }
    }

    /// Whether it has a verdict in any world.
    fn is_judged(&self) -> bool {
        let mut all = self.worlds.iter();
        all.any(|(.., overall)| *overall != Verdict::NotRun)
    }
}

/// Names of the papers in the catalogue; of another, the folder's name.
fn paper_name(paper: &str) -> &str {
    match paper {
        "ccp" => "CCP: Restructuring Endpoint Congestion Control (SIGCOMM 2018)",
        "reproduction" => "A reproduction report of CCP",
        "vcc" => "vCC: Virtualized Congestion Control, extended version (SIGCOMM 2016)",
        "bundler" => "Bundler: Site-to-Site Internet Traffic Control (EuroSys 2021)",
        "mystique" => {
            "Mystique: A Fine-grained and Transparent Congestion Control Enforcement Scheme (ANRW 2018)"
        }
        other => other,
    }
}

/// The index page. `quick`: the results are of the quick forms.
#[must_use]
pub fn index(results: &[Listing], quick: bool) -> String {
    let verdicts = || results.iter().flat_map(|result| &result.worlds);
    let counts = [
        Verdict::Holds,
        Verdict::DoesNotHold,
        Verdict::CannotBeTold,
        Verdict::NotRun,
    ];
    let counts = counts.map(|verdict| {
        let all = verdicts().flat_map(|(_, all, _)| all);
        let count = all.filter(|found| **found == verdict).count();
        format!(
            "<span class=\"chip {}\">{count} {verdict}</span>",
            class(verdict)
        )
    });
    let judged = results.iter().filter(|result| result.is_judged()).count();
    let form = match quick {
        true => "Runs are of the quick forms, with fewer seeds or shorter runs.",
        false => "",
    };
    let mut body = format!(
        "<header>\n<h1>Results of papers, reproduced</h1>\n<p class=\"parameters\">{judged} of {} results \
         have a verdict. Claims: {}</p>\n<p>A claim holds if the whole 95 % interval over seeds passes its \
         check, and does not hold if the whole interval fails; otherwise it cannot be told. A verdict of \
         one world is none of another: <code>sim</code> is the simulator, <code>linux</code> real TCP on \
         emulated links, <code>bench</code> a benchmark of one machine. A chip of a result is that of its \
         worst claim. {form}</p>\n</header>\n",
        results.len(),
        counts.join(" "),
    );
    for of_paper in results.chunk_by(|a, b| a.paper == b.paper) {
        let name = paper_name(&of_paper[0].paper);
        // Writing to a string does not fail.
        let _ = write!(
            body,
            "<h2>{}</h2>\n<table class=\"index\">\n",
            escaped(name)
        );
        for result in of_paper {
            body += &row(result);
        }
        body += "</table>\n";
    }
    super::page::shell("Results of papers, reproduced", "", &body, None)
}

fn row(result: &Listing) -> String {
    let chips = result.worlds.iter().map(|(world, all, overall)| {
        let passed = all.iter().filter(|v| **v == Verdict::Holds).count();
        let count = match (overall, all.len()) {
            (Verdict::NotRun, _) | (_, 1) => String::new(),
            (_, of) => format!(" · {passed} of {of} hold"),
        };
        format!(
            "<span class=\"chip {}\">{}: {overall}{count}</span>",
            class(*overall),
            world.name()
        )
    });
    let chips: Vec<_> = chips.collect();
    let (paper, id) = (escaped(&result.paper), escaped(&result.id));
    format!(
        "<tr><td><a href=\"{paper}/{id}.html\">{paper}:{id}</a></td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escaped(&result.title),
        escaped(&result.place),
        chips.join(" ")
    )
}
