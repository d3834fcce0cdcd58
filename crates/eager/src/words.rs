//! Calls as words, as the shim writes them (csrc/abi.h says how): reading them back.

use crate::error::{Error, Result};
use ir::alias::{Layout, Strides};
use ir::eager::{CellType, Given, Tensor};
use ir::ops::{Arg, MemoryFormat, Scalar};
use ir::symbol::Sym;
use ir::{DType, Number, Precision, Shape};
use std::sync::Arc;

/// The low bytes of words: `TpuTag`.
mod tag {
    pub(super) const NONE: u8 = 0;
    pub(super) const TENSOR: u8 = 1;
    pub(super) const INT: u8 = 2;
    pub(super) const BOOL: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const LIFTED: u8 = 5;
    pub(super) const COMPLEX: u8 = 6;
    pub(super) const STRING: u8 = 7;
    pub(super) const DTYPE: u8 = 8;
    pub(super) const DEVICE: u8 = 9;
    pub(super) const LAYOUT: u8 = 10;
    pub(super) const MEMORY_FORMAT: u8 = 11;
    pub(super) const LIST: u8 = 12;
    pub(super) const HOST: u8 = 13;
}

/// The words of a call.
pub(crate) struct Reader<'a> {
    words: &'a [u64],
    at: usize,
    scalars: &'a [u64],
    next_scalar: usize,
}

/// The first word.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) op: u32,
    pub(crate) default_dtype: DType,
    pub(crate) precision: Precision,
}

impl Header {
    pub(crate) fn of(words: &[u64]) -> Result<Header> {
        let &first = words.first().ok_or_else(short)?;
        let precision = match (first >> 40) as u8 {
            0 => Precision::Highest,
            1 => Precision::High,
            _ => Precision::Default,
        };
        Ok(Header { op: first as u32, default_dtype: dtype((first >> 32) as u8)?, precision })
    }
}

/// One argument as it stands in the words, its tensors not yet placed.
pub(crate) enum Word {
    Tensor { slot: usize, dtype: DType, layout: Layout },
    Host { dtype: DType, sym: Sym, wrapped: bool },
    List(Vec<Word>),
    Plain(Arg<'static>),
}

impl<'a> Reader<'a> {
    pub(crate) fn new(words: &'a [u64], scalars: &'a [u64]) -> Reader<'a> {
        Reader { words, at: 1, scalars, next_scalar: 0 }
    }

    fn next(&mut self) -> Result<u64> {
        let word = *self.words.get(self.at).ok_or_else(short)?;
        self.at += 1;
        Ok(word)
    }

    pub(crate) fn argument(&mut self) -> Result<Word> {
        let word = self.next()?;
        let plain = |arg| Ok(Word::Plain(arg));
        let number = |n| plain(Arg::Scalar(Scalar::Known(n)));
        match word as u8 {
            tag::NONE => plain(Arg::None),
            tag::TENSOR => self.tensor(word),
            tag::INT => number(Number::Int(self.next()? as i64)),
            tag::BOOL => number(Number::Bool(word >> 8 != 0)),
            tag::FLOAT => number(Number::Float(f64::from_bits(self.next()?))),
            tag::LIFTED => plain(Arg::Scalar(Scalar::Symbolic(self.lifted(word >> 8 != 0)?))),
            tag::COMPLEX => {
                let (re, im) = (self.next()?, self.next()?);
                number(Number::Complex(f64::from_bits(re), f64::from_bits(im)))
            }
            tag::STRING => self.string((word >> 8) as usize).map(|s| Word::Plain(Arg::Str(s))),
            tag::DTYPE => plain(Arg::DType(dtype((word >> 8) as u8)?)),
            tag::DEVICE => plain(Arg::Device("tpu".into())),
            tag::LAYOUT => plain(Arg::Strided),
            tag::MEMORY_FORMAT => plain(Arg::MemoryFormat(memory_format(word >> 8)?)),
            tag::LIST => (0..word >> 8).map(|_| self.argument()).collect::<Result<_>>().map(Word::List),
            tag::HOST => {
                let (dtype, float, wrapped) = (dtype((word >> 8) as u8)?, word >> 16 & 1 == 1, word >> 17 & 1 == 1);
                Ok(Word::Host { dtype, sym: self.lifted(float)?, wrapped })
            }
            tag => Err(Error::internal(format!("unknown tag {tag} in a call"))),
        }
    }

    fn tensor(&mut self, word: u64) -> Result<Word> {
        let (rank, slot) = ((word >> 16 & 0xffff) as usize, (word >> 32) as usize);
        let offset = self.next()? as usize;
        let sizes = (0..rank).map(|_| self.next().map(|n| n as usize)).collect::<Result<Shape>>()?;
        let strides = (0..rank).map(|_| self.next().map(|n| n as usize)).collect::<Result<Strides>>()?;
        Ok(Word::Tensor { slot, dtype: dtype((word >> 8) as u8)?, layout: Layout { sizes, strides, offset } })
    }

    fn lifted(&mut self, float: bool) -> Result<Sym> {
        let bits = *self.scalars.get(self.next_scalar).ok_or_else(short)?;
        let name: Arc<str> = format!("s{}", self.next_scalar).into();
        self.next_scalar += 1;
        let value = if float { Number::Float(f64::from_bits(bits)) } else { Number::Int(bits as i64) };
        Ok(Sym { expr: name.clone(), free: [name].into(), value })
    }

    fn string(&mut self, length: usize) -> Result<Arc<str>> {
        let mut bytes = vec![];
        for _ in 0..length.div_ceil(8) {
            bytes.extend(self.next()?.to_le_bytes());
        }
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into())
    }
}

/// The scalar that a symbol made by [`Reader`] stands for.
pub(crate) fn scalar_of(symbol: &str) -> Result<usize> {
    symbol.strip_prefix('s').and_then(|n| n.parse().ok()).ok_or_else(|| Error::internal("a symbol nobody made"))
}

impl Word {
    pub(crate) fn tensor(self) -> Result<Option<Tensor>> {
        match self {
            Word::Tensor { slot, layout, .. } => Ok(Some(Tensor::View(slot, layout))),
            Word::Host { dtype, sym, .. } => Ok(Some(Tensor::Host(dtype, sym))),
            Word::Plain(Arg::None) => Ok(None),
            _ => Err(Error::internal("a tensor was expected")),
        }
    }

    /// As the argument of a parameter that takes tensors, or does not.
    pub(crate) fn given(self, tensors: bool) -> Result<Given> {
        match self {
            // A Python number where a tensor stands: a number again, which in promotion counts least. So does a truth value,
            // which has to stay one.
            Word::Host { sym, wrapped: true, dtype } if dtype != DType::Bool => {
                Ok(Given::Plain(Arg::Scalar(Scalar::Symbolic(sym))))
            }
            Word::Tensor { .. } | Word::Host { .. } => match self.tensor()? {
                Some(t) => Ok(Given::Tensor(t)),
                None => Ok(Given::Plain(Arg::None)),
            },
            Word::List(words) if tensors => {
                Ok(Given::Tensors(words.into_iter().map(Word::tensor).collect::<Result<_>>()?))
            }
            Word::List(words) => {
                let scalars = words.into_iter().map(|w| match w {
                    Word::Plain(Arg::Scalar(s)) => Ok(s),
                    _ => Err(Error::internal("a list holds more than numbers")),
                });
                Ok(Given::Plain(Arg::Scalars(scalars.collect::<Result<_>>()?)))
            }
            Word::Plain(arg) => Ok(Given::Plain(arg)),
        }
    }
}

/// The words of a call that takes tensors, by slot and type, and leaves other arguments out.
pub(crate) fn write(op: u32, arguments: &[Option<(usize, &CellType)>]) -> Vec<u64> {
    const F32: u64 = 6; // the default element type, which copies do not look at
    let mut words = vec![u64::from(op) | F32 << 32];
    for argument in arguments {
        let Some((slot, CellType { dtype, layout })) = argument else {
            words.push(tag::NONE.into());
            continue;
        };
        let (code, rank) = (dtype_code(*dtype) as u64, layout.sizes.len() as u64);
        words.extend([u64::from(tag::TENSOR) | code << 8 | rank << 16 | (*slot as u64) << 32, layout.offset as u64]);
        words.extend(layout.sizes.iter().chain(&layout.strides).map(|&n| n as u64));
    }
    words
}

fn short() -> Error {
    Error::internal("a call ends too early")
}

/// c10's numbers of element types, in [`DType`]'s order.
const DTYPES: [(u8, DType); 17] = {
    use DType::*;
    [
        (0, U8),
        (1, I8),
        (2, I16),
        (3, I32),
        (4, I64),
        (5, F16),
        (6, F32),
        (7, F64),
        (9, C64),
        (10, C128),
        (11, Bool),
        (15, BF16),
        (23, F8E5M2),
        (24, F8E4M3FN),
        (27, U16),
        (28, U32),
        (29, U64),
    ]
};

/// What c10 numbers so, and has no counterpart here, as Python calls it.
const UNSUPPORTED: &[(u8, &str)] = &[
    (8, "torch.complex32"),
    (12, "torch.qint8"),
    (13, "torch.quint8"),
    (14, "torch.qint32"),
    (16, "torch.quint4x2"),
    (17, "torch.quint2x4"),
    (18, "torch.bits1x8"),
    (19, "torch.bits2x4"),
    (20, "torch.bits4x2"),
    (21, "torch.bits8"),
    (22, "torch.bits16"),
    (25, "torch.float8_e5m2fnuz"),
    (26, "torch.float8_e4m3fnuz"),
    (30, "torch.uint1"),
    (31, "torch.uint2"),
    (32, "torch.uint3"),
    (33, "torch.uint4"),
    (34, "torch.uint5"),
    (35, "torch.uint6"),
    (36, "torch.uint7"),
    (37, "torch.int1"),
    (38, "torch.int2"),
    (39, "torch.int3"),
    (40, "torch.int4"),
    (41, "torch.int5"),
    (42, "torch.int6"),
    (43, "torch.int7"),
    (44, "torch.float8_e8m0fnu"),
    (45, "torch.float4_e2m1fn_x2"),
    (46, "torch.bcomplex32"),
];

/// The element type that c10 numbers so.
pub(crate) fn dtype(code: u8) -> Result<DType> {
    let known = DTYPES.iter().find(|(c, _)| *c == code).map(|(_, d)| *d);
    known.ok_or_else(|| {
        let named = UNSUPPORTED.iter().find(|(c, _)| *c == code).map_or("this element type", |(_, name)| name);
        Error::not_implemented(format!("tensors of {named} are not supported on \"tpu\""))
    })
}

/// c10's number of an element type.
pub(crate) fn dtype_code(dtype: DType) -> i32 {
    DTYPES.iter().find(|(_, d)| *d == dtype).map_or(-1, |(c, _)| i32::from(*c))
}

fn memory_format(code: u64) -> Result<MemoryFormat> {
    match code {
        0 => Ok(MemoryFormat::Contiguous),
        1 => Ok(MemoryFormat::Preserve),
        2 => Ok(MemoryFormat::ChannelsLast),
        3 => Ok(MemoryFormat::ChannelsLast3d),
        _ => Err(Error::internal(format!("{code} is no memory format"))),
    }
}

#[cfg(test)]
mod tests {
    use super::tag;

    #[test]
    fn tags_are_those_of_the_header() {
        let header = include_str!("../../../csrc/abi.h");
        let defined = |name: &str| -> u8 {
            let (_, rest) = header.split_once(&format!("  TPU_{name} = ")).expect(name);
            rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).expect(name)
        };
        for (name, value) in [
            ("NONE", tag::NONE),
            ("TENSOR", tag::TENSOR),
            ("INT", tag::INT),
            ("BOOL", tag::BOOL),
            ("FLOAT", tag::FLOAT),
            ("LIFTED", tag::LIFTED),
            ("COMPLEX", tag::COMPLEX),
            ("STRING", tag::STRING),
            ("DTYPE", tag::DTYPE),
            ("DEVICE", tag::DEVICE),
            ("LAYOUT", tag::LAYOUT),
            ("MEMORY_FORMAT", tag::MEMORY_FORMAT),
            ("LIST", tag::LIST),
            ("HOST", tag::HOST),
        ] {
            assert_eq!(value, defined(name), "{name}");
        }
    }
}
