//! The other end of the pipe: a process that loads libtpu and compiles what it is asked to.

use crate::job::{Machine, Reply, Request};
use runtime::{Plugin, Topology, Value};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

/// What replies start with: libtpu may write to standard output as well.
pub(crate) const MARK: &str = "torchtpu-worker ";

/// What the names of folders of ours begin with. A worker removes no other.
pub(crate) const FOLDER_PREFIX: &str = "torchtpu-";

/// Serves requests from standard input until it closes, with the libtpu at `path`. Never returns while a parent lives; when
/// it is gone, the process ends at once, whatever it is doing, and takes `folder` with it, where all files of its jobs are.
///
/// # Errors
/// When standard output closes, which is to say that nobody listens.
pub fn serve(path: &Path, folder: &Path) -> io::Result<()> {
    let requests = watch_input(folder.to_owned());
    let plugin = match Plugin::load(path) {
        Ok(plugin) => plugin,
        Err(error) => return reply(&Reply::Unusable(error.to_string())),
    };
    reply(&Reply::Ready)?;
    while let Ok(line) = requests.recv() {
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(request) => answer(plugin, &request),
            Err(error) => Reply::Io(format!("a request does not read: {error}")),
        };
        reply(&answer)?;
    }
    Ok(())
}

/// Lines of standard input. When it closes, the process is killed: libtpu's threads and exit handlers would keep an
/// orderly exit waiting, and a compile cannot be interrupted.
fn watch_input(folder: PathBuf) -> mpsc::Receiver<String> {
    let (sender, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
        if folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FOLDER_PREFIX)) {
            // The parent, if it lives, does the same.
            let _ = std::fs::remove_dir_all(&folder);
        }
        // Nothing is left to be done if this fails but to end in an orderly way.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::exit(0);
    });
    requests
}

fn reply(reply: &Reply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    // A line of its own, also after something that libtpu printed without an end.
    writeln!(out, "\n{MARK}{}", serde_json::to_string(reply)?)?;
    out.flush()
}

fn answer(plugin: Plugin, request: &Request) -> Reply {
    let topology = match Topology::new(plugin, &request.target) {
        Ok(topology) => topology,
        Err(error) => return Reply::NoTarget(error.to_string()),
    };
    let machine = match machine(plugin, &topology) {
        Ok(machine) => machine,
        Err(error) => return Reply::Unusable(error.to_string()),
    };
    let program = match std::fs::read(request.program()) {
        Ok(program) => program,
        Err(error) => return Reply::Io(format!("{}: {error}", request.program().display())),
    };
    if let Err(error) = std::env::set_current_dir(&request.folder) {
        return Reply::Io(format!("{}: {error}", request.folder.display()));
    }
    let refused = |error: runtime::Error| Reply::Refused { machine: machine.clone(), message: error.to_string() };
    let compiled = match topology.compile(&program, &request.options(&machine)) {
        Ok(compiled) => compiled,
        Err(error) => return refused(error),
    };
    let parts = compiled.serialize().and_then(|bytes| Ok((bytes, compiled.memory_analysis()?)));
    let (executable, memory) = match parts {
        Ok(parts) => parts,
        Err(error) => return Reply::Unusable(error.to_string()),
    };
    if let Err(error) = std::fs::write(request.executable(), executable) {
        return Reply::Io(format!("{}: {error}", request.executable().display()));
    }
    // A report does without it; an executable does not.
    let optimized = compiled.optimized_program().ok();
    let format = optimized.and_then(|it| std::fs::write(request.optimized(), it.bytes).ok().map(|()| it.format));
    Reply::Compiled { machine, memory: memory.into(), format, estimates: estimates(compiled.cost_analysis()) }
}

fn machine(plugin: Plugin, topology: &Topology) -> runtime::Result<Machine> {
    let limit = topology.attributes()?.into_iter().find(|(name, _)| name == "device_memory_bytes_limit");
    let hbm_bytes = match limit {
        Some((_, Value::I64(bytes))) => u64::try_from(bytes).unwrap_or(0),
        _ => 0,
    };
    Ok(Machine {
        num_devices: topology.num_devices(),
        first_device: topology.device_ids().next().unwrap_or(0),
        device_kind: topology.device_kind().to_owned(),
        hbm_bytes,
        platform_version: topology.platform_version()?,
        fingerprint: plugin.fingerprint()?,
    })
}

/// Totals; estimates of single operands and outputs (`bytes accessed0{}`) are left out.
fn estimates(found: runtime::Result<Vec<(String, Value)>>) -> BTreeMap<String, f64> {
    let total = |(name, value): (String, Value)| match value {
        Value::F32(number) if !name.contains('{') => Some((name, f64::from(number))),
        _ => None,
    };
    found.unwrap_or_default().into_iter().filter_map(total).collect()
}
