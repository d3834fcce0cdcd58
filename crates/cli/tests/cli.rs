//! `tputc` as a user runs it: what it prints, where, and how it ends.

use insta::assert_snapshot;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn trace(name: &str) -> PathBuf {
    root().join("testdata/traces").join(name)
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tputc"));
    command.env("TORCHTPU_CACHE_DIR", "").env_remove("TORCHTPU_DUMP");
    if std::env::var_os("TORCHTPU_PLUGIN").is_none() {
        command.env("VIRTUAL_ENV", root().join(".venv"));
    }
    command
}

fn tputc(args: &[&str]) -> Output {
    command().args(args).output().expect("tputc starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn path(p: &Path) -> &str {
    p.to_str().expect("a UTF-8 path")
}

#[test]
fn lower_prints_stablehlo_by_default_and_the_same_every_time() {
    let first = tputc(&["lower", path(&trace("mlp.json"))]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    assert!(stdout(&first).contains("stablehlo.dot_general"));
    assert_eq!(first.stdout, tputc(&["lower", path(&trace("mlp.json"))]).stdout);
}

#[test]
fn hosts_with_packages_in_different_places_emit_the_same_bytes() {
    let whole = std::fs::read_to_string(trace("mlp.json")).expect("the trace");
    let printed_with_packages_in = |environment: &str| {
        let project = tempfile::tempdir().expect("a folder");
        let package = project.path().join(environment).join("net/model.py");
        let installed = whole.replace("/home/user/generate.py", path(&package));
        std::fs::write(project.path().join("trace.json"), installed).expect("written");
        let args = ["lower", "--format", "bytecode", "trace.json"];
        let output = command().current_dir(&project).args(args).output().expect("tputc starts");
        assert!(stdout(&output).contains("\0net/model.py\0"), "{}", stderr(&output));
        output.stdout
    };
    let first = printed_with_packages_in(".venv/lib/python3.11/site-packages");
    assert_eq!(first, printed_with_packages_in("env/lib/python3.12/site-packages"));
    assert_eq!(first, printed_with_packages_in("usr/lib/python3/dist-packages"));
}

#[test]
fn every_stage_can_be_shown() {
    for (stage, sign) in [("core", "graph @main"), ("stablehlo", "func.func"), ("hlo", "HloModule")] {
        let output = tputc(&["lower", "--stage", stage, path(&trace("mlp.json"))]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains(sign), "{stage}");
    }
}

#[test]
fn the_core_stage_parses_back() {
    let text = stdout(&tputc(&["lower", "--stage", "core", path(&trace("mlp.json"))]));
    let graph = ir::text::parse(&text).expect("parses");
    ir::verify::verify(&graph).expect("verifies");
}

#[test]
fn a_trace_can_come_from_standard_input() {
    let mut child = command()
        .args(["lower", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tputc starts");
    let json = std::fs::read(trace("mlp.json")).expect("the trace");
    child.stdin.take().expect("piped").write_all(&json).expect("tputc reads");
    let output = child.wait_with_output().expect("tputc ends");
    assert_eq!(output.stdout, tputc(&["lower", path(&trace("mlp.json"))]).stdout);
}

#[test]
fn a_symbolic_size_must_be_given() {
    let missing = tputc(&["lower", path(&trace("dynamic.json"))]);
    assert_eq!(missing.status.code(), Some(1));
    let said = stderr(&missing);
    assert!(said.contains("has no value") && said.contains("--dim "), "{said}");
    let given = tputc(&["lower", "--dim", "s77=8", "--dim", "s17=3", path(&trace("dynamic.json"))]);
    assert_eq!(given.status.code(), Some(0), "{}", stderr(&given));
}

#[test]
fn a_size_of_no_symbol_is_refused() {
    let refused = |dims: &[&str], name: &str, words: &str| {
        let output = tputc(&[&["lower", path(&trace(name))], dims].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    refused(&["--dim", "B=8"], "dynamic.json", "no symbol `B`: s17 (dimension 0 of `y`), s77 (dimension 0 of `x`)");
    refused(&["--dim", "s77=8", "--dim", "s77=9"], "dynamic.json", "`s77` is given twice");
    refused(&["--dim", "B=8"], "mlp.json", "the program has no symbol `B`: all its sizes are fixed");
}

/// Asks the process that runs it for all that programs for the CPU plugin may ask of it, in StableHLO's own form.
const HOST_CALLS: &str = r#"
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<3x3x5x5xf32>, %d: tensor<2x3x8x8xf32>)
    -> (tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x3x4x4xf32>, tensor<2x3xf32>) {
  %0 = stablehlo.custom_call @torchtpu.product(%a, %b) {api_version = 4 : i32} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = stablehlo.custom_call @torchtpu.barrier(%a) {api_version = 4 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.custom_call @torchtpu.convolution(%d, %c) {api_version = 4 : i32}
      : (tensor<2x3x8x8xf32>, tensor<3x3x5x5xf32>) -> tensor<2x3x4x4xf32>
  %3 = stablehlo.custom_call @torchtpu.function(%a) {api_version = 4 : i32} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.custom_call @torchtpu.lapack(%c) {api_version = 4 : i32} : (tensor<3x3x5x5xf32>) -> tensor<2x3xf32>
  %5 = stablehlo.add %3, %4 : tensor<2x3xf32>
  return %0, %1, %2, %5 : tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x3x4x4xf32>, tensor<2x3xf32>
}
"#;

/// What `torchtpu.lower` gives of `mlp.json` for the CPU plugin, with so many rows and columns that products are the host's.
fn text_for_the_cpu() -> String {
    let narrow = std::fs::read_to_string(trace("mlp.json")).expect("the trace");
    let widths = [(2, 64), (3, 96), (4, 128), (5, 32)];
    let wide = widths
        .iter()
        .fold(narrow, |text, (from, to)| text.replace(&format!("\"as_int\":{from}}}"), &format!("\"as_int\":{to}}}")));
    let program = driver::Program::from_bytes(wide.into_bytes(), driver::Options::default()).expect("a program");
    let (stage, platform) = (driver::Stage::Stablehlo, fuse::Platform::CpuWithBlas);
    program.text_for(stage, &driver::DimValues::new(), platform).expect("text")
}

#[test]
fn text_for_the_cpu_plugin_is_shown_optimized_and_kept_from_tpus() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = |text: &str, calls: &[&str]| {
        let file = folder.path().join("text.mlir");
        std::fs::write(&file, text).expect("written");
        let output = tputc(&["lower", path(&file), "--stage", "hlo"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        for call in calls {
            let target = format!("custom_call_target=\"{call}\"");
            assert!(stdout(&output).contains(&target), "{target} in {}", stdout(&output));
        }
        let refused = tputc(&["compile", path(&file), "--target", "v5e:1x1", "-o", "/no/such/file"]);
        let line = 1 + text.lines().position(|line| line.contains(calls[0])).expect("a call");
        let place = format!("--> {}:{line}\n", file.display());
        assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
        assert!(stderr(&refused).contains(calls[0]) && stderr(&refused).contains(&place), "{}", stderr(&refused));
    };
    let calls = ["product", "barrier", "convolution", "function", "lapack"].map(|name| format!("torchtpu.{name}"));
    shown(HOST_CALLS, &calls.each_ref().map(|call| &call[..]));
    shown(&text_for_the_cpu(), &["torchtpu.product"]);
}

#[test]
fn lower_shows_what_a_tpu_gets() {
    let stage = |stage: &str, target: &[&str]| {
        let output = tputc(&[&["lower", "--stage", stage, path(&trace("mlp.json"))], target].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let target = ["--target", "v5e:1x1"];
    assert!(stage("hlo", &target).contains("S(1)"), "libtpu says what lies in vector memory");
    assert!(!stage("hlo", &[]).contains("S(1)"));
    assert!(stage("fused", &target).starts_with("graph @main"));
    assert!(stage("stablehlo", &target).contains("stablehlo.dot_general"), "a TPU has no host to multiply");
    let output = tputc(&["lower", "--target", "v5e:1x1", "--plugin", "cpu", path(&trace("mlp.json"))]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn run_draws_reproducible_inputs_and_writes_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |seed: &str, name: &str| {
        let out = folder.path().join(name);
        let trace = trace("views.json");
        let output = tputc(&["run", path(&trace), "--random", seed, "-o", path(&out)]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        std::fs::read(out).expect("results")
    };
    let first = run("1", "a");
    assert_eq!(first, run("1", "b"));
    assert_ne!(first, run("2", "c"));
    let results = safetensors::SafeTensors::deserialize(&first).expect("safetensors");
    assert!(results.tensor("out.0").is_ok());
}

#[test]
fn run_says_which_inputs_are_missing() {
    let output = tputc(&["run", path(&trace("views.json"))]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--inputs IN.safetensors or --random SEED"));
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.safetensors");
    std::fs::write(&empty, safetensors::serialize(std::iter::empty::<(String, Nothing)>(), None).expect("bytes"))
        .expect("written");
    let output = tputc(&["run", path(&trace("views.json")), "--inputs", path(&empty)]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is missing"), "{}", stderr(&output));
}

/// A tensor of no elements, to name the type of an empty list.
struct Nothing;

impl safetensors::View for Nothing {
    fn dtype(&self) -> safetensors::Dtype {
        safetensors::Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        &[0]
    }
    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        std::borrow::Cow::Borrowed(&[])
    }
    fn data_len(&self) -> usize {
        0
    }
}

#[test]
fn rejected_programs_end_with_one_and_broken_tools_with_two() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, contents: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, contents).expect("written");
        path
    };
    let whole = std::fs::read(trace("mlp.json")).expect("the trace");
    let truncated = file("truncated.json", &whole[..whole.len() / 2]);
    let archive = file("truncated.pt2", b"PK\x03\x04 and no more");
    let other = file("other.json", b"{\"hello\": 1}");
    for (bad, says) in [(&truncated, "EOF"), (&archive, "archive"), (&other, "holds no trace")] {
        let output = tputc(&["lower", path(bad)]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).starts_with("error: ") && stderr(&output).contains(says), "{}", stderr(&output));
        assert!(stderr(&output).ends_with('\n') && output.stdout.is_empty());
    }
    for args in [
        &["lower", "/no/such/file.json"][..],
        &["run", path(&trace("mlp.json")), "--plugin", "/no/plugin.so", "--random", "0"],
    ] {
        let output = tputc(args);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("/no/"), "{}", stderr(&output));
    }
    assert_eq!(tputc(&["lower", "--stage", "fast", "x.json"]).status.code(), Some(2));
}

#[test]
fn what_is_no_stablehlo_is_not_shown_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    let mlir = folder.path().join("program.mlir");
    let lower = |contents: &[u8], arguments: &[&str]| {
        std::fs::write(&mlir, contents).expect("written");
        tputc(&[&["lower", path(&mlir)], arguments].concat())
    };
    for junk in [&b"\x00\xff\xfejunk"[..], b"hello", b""] {
        let output = lower(junk, &[]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
        assert!(stderr(&output).contains("program.mlir holds no StableHLO"), "{}", stderr(&output));
    }
    let text = b"func.func @main() { return }";
    assert_eq!(lower(text, &[]).stdout, text);
    assert_eq!(lower(text, &["--format", "bytecode"]).status.code(), Some(2));
    let bytecode = tputc(&["lower", "--format", "bytecode", path(&trace("views.json"))]).stdout;
    assert_eq!(lower(&bytecode, &["--format", "bytecode"]).stdout, bytecode);
    let output = lower(&bytecode, &[]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert!(stderr(&output).contains("is bytecode: --format bytecode"), "{}", stderr(&output));
    assert!(stdout(&lower(&bytecode, &["--stage", "hlo"])).contains("HloModule"));
}

#[test]
fn times_of_each_step_are_told_to_who_asks() {
    let program = trace("views.json");
    for (arguments, steps) in [
        (&["lower"][..], &["read", "lowered"][..]),
        (&["lower", "--stage", "hlo"], &["plugin loaded", "read", "lowered"]),
        (&["fuse"], &["read", "optimized", "told"]),
        (&["run", "--random", "0"], &["read", "plugin loaded", "inputs there", "first run, compiled"]),
    ] {
        let output = tputc(&[arguments, &["-v", path(&program)]].concat());
        let said = stderr(&output);
        let told: Vec<&str> = said.lines().filter_map(|line| Some(line.split_once(": ")?.0)).collect();
        assert_eq!(told, steps, "{said}");
        assert_eq!(stderr(&tputc(&[arguments, &[path(&program)]].concat())), "");
    }
}

/// A trace in `folder` with an op that nobody has heard of.
fn odd_trace(folder: &Path) -> PathBuf {
    let whole = std::fs::read_to_string(trace("mlp.json")).expect("the trace");
    let odd = whole.replacen("torch.ops.aten.relu_.default", "torch.ops.aten.no_such_op.default", 1);
    assert!(odd.contains("no_such_op"), "the trace has a relu to replace");
    let file = folder.join("odd.json");
    std::fs::write(&file, odd).expect("written");
    file
}

#[test]
fn an_op_without_a_lowering_is_named_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = tputc(&["lower", path(&odd_trace(folder.path()))]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert_snapshot!(stderr(&output), @r"
    error: not supported: aten.no_such_op.default: no lowering for aten::no_such_op
      --> /home/user/generate.py:31, in forward
       = help: `tputc ops` lists what is lowered; an exported program may have it in simpler ops after `.run_decompositions()`; under torch.compile such an op can run on the host
    ");
}

#[test]
fn a_rejected_program_is_told_as_data_by_either_option() {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = odd_trace(folder.path());
    let output = tputc(&["lower", "--format", "json", path(&odd)]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""));
    assert_snapshot!(stderr(&output), @r#"{"file":"/home/user/generate.py","function":"forward","help":"`tputc ops` lists what is lowered; an exported program may have it in simpler ops after `.run_decompositions()`; under torch.compile such an op can run on the host","kind":"unsupported","line":31,"message":"no lowering for aten::no_such_op","module":null,"op":"aten.no_such_op.default","severity":"error"}"#);
    for args in [
        &["--diagnostics", "json", "lower", path(&odd)][..],
        &["lower", "--format", "bytecode", "--diagnostics", "json", path(&odd)],
        &["run", "--format", "json", "--random", "0", path(&odd)],
    ] {
        let same = tputc(args);
        assert_eq!((same.status.code(), stderr(&same)), (Some(1), stderr(&output)), "{args:?}");
    }
}

#[test]
fn other_failures_are_told_as_data_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.safetensors");
    std::fs::write(&empty, safetensors::serialize(std::iter::empty::<(String, Nothing)>(), None).expect("bytes"))
        .expect("written");
    let missing = tputc(&["run", "--format", "json", path(&trace("views.json")), "--inputs", path(&empty)]);
    assert_eq!(missing.status.code(), Some(1));
    assert_snapshot!(stderr(&missing), @r#"{"kind":"argument","message":"input `x` is missing; give --inputs IN.safetensors or --random SEED, or both to draw what the file lacks","severity":"error"}"#);
    let no_file = tputc(&["lower", "--format", "json", "/no/such/file.json"]);
    assert_eq!(no_file.status.code(), Some(2));
    assert_snapshot!(stderr(&no_file), @r#"{"kind":"tool","message":"/no/such/file.json: No such file or directory (os error 2)","severity":"error"}"#);
}

#[test]
fn json_leaves_the_program_as_text_and_tells_of_a_run_as_data() {
    let args = ["lower", path(&trace("mlp.json")), "--format"].map(str::to_owned);
    let lower = |format: &str| tputc(&[&args[0], &args[1], &args[2], format]);
    assert_eq!(stdout(&lower("json")), stdout(&lower("text")));
    let run = tputc(&["run", "--format", "json", "--random", "0", path(&trace("views.json"))]);
    assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
    assert_eq!(stderr(&run), "");
    let told: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    assert_eq!(told["results"][1], serde_json::json!({ "dtype": "f32", "shape": [12, 2] }));
    assert_eq!((told["results"].as_array().map(Vec::len), told["times"].is_null()), (Some(4), true));
    let timed =
        ["run", "--format", "json", "--repeat", "3", "--random", "0", path(&trace("views.json"))].map(str::to_owned);
    let told: serde_json::Value = serde_json::from_slice(&tputc(&timed.each_ref().map(|s| &**s)).stdout).expect("JSON");
    assert_eq!(told["times"]["runs"], 2);
    assert!(told["times"]["least_seconds"].as_f64() <= told["times"]["median_seconds"].as_f64());
    assert_snapshot!(stdout(&tputc(&["run", "--random", "0", path(&trace("views.json"))])), @r"
    out.0: f32[4, 6]
    out.1: f32[12, 2]
    out.2: f32[3, 4]
    out.3: f32[3, 4]
    ");
}

#[test]
fn ops_come_as_text_json_and_markdown() {
    let json: serde_json::Value = serde_json::from_slice(&tputc(&["ops", "--format", "json"]).stdout).expect("JSON");
    let add = json.as_array().expect("a list").iter().find(|op| op["name"] == "aten::add.Tensor").expect("add");
    assert_eq!(add["family"], "arithmetic");
    assert!(stdout(&tputc(&["ops"])).contains("aten::add_.Tensor"));
    assert!(stdout(&tputc(&["ops", "--format", "markdown"])).contains("| `aten::add.Tensor` |"));
}

#[test]
fn doctor_completions_and_the_manual() {
    let doctor = tputc(&["doctor"]);
    assert_eq!(doctor.status.code(), Some(0), "{}", stderr(&doctor));
    assert!(stdout(&doctor).contains("device 0") && stdout(&doctor).contains("executable cache: off"));
    let json: serde_json::Value = serde_json::from_slice(&tputc(&["doctor", "--format", "json"]).stdout).expect("JSON");
    assert!(json["plugin"]["devices"][0]["id"] == 0 && json["cache"].is_null(), "{json}");
    let full = command().env("TORCHTPU_CACHE_DIR", "/dev/null/cache").arg("doctor").output().expect("tputc starts");
    assert!(stdout(&full).contains("nothing can be stored there: "), "{}", stdout(&full));
    let three = command().env("TORCHTPU_CPU_DEVICES", "3").args(["doctor", "--format", "json"]).output();
    let json: serde_json::Value = serde_json::from_slice(&three.expect("runs").stdout).expect("JSON");
    assert_eq!(json["plugin"]["devices"].as_array().map(Vec::len), Some(3));
    let broken = command().env("TORCHTPU_PLUGIN", "/no/plugin.so").args(["doctor", "--format", "json"]).output();
    let broken = broken.expect("tputc starts");
    assert_eq!(broken.status.code(), Some(2));
    let json: serde_json::Value = serde_json::from_slice(&broken.stdout).expect("JSON");
    assert!(json["plugin"]["error"].as_str().is_some_and(|e| e.contains("/no/plugin.so")), "{json}");
    assert!(stdout(&tputc(&["completions", "bash"])).contains("_tputc"));
}

#[test]
fn every_command_has_a_manual_page() {
    let all = stdout(&tputc(&["man"]));
    assert!(all.contains("Exit status"), "{all}");
    for command in ["lower", "fuse", "run", "check", "compile", "ops", "doctor", "completions", "man"] {
        assert!(all.contains(&format!("tputc\\-{command}(1)")), "{command}: {all}");
        let page = stdout(&tputc(&["man", command]));
        assert!(
            page.contains(&format!(".TH tputc-{command} 1")) && page.contains("\\-\\-verbose"),
            "{command}: {page}"
        );
    }
    for unknown in ["worker", "nothing"] {
        let refused = tputc(&["man", unknown]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(stderr(&refused).contains("the commands are lower, fuse, run"), "{}", stderr(&refused));
    }
}

fn fused(args: &[&str]) -> serde_json::Value {
    let output = tputc(&[&["fuse", path(&trace("views.json")), "--format", "json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn fuse_tells_every_rewrite_with_its_line_and_stops_at_the_limit() {
    let all = fused(&[]);
    let changes = all["changes"].as_array().expect("a list");
    assert!(!changes.is_empty());
    for change in changes {
        assert_ne!(change["why"], "", "{change}");
        assert!(change["places"][0]["line"].as_u64() > Some(0), "{change}");
        assert!(change["before"].as_str().is_some_and(|op| !op.is_empty()), "{change}");
        assert!(change["after"].as_array().is_some_and(|ops| !ops.is_empty()), "{change}");
    }
    let total: u64 = all["counts"].as_object().expect("classes").values().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(total, changes.len() as u64);
    for limit in 0..changes.len() {
        let some = fused(&["--limit", &limit.to_string()]);
        assert!(some["changes"].as_array().expect("a list").len() <= limit);
    }
    let page = stdout(&tputc(&["fuse", path(&trace("views.json")), "--format", "html"]));
    let data =
        page.split_once("id=\"report\">").and_then(|it| it.1.split_once("</script>")).expect("a page with data").0;
    let sheets: serde_json::Value = serde_json::from_str(data).expect("JSON");
    let told = &sheets[0]["rewrites"];
    assert_eq!((&told["picoseconds"], &told["ops"]), (&all["picoseconds"], &all["ops"]));
    let names = |of: &serde_json::Value| -> Vec<String> {
        of["changes"].as_array().expect("a list").iter().map(|it| it["rule"].to_string()).collect()
    };
    assert_eq!(names(told), names(&all), "the page tells what the JSON tells");
    let text = stdout(&tputc(&["fuse", path(&trace("views.json"))]));
    assert!(text.contains(changes[0]["rule"].as_str().expect("a name")), "{text}");
}

#[test]
fn fuse_tells_the_regions_and_what_they_move() {
    let all = fused(&["--platform", "tpu"]);
    let regions = all["regions"].as_array().expect("a list");
    let count = |field: &str| regions.iter().map(|r| r[field].as_array().map_or(0, Vec::len)).sum::<usize>();
    assert!(regions.len() > 1 && count("members") >= regions.len() && count("borders") > 0, "{all}");
    let number = |r: &serde_json::Value, at: &str| r.pointer(at).and_then(serde_json::Value::as_u64).expect("a number");
    for region in regions {
        let read: u64 = region["inputs"].as_array().expect("a list").iter().map(|i| number(i, "/bytes")).sum();
        assert_eq!(read, number(region, "/bytes/read"), "{region}");
        assert!(number(region, "/picoseconds") > 0 && number(region, "/place/line") > 0, "{region}");
    }
    let text = stdout(&tputc(&["fuse", path(&trace("views.json")), "--platform", "tpu"]));
    let first = regions[0]["name"].as_str().expect("a name");
    assert!(text.contains(&format!("{} regions for tpu", regions.len())) && text.contains(first), "{text}");
}

#[test]
fn without_the_optimizer_the_program_stays() {
    let stage = |stage: &str, flag: &[&str]| {
        stdout(&tputc(&[&["lower", path(&trace("views.json")), "--stage", stage], flag].concat()))
    };
    assert_ne!(stage("core", &[]), stage("fused", &[]));
    assert_eq!(stage("core", &[]), stage("fused", &["--no-optimize"]));
    assert_eq!(stage("core", &[]), stage("fused", &["--limit", "0"]));
}
