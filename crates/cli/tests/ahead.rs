//! `tputc compile` and `check` when all goes well, and when libtpu, the disk or the user get in the way.
//!
//! What needs libtpu is left out where it is not installed: it is Google's, and `WITHOUT_LIBTPU=1 make setup` is fine.

use insta::assert_snapshot;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = r#"
func.func @main(%x: tensor<256x1000xbf16>, %w: tensor<1000x512xbf16>) -> tensor<256x512xbf16> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<256x1000xbf16>, tensor<1000x512xbf16>) -> tensor<256x512xbf16>
  %1 = stablehlo.tanh %0 : tensor<256x512xbf16>
  return %1 : tensor<256x512xbf16>
}
"#;

/// 8 GiB in, 8 GiB between and 8 GiB out, on a chip with 16.
const TOO_LARGE: &str = r#"
func.func @main(%x: tensor<65536x65536xbf16>) -> tensor<65536x65536xbf16> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
      : (tensor<65536x65536xbf16>, tensor<65536x65536xbf16>) -> tensor<65536x65536xbf16>
  %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0]
      : (tensor<65536x65536xbf16>, tensor<65536x65536xbf16>) -> tensor<65536x65536xbf16>
  return %1 : tensor<65536x65536xbf16>
}
"#;

/// libtpu aborts on arguments of unknown size.
const ABORTS: &str = r#"
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  %0 = stablehlo.add %x, %x : tensor<?xf32>
  return %0 : tensor<?xf32>
}
"#;

/// As `torchtpu.lower` writes for the CPU plugin, but for its length.
const FOR_THE_CPU: &str = r#"
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  // %0 = stablehlo.custom_call @torchtpu.product(%x, %x) : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = stablehlo.tanh %x : tensor<2x2xf32>
  %1 = "stablehlo.custom_call"(%0) {api_version = 4 : i32, call_target_name = "torchtpu.barrier"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
"#;

/// libtpu refuses this once it has laid out its memory.
const UNHEARD_OF: &str = r#"
func.func @main(%x: tensor<8x128xf32>) -> tensor<8x128xf32> {
  %0 = stablehlo.custom_call @unheard_of(%x) : (tensor<8x128xf32>) -> tensor<8x128xf32>
  return %0 : tensor<8x128xf32>
}
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder with programs, in which the tool also keeps its temporary files.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = [("cpu", FOR_THE_CPU), ("unheard_of", UNHEARD_OF), ("large", TOO_LARGE), ("aborts", ABORTS)];
        for (name, text) in refused.into_iter().chain([("program", PROGRAM)]) {
            std::fs::write(folder.path().join(name).with_extension("mlir"), text).expect("written");
        }
        std::fs::create_dir(folder.path().join("tmp")).expect("made");
        Place { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tputc"));
        command.args(arguments).current_dir(&self.folder).env("TMPDIR", self.path("tmp"));
        command.env("VIRTUAL_ENV", root().join(".venv")).env("TORCHTPU_CACHE_DIR", "");
        command
    }

    fn tputc(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("tputc starts")
    }

    /// Files besides the programs, temporary ones included.
    fn left_behind(&self) -> Vec<String> {
        let list = |folder: &Path| {
            let entries = std::fs::read_dir(folder).expect("a folder").flatten();
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let mut left = list(self.folder.path());
        left.retain(|name| !name.ends_with(".mlir") && !name.ends_with(".so") && name != "tmp");
        // libtpu's own lock file, where it puts it.
        left.extend(list(&self.path("tmp")).into_iter().filter(|name| name != "libtpu_lockfile"));
        left
    }

    /// A library whose every use takes for ever.
    fn hanging_plugin(&self) -> String {
        let (source, library) = (self.path("tmp").join("hang.c"), self.path("hang.so"));
        std::fs::write(&source, "#include <unistd.h>\nvoid *GetPjrtApi(void) { for (;;) sleep(1); }\n")
            .expect("written");
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
        assert!(status.expect("cc is installed").success());
        std::fs::remove_file(source).expect("removed");
        library.to_str().expect("UTF-8").to_owned()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether libtpu is installed; says so if it is not.
fn has_libtpu() -> bool {
    let prefix = root().join(".venv/lib");
    let pythons = std::fs::read_dir(prefix).into_iter().flatten().flatten();
    let found = pythons.map(|python| python.path().join("site-packages/libtpu/libtpu.so")).any(|path| path.exists());
    if !found {
        eprintln!("left out: libtpu is not installed");
    }
    found
}

/// Processes whose command line holds `text`.
fn processes(text: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let matches = |number: &u32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    numbers.filter(matches).collect()
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Starts a compile that will never end, and waits for its worker.
fn endless(place: &Place) -> (Child, String) {
    let plugin = place.hanging_plugin();
    let arguments = ["compile", "program.mlir", "--target", "v5e:1x1", "-o", "out.tpu", "--libtpu", &plugin];
    let child = place.command(&arguments).stderr(Stdio::piped()).spawn().expect("tputc starts");
    wait_until("the worker's start", || processes(&plugin).len() == 2);
    (child, plugin)
}

fn send(signal: &str, process: u32) {
    let status = Command::new("kill").args(["-s", signal, &process.to_string()]).status();
    assert!(status.expect("kill is installed").success());
}

#[test]
fn compile_writes_the_same_executable_every_time_with_its_manifest() {
    if !has_libtpu() {
        return;
    }
    let place = Place::new();
    for name in ["a.tpu", "b.tpu"] {
        let output = place.tputc(&[
            "compile",
            "program.mlir",
            "--target",
            "v5e:1x1",
            "-o",
            name,
            "--cache",
            &format!("{name}.cache"),
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let manifest = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(place.path(name)).expect("a manifest")).expect("JSON")
    };
    let executable = |name: &str| std::fs::read(place.path(name)).expect("an executable");
    assert_eq!(executable("a.tpu"), executable("b.tpu"), "same program, same bytes");
    let (first, second) = (manifest("a.tpu.json"), manifest("b.tpu.json"));
    assert_eq!(first["inputs"][1]["shape"], serde_json::json!([1000, 512]));
    assert_eq!((&first["target"], &first["device_kind"]), (&"v5e:1x1".into(), &"TPU v5 lite".into()));
    assert_eq!(first["cache_key"], second["cache_key"], "the key is the program's");
    let cached = format!("a.tpu.cache/{}.exe", first["cache_key"].as_str().expect("text"));
    assert!(place.path(&cached).exists(), "a host that looks for this key finds it");
    assert!(executable("a.tpu").len() > 10_000);
}

/// A trace of a function that needs gradients has its backward pass in a file of its own.
#[test]
fn a_backward_pass_that_stands_beside_is_mentioned() {
    let place = Place::new();
    let says = |arguments: &[&str]| {
        let output = place.tputc(&[arguments, &["--libtpu", "no.so"]].concat());
        assert_eq!(output.status.code(), Some(2));
        stderr(&output).contains("is a program of its own, trace.backward.json")
    };
    let compile = ["compile", "trace.json", "--target", "v5e:1x1", "-o", "out.tpu"];
    std::fs::copy(root().join("testdata/traces/views.json"), place.path("trace.json")).expect("copied");
    assert!(!says(&["check", "trace.json"]) && !says(&compile));
    std::fs::copy(place.path("trace.json"), place.path("trace.backward.json")).expect("copied");
    assert!(says(&["check", "trace.json"]) && says(&compile));
    assert!(!says(&["check", "trace.json", "-q"]) && !says(&["check", "trace.backward.json"]));
}

#[test]
fn check_says_whether_it_fits_and_what_would() {
    if !has_libtpu() {
        return;
    }
    let place = Place::new();
    let fits = place.tputc(&["check", "program.mlir", "--format", "json", "-v"]);
    assert_eq!(fits.status.code(), Some(0), "{}", stderr(&fits));
    let said = stderr(&fits);
    assert!(said.contains("read: ") && said.contains("compiled for v5e:1x1: "), "{said}");
    let reports: serde_json::Value = serde_json::from_slice(&fits.stdout).expect("JSON");
    let memory = &reports[0]["memory"];
    // 256 x 1000, 1000 x 512 and 256 x 512 numbers of two bytes, in tiles of 8 x 128, or of 128 x 8.
    let least = 2 * (256 * 1000 + 1000 * 512 + 256 * 512);
    let peak = memory["peak"].as_u64().expect("bytes");
    assert!((least..least * 5 / 4).contains(&peak), "{peak} for {least}");
    let held: u64 = memory["holders"].as_array().expect("a list").iter().filter_map(|it| it["bytes"].as_u64()).sum();
    assert_eq!(held + memory["unattributed"].as_u64().expect("bytes"), peak);

    let large = place.tputc(&["check", "large.mlir", "--format", "json"]);
    assert_eq!(large.status.code(), Some(1), "{}", stderr(&large));
    let reports: serde_json::Value = serde_json::from_slice(&large.stdout).expect("JSON");
    let verdict = &reports[0]["verdict"];
    let summary = verdict["summary"].as_str().expect("text");
    assert!(summary.starts_with("does not fit on v5e:1x1: it needs 24.0 GiB of 15.7 GiB"), "{summary}");
    assert!(verdict["advice"].as_array().is_some_and(|advice| advice.len() >= 2), "{verdict}");
    assert!(reports[0]["memory"]["holders"].as_array().is_some_and(|holders| holders.len() >= 3));
}

#[test]
fn text_for_the_cpu_plugin_is_refused_with_the_call_and_what_to_do() {
    let place = Place::new();
    for arguments in [
        &["check", "cpu.mlir"][..],
        &["check", "cpu.mlir", "--target", "v5e:1x1", "--target", "v5p:1x1x1", "--format", "json"],
        &["compile", "cpu.mlir", "--target", "v5e:1x1", "-o", "out.tpu"],
        &["lower", "cpu.mlir", "--target", "v5e:1x1", "--stage", "hlo"],
    ] {
        let output = place.tputc(arguments);
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true), "{}", stderr(&output));
        assert!(stderr(&output).contains("torchtpu.barrier"), "{}", stderr(&output));
    }
    assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
    let said = stderr(&place.tputc(&["check", "cpu.mlir"]));
    assert_snapshot!(said.replace('^', ""), @r#"
    error: not supported: torchtpu.barrier: a call of the process it runs in, which a TPU cannot make: this StableHLO was made for the CPU plugin
     --> cpu.mlir:5
      |
    5 |   %1 = "stablehlo.custom_call"(%0) {api_version = 4 : i32, call_target_name = "torchtpu.barrier"} : (tensor<2x2xf32>) -> tensor<2x2xf32>
      |   
      = help: compile the trace, from which each target gets its own: save it with `torchtpu.capture(model, x).save("trace.json")`, or take the trace.json that TORCHTPU_DUMP wrote beside the text; `tputc lower trace.json --target v5e:1x1` shows what a TPU gets
    "#);
}

#[test]
fn what_is_refused_for_other_things_than_its_memory_has_no_peak() {
    if !has_libtpu() {
        return;
    }
    let place = Place::new();
    let output = place.tputc(&["check", "unheard_of.mlir", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(reports[0]["memory"].is_null() && reports[0]["cost"].is_null(), "{}", reports[0]);
    let said = reports[0]["findings"][0]["message"].as_str().expect("text");
    assert!(said.starts_with("Custom emitter for unheard_of not found"), "{said}");
    let text = String::from_utf8(place.tputc(&["check", "unheard_of.mlir"]).stdout).expect("text");
    assert!(text.contains("FAILS") && !text.contains("at the peak"), "{text}");
}

#[test]
fn slices_are_planned_from_the_report_on_one() {
    let place = Place::new();
    let trace = root().join("testdata/traces/mlp.json").to_string_lossy().into_owned();
    let refused = |arguments: &[&str], says: &str| {
        let output = place.tputc(&[&["check"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    };
    refused(&[&trace, "--slices", "2"], "--target <SLICE>");
    refused(
        &[&trace, "--target", "v5e:1x1", "--slices", "0"],
        "invalid value '0' for '--slices <N>': plan at least one",
    );
    refused(&["program.mlir", "--target", "v5e:1x1", "--slices", "2"], "--slices is for traces");
    if !has_libtpu() {
        return;
    }
    let targets = ["--target", "v5e:1x1", "--target", "v5p:1x1x1", "--slices", "25", "--format", "json"];
    let output = place.tputc(&[&["check", trace.as_str()], targets.as_slice()].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let reports: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    for report in reports.as_array().expect("a list") {
        let plan = &report["slices"];
        assert_eq!((&plan["count"], &plan["chips"]), (&25.into(), &25.into()), "{plan}");
        assert_eq!((&plan["slice_seconds"], &plan["gradient_bytes"]), (&report["cost"]["seconds"], &0.into()));
        assert!(plan["assumptions"][1].as_str().is_some_and(|it| it.contains("updates no parameter")), "{plan}");
    }
}

#[test]
fn several_targets_and_two_tools_at_once_all_succeed() {
    if !has_libtpu() {
        return;
    }
    let place = Place::new();
    let several = ["compile", "program.mlir", "-j2", "--target", "v5p:2x2x1", "--target", "v6e:1x1", "-o", "all"];
    let first = place.command(&several).stderr(Stdio::piped()).spawn().expect("tputc starts");
    let second = place.tputc(&["compile", "program.mlir", "--target", "tpu7x:2x2x1", "-o", "one.tpu"]);
    let first = first.wait_with_output().expect("it ends");
    assert_eq!(
        (first.status.code(), second.status.code()),
        (Some(0), Some(0)),
        "{}{}",
        stderr(&first),
        stderr(&second)
    );
    for name in ["all/v5p-2x2x1.tpu", "all/v6e-1x1.tpu.json", "one.tpu"] {
        assert!(place.path(name).exists(), "{name}");
    }
}

#[test]
fn a_crash_of_the_compiler_is_an_error_with_its_last_words() {
    if !has_libtpu() {
        return;
    }
    let place = Place::new();
    let output = place.tputc(&["compile", "aborts.mlir", "--target", "v5e:1x1", "-o", "out.tpu"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.starts_with("error: libtpu's process was killed by signal "), "{message}");
    assert!(message.contains("while compiling for v5e:1x1; its last words:\n  | "), "{message}");
    assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
}

#[test]
fn a_missing_or_wrong_libtpu_is_named() {
    let place = Place::new();
    let with = |library: &str| {
        let output = place.tputc(&["compile", "program.mlir", "--target", "v5e:1x1", "-o", "x", "--libtpu", library]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
        stderr(&output)
    };
    let missing = with("/nonexistent/libtpu.so");
    assert!(missing.contains("/nonexistent/libtpu.so") && missing.contains("pip install libtpu"), "{missing}");
    let no_library = with("program.mlir");
    assert!(no_library.contains("program.mlir is not a PJRT plugin"), "{no_library}");
    let cpu = runtime::find_plugin(Some("cpu")).or_else(|_| {
        let pythons = std::fs::read_dir(root().join(".venv/lib")).expect("a virtual environment").flatten();
        let library = "site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so";
        pythons.map(|python| python.path().join(library)).find(|path| path.exists()).ok_or("no CPU plugin")
    });
    let other = with(cpu.expect("the CPU plugin").to_str().expect("UTF-8"));
    assert!(other.contains("v5e:1x1") || other.contains("libtpu"), "{other}");
}

#[test]
fn a_compile_that_takes_too_long_is_stopped() {
    let place = Place::new();
    let plugin = place.hanging_plugin();
    let arguments =
        ["compile", "program.mlir", "--target", "v5e:1x1", "-o", "x", "--libtpu", &plugin, "--timeout", "1"];
    let output = place.tputc(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("took longer than 1 s"), "{}", stderr(&output));
    assert!(processes(&plugin).is_empty() && place.left_behind().is_empty());
}

#[test]
fn killing_the_worker_is_told_and_leaves_nothing() {
    let place = Place::new();
    let (mut tool, plugin) = endless(&place);
    let worker = processes(&plugin).into_iter().find(|&process| process != tool.id()).expect("a worker");
    send("KILL", worker);
    let mut message = String::new();
    tool.stderr.take().expect("piped").read_to_string(&mut message).expect("text");
    assert_eq!(tool.wait().expect("it ends").code(), Some(2));
    assert!(message.contains("was killed by signal 9 (SIGKILL)"), "{message}");
    assert!(processes(&plugin).is_empty() && place.left_behind().is_empty(), "{:?}", place.left_behind());
}

#[test]
fn workers_go_when_the_tool_does() {
    for signal in ["INT", "TERM", "KILL"] {
        let place = Place::new();
        let (mut tool, plugin) = endless(&place);
        send(signal, tool.id());
        tool.wait().expect("it ends");
        wait_until("the worker's end", || processes(&plugin).is_empty() && place.left_behind().is_empty());
        assert!(!place.path("out.tpu").exists() && !place.path("out.tpu.json").exists());
    }
}

#[test]
fn a_full_disk_is_an_error_and_leaves_no_half_written_file() {
    if !has_libtpu() {
        return;
    }
    let place = Place::new();
    // Files of more than 8 KiB cannot be written, as if the disk were full.
    let script = "ulimit -f 8; trap '' XFSZ; exec \"$@\"";
    let tputc = place.command(&["compile", "program.mlir", "--target", "v5e:1x1", "-o", "out.tpu"]);
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(tputc.get_program()).args(tputc.get_args());
    command.current_dir(&place.folder);
    for (name, value) in tputc.get_envs() {
        command.env(name, value.expect("a value"));
    }
    let output = command.output().expect("bash starts");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    assert!(place.left_behind().is_empty(), "{:?}", place.left_behind());
}
