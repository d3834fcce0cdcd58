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
    /// Devices that libtpu shows for one chip, each of which runs its own copy of a program.
    pub devices: u32,
    /// Multiplications and additions of bf16 matrix products.
    pub bf16_flops: f64,
    /// Those of int8 matrix products; `None` where the matrix unit has no int8.
    pub int8_ops: Option<f64>,
    /// Those of 8-bit floats; `None` where the matrix unit has none.
    pub fp8_flops: Option<f64>,
    /// High-bandwidth memory.
    pub hbm_bytes: u64,
    /// Bytes to and from it.
    pub hbm_bandwidth: f64,
    /// On-chip vector memory of one device.
    pub vmem_bytes: u64,
    /// Rows and columns of a matrix unit.
    pub mxu_size: u32,
    /// Bytes to and from its neighbours in the slice, all links together.
    pub ici_bandwidth: f64,
    /// Where these figures come from.
    pub sources: &'static [&'static str],
}

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

static V2: Chip = Chip {
    mesh_dimensions: 2,
    devices: 2,
    bf16_flops: 46e12,
    int8_ops: None,
    fp8_flops: None,
    hbm_bytes: 16 * GIB,
    hbm_bandwidth: 700e9,
    vmem_bytes: 16 * MIB,
    mxu_size: 128,
    ici_bandwidth: 248e9,
    sources: &["https://cloud.google.com/tpu/docs/v2"],
};
static V3: Chip = Chip {
    mesh_dimensions: 2,
    devices: 2,
    bf16_flops: 123e12,
    int8_ops: None,
    fp8_flops: None,
    hbm_bytes: 32 * GIB,
    hbm_bandwidth: 900e9,
    vmem_bytes: 16 * MIB,
    mxu_size: 128,
    ici_bandwidth: 328e9,
    sources: &["https://cloud.google.com/tpu/docs/v3"],
};
static V4: Chip = Chip {
    mesh_dimensions: 3,
    devices: 2,
    bf16_flops: 275e12,
    int8_ops: Some(275e12),
    fp8_flops: None,
    hbm_bytes: 32 * GIB,
    hbm_bandwidth: 1.2e12,
    vmem_bytes: 16 * MIB,
    mxu_size: 128,
    ici_bandwidth: 300e9,
    sources: &["https://cloud.google.com/tpu/docs/v4"],
};
static V5E: Chip = Chip {
    mesh_dimensions: 2,
    devices: 1,
    bf16_flops: 197e12,
    int8_ops: Some(393e12),
    fp8_flops: None,
    hbm_bytes: 16 * GIB,
    hbm_bandwidth: 819e9,
    vmem_bytes: 128 * MIB,
    mxu_size: 128,
    ici_bandwidth: 200e9,
    sources: &["https://cloud.google.com/tpu/docs/v5e"],
};
static V5P: Chip = Chip {
    mesh_dimensions: 3,
    devices: 1,
    bf16_flops: 459e12,
    int8_ops: Some(918e12),
    fp8_flops: None,
    hbm_bytes: 95 * GIB,
    hbm_bandwidth: 2.765e12,
    vmem_bytes: 64 * MIB,
    mxu_size: 128,
    ici_bandwidth: 600e9,
    sources: &["https://cloud.google.com/tpu/docs/v5p"],
};
static V6E: Chip = Chip {
    mesh_dimensions: 2,
    devices: 1,
    bf16_flops: 918e12,
    int8_ops: Some(1836e12),
    fp8_flops: None,
    hbm_bytes: 32 * GIB,
    hbm_bandwidth: 1.64e12,
    vmem_bytes: 128 * MIB,
    mxu_size: 256,
    ici_bandwidth: 448e9,
    sources: &["https://cloud.google.com/tpu/docs/v6e"],
};
static TPU7X: Chip = Chip {
    mesh_dimensions: 3,
    devices: 2,
    bf16_flops: 2307e12,
    int8_ops: None,
    fp8_flops: Some(4614e12),
    hbm_bytes: 192 * GIB,
    hbm_bandwidth: 7.38e12,
    vmem_bytes: 64 * MIB,
    mxu_size: 256,
    ici_bandwidth: 1.2e12,
    sources: &["https://cloud.google.com/tpu/docs/tpu7x"],
};
