//! Compile options and the part of `xla.CompileOptionsProto` that carries them.

use std::collections::BTreeMap;

use prost::Message;
use serde::{Deserialize, Serialize};

use crate::client::Device;
use crate::error::{Error, Result};

/// How to compile a program. Encodes to the same bytes for the same options, so the bytes can be part of a key, beside
/// `undivided`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompileOptions {
    /// Copies of the program that run on different data.
    pub num_replicas: usize,
    /// Devices that share one copy.
    pub num_partitions: usize,
    /// Ids of the devices to run on, replica after replica, `num_replicas * num_partitions` in all. `None` leaves the
    /// choice to the plugin.
    pub device_assignment: Option<Vec<i32>>,
    /// Leaves the device open until execution. Only for programs of one replica and one partition.
    pub portable: bool,
    /// Splits the program by its sharding marks when there are several partitions.
    pub use_spmd_partitioning: bool,
    /// Does so with Shardy (`sdy` marks) instead of GSPMD.
    pub use_shardy_partitioner: bool,
    /// Divides no op among threads, where the plugin runs programs on the CPU: for programs that end sooner than a thread
    /// is woken.
    pub undivided: bool,
    /// XLA flags for this compile alone, such as `xla_backend_optimization_level`.
    pub flags: BTreeMap<String, FlagValue>,
}

/// The value of an XLA flag.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FlagValue {
    /// Text, also for enumerations.
    String(String),
    /// A truth value.
    Bool(bool),
    /// An integer.
    I64(i64),
    /// A float.
    F64(f64),
}

impl Default for CompileOptions {
    /// One replica, one partition, the plugin's choice of device.
    fn default() -> Self {
        CompileOptions {
            num_replicas: 1,
            num_partitions: 1,
            device_assignment: None,
            portable: false,
            use_spmd_partitioning: false,
            use_shardy_partitioner: false,
            undivided: false,
            flags: BTreeMap::new(),
        }
    }
}

impl CompileOptions {
    /// For one device.
    pub fn for_device(device: &Device) -> Self {
        CompileOptions { device_assignment: Some(vec![device.id()]), ..Self::default() }
    }

    /// For small CPU programs that run a few times: compiles about three times faster, to slower code.
    #[must_use]
    pub fn fast_compile(mut self) -> Self {
        let mut set = |name: &str, value| self.flags.insert(name.to_owned(), value);
        set("xla_cpu_use_fusion_emitters", FlagValue::Bool(false));
        set("xla_llvm_disable_expensive_passes", FlagValue::Bool(true));
        set("xla_backend_optimization_level", FlagValue::I64(0));
        self
    }

    /// Refuses numbers that would abort the plugin instead of making it report an error.
    pub(crate) fn check(&self) -> Result<()> {
        let devices = self.num_replicas.checked_mul(self.num_partitions).unwrap_or(0);
        if devices == 0 || i32::try_from(devices).is_err() {
            let (replicas, partitions) = (self.num_replicas, self.num_partitions);
            return Err(Error::Invalid(format!("cannot compile for {replicas} replicas of {partitions} partitions")));
        }
        let assigned = self.device_assignment.as_ref().map_or(devices, Vec::len);
        if assigned != devices {
            return Err(Error::Invalid(format!("{devices} devices are needed, {assigned} are assigned")));
        }
        if self.portable && devices > 1 {
            return Err(Error::Invalid("a portable program runs on one device".to_owned()));
        }
        Ok(())
    }

    /// The serialized `xla.CompileOptionsProto`, which has no place for `undivided`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let overrides = self.flags.iter().map(|(name, value)| (name.clone(), value.to_proto()));
        let proto = CompileOptionsProto {
            executable_build_options: Some(ExecutableBuildOptionsProto {
                device_ordinal: -1,
                num_replicas: self.num_replicas as i64,
                num_partitions: self.num_partitions as i64,
                use_spmd_partitioning: self.use_spmd_partitioning,
                device_assignment: self.device_assignment.as_deref().map(|ids| self.assignment(ids)),
                use_shardy_partitioner: self.use_shardy_partitioner,
            }),
            compile_portable_executable: self.portable,
            env_option_overrides: overrides.collect(),
        };
        proto.encode_to_vec()
    }

    /// Replica-major ids as the proto wants them: a list of replicas for each partition.
    fn assignment(&self, ids: &[i32]) -> DeviceAssignmentProto {
        let replicas_of = |partition: usize| ComputationDevice {
            replica_device_ids: ids
                .iter()
                .skip(partition)
                .step_by(self.num_partitions.max(1))
                .map(|&id| i64::from(id))
                .collect(),
        };
        DeviceAssignmentProto {
            replica_count: self.num_replicas as i32,
            computation_count: self.num_partitions as i32,
            computation_devices: (0..self.num_partitions).map(replicas_of).collect(),
        }
    }
}

impl FlagValue {
    fn to_proto(&self) -> OptionOverrideProto {
        let value = match self {
            FlagValue::String(text) => OptionValue::String(text.clone()),
            FlagValue::Bool(flag) => OptionValue::Bool(*flag),
            FlagValue::I64(number) => OptionValue::I64(*number),
            FlagValue::F64(number) => OptionValue::F64(*number),
        };
        OptionOverrideProto { value: Some(value) }
    }
}

#[derive(Clone, PartialEq, Message)]
struct CompileOptionsProto {
    #[prost(message, optional, tag = "3")]
    executable_build_options: Option<ExecutableBuildOptionsProto>,
    #[prost(bool, tag = "4")]
    compile_portable_executable: bool,
    #[prost(btree_map = "string, message", tag = "7")]
    env_option_overrides: BTreeMap<String, OptionOverrideProto>,
}

#[derive(Clone, PartialEq, Message)]
struct ExecutableBuildOptionsProto {
    #[prost(int64, tag = "1")]
    device_ordinal: i64,
    #[prost(int64, tag = "4")]
    num_replicas: i64,
    #[prost(int64, tag = "5")]
    num_partitions: i64,
    #[prost(bool, tag = "6")]
    use_spmd_partitioning: bool,
    #[prost(message, optional, tag = "9")]
    device_assignment: Option<DeviceAssignmentProto>,
    #[prost(bool, tag = "19")]
    use_shardy_partitioner: bool,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceAssignmentProto {
    #[prost(int32, tag = "1")]
    replica_count: i32,
    #[prost(int32, tag = "2")]
    computation_count: i32,
    #[prost(message, repeated, tag = "3")]
    computation_devices: Vec<ComputationDevice>,
}

#[derive(Clone, PartialEq, Message)]
struct ComputationDevice {
    #[prost(int64, repeated, tag = "1")]
    replica_device_ids: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct OptionOverrideProto {
    #[prost(oneof = "OptionValue", tags = "1, 2, 3, 4")]
    value: Option<OptionValue>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OptionValue {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    I64(i64),
    #[prost(double, tag = "4")]
    F64(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_options_give_equal_bytes() {
        let flags = [("b", FlagValue::I64(2)), ("a", FlagValue::Bool(true)), ("c", FlagValue::F64(0.5))];
        let build = |order: [usize; 3]| {
            let mut options = CompileOptions::default();
            options.flags.extend(order.map(|index| (flags[index].0.to_owned(), flags[index].1.clone())));
            options.to_bytes()
        };
        assert_eq!(build([0, 1, 2]), build([2, 1, 0]));
    }

    #[test]
    fn impossible_device_counts_are_refused() {
        let check = |num_replicas, num_partitions, ids: Option<Vec<i32>>| {
            let options = CompileOptions { num_replicas, num_partitions, device_assignment: ids, ..Default::default() };
            options.check().map_err(|error| error.to_string())
        };
        assert_eq!(check(2, 1, Some(vec![0, 1])), Ok(()));
        assert_eq!(check(2, 1, Some(vec![0])), Err("2 devices are needed, 1 are assigned".to_owned()));
        assert!(check(0, 1, None).is_err() && check(usize::MAX, 2, None).is_err());
    }

    #[test]
    fn device_ids_are_grouped_by_partition() {
        let options = CompileOptions { num_replicas: 2, num_partitions: 3, ..CompileOptions::default() };
        let assignment = options.assignment(&[0, 1, 2, 3, 4, 5]);
        let groups: Vec<_> = assignment.computation_devices.into_iter().map(|it| it.replica_device_ids).collect();
        assert_eq!(groups, [[0, 3], [1, 4], [2, 5]]);
    }
}
