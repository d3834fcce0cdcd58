//! What the chips of each generation have.

use std::fmt;
use std::str::FromStr;

/// A TPU generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // the names are Google's
pub enum Generation {
    V2,
    V3,
    V4,
    V5e,
    V5p,
    V6e,
    Tpu7x,
}

impl Generation {
    /// Every generation that libtpu compiles for, oldest first.
    pub const ALL: [Generation; 7] = [
        Generation::V2,
        Generation::V3,
        Generation::V4,
        Generation::V5e,
        Generation::V5p,
        Generation::V6e,
        Generation::Tpu7x,
    ];

    /// The name that libtpu has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Generation::V2 => "v2",
            Generation::V3 => "v3",
            Generation::V4 => "v4",
            Generation::V5e => "v5e",
            Generation::V5p => "v5p",
            Generation::V6e => "v6e",
            Generation::Tpu7x => "tpu7x",
        }
    }

    /// What its chips have.
    pub const fn chip(self) -> &'static Chip {
        match self {
            Generation::V2 => &V2,
            Generation::V3 => &V3,
            Generation::V4 => &V4,
            Generation::V5e => &V5E,
            Generation::V5p => &V5P,
            Generation::V6e => &V6E,
            Generation::Tpu7x => &TPU7X,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Generation {
    type Err = ();
    fn from_str(text: &str) -> Result<Generation, ()> {
        Generation::ALL.into_iter().find(|generation| generation.name() == text).ok_or(())
    }
}

/// What one chip has. Rates are peaks, per chip and second; sizes are in bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chip {
    /// Dimensions of the mesh that its slices are cut from.
    pub mesh_dimensions: usize,
    /// Chips of that mesh, the largest there is.
    pub pod_chips: u32,
    /// Devices that libtpu shows for one chip, each of which runs its own copy of a program.
    pub devices: u32,
    /// Tensor cores, which the devices share out.
    pub cores: u32,
    /// Cycles of a core. Nobody has published those of v6e and tpu7x: they are the peak over what whole matrix units do in
    /// a cycle, four for each core, which is the number that libtpu's estimates for large products ask for.
    pub clock: f64,
    /// Multiplications and additions of bf16 matrix products.
    pub bf16_flops: f64,
    /// Those of int8 matrix products; `None` where they are no faster than bf16.
    pub int8_ops: Option<f64>,
    /// Those of 8-bit floats; `None` where they are no faster than bf16.
    pub fp8_flops: Option<f64>,
    /// High-bandwidth memory.
    pub hbm_bytes: u64,
    /// Bytes to and from it.
    pub hbm_bandwidth: f64,
    /// On-chip vector memory of one device.
    pub vmem_bytes: u64,
    /// Rows and columns of a matrix unit.
    pub mxu_size: u32,
    /// Arithmetic units behind each of the vector unit's 8 x 128 places.
    pub vector_alus: u32,
    /// Bytes that it can send to its neighbours in the slice, all links together.
    pub ici_bandwidth: f64,
    /// What slices are connected by.
    pub host: Host,
    /// Where these figures come from.
    pub sources: &'static [&'static str],
}

/// A machine that chips are in.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Chips in one.
    pub chips: u32,
    /// Bytes per second that it can send over the data-center network.
    pub bandwidth: f64,
    /// Where both figures come from; `None` for a bandwidth that nobody has published and is assumed.
    pub source: Option<&'static str>,
}

/// Places of a vector unit: 8 sublanes of 128 lanes, in every generation.
const VECTOR_PLACES: f64 = 8.0 * 128.0;

impl Chip {
    /// Multiplications and additions per second of one device's matrix products of bf16.
    pub fn device_flops(&self) -> f64 {
        self.bf16_flops / f64::from(self.devices)
    }

    /// Operations per second of one device's matrix products of 8-bit integers or, if `floats`, 8-bit floats.
    pub fn device_8bit_ops(&self, floats: bool) -> f64 {
        let rate = if floats { self.fp8_flops } else { self.int8_ops };
        rate.unwrap_or(self.bf16_flops) / f64::from(self.devices)
    }

    /// A device's share of the chip's memory. libtpu keeps some of it for itself: ask it what a program may use.
    pub fn device_hbm_bytes(&self) -> u64 {
        self.hbm_bytes / u64::from(self.devices)
    }

    /// Bytes per second of one device to and from memory, when all of the chip's devices are at it.
    pub fn device_hbm_bandwidth(&self) -> f64 {
        self.hbm_bandwidth / f64::from(self.devices)
    }

    /// Bytes per second that one device can send, when all of the chip's devices do.
    pub fn device_ici_bandwidth(&self) -> f64 {
        self.ici_bandwidth / f64::from(self.devices)
    }

    /// Additions, comparisons and their like per second of one device's vector units, on 32-bit elements.
    pub fn device_vector_ops(&self) -> f64 {
        self.device_cores() * VECTOR_PLACES * f64::from(self.vector_alus) * self.clock
    }

    /// Exponentials and their like per second of one device: one for each place of a vector unit and cycle, which is an
    /// assumption, since nobody has published it.
    pub fn device_transcendentals(&self) -> f64 {
        self.device_cores() * VECTOR_PLACES * self.clock
    }

    fn device_cores(&self) -> f64 {
        f64::from(self.cores) / f64::from(self.devices)
    }
}

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

const CLOUD_V2: &str = "https://cloud.google.com/tpu/docs/v2";
const CLOUD_V3: &str = "https://cloud.google.com/tpu/docs/v3";
const CLOUD_V4: &str = "https://cloud.google.com/tpu/docs/v4";
const CLOUD_V5E: &str = "https://docs.cloud.google.com/tpu/docs/v5e";
const CLOUD_V5P: &str = "https://docs.cloud.google.com/tpu/docs/v5p-training";
const CLOUD_V6E: &str = "https://docs.cloud.google.com/tpu/docs/v6e.md.txt";
const CLOUD_V5P_NETWORK: &str = "https://docs.cloud.google.com/tpu/docs/v5p";
const CLOUD_V6E_NETWORK: &str = "https://docs.cloud.google.com/tpu/docs/v6e";
const CLOUD_TPU7X: &str = "https://docs.cloud.google.com/tpu/docs/tpu7x";
/// Vector memory per core, and 8-bit rates.
const JAX_TPU_INFO: &str = "https://github.com/jax-ml/jax/blob/main/jax/_src/pallas/mosaic/tpu_info.py";
/// The same as a page.
const PALLAS: &str = "https://docs.jax.dev/en/latest/pallas/tpu/hardware.html";
/// Links one way, clocks, the vector unit's places and their arithmetic units.
const SCALING_BOOK: &str = "https://jax-ml.github.io/scaling-book/tpus";
/// Jouppi et al., A domain-specific supercomputer for training deep neural networks, 2020: clocks, links.
const SUPERCOMPUTER: &str = "https://doi.org/10.1145/3360307";
/// Jouppi et al., TPU v4, 2023: clock.
const V4_PAPER: &str = "https://arxiv.org/abs/2304.01433";

/// Four chips, as Cloud's pages on v2, v3 and v4 have it. Their network is assumed: v5e's share for each chip, which is the
/// least that is published of any generation.
const UNPUBLISHED: Host = Host { chips: 4, bandwidth: 4.0 * 25.0 * GBIT, source: None };

/// Bytes in a gigabit, the unit of networks.
const GBIT: f64 = 1e9 / 8.0;

static V2: Chip = Chip {
    mesh_dimensions: 2,
    pod_chips: 256,
    devices: 2,
    cores: 2,
    clock: 0.7e9,
    bf16_flops: 46e12,
    int8_ops: None,
    fp8_flops: None,
    hbm_bytes: 16 * GIB,
    hbm_bandwidth: 700e9,
    vmem_bytes: 16 * MIB,
    mxu_size: 128,
    vector_alus: 2,
    ici_bandwidth: 248e9,
    host: UNPUBLISHED,
    sources: &[CLOUD_V2, JAX_TPU_INFO, SUPERCOMPUTER],
};
static V3: Chip = Chip {
    mesh_dimensions: 2,
    pod_chips: 1024,
    devices: 2,
    cores: 2,
    clock: 0.94e9,
    bf16_flops: 123e12,
    int8_ops: None,
    fp8_flops: None,
    hbm_bytes: 32 * GIB,
    hbm_bandwidth: 900e9,
    vmem_bytes: 16 * MIB,
    mxu_size: 128,
    vector_alus: 2,
    ici_bandwidth: 328e9,
    host: UNPUBLISHED,
    sources: &[CLOUD_V3, JAX_TPU_INFO, SUPERCOMPUTER],
};
static V4: Chip = Chip {
    mesh_dimensions: 3,
    pod_chips: 4096,
    devices: 2,
    cores: 2,
    clock: 1.05e9,
    bf16_flops: 275e12,
    int8_ops: None,
    fp8_flops: None,
    hbm_bytes: 32 * GIB,
    hbm_bandwidth: 1.2e12,
    vmem_bytes: 16 * MIB,
    mxu_size: 128,
    vector_alus: 2,
    ici_bandwidth: 270e9,
    host: UNPUBLISHED,
    sources: &[CLOUD_V4, JAX_TPU_INFO, SCALING_BOOK, V4_PAPER],
};
static V5E: Chip = Chip {
    mesh_dimensions: 2,
    pod_chips: 256,
    devices: 1,
    cores: 1,
    clock: 1.5e9,
    bf16_flops: 197e12,
    int8_ops: Some(393e12),
    fp8_flops: None,
    hbm_bytes: 16 * GIB,
    hbm_bandwidth: 819e9,
    vmem_bytes: 128 * MIB,
    mxu_size: 128,
    vector_alus: 4,
    ici_bandwidth: 200e9,
    host: Host { chips: 8, bandwidth: 2.0 * 100.0 * GBIT, source: Some(CLOUD_V5E) },
    sources: &[CLOUD_V5E, JAX_TPU_INFO, SCALING_BOOK],
};
static V5P: Chip = Chip {
    mesh_dimensions: 3,
    pod_chips: 8960,
    devices: 1,
    cores: 2,
    clock: 1.75e9,
    bf16_flops: 459e12,
    int8_ops: Some(918e12),
    fp8_flops: None,
    hbm_bytes: 95 * GIB,
    hbm_bandwidth: 2.765e12,
    vmem_bytes: 128 * MIB,
    mxu_size: 128,
    vector_alus: 4,
    ici_bandwidth: 600e9,
    host: Host { chips: 4, bandwidth: 4.0 * 50.0 * GBIT, source: Some(CLOUD_V5P_NETWORK) },
    sources: &[CLOUD_V5P, JAX_TPU_INFO, SCALING_BOOK],
};
static V6E: Chip = Chip {
    mesh_dimensions: 2,
    pod_chips: 256,
    devices: 1,
    cores: 1,
    clock: 1.75e9,
    bf16_flops: 918e12,
    int8_ops: Some(1836e12),
    fp8_flops: None,
    hbm_bytes: 32 * GIB,
    hbm_bandwidth: 1.638e12,
    vmem_bytes: 128 * MIB,
    mxu_size: 256,
    vector_alus: 4,
    ici_bandwidth: 400e9,
    host: Host { chips: 8, bandwidth: 4.0 * 200.0 * GBIT, source: Some(CLOUD_V6E_NETWORK) },
    sources: &[CLOUD_V6E, JAX_TPU_INFO, SCALING_BOOK],
};
static TPU7X: Chip = Chip {
    mesh_dimensions: 3,
    pod_chips: 9216,
    devices: 2,
    cores: 2,
    clock: 2.2e9,
    bf16_flops: 2307e12,
    int8_ops: None,
    fp8_flops: Some(4614e12),
    hbm_bytes: 192 * GIB,
    hbm_bandwidth: 7.38e12,
    vmem_bytes: 64 * MIB,
    mxu_size: 256,
    vector_alus: 4,
    ici_bandwidth: 600e9,
    host: Host { chips: 4, bandwidth: 4.0 * 100.0 * GBIT, source: Some(CLOUD_TPU7X) },
    sources: &[CLOUD_TPU7X, PALLAS],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_whole_matrix_units() {
        for generation in Generation::ALL {
            let chip = generation.chip();
            let unit = 2.0 * f64::from(chip.mxu_size).powi(2) * chip.clock;
            let units = chip.bf16_flops / unit / f64::from(chip.cores);
            assert!((units - units.round()).abs() < 0.02 && units > 0.5, "{generation}: {units} units in a core");
        }
    }

    #[test]
    fn networks_give_each_chip_what_is_published() {
        let gigabits = |generation: Generation| {
            let host = &generation.chip().host;
            host.bandwidth * 8e-9 / f64::from(host.chips)
        };
        let published =
            [(Generation::V5e, 25.0), (Generation::V5p, 50.0), (Generation::V6e, 100.0), (Generation::Tpu7x, 100.0)];
        for (generation, wanted) in published {
            assert_eq!(gigabits(generation), wanted, "{generation}");
        }
        let assumed = Generation::ALL.into_iter().filter(|it| it.chip().host.source.is_none());
        assert_eq!(assumed.collect::<Vec<_>>(), [Generation::V2, Generation::V3, Generation::V4]);
    }

    #[test]
    fn devices_share_their_chip() {
        let v3 = Generation::V3.chip();
        assert_eq!((v3.device_flops(), v3.device_hbm_bytes(), v3.device_hbm_bandwidth()), (61.5e12, 16 << 30, 450e9));
        let v5p = Generation::V5p.chip();
        assert_eq!((v5p.device_flops(), v5p.device_vector_ops()), (459e12, 2.0 * 1024.0 * 4.0 * 1.75e9));
        assert_eq!((v5p.device_8bit_ops(false), v5p.device_8bit_ops(true)), (918e12, 459e12));
    }
}
