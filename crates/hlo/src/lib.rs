//! XLA's optimized programs: their protos, as far as they are read here, and their text.
//!
//! A compiler hands its result over as an `HloModuleProto`, or as that with its configuration; a dump of it also says
//! where each value lies in memory (`HloProto`). Everything here comes from a plugin: ids may dangle, lists may be of
//! the wrong length, and whoever reads must not rely on anything but the types.

mod attributes;
pub mod primitive;
pub mod proto;
mod text;

use prost::Message;

pub use text::print;

/// The module in `bytes`: `format` is `hlo` (an `HloModuleProto`) or `hlo_with_config`.
///
/// # Errors
/// For other formats and for bytes that do not decode, in a few words.
pub fn decode(format: &str, bytes: &[u8]) -> Result<proto::HloModuleProto, String> {
    let decoded = match format {
        "hlo" => proto::HloModuleProto::decode(bytes),
        "hlo_with_config" => {
            proto::HloModuleProtoWithConfig::decode(bytes).map(|module| module.hlo_module.unwrap_or_default())
        }
        other => return Err(format!("its format is `{other}`")),
    };
    decoded.map_err(|error| error.to_string())
}

/// A module with its buffer assignment, as a compiler dumps it.
///
/// # Errors
/// For bytes that do not decode.
pub fn decode_dump(bytes: &[u8]) -> Result<proto::HloProto, String> {
    proto::HloProto::decode(bytes).map_err(|error| error.to_string())
}
