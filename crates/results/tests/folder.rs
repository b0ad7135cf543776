//! Results are kept whole, never mixed, and say the same in each of their forms.

use std::collections::BTreeMap;
use std::fs;

use fairwater_results::report::{self, GridLayout};
use fairwater_results::{
    BundleResult, BundleSample, CongestionState, EdgeResult, EdgeSample, FlowResult, FlowSample,
    Folder, FolderError, GroupResult, PointResult, RequestClass, RequestResult, Spread, grid, jain,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;

fn result(point: usize, rate: &str, seed: u64, fct_us: f64) -> PointResult {
    let all = RequestClass {
        class: "all".to_owned(),
        count: 2,
        fct_us: Spread::of(vec![fct_us, 3.0 * fct_us]),
        slowdown: Spread::of(vec![1.0, 3.0]),
    };
    let flow = |name: &str, throughput_bps| FlowResult {
        name: name.to_owned(),
        group: 0,
        throughput_bps,
        segments: 100,
        retransmissions: 3,
        timeouts: 1,
        marked: 0,
        fallback: None,
        rtt_us: Some(Spread::of(vec![20_000.0])),
        queueing_us: None,
        samples: vec![FlowSample {
            at_s: 0.5,
            cwnd_bytes: 14_480,
            ssthresh_bytes: (name == "one").then_some(28_960),
            state: Some(CongestionState::Recovery),
            pacing_bps: 0,
            srtt_us: 20_500,
            throughput_bps: 1e6,
        }],
    };
    PointResult {
        point,
        variables: BTreeMap::from([("rate".to_owned(), rate.to_owned())]),
        seed,
        backend: "sim".to_owned(),
        measured_s: 1.0,
        jain: jain(&[1e6, 3e6]),
        groups: vec![GroupResult {
            name: "<b>cubic</b>".to_owned(),
            algorithm: "cubic".to_owned(),
            flows: 2,
            throughput_bps: 4e6,
            jain: jain(&[1e6, 3e6]),
            retransmissions: 6,
            timeouts: 2,
            marked: 0,
            unfinished: 0,
            requests: vec![all],
            completions: vec![RequestResult {
                start_s: 0.1,
                bytes: 10_000,
                fct_us,
                ideal_us: 90.0,
            }],
        }],
        flows: vec![flow("one", 1e6), flow("two", 3e6)],
        edges: vec![EdgeResult {
            name: "bottleneck".to_owned(),
            throughput_bps: 4.2e6,
            utilisation: 0.42,
            packets: 990,
            dropped: 10,
            lost: 0,
            marked: 0,
            queueing_us: Some(Spread::of(vec![1_000.0, 2_000.0])),
            samples: vec![EdgeSample {
                at_s: 0.5,
                throughput_bps: 4.2e6,
                queueing_us: None,
                queued_bytes: 3_000,
                dropped: 10,
                marked: 0,
            }],
            bundles: vec![BundleResult {
                bundle: "site".to_owned(),
                throughput_bps: 4.0e6,
                packets: 900,
                dropped: 8,
                queueing_us: Some(Spread::of(vec![1_500.0])),
                samples: vec![BundleSample {
                    at_s: 0.5,
                    arrived_bps: 4.1e6,
                    throughput_bps: 4.0e6,
                    queueing_us: None,
                    queued_bytes: 3_000,
                    dropped: 8,
                }],
            }],
        }],
        disturbed: false,
        notices: Vec::new(),
    }
}

fn open(path: &std::path::Path, backend: &str, scenario: &str) -> Result<Folder, FolderError> {
    Folder::open(path, backend, scenario, BTreeMap::new(), false)
}

#[test]
fn a_folder_goes_on_with_its_own_scenario_and_no_other() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("results");
    let folder = open(&path, "sim", "a = 1\nb = 2\n").expect("a new one");
    let kept = result(3, "10mbit", 7, 100.0);
    folder.keep(&kept).expect("kept");
    drop(folder);

    let again = open(&path, "sim", "a = 1\nb = 2\n").expect("the same");
    assert_eq!(again.read(3, 7), Some(kept));
    assert_eq!(again.read(3, 8), None);
    assert_eq!(again.read(4, 7), None);
    let file = path.join("points/0000003-7.json");
    let text = fs::read_to_string(&file).expect("text");
    fs::write(&file, &text[..text.len() / 2]).expect("cut off");
    assert_eq!(again.read(3, 7), None);
    again
        .finish(&[result(3, "10mbit", 7, 100.0)], &[])
        .expect("tables");
    let second = open(&path, "sim", "a = 1\nb = 2\n").expect_err("locked");
    let own = format!("process {}", std::process::id());
    assert!(second.to_string().contains(&own), "{second}");
    drop(again);

    let other = open(&path, "sim", "a = 1\nb = 3\n").expect_err("another scenario");
    assert!(other.to_string().contains("from line 2"), "{other}");
    let other = open(&path, "linux", "a = 1\nb = 2\n").expect_err("another back end");
    assert!(other.to_string().contains("on sim"), "{other}");
    let files = BTreeMap::from([("cell.trace".to_owned(), "1\n".to_owned())]);
    let other = Folder::open(&path, "sim", "a = 1\nb = 2\n", files.clone(), false);
    assert!(
        other
            .expect_err("another trace")
            .to_string()
            .contains("`cell.trace`")
    );
    Folder::open(&path, "sim", "a = 1\nb = 2\n", files, true).expect("afresh");
    let left: Vec<_> = fs::read_dir(&path).expect("a folder").flatten().collect();
    assert_eq!(
        left.len(),
        2,
        "what it is made from, and no points: {left:?}"
    );
    assert_eq!(
        fs::read_dir(path.join("points")).expect("a folder").count(),
        0
    );
}

#[test]
fn files_of_others_are_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("thesis.tex"), "years of work").expect("written");
    for fresh in [false, true] {
        let refused = Folder::open(dir.path(), "sim", "", BTreeMap::new(), fresh);
        assert!(matches!(refused, Err(FolderError::Foreign { .. })));
    }
}

#[test]
fn tables_have_a_row_for_each_and_columns_for_variables() {
    let dir = tempfile::tempdir().expect("a directory");
    let folder = open(dir.path(), "sim", "").expect("a new one");
    let points = [result(0, "10mbit", 1, 100.0), result(1, "10mbit", 2, 200.0)];
    let names = folder.finish(&points, &["rate"]).expect("written");
    assert_eq!(names.len(), 10, "{names:?}");
    let lines = fs::read_to_string(folder.file("results.jsonl")).expect("text");
    assert_eq!(lines.lines().count(), 2);
    let second: PointResult =
        serde_json::from_str(lines.lines().nth(1).expect("two")).expect("a result");
    assert_eq!(second, points[1].summary());

    let file = fs::File::open(folder.file("flows.parquet")).expect("a file");
    let reader = SerializedFileReader::new(file).expect("Parquet");
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .expect("rows")
        .map(|row| row.expect("a row"))
        .collect();
    assert_eq!(rows.len(), 4);
    let last = &rows[3];
    assert_eq!(last.get_ulong(0).expect("point"), 1);
    assert_eq!(last.get_ulong(1).expect("seed"), 2);
    assert_eq!(last.get_string(2).expect("rate"), "10mbit");
    assert_eq!(last.get_string(3).expect("flow"), "two");
    assert_eq!(last.get_double(5).expect("throughput"), 3e6);

    let before = fs::read(folder.file("edges.parquet")).expect("bytes");
    folder.finish(&points, &["rate"]).expect("written again");
    let again = fs::read(folder.file("edges.parquet")).expect("bytes");
    assert_eq!(before, again);
}

#[test]
fn the_page_of_a_run_shows_thresholds_and_states() {
    let alone = result(0, "10mbit", 1, 100.0);
    let page = report::points("run", &[alone], &[], &GridLayout::default());
    for shown in [
        "\"label\":\"one, ssthresh\"",
        "(unknown for two)",
        "\"title\":\"State\"",
    ] {
        assert!(page.contains(shown), "{shown} is not in the page");
    }
}

#[test]
fn a_grid_is_the_means_of_its_seeds() {
    let points = [
        result(0, "10mbit", 1, 100.0),
        result(1, "10mbit", 2, 200.0),
        result(2, "20mbit", 1, 50.0),
    ];
    let metrics = grid::metrics(&points, &[]);
    let rows = grid::rows(&points, &["rate"], &metrics);
    let seeds: Vec<_> = rows
        .iter()
        .map(|row| (row.values[0].as_str(), row.seeds))
        .collect();
    assert_eq!(seeds, [("10mbit", 2), ("20mbit", 1)]);
    let mean = |title: &str, row: usize| {
        let index = metrics.iter().position(|metric| metric.title == title);
        let mean = rows[row].means[index.expect(title)].expect(title);
        (mean * 1e6).round() / 1e6
    };
    assert_eq!(mean("Tail completion", 0), 0.45);
    assert_eq!(mean("Tail completion", 1), 0.15);
    assert_eq!(mean("Completion", 0), 0.3);
    assert_eq!(mean("Loss", 0), 1.0);
    assert_eq!(mean("Fairness", 0), 0.8);
    assert!(metrics.iter().all(|metric| metric.title != "Marks"));
}

#[test]
fn a_grid_is_drawn_as_its_scenario_says() {
    let mut points = Vec::new();
    let times = [("10mbit", [100.0, 150.0]), ("20mbit", [40.0, 80.0])];
    for (rate, times) in times {
        for (algorithm, fct_us) in ["native:reno", "reno"].into_iter().zip(times) {
            for period in ["1ms", "2ms"] {
                let mut found = result(points.len(), rate, 1, fct_us);
                for (name, value) in [("algorithm", algorithm), ("period", period)] {
                    found.variables.insert(name.to_owned(), value.to_owned());
                }
                points.push(found);
            }
        }
    }
    let picture = GridLayout {
        over: Some("period".to_owned()),
        panels: vec!["rate".to_owned()],
        metrics: vec!["Tail completion".to_owned()],
        baseline: Some(("algorithm".to_owned(), "native:reno".to_owned())),
    };
    let page = report::points("Grid", &points, &["rate", "algorithm", "period"], &picture);
    let (_, data) = page.split_once("id=\"data\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("an end");
    let mut data: serde_json::Value = serde_json::from_str(data).expect("JSON");
    // A feature of another crate decides whether the parser keeps the order of keys.
    data.sort_all_objects();
    insta::with_settings!({snapshot_path => "snapshots", omit_expression => true}, {
        insta::assert_snapshot!("layout", serde_json::to_string_pretty(&data).expect("text"));
    });
    assert!(page.contains("rate 20mbit, algorithm reno, period 2ms</td><td>0.240</td><td>2.000<"));
    assert!(!page.contains("Utilisation"));
}

#[test]
fn reports_are_one_file_with_what_was_found() {
    let one = [result(0, "10mbit", 1, 100.0)];
    let run = report::points("One <run>", &one, &[], &GridLayout::default());
    for shown in [
        "One &lt;run&gt;",
        "<td>cubic</td>",
        "\"Congestion window\"",
        "14.48",
        "20.5",
    ] {
        assert!(run.contains(shown), "{shown} is not in the report");
    }
    let many = [result(0, "10mbit", 1, 100.0), result(1, "20mbit", 1, 200.0)];
    let grid = report::points("Grid", &many, &["rate"], &GridLayout::default());
    for shown in [
        "rate 20mbit",
        "\"Tail completion\"",
        "\"ticks\":[\"10mbit\",\"20mbit\"]",
    ] {
        assert!(grid.contains(shown), "{shown} is not in the report");
    }
    for page in [run, grid] {
        assert!(!page.contains("{{") && !page.contains("<b>"));
        for reference in ["http://", "https://", "src=", "href="] {
            assert!(!page.contains(reference), "{reference} is in the report");
        }
    }
}
