//! A certificate as text and as a page.

use fairwater_certify::{Certificate, Judgement, Opinion, WorstPath};
use fairwater_reproduce::Ours;
use fairwater_results::PointResult;
use fairwater_results::report::{CertificatePage, CheckRow, Picture, certificate};

use fairwater_reproduce::atlas::number;

/// The certificate for a terminal.
pub(super) fn text(found: &Certificate) -> String {
    let mut text = format!("{}\n", title(found));
    for section in &found.sections {
        text += &format!("\n{}: {} ({})\n", section.id, section.title, section.cites);
        for check in &section.checks {
            text += &format!("  {}: {}\n", check.opinion.text(), check.text);
            if let Some(measured) = &check.measured {
                let bound = check.check.as_deref().unwrap_or("");
                text += &format!("    {}; {bound}\n", measured_text(check, measured));
            }
            if let Some(reason) = &check.reason {
                text += &format!("    {reason}\n");
            }
        }
    }
    if !found.worst.is_empty() {
        text += "\nWorst paths\n";
    }
    for worst in &found.worst {
        text += &format!("  {}\n", worst_sentence(worst));
    }
    for finding in &found.findings {
        text += &format!(
            "  finding in {}: {} ({})\n",
            finding.at, finding.what, finding.scenario
        );
    }
    text + "\n" + &summary(found) + "\n"
}

/// One line: how many checks have which verdict, and which faults were found.
pub(super) fn summary(found: &Certificate) -> String {
    let all = [
        Opinion::Passes,
        Opinion::FallsShort,
        Opinion::CannotBeTold,
        Opinion::NotRun,
    ];
    let counts = all.map(|opinion| format!("{} {}", found.count(opinion), opinion.text()));
    let faults: Vec<_> = found.worst.iter().filter(|worst| worst.is_fault).collect();
    let names: Vec<_> = faults.iter().map(|worst| worst.objective.name()).collect();
    let faults = match names.is_empty() {
        true if found.worst.is_empty() => "no search".to_owned(),
        true => "no fault found by search".to_owned(),
        false => format!("found by search: {}", names.join(", ")),
    };
    let findings = match found.findings.len() {
        0 => String::new(),
        count => format!(
            "; the algorithm failed: {}",
            crate::units::count(count, "finding")
        ),
    };
    format!(
        "{}: {}; {faults}{findings}",
        found.algorithm,
        counts.join(", ")
    )
}

fn title(found: &Certificate) -> String {
    let form = if found.quick { ", quick form" } else { "" };
    format!("{}{form}, seed {}", found.algorithm, found.seed)
}

fn measured_text(check: &Judgement, ours: &Ours) -> String {
    let unit = match ours.unit {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let range = format!(
        "{}{unit} ({} to {}; {} seeds)",
        number(ours.value),
        number(ours.low),
        number(ours.high),
        ours.seeds
    );
    let measure = check.measure.unwrap_or("measured");
    match &ours.means[..] {
        [own, other] => format!(
            "{measure}: ratio {range}, of {} and {} {}",
            number(*own),
            number(*other),
            ours.measured_in
        ),
        _ => format!("{measure}: {range}"),
    }
}

fn worst_sentence(worst: &WorstPath) -> String {
    let name = worst.objective.name();
    let Some(fault) = &worst.fault else {
        return format!("{name}: nothing could be run");
    };
    let verdict = match worst.is_fault {
        true => "found",
        false => "not found",
    };
    let reference = match (worst.objective, fault.reference) {
        (fairwater_certify::Objective::Starvation, Some(other)) => {
            format!("; native:cubic in its place {}", number(other))
        }
        (fairwater_certify::Objective::Collapse, Some(used)) => {
            format!("; native:cubic uses {} % of the link", number(used * 100.0))
        }
        (fairwater_certify::Objective::LockIn, Some(alone)) => {
            format!("; one flow alone has {}", number(alone))
        }
        _ => String::new(),
    };
    let place = worst.scenario.as_deref().unwrap_or("");
    format!(
        "{name}: {verdict} in {} paths; {} is {}{reference} (a fault from {}): {place}",
        worst.paths,
        worst.objective.meaning(),
        number(fault.value),
        number(worst.objective.bound()),
    )
}

/// The certificate as a page. `pictures` are runs with their titles.
pub(super) fn page(found: &Certificate, pictures: &[(String, PointResult)]) -> String {
    let rows = found.sections.iter().flat_map(|section| {
        section.checks.iter().map(|check| CheckRow {
            section: section.title.clone(),
            cites: section.cites.clone(),
            check: check.text.clone(),
            measured: match (&check.measured, &check.reason) {
                (Some(measured), _) => measured_text(check, measured),
                (None, Some(reason)) => reason.clone(),
                (None, None) => String::new(),
            },
            bound: match (&check.check, &check.bound) {
                (Some(check), Some(bound)) => format!("{check} ({bound})"),
                _ => String::new(),
            },
            verdict: check.opinion.text(),
            passes: match check.opinion {
                Opinion::Passes => Some(true),
                Opinion::FallsShort => Some(false),
                Opinion::CannotBeTold | Opinion::NotRun => None,
            },
            scenario: section.scenario.clone(),
        })
    });
    let findings: Vec<_> = found
        .findings
        .iter()
        .map(|finding| format!("{}: {} ({})", finding.at, finding.what, finding.scenario))
        .collect();
    let path = |worst: &WorstPath| {
        let source = worst.source.clone().unwrap_or_default();
        let heading = format!("Worst path: {}", worst.objective.name());
        (heading, worst_sentence(worst), source)
    };
    let paths: Vec<_> = found.worst.iter().map(path).collect();
    let pictures: Vec<_> = pictures
        .iter()
        .map(|(title, run)| Picture { title, run })
        .collect();
    certificate(&CertificatePage {
        title: &format!("Certification of {}", found.algorithm),
        parameters: &format!("{}; {}", title(found), summary(found)),
        checks: &rows.collect::<Vec<_>>(),
        findings: &findings,
        paths: &paths,
        pictures: &pictures,
    })
}
