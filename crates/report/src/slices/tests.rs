use super::*;
use crate::testing::report;

/// A plan for slices of `target`, of whose devices the program uses `devices`.
fn plan(count: u32, target: &str, devices: usize, training: Training) -> Slices {
    let mut report = report();
    report.target.devices_used = devices;
    let target = target.parse().expect("a slice");
    Slices::plan(count, &report, &target, &training).expect("the program runs")
}

/// Gradients of 4 GiB, split over all devices or held by each.
fn training(device_gradient_bytes: u64) -> Training {
    Training { parameters: 3, gradient_bytes: 4 << 30, device_gradient_bytes, batch: Some(64) }
}

fn says(plan: &Slices, text: &str) -> bool {
    plan.assumptions.iter().any(|it| it.contains(text))
}

#[test]
fn a_plan_is_what_its_formulas_give() {
    let plan = plan(25, "v5p:16x16x16", 4096, training(1 << 20));
    assert_eq!((plan.chips, plan.hosts, plan.batch), (102_400, 25_600, Some(1600)));
    let sent = 2.0 * 24.0 / 25.0 * f64::from(1 << 20);
    assert_eq!((plan.gradient_bytes, plan.device_bytes, plan.host_bytes), (1 << 20, sent, 4.0 * sent));
    assert_eq!((plan.host_bandwidth, plan.exchange_seconds), (25e9, 4.0 * sent / 25e9));
    assert_eq!(plan.slice_seconds, 0.04);
    assert_eq!(plan.exposed.seconds, 0.04 + plan.exchange_seconds);
    assert_eq!(plan.exposed.efficiency, 0.04 / plan.exposed.seconds);
    assert_eq!((plan.overlapped.seconds, plan.overlapped.efficiency), (0.04, 1.0));
    assert!(says(&plan, "25.0 GB/s") && says(&plan, "https://docs.cloud.google.com/tpu/docs/v5p"));
    assert!(says(&plan, "or measured") && !says(&plan, "hold alike"));
}

#[test]
fn what_a_step_cannot_hide_is_waited_for() {
    let plan = plan(2, "v5e:1x1", 1, training(4 << 30));
    // One of a host's eight chips has an eighth of its network.
    assert_eq!((plan.host_bandwidth, plan.hosts), (25e9 / 8.0, 2));
    assert_eq!(plan.exchange_seconds, f64::from(4u32 << 20) * 1024.0 / plan.host_bandwidth);
    assert_eq!(plan.overlapped.seconds, plan.exchange_seconds);
    assert!(plan.overlapped.efficiency < 0.04 && plan.exposed.efficiency < plan.overlapped.efficiency);
}

#[test]
fn gradients_held_alike_leave_the_slice_once() {
    let (split, alike) = (training(1 << 30), training(4 << 30));
    let (split, alike) = (plan(4, "v5e:2x2", 4, split), plan(4, "v5e:2x2", 4, alike));
    assert_eq!((split.device_bytes, split.exchange_seconds), (alike.device_bytes, alike.exchange_seconds));
    assert_eq!((split.extra_hbm_bytes, alike.extra_hbm_bytes), (1 << 30, 4 << 30));
    assert!(says(&alike, "hold alike") && !says(&split, "hold alike"));
}

#[test]
fn devices_that_share_a_chip_share_its_hosts_network() {
    // v4 shows two devices a chip: eight of a host's send.
    let plan = plan(3, "v4:2x2x2", 16, training(1 << 28));
    assert_eq!((plan.host_bytes, plan.hosts), (8.0 * plan.device_bytes, 6));
    assert!(says(&plan, "which is assumed"));
}

#[test]
fn gradients_need_room() {
    let fits = plan(2, "v5e:1x1", 1, training(14 << 30));
    let does_not = plan(2, "v5e:1x1", 1, training(15 << 30));
    assert_eq!((fits.fits, does_not.fits), (true, false), "beside 1003 MiB of 15.7 GiB");
}

#[test]
fn one_slice_sends_nothing() {
    let plan = plan(1, "v5e:2x2", 4, training(1 << 30));
    assert_eq!((plan.device_bytes, plan.exchange_seconds, plan.extra_hbm_bytes), (0.0, 0.0, 0));
    assert_eq!((plan.exposed, plan.overlapped.efficiency), (plan.overlapped, 1.0));
}

#[test]
fn what_trains_nothing_says_so() {
    let plan = plan(8, "v5e:2x2", 4, Training { batch: None, ..Training::default() });
    assert_eq!((plan.exchange_seconds, plan.exposed.efficiency, plan.batch), (0.0, 1.0, None));
    assert!(says(&plan, "updates no parameter in place") && !says(&plan, "A gradient has"));
}

#[test]
fn what_does_not_run_has_no_plan() {
    let refused = Report { cost: None, ..report() };
    let target = "v5e:1x1".parse().expect("a slice");
    assert_eq!(Slices::plan(2, &refused, &target, &training(1)), None);
}
