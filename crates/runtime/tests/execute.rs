//! Programs run on the CPU plugin: values, memory used in place, donation, several devices and threads.

mod common;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::*;
use torchtpu_runtime::{AlignedBytes, Buffer, CompileOptions, ElementType, Error, ExecuteOptions, HostAccess};
use torchtpu_runtime::{HostMemory, TensorType};

fn aligned(values: &[f32]) -> AlignedBytes {
    AlignedBytes::copy_of(&bytes(values)).expect("allocates")
}

fn ones() -> Vec<f32> {
    vec![1.0; 64]
}

#[test]
fn add_adds() {
    let client = client();
    let device = first_device(&client);
    let add = compile(&client, ADD);
    let x = upload(&device, &[1.0, 2.0, 3.0, f32::NAN], &[4]);
    let y = upload(&device, &[10.0, 20.0, 30.0, 40.0], &[4]);
    let run = add.execute(&[&x, &y], &ExecuteOptions::default()).expect("runs");
    run.done.wait().expect("succeeds");
    let sum = download(&run.outputs[0]);
    assert_eq!(sum[..3], [11.0, 22.0, 33.0]);
    assert!(sum[3].is_nan());
    assert_eq!(run.outputs[0].dims(), [4]);
    assert_eq!(run.outputs[0].device(), device);
    assert_eq!(run.outputs[0].size_in_bytes().expect("known"), 16);
    assert!(run.outputs[0].is_on_cpu().expect("known"));
}

#[test]
fn matmul_multiplies_and_gives_two_results() {
    let client = client();
    let device = first_device(&client);
    let program = compile(
        &client,
        "func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> (tensor<2x2xf32>, tensor<3x2xi1>) {
           %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
             : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
           %1 = stablehlo.compare EQ, %b, %b : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xi1>
           return %0, %1 : tensor<2x2xf32>, tensor<3x2xi1>
         }",
    );
    let a = upload(&device, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let b = upload(&device, &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[3, 2]);
    let run = program.execute(&[a, b], &ExecuteOptions::default()).expect("runs");
    assert_eq!(download(&run.outputs[0]), [4.0, 5.0, 10.0, 11.0]);
    assert_eq!(run.outputs[1].element_type(), ElementType::Pred);
    assert_eq!(run.outputs[1].to_host().expect("downloads")[..], [1; 6]);
}

#[test]
fn scalars_and_empty_tensors_work() {
    let client = client();
    let device = first_device(&client);
    let program = compile(
        &client,
        "func.func @main(%s: tensor<f32>, %e: tensor<0x3xf32>) -> (tensor<f32>, tensor<0x3xf32>) {
           %0 = stablehlo.negate %s : tensor<f32>
           %1 = stablehlo.negate %e : tensor<0x3xf32>
           return %0, %1 : tensor<f32>, tensor<0x3xf32>
         }",
    );
    let scalar = upload(&device, &[2.5], &[]);
    for empty in [
        Buffer::from_host(&device, &[], f32s(&[0, 3])),
        Buffer::from_host_memory(&device, aligned(&[]).into(), f32s(&[0, 3])),
        Buffer::from_host_strided(&device, &[], f32s(&[0, 3]), &[12, 4]),
    ] {
        let empty = empty.expect("uploads");
        let run = program.execute(&[&scalar, &empty], &ExecuteOptions::default()).expect("runs");
        assert_eq!(download(&run.outputs[0]), [-2.5]);
        assert!(download(&run.outputs[1]).is_empty());
    }
}

#[test]
fn every_common_element_type_survives_the_round_trip() {
    let client = client();
    let device = first_device(&client);
    use ElementType::*;
    let types = [Pred, S8, S16, S32, S64, U8, U16, U32, U64, F16, F32, F64, Bf16, C64, C128, F8E5M2, F8E4M3Fn, S4, U4];
    for element_type in types {
        let ty = TensorType::new(element_type, [3, 5]);
        // One is a valid value of every type, sub-byte and truth values included.
        let data: Vec<u8> = (0..ty.host_size_in_bytes().expect("fits")).map(|index| (index % 2) as u8).collect();
        let buffer = Buffer::from_host(&device, &data, ty).expect("uploads");
        assert_eq!(buffer.to_host().expect("downloads")[..], data[..], "{element_type}");
    }
}

#[test]
fn strided_memory_is_gathered() {
    let client = client();
    let device = first_device(&client);
    let data = bytes(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let strided = |dims: &[i64], strides: &[i64]| {
        download(&Buffer::from_host_strided(&device, &data, f32s(dims), strides).expect("uploads"))
    };
    assert_eq!(strided(&[3, 2], &[4, 12]), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(strided(&[2, 3], &[12, 4]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(strided(&[3], &[8]), [0.0, 2.0, 4.0]);
    assert_eq!(strided(&[2, 2], &[0, 4]), [0.0, 1.0, 0.0, 1.0]);
    let outside = Buffer::from_host_strided(&device, &data, f32s(&[3]), &[12]).expect_err("out of range");
    assert_eq!(outside.to_string(), "strides [12] of f32[3] reach 28 bytes far, got 24");
}

#[test]
fn read_only_memory_is_used_in_place() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    let memory = Arc::new(aligned(&ones()));
    let buffer = Buffer::from_host_memory(&device, HostMemory::shared(Arc::clone(&memory)), f32s(&[64]));
    let buffer = buffer.expect("lends");
    assert!(buffer.is_in_place().expect("known"));
    assert_eq!(buffer.unsafe_pointer().expect("known"), memory.as_ptr().addr());
    // Donating it must not write to memory that others read.
    let run = increment.execute(&[&buffer], &ExecuteOptions::default()).expect("runs");
    assert_eq!(download(&run.outputs[0]), vec![2.0; 64]);
    assert_ne!(run.outputs[0].unsafe_pointer().expect("known"), memory.as_ptr().addr());
    assert_eq!(floats(&memory), ones());
}

#[test]
fn unaligned_memory_is_copied() {
    let client = client();
    let device = first_device(&client);
    let mut memory = AlignedBytes::zeroed(4 * 65).expect("allocates");
    memory[4..].copy_from_slice(&bytes(&ones()));
    let owner = Arc::new(memory);
    let start = owner.as_ptr().wrapping_add(4).cast_mut();
    // SAFETY: within `owner`, which is held and never written to.
    #[allow(unsafe_code)] // lending memory is unsafe by nature; this is what callers outside do
    let memory = unsafe { HostMemory::from_raw(start, 256, HostAccess::ReadWrite, owner) };
    assert!(!memory.is_aligned());
    let buffer = Buffer::from_host_memory(&device, memory, f32s(&[64])).expect("copies");
    assert!(!buffer.is_in_place().expect("known"));
    assert_eq!(download(&buffer), ones());
}

#[test]
fn donated_memory_holds_the_result() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    let memory = aligned(&ones());
    let address = memory.as_ptr().addr();
    let mut buffer = Buffer::from_host_memory(&device, memory.into(), f32s(&[64])).expect("lends");
    for step in 1..=3 {
        let mut run = increment.execute(&[&buffer], &ExecuteOptions::default()).expect("runs");
        run.done.wait().expect("succeeds");
        assert!(buffer.is_gone());
        buffer = run.outputs.remove(0);
        assert_eq!(buffer.unsafe_pointer().expect("known"), address, "the output reuses the input");
        assert_eq!(download(&buffer), vec![1.0 + step as f32; 64]);
    }
}

/// Memory whose end can be watched.
struct Watched {
    memory: AlignedBytes,
    dropped: Arc<AtomicBool>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.dropped.store(true, Ordering::SeqCst);
    }
}

#[test]
fn an_owner_is_held_as_long_as_any_buffer_uses_its_memory() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    let dropped = Arc::new(AtomicBool::new(false));
    let watched = Watched { memory: aligned(&ones()), dropped: Arc::clone(&dropped) };
    let (pointer, owner) = (watched.memory.as_ptr().cast_mut(), Arc::new(watched) as Arc<dyn Any + Send + Sync>);
    // SAFETY: the memory lives in `owner`, and only the runtime touches it.
    #[allow(unsafe_code)] // as above
    let memory = unsafe { HostMemory::from_raw(pointer, 256, HostAccess::ReadWrite, owner) };
    let buffer = Buffer::from_host_memory(&device, memory, f32s(&[64])).expect("lends");
    let run = increment.execute(&[&buffer], &ExecuteOptions::default()).expect("runs");
    drop(buffer);
    assert!(!dropped.load(Ordering::SeqCst), "the output took the memory over");
    assert_eq!(download(&run.outputs[0]), vec![2.0; 64]);
    drop(run);
    eventually(|| dropped.load(Ordering::SeqCst));
}

fn eventually(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never happened");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_donated_buffer_is_gone() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    assert_eq!(increment.signature().donated, [0]);
    let buffer = Arc::new(upload(&device, &ones(), &[64]));
    let run = increment.execute(&[&*buffer], &ExecuteOptions::default()).expect("runs");
    let again = increment.execute(&[&*buffer], &ExecuteOptions::default()).expect_err("donated");
    assert_eq!(again.to_string(), "argument 0 was donated to an earlier execution and can no longer be used");
    let expected = "the buffer was donated to an earlier execution and can no longer be used";
    let uses: [(&str, Option<Error>); 6] = [
        ("to_host", buffer.to_host().err()),
        ("to_host_async", buffer.to_host_async().err()),
        ("ready", buffer.ready().err()),
        ("unsafe_pointer", buffer.unsafe_pointer().err()),
        ("share", buffer.share().err()),
        ("delete", buffer.delete().err()),
    ];
    for (name, error) in uses {
        assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(download(&run.outputs[0]), vec![2.0; 64]);
}

#[test]
fn a_deleted_buffer_is_gone() {
    let client = client();
    let buffer = upload(&first_device(&client), &ones(), &[64]);
    buffer.delete().expect("deletes");
    assert_eq!(buffer.to_host().expect_err("gone").to_string(), "the buffer was deleted and can no longer be used");
    assert!(matches!(buffer.delete(), Err(Error::UseAfterDelete { .. })));
}

#[test]
fn an_argument_can_be_kept_from_donation() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    let buffer = upload(&device, &ones(), &[64]);
    let options = ExecuteOptions { non_donatable: &[0], ..ExecuteOptions::default() };
    let run = increment.execute(&[&buffer], &options).expect("runs");
    assert_eq!(download(&run.outputs[0]), vec![2.0; 64]);
    assert_eq!(download(&buffer), ones());
}

#[test]
fn one_buffer_cannot_be_donated_and_read_at_once() {
    let client = client();
    let device = first_device(&client);
    let program = |first: &str, second: &str| {
        let text = format!(
            "func.func @main(%x: tensor<4xf32>{first}, %y: tensor<4xf32>{second}) -> tensor<4xf32> {{
               %0 = stablehlo.add %x, %y : tensor<4xf32>
               return %0 : tensor<4xf32>
             }}"
        );
        compile(&client, &text)
    };
    const DONATED: &str = " {tf.aliasing_output = 0 : i32}";
    for program in [program(DONATED, ""), program("", DONATED)] {
        let buffer = upload(&device, &[1.0, 2.0, 3.0, 4.0], &[4]);
        let error = program.execute(&[&buffer, &buffer], &ExecuteOptions::default()).expect_err("used twice");
        assert!(matches!(error, Error::UseAfterDonation { .. }), "{error}");
        // Nothing ran, so nothing was donated.
        assert_eq!(download(&buffer), [1.0, 2.0, 3.0, 4.0]);
    }
}

#[test]
fn shared_memory_is_not_donated() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    let buffer = Arc::new(upload(&device, &ones(), &[64]));
    let shared = buffer.share().expect("shares");
    assert_eq!(shared.address(), buffer.unsafe_pointer().expect("known"));
    let error = increment.execute(&[&*buffer], &ExecuteOptions::default()).expect_err("shared");
    assert_eq!(error.to_string(), "argument 0 is shared outside the runtime and cannot be donated or deleted");
    assert!(matches!(buffer.delete(), Err(Error::Shared { .. })));
    let second = buffer.share().expect("shares twice");
    drop((shared, second));
    increment.execute(&[&*buffer], &ExecuteOptions::default()).expect("free again");
}

/// A program that takes a while: `x * x * x` of a square matrix, which it is given with `attributes`.
fn two_products(side: usize, attributes: &str) -> String {
    format!(
        "func.func @main(%x: tensor<{side}x{side}xf32> {attributes}) -> tensor<{side}x{side}xf32> {{
           %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
             : (tensor<{side}x{side}xf32>, tensor<{side}x{side}xf32>) -> tensor<{side}x{side}xf32>
           %1 = stablehlo.dot_general %0, %x, contracting_dims = [1] x [0]
             : (tensor<{side}x{side}xf32>, tensor<{side}x{side}xf32>) -> tensor<{side}x{side}xf32>
           return %1 : tensor<{side}x{side}xf32>
         }}"
    )
}

#[test]
fn dropping_a_donated_buffer_waits_for_nothing() {
    let client = client();
    let device = first_device(&client);
    let side = 700;
    let program = compile(&client, &two_products(side, "{tf.aliasing_output = 0 : i32}"));
    // As below, one try may be interrupted.
    let returns_early = |_| {
        let x = upload(&device, &vec![0.5; side * side], &[side as i64, side as i64]);
        let run = program.execute(&[&x], &ExecuteOptions::default()).expect("runs");
        drop(x);
        let early = !run.done.is_ready().expect("known");
        assert_eq!(download(&run.outputs[0])[0], 0.125 * (side * side) as f32);
        early
    };
    assert!((0..20).any(returns_early), "dropping what was donated waits for the execution");
}

#[test]
fn events_tell_when_work_is_done() {
    let client = client();
    let device = first_device(&client);
    let side = 700;
    let text = two_products(side, "");
    let program = compile(&client, &text);
    let x = upload(&device, &vec![0.5; side * side], &[side as i64, side as i64]);
    // On a busy machine one try may be interrupted until the work is over; a plugin that waits never passes.
    let returns_early = |_| {
        let run = program.execute(&[&x], &ExecuteOptions::default()).expect("runs");
        !run.done.is_ready().expect("known")
    };
    assert!((0..20).any(returns_early), "execute waits for its own work");
    let run = program.execute(&[&x], &ExecuteOptions::default()).expect("runs");
    let (sender, receiver) = std::sync::mpsc::channel();
    run.outputs[0]
        .ready()
        .expect("has an event")
        .on_ready(move |outcome| drop(sender.send(outcome)))
        .expect("registers");
    let transfer = run.outputs[0].to_host_async().expect("starts");
    receiver.recv_timeout(Duration::from_secs(60)).expect("is called").expect("succeeds");
    run.done.wait().expect("succeeds");
    assert!(run.done.is_ready().expect("known"));
    let expected = 0.125 * (side * side) as f32;
    assert_eq!(floats(&transfer.wait().expect("arrives"))[0], expected);
    // A transfer that nobody waits for must not leave the plugin writing to freed memory.
    drop(run.outputs[0].to_host_async().expect("starts"));
}

#[test]
fn a_panicking_callback_does_no_harm() {
    let client = client();
    let buffer = upload(&first_device(&client), &ones(), &[64]);
    let event = buffer.ready().expect("has an event");
    event.on_ready(|_| panic!("on purpose")).expect("registers");
    event.wait().expect("succeeds");
    assert_eq!(download(&buffer), ones());
}

#[test]
fn background_transfers_arrive() {
    let client = client();
    let device = first_device(&client);
    let data: Vec<f32> = (0..1 << 16).map(|value| value as f32).collect();
    let memory = HostMemory::from(aligned(&data));
    let buffer = Buffer::transfer_from_host(&device, memory, f32s(&[1 << 16]), None).expect("starts");
    assert_eq!(download(&buffer), data);
    let memory = HostMemory::from(aligned(&data[..6]));
    let buffer = Buffer::transfer_from_host(&device, memory, f32s(&[3, 2]), Some(&[4, 12])).expect("starts");
    assert_eq!(download(&buffer), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
}

#[test]
fn programs_run_where_they_are_told() {
    let client = client_of(4);
    assert_eq!(client.devices().len(), 4);
    let device = client.device(2).expect("exists");
    let fixed = client.compile(ADD.as_bytes(), &CompileOptions::for_device(&device), None).expect("compiles");
    assert_eq!(fixed.devices(), std::slice::from_ref(&device));
    let x = upload(&device, &[1.0; 4], &[4]);
    let run = fixed.execute(&[&x, &x], &ExecuteOptions::default()).expect("runs");
    assert_eq!(run.outputs[0].device(), device);
    assert_eq!(download(&run.outputs[0]), [2.0; 4]);

    let elsewhere = upload(&client.device(1).expect("exists"), &[1.0; 4], &[4]);
    let error = fixed.execute(&[&x, &elsewhere], &ExecuteOptions::default()).expect_err("misplaced");
    assert_eq!(error.to_string(), "argument 1 is on device 1, the program runs on device 2");
    let moved = elsewhere.copy_to_device(&device).expect("copies");
    fixed.execute(&[&x, &moved], &ExecuteOptions::default()).expect("runs");

    let options = CompileOptions { portable: true, ..CompileOptions::default() };
    let portable = client.compile(ADD.as_bytes(), &options, None).expect("compiles");
    for device in client.devices() {
        let x = upload(&device, &[device.index() as f32; 4], &[4]);
        let options = ExecuteOptions { device: Some(&device), ..ExecuteOptions::default() };
        let run = portable.execute(&[&x, &x], &options).expect("runs");
        assert_eq!(run.outputs[0].device(), device);
        assert_eq!(download(&run.outputs[0]), [2.0 * device.index() as f32; 4]);
    }
}

#[test]
fn replicas_reduce_across_devices() {
    const REPLICAS: usize = 4;
    let client = client_of(REPLICAS as i64);
    let program = "
        func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = \"stablehlo.all_reduce\"(%x) ({
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %sum = stablehlo.add %a, %b : tensor<f32>
              stablehlo.return %sum : tensor<f32>
          }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>} : (tensor<2xf32>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }";
    let options = CompileOptions {
        num_replicas: REPLICAS,
        device_assignment: Some((0..REPLICAS as i32).collect()),
        ..CompileOptions::default()
    };
    let program = client.compile(program.as_bytes(), &options, None).expect("compiles");
    assert_eq!(program.num_replicas().expect("known"), REPLICAS);
    let shards: Vec<[Buffer; 1]> =
        client.devices().iter().map(|device| [upload(device, &[device.index() as f32, 1.0], &[2])]).collect();
    let arguments: Vec<&[Buffer]> = shards.iter().map(|shard| shard.as_slice()).collect();
    let runs = program.execute_sharded(&arguments, &ExecuteOptions::default()).expect("runs");
    for (run, device) in runs.iter().zip(client.devices()) {
        assert_eq!(run.outputs[0].device(), device);
        assert_eq!(download(&run.outputs[0]), [6.0, 4.0]);
    }

    // Misplaced shards would leave the collective hanging: they must not reach the plugin.
    let swapped: Vec<&[Buffer]> = arguments.iter().rev().copied().collect();
    let error = program.execute_sharded(&swapped, &ExecuteOptions::default()).expect_err("misplaced");
    assert_eq!(error.to_string(), "argument 0 is on device 3, the program runs on device 0");
    let error = program.execute_sharded(&arguments[..2], &ExecuteOptions::default()).expect_err("too few");
    assert_eq!(error.to_string(), "the program runs on 4 devices, got arguments for 2");
    let error = program.execute(arguments[0], &ExecuteOptions::default()).expect_err("one device");
    assert_eq!(error.to_string(), "the program runs on 4 devices, not on one");
    program.execute_sharded(&arguments, &ExecuteOptions::default()).expect("still runs");
}

#[test]
fn threads_execute_at_the_same_time() {
    let client = client();
    let device = first_device(&client);
    let add = compile(&client, ADD);
    let shared = upload(&device, &[1.0; 4], &[4]);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (add, device, shared) = (&add, &device, &shared);
            scope.spawn(move || {
                let mut sum = upload(device, &[thread as f32; 4], &[4]);
                for _ in 0..200 {
                    let mut run = add.execute(&[&sum, shared], &ExecuteOptions::default()).expect("runs");
                    sum = run.outputs.remove(0);
                }
                assert_eq!(download(&sum), [thread as f32 + 200.0; 4]);
            });
        }
    });
}

#[test]
fn racing_donations_have_one_winner() {
    let client = client();
    let device = first_device(&client);
    let increment = compile(&client, INCREMENT);
    for _ in 0..50 {
        let buffer = upload(&device, &ones(), &[64]);
        let won: usize = std::thread::scope(|scope| {
            let attempts = [(); 4].map(|()| {
                scope.spawn(|| match increment.execute(&[&buffer], &ExecuteOptions::default()) {
                    Ok(run) => download(&run.outputs[0]).iter().all(|&value| value == 2.0) as usize,
                    Err(Error::UseAfterDonation { .. }) => 0,
                    Err(other) => panic!("{other}"),
                })
            });
            attempts.into_iter().map(|attempt| attempt.join().expect("joins")).sum()
        });
        assert_eq!(won, 1);
    }
}

#[test]
fn the_first_rows_need_no_program() {
    let client = client();
    let x = upload(&first_device(&client), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]);
    let rows = |n: usize| x.first_rows(n).expect("copies").expect("the host can read");
    assert_eq!(download(&rows(2)), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(rows(2).dims(), [2, 2]);
    assert!(download(&rows(0)).is_empty());
    assert!(matches!(x.first_rows(4), Err(Error::Invalid(_))));
    x.delete().expect("is deleted: nothing shares it");
    assert!(matches!(x.first_rows(1), Err(Error::UseAfterDelete { .. })));
}
