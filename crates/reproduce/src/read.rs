//! Entries of the catalogue, read from their files and checked.

use std::collections::BTreeMap;

use fairwater_document::diagnostic::{Diagnostic, Diagnostics, Sink};
use fairwater_document::fields::{Fields, InvalidValue, listed, refuse};
use fairwater_document::quantity::{self, text};
use fairwater_document::tree::{self, Node, Value};
use fairwater_lang::nearest;
use fairwater_scenario::Scenario;

use crate::entry::{
    Check, Claim, Comparison, Entry, Form, NotRun, Question, Run, Scale, Source, Subject, World,
};
use crate::measure::{self, BENCHMARK_MEASURES, MEASURES, Measure, Needs, Read};
use crate::plan::Plan;

/// What an entry refers to and does not have in itself.
pub trait Resolver {
    /// The scenario in this file, relative to the folder that the catalogue is in, with these changes, for
    /// the simulator or for Linux.
    ///
    /// # Errors
    /// Why there is none, as sentences.
    fn scenario(&self, file: &str, settings: &[String], world: World) -> Result<Scenario, String>;
}

/// The greatest number of seeds of a point.
pub(crate) const MAX_SEEDS: u64 = 1_000;

/// The names of the checks, as files have them.
const CHECKS: [&str; 5] = ["within", "at_most", "at_least", "orders", "ks_at_most"];

impl Entry {
    /// The greatest number of seeds that any point may be run with.
    pub const MAX_SEEDS: u64 = MAX_SEEDS;

    /// Reads the entry `id` of `paper`, and checks that everything that it names exists.
    ///
    /// # Errors
    /// All that is wrong with it, each thing at its line.
    pub fn parse(
        paper: &str,
        id: &str,
        file_name: &str,
        source: &str,
        resolver: &dyn Resolver,
    ) -> Result<Self, Diagnostics> {
        let sink = Sink::default();
        let root = tree::parse(source, &sink);
        let mut entry = None;
        // What could not be parsed would only be missed again.
        if sink.said() == 0 {
            entry = read_entry(paper, id, &root, &sink);
        }
        if let (Some(entry), 0) = (&mut entry, sink.said()) {
            find_points(entry, &root, resolver, &sink);
        }
        sink.finish(file_name, source)?;
        match entry {
            Some(entry) => Ok(entry),
            // Each reason was said.
            None => Err(Diagnostics::new(file_name, source, Vec::new())),
        }
    }
}

fn read_entry(paper: &str, id: &str, root: &Node, sink: &Sink) -> Option<Entry> {
    let mut fields = Fields::of("an entry", root, sink)?;
    let title = fields.required("title", text);
    let section = fields.required("section", section_text);
    let figure = fields.optional("figure", text);
    let setup = fields.optional("setup", text);
    let note = fields.optional("note", text);
    let world = fields.required("world", world);
    let source = source(&mut fields, world, root, sink);
    let (full, quick) = forms(&mut fields, &[], sink);
    let is_run = source.is_some();
    let own = source.zip(world).map(|(source, world)| Run {
        world,
        source,
        claims: None,
        full,
        quick,
    });
    let on_linux = fields
        .node("linux")
        .and_then(|node| linux(node, own.as_ref(), sink));
    let questions = tables(&mut fields, "question", sink, read_question);
    let not_run = tables(&mut fields, "not_run", sink, read_not_run);
    let claims = tables(&mut fields, "claim", sink, |node, sink| {
        read_claim(node, is_run, sink)
    });
    let span = fields.span.clone();
    if fields.node("claim").is_none() {
        fields.missing("claim");
    }
    fields.finish();
    unique(&claims, root, sink);
    if !is_run && not_run.is_empty() {
        let message = "an entry without a `scenario` or a `benchmark` says in `[[not_run]]` why it is not run";
        sink.push(Diagnostic::new(span, message));
    }
    let runs: Vec<Run> = own.into_iter().chain(on_linux).collect();
    check_runs(&runs, &claims, root, sink);
    Some(Entry {
        paper: paper.to_owned(),
        id: id.to_owned(),
        title: title?,
        section: section?,
        figure,
        setup,
        note,
        world: world?,
        runs,
        questions,
        not_run,
        claims,
    })
}

/// Resolves the points of all claims, in full and in the quick form.
fn find_points(entry: &mut Entry, root: &Node, resolver: &dyn Resolver, sink: &Sink) {
    for run in &mut entry.runs {
        let Source::Scenario(file) = &run.source else {
            continue;
        };
        let judged = |claim| run.claims.as_ref().is_none_or(|ids| ids.contains(claim));
        let is_judged: Vec<bool> = entry.claims.iter().map(|claim| judged(&claim.id)).collect();
        let place = match run.world {
            World::Linux => root.entry("linux").or(root.entry("scenario")),
            _ => root.entry("scenario"),
        };
        let span = place.map_or(0..0, |node| node.span.clone());
        for form in [&mut run.full, &mut run.quick] {
            match resolver.scenario(file, &form.settings, run.world) {
                Ok(scenario) => {
                    let claims = entry.claims.iter().zip(&is_judged);
                    let claims = claims.map(|(claim, judged)| judged.then_some(claim));
                    form.plan = Plan::new(claims, &scenario, sink);
                }
                Err(reason) => {
                    let message = format!("the scenario `{file}` cannot be used");
                    sink.push(Diagnostic::new(span.clone(), message).help(reason));
                }
            }
        }
    }
}

/// What runs an entry in its own world.
fn source(
    fields: &mut Fields<'_>,
    world: Option<World>,
    root: &Node,
    sink: &Sink,
) -> Option<Source> {
    let scenario = fields.optional("scenario", text).map(Source::Scenario);
    let benchmark = fields.optional("benchmark", text).map(Source::Benchmark);
    let (key, message) = match (&scenario, &benchmark, world?) {
        (Some(_), Some(_), _) => ("benchmark", "an entry has a `scenario` or a `benchmark`"),
        (Some(_), None, World::Bench) => (
            "scenario",
            "an entry of the world `bench` has a `benchmark`",
        ),
        (None, Some(_), World::Sim | World::Linux) => (
            "benchmark",
            "only an entry of the world `bench` has a `benchmark`",
        ),
        _ => return scenario.or(benchmark),
    };
    let span = root.entry(key).map_or(0..0, |node| node.span.clone());
    sink.push(Diagnostic::new(span, message));
    None
}

/// The full and the quick form; changes of the scenario begin with `before`.
fn forms(fields: &mut Fields<'_>, before: &[String], sink: &Sink) -> (Form, Form) {
    let mut settings = before.to_vec();
    settings.extend(self::settings(fields));
    let seeds = fields.optional("seeds", seed_count).unwrap_or(10);
    let most_seeds = fields.optional("most_seeds", seed_count);
    let full = Form {
        settings,
        seeds,
        most_seeds: most_seeds.unwrap_or(seeds * 4).clamp(seeds, MAX_SEEDS),
        plan: Plan::default(),
    };
    let quick = quick(fields, &full, sink);
    (full, quick)
}

/// The table `[linux]`: the same claims on real TCP. Without a `scenario` of its own it has that of the
/// entry with the entry's changes.
fn linux(node: &Node, own: Option<&Run>, sink: &Sink) -> Option<Run> {
    let mut fields = Fields::of("`[linux]`", node, sink)?;
    let scenario = fields.optional("scenario", text);
    let is_own = scenario.is_none();
    let same = own.and_then(|run| match &run.source {
        Source::Scenario(file) if run.world == World::Sim => Some(file.clone()),
        _ => None,
    });
    let inherited = match own {
        Some(run) if is_own => run.full.settings.as_slice(),
        _ => &[],
    };
    let (full, quick) = forms(&mut fields, inherited, sink);
    let claims = fields.optional("claims", texts);
    fields.finish();
    let Some(scenario) = scenario.or(same) else {
        let message = "`[linux]` needs a `scenario`: the entry has none for the simulator";
        sink.push(Diagnostic::new(node.span.clone(), message));
        return None;
    };
    Some(Run {
        world: World::Linux,
        source: Source::Scenario(scenario),
        claims,
        full,
        quick,
    })
}

/// Checks that runs judge claims that exist, by measures that they have.
fn check_runs(runs: &[Run], claims: &[Claim], root: &Node, sink: &Sink) {
    let named = runs.iter().filter_map(|run| run.claims.as_ref()).flatten();
    for id in named.filter(|id| claims.iter().all(|claim| claim.id != **id)) {
        let ids = claims.iter().map(|claim| claim.id.as_str());
        let help = match nearest(id, ids) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`claims` lists ids of the entry's claims".to_owned(),
        };
        let span = root.entry("linux").map_or(0..0, |node| node.span.clone());
        sink.push(Diagnostic::new(span, format!("there is no claim `{id}`")).help(help));
    }
    for run in runs {
        let judged = claims.iter().filter(|claim| run.judges(claim));
        for comparison in judged.filter_map(|claim| claim.comparison.as_ref()) {
            let measure = comparison.measure;
            let message = match (measure.needs, &run.source) {
                (Needs::Benchmark(of), Source::Benchmark(name)) if of == name => continue,
                (Needs::Benchmark(of), _) => {
                    format!("`{}` is of the benchmark `{of}`", measure.name)
                }
                (_, Source::Scenario(_)) => continue,
                (_, Source::Benchmark(name)) => {
                    format!("the benchmark `{name}` does not measure `{}`", measure.name)
                }
            };
            sink.push(Diagnostic::new(comparison.span.clone(), message));
        }
    }
}

fn read_question(node: &Node, sink: &Sink) -> Option<Question> {
    let mut fields = Fields::of("`[[question]]`", node, sink)?;
    let asks = fields.required("asks", text);
    let section = fields.required("section", section_text);
    let answer = fields.required("answer", text);
    fields.finish();
    Some(Question {
        asks: asks?,
        section: section?,
        answer: answer?,
    })
}

fn unique(claims: &[Claim], root: &Node, sink: &Sink) {
    let Some(Node {
        value: Value::Array(nodes),
        ..
    }) = root.entry("claim")
    else {
        return;
    };
    for (index, claim) in claims.iter().enumerate() {
        if claims[..index].iter().any(|before| before.id == claim.id) {
            let message = format!("two claims are called `{}`", claim.id);
            let ids = nodes.iter().filter_map(|node| node.entry("id"));
            let mut same = ids.filter(|id| id.plain().as_deref() == Some(&claim.id));
            let span = same.next_back().map_or(0..0, |id| id.span.clone());
            sink.push(Diagnostic::new(span, message));
        }
    }
}

/// The tables of a list, each read; those that are wrong are left out.
fn tables<T>(
    fields: &mut Fields<'_>,
    key: &'static str,
    sink: &Sink,
    read: impl Fn(&Node, &Sink) -> Option<T>,
) -> Vec<T> {
    let Some(node) = fields.node(key) else {
        return Vec::new();
    };
    match &node.value {
        Value::Array(items) => items.iter().filter_map(|item| read(item, sink)).collect(),
        _ => {
            refuse(
                key,
                node,
                InvalidValue::kind(node, "a list of tables"),
                sink,
            );
            Vec::new()
        }
    }
}

fn settings(fields: &mut Fields<'_>) -> Vec<String> {
    fields.optional("set", texts).unwrap_or_default()
}

fn texts(node: &Node) -> Result<Vec<String>, InvalidValue> {
    match &node.value {
        Value::Array(items) => items.iter().map(text).collect(),
        _ => Err(InvalidValue::kind(node, "a list of texts")),
    }
}

fn quick(fields: &mut Fields<'_>, full: &Form, sink: &Sink) -> Form {
    let mut form = full.clone();
    let node = fields.node("quick");
    let Some(mut quick) = node.and_then(|node| Fields::of("the quick form", node, sink)) else {
        return form;
    };
    form.settings.extend(settings(&mut quick));
    form.seeds = quick.optional("seeds", seed_count).unwrap_or(full.seeds);
    let most = quick
        .optional("most_seeds", seed_count)
        .unwrap_or(form.seeds);
    form.most_seeds = most.max(form.seeds);
    quick.finish();
    form
}

fn seed_count(node: &Node) -> Result<u64, InvalidValue> {
    let allowed = || InvalidValue {
        message: "it is not a number of seeds".to_owned(),
        allowed: format!("a whole number from 2 to {MAX_SEEDS}"),
    };
    let count = quantity::integer(node).map_err(|_| allowed())?;
    (2..=MAX_SEEDS)
        .contains(&count)
        .then_some(count)
        .ok_or_else(allowed)
}

/// A section: `§7.3`, `appendix B`, `Table 1`.
fn section_text(node: &Node) -> Result<String, InvalidValue> {
    let section = text(node)?;
    let is_section = section.starts_with('§') || section.starts_with("appendix ");
    is_section.then_some(section).ok_or_else(|| InvalidValue {
        message: "it is not a section".to_owned(),
        allowed: "a section such as `§7.3`, or `appendix B`".to_owned(),
    })
}

fn world(node: &Node) -> Result<World, InvalidValue> {
    let name = text(node)?;
    let found = World::ALL.into_iter().find(|world| world.name() == name);
    found.ok_or_else(|| InvalidValue {
        message: format!("there is no world `{name}`"),
        allowed: "`sim`, `linux` or `bench`".to_owned(),
    })
}

fn read_not_run(node: &Node, sink: &Sink) -> Option<NotRun> {
    let mut fields = Fields::of("`[[not_run]]`", node, sink)?;
    let world = fields.required("world", world);
    let reason = fields.required("reason", text);
    let command = fields.optional("command", text);
    fields.finish();
    Some(NotRun {
        world: world?,
        reason: reason?,
        command,
    })
}

fn read_claim(node: &Node, is_run: bool, sink: &Sink) -> Option<Claim> {
    let mut fields = Fields::of("a claim", node, sink)?;
    let id = fields.required("id", text);
    let claim = fields.required("text", text);
    let section = fields.required("section", section_text);
    let figure = fields.optional("figure", text);
    let theirs = fields.required("theirs", text);
    let measure = fields.optional("measure", measure_of);
    let comparison = match measure {
        Some(measure) => read_comparison(&mut fields, node, measure, sink),
        None => {
            if is_run && fields.node("measure").is_none() {
                fields.missing("measure");
            }
            None
        }
    };
    if measure.is_none() {
        // Without a measure nothing else can be judged.
        let others = [
            "where", "flows", "link", "class", "from", "to", "against", "as", "bound",
        ];
        for key in others.into_iter().chain(CHECKS) {
            fields.node(key);
        }
    }
    fields.finish();
    Some(Claim {
        id: id?,
        text: claim?,
        section: section?,
        figure,
        theirs: theirs?,
        comparison,
    })
}

fn measure_of(node: &Node) -> Result<&'static Measure, InvalidValue> {
    let name = text(node)?;
    measure::find(&name).ok_or_else(|| {
        let all = MEASURES.iter().chain(&BENCHMARK_MEASURES);
        let names = all.map(|measure| measure.name);
        let allowed = match nearest(&name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => listed(&names.collect::<Vec<_>>()),
        };
        InvalidValue {
            message: format!("there is no measure `{name}`"),
            allowed,
        }
    })
}

fn read_comparison(
    fields: &mut Fields<'_>,
    node: &Node,
    measure: &'static Measure,
    sink: &Sink,
) -> Option<Comparison> {
    let bound = fields.required("bound", text);
    let subject = read_subject(fields, &Subject::default(), node.span.clone(), sink);
    let other = |node: &Node| other_subject("what is compared with", node, &subject, sink);
    let against = fields.node("against").and_then(other);
    let is_paired = fields.node("against").is_some();
    let scale = fields.optional("as", scale);
    let (key, check) = read_check(fields, &subject, sink)?;
    let span = node
        .entry(key)
        .map_or(node.span.clone(), |n| n.span.clone());
    let refuse = |message: &str| {
        sink.push(Diagnostic::new(span.clone(), message.to_owned()));
        None
    };
    let is_ks = matches!(check, Check::KsAtMost(_));
    let is_distribution = matches!(measure.read, Read::Distribution(_));
    if is_ks != is_distribution {
        return refuse(&match is_ks {
            true => format!(
                "`ks_at_most` compares distributions, and `{}` is a number",
                measure.name
            ),
            false => format!(
                "`{}` is a distribution, which `ks_at_most` compares",
                measure.name
            ),
        });
    }
    if is_ks && !is_paired {
        return refuse("`ks_at_most` needs `against`: what the distribution is compared with");
    }
    if matches!(check, Check::Orders(_)) && (is_paired || scale.is_some()) {
        return refuse(
            "`orders` compares the points that it lists; `against` and `as` say nothing then",
        );
    }
    let scale = match (is_ks, is_paired, scale) {
        (true, ..) => Scale::Ks,
        (false, true, scale) => scale.unwrap_or(Scale::Ratio),
        (false, false, None) => Scale::Value,
        (false, false, Some(_)) => {
            return refuse("`as` says how two measures are compared, and there is no `against`");
        }
    };
    Some(Comparison {
        measure,
        subject,
        against,
        scale,
        check,
        bound: bound?,
        span,
    })
}

fn scale(node: &Node) -> Result<Scale, InvalidValue> {
    match text(node)?.as_str() {
        "ratio" => Ok(Scale::Ratio),
        "percent" => Ok(Scale::Percent),
        "change" => Ok(Scale::Change),
        "difference" => Ok(Scale::Difference),
        other => Err(InvalidValue {
            message: format!("`{other}` compares nothing"),
            allowed: "`ratio`, `percent`, `change` or `difference`".to_owned(),
        }),
    }
}

/// The one check of a claim, with its key.
fn read_check(
    fields: &mut Fields<'_>,
    subject: &Subject,
    sink: &Sink,
) -> Option<(&'static str, Check)> {
    let present: Vec<_> = CHECKS
        .into_iter()
        .filter_map(|key| Some((key, fields.node(key)?)))
        .collect();
    let [(key, node)] = present[..] else {
        let message = match present.len() {
            0 => format!("a claim has one of {}", listed(&CHECKS)),
            _ => "a claim has one check, and this one has several".to_owned(),
        };
        let span = present
            .last()
            .map_or(fields.span.clone(), |(_, node)| node.span.clone());
        sink.push(Diagnostic::new(span, message));
        return None;
    };
    let check = match key {
        "within" => range(node).map(|(low, high)| Check::Within(low, high)),
        "at_most" => number(node).map(Check::AtMost),
        "at_least" => number(node).map(Check::AtLeast),
        "ks_at_most" => number(node).map(Check::KsAtMost),
        _ => ordered(node, subject, sink).map(Check::Orders),
    };
    check
        .map_err(|wrong| refuse(key, node, wrong, sink))
        .ok()
        .map(|check| (key, check))
}

fn ordered(node: &Node, subject: &Subject, sink: &Sink) -> Result<Vec<Subject>, InvalidValue> {
    match &node.value {
        Value::Array(items) if items.len() > 1 => {
            let one = |item| other_subject("a part of an order", item, subject, sink);
            Ok(items.iter().filter_map(one).collect())
        }
        _ => Err(InvalidValue {
            message: "it is not a list of at least two".to_owned(),
            allowed: "tables such as `{ where = { rtt = \"20ms\" } }`, what is less first"
                .to_owned(),
        }),
    }
}

fn number(node: &Node) -> Result<f64, InvalidValue> {
    match node.value {
        Value::Integer(number) => Ok(number as f64),
        Value::Float(number) => Ok(number),
        _ => Err(InvalidValue::kind(node, "a number")),
    }
}

fn range(node: &Node) -> Result<(f64, f64), InvalidValue> {
    let wrong = || InvalidValue {
        message: "it is not a range".to_owned(),
        allowed: "two numbers, the lesser first: `[0.9, 1.1]`".to_owned(),
    };
    let Value::Array(ends) = &node.value else {
        return Err(wrong());
    };
    match ends.iter().map(number).collect::<Result<Vec<_>, _>>()?[..] {
        [low, high] if low <= high => Ok((low, high)),
        _ => Err(wrong()),
    }
}

/// What is compared with the subject: the same but for what the table says.
fn other_subject(
    what: &'static str,
    node: &Node,
    subject: &Subject,
    sink: &Sink,
) -> Option<Subject> {
    let mut fields = Fields::of(what, node, sink)?;
    let other = read_subject(&mut fields, subject, node.span.clone(), sink);
    fields.finish();
    Some(other)
}

fn read_subject(
    fields: &mut Fields<'_>,
    like: &Subject,
    span: std::ops::Range<usize>,
    sink: &Sink,
) -> Subject {
    let mut points = like.points.clone();
    let mut places = like.places.clone();
    if let Some(node) = fields.node("where") {
        points.extend(variables(node, sink));
    }
    for key in ["where", "flows", "link", "class"] {
        if let Some(node) = fields.node(key) {
            places.insert(key, node.span.clone());
        }
    }
    let us = |fields: &mut Fields<'_>, key| {
        let time = fields.optional(key, quantity::duration)?;
        u64::try_from(time.as_micros()).ok()
    };
    Subject {
        points,
        flows: fields.optional("flows", text).or(like.flows.clone()),
        link: fields.optional("link", text).or(like.link.clone()),
        class: fields.optional("class", text).or(like.class.clone()),
        from_us: us(fields, "from").or(like.from_us),
        to_us: us(fields, "to").or(like.to_us),
        places,
        span,
    }
}

fn variables(node: &Node, sink: &Sink) -> BTreeMap<String, String> {
    let Value::Table(entries) = &node.value else {
        refuse(
            "where",
            node,
            InvalidValue::kind(node, "a table of variables"),
            sink,
        );
        return BTreeMap::new();
    };
    let one = |(key, node): &(tree::Key, Node)| match node.plain() {
        Some(value) => Some((key.name.clone(), value)),
        None => {
            refuse(
                &key.name,
                node,
                InvalidValue::kind(node, "a variable's value as text"),
                sink,
            );
            None
        }
    };
    entries.iter().filter_map(one).collect()
}
