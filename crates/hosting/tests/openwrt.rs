//! The OpenWrt package: its script is sound shell, and makes sound configurations of what it ships with.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fairwater_hosting::bundle::{BoxConfig, create_key};

/// What OpenWrt's shell library and procd offer, as far as the script uses them.
const LIBRARY: &str = r#"
config_load() {
	number=0
	while read -r word name value; do
		value=$(echo "$value" | tr -d "'"); name=$(echo "$name" | tr -d "'")
		case "$word" in
		config) number=$((number + 1)); section=${value:-cfg$number}; eval "ALL_$name=\"\$ALL_$name $section\"" ;;
		option) eval "${section}_$name=\$value" ;;
		list) eval "${section}_$name=\"\$${section}_$name \$value\"" ;;
		esac
	done < "$UCI_FILE"
}
config_get() { eval "$1=\${$2_$3:-$4}"; }
config_get_bool() { config_get "$@"; }
config_foreach() { local f=$1 all s; eval "all=\$ALL_$2"; shift 2; for s in $all; do $f "$s" "$@"; done; }
config_list_foreach() { local all v; eval "all=\$$1_$2"; for v in $all; do $3 "$v"; done; }
uci() { :; }
logger() { echo "logged: $*" >&2; }
procd_open_instance() { echo "instance $1"; }
procd_set_param() { echo "$*"; }
procd_close_instance() { :; }
procd_add_reload_trigger() { :; }
"#;

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/openwrt/files")
}

/// Runs the script's `start_service` in a folder, with its configuration.
fn start(folder: &Path, configuration: &str) -> String {
    let uci = folder.join("uci");
    fs::write(&uci, configuration).unwrap();
    let script = format!(
        "{LIBRARY}\n. {}\nFOLDER={}\nPROGRAM=true\nstart_service\n",
        files().join("fairwater.init").display(),
        folder.display()
    );
    let output = Command::new("sh")
        .arg("-c")
        .arg(script)
        .env("UCI_FILE", uci)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    String::from_utf8(output.stdout).unwrap() + &errors
}

#[test]
fn the_script_makes_sound_configurations() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for key in ["tokyo.key", "osaka.key"] {
        create_key(&path.join(key)).unwrap();
    }
    let shipped = fs::read_to_string(files().join("fairwater.config")).unwrap();
    let nothing = start(path, &shipped);
    assert!(nothing.is_empty(), "nothing is enabled: {nothing}");
    let enabled = shipped
        .replace("option enabled '0'", "option enabled '1'")
        .replace("/etc/fairwater", &path.display().to_string());
    let output = start(path, &enabled);
    for role in ["send", "receive"] {
        let file = path.join(format!("{role}.toml"));
        let command = format!("command true bundle {role} {}", file.display());
        assert!(output.contains(&command), "{output}");
        let text = fs::read_to_string(&file).unwrap();
        let config = BoxConfig::parse("it", &text, path);
        match config.unwrap_or_else(|errors| panic!("{errors}\n{text}")) {
            BoxConfig::Send(config) => {
                assert_eq!(role, "send");
                assert_eq!(config.ports, ["br-lan"]);
                assert_eq!(config.bundles[0].0.name, "tokyo");
                assert_eq!(config.bundles.len(), 1);
            }
            BoxConfig::Receive(config) => {
                assert_eq!(role, "receive");
                assert_eq!(config.bundles[0].0, "osaka");
            }
        }
    }
}

#[test]
fn an_interface_that_sqm_shapes_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let shipped = fs::read_to_string(files().join("fairwater.config")).unwrap();
    let enabled = shipped.replace("option enabled '0'", "option enabled '1'");
    let script_of_sqm = "uci() { case \"$*\" in\n*'show sqm') echo sqm.eth1=queue ;;\n*interface) echo br-lan ;;\n*enabled) echo 1 ;;\nesac; }\n";
    fs::write(path.join("uci"), enabled).unwrap();
    let script = format!(
        "{LIBRARY}\n{script_of_sqm}\n. {}\nFOLDER={}\nPROGRAM=true\nstart_service\n",
        files().join("fairwater.init").display(),
        path.display()
    );
    let output = Command::new("sh")
        .arg("-c")
        .arg(script)
        .env("UCI_FILE", path.join("uci"))
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("sqm shapes br-lan"), "{errors}");
    assert!(!path.join("send.toml").exists());
}
