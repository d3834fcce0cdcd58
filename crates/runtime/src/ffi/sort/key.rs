//! Keys as numbers in whose order they are.

use super::super::scratch::Plain;

/// Leading bits by which a selection leaves out most of a lane before it compares.
pub(super) const LEADING: u32 = 11;

/// A type of keys.
pub(in crate::ffi) trait Key {
    /// As it lies in memory.
    type Raw: Plain + Send + Sync + 'static;
    /// A rank and a place.
    type Entry: Entry;

    /// An unsigned number, in whose order keys are.
    fn rank(raw: Self::Raw) -> <Self::Entry as Entry>::Rank;

    /// The same with NaN first.
    #[inline(always)]
    fn rank_behind_nan(raw: Self::Raw) -> <Self::Entry as Entry>::Rank {
        Self::rank(raw)
    }
}

/// Bytes of a place.
pub(super) const PLACE: usize = 4;

/// A rank above a place.
pub(in crate::ffi) trait Entry: Plain + Ord + 'static {
    type Rank: Copy + Ord;
    /// Its bytes, of which the first [`PLACE`] are the place.
    const DIGITS: usize;

    fn new(rank: Self::Rank, place: usize) -> Self;
    fn rank(self) -> Self::Rank;
    fn place(self) -> usize;
    /// One of its bytes, the least significant first.
    fn digit(self, which: usize) -> usize;
    /// The rank's leading bits.
    fn leading(rank: Self::Rank) -> usize;
    fn reversed(rank: Self::Rank) -> Self::Rank;
}

macro_rules! entry {
    ($T:ident, $Rank:ident) => {
        impl Entry for $T {
            type Rank = $Rank;
            const DIGITS: usize = PLACE + size_of::<$Rank>();

            #[inline(always)]
            fn new(rank: $Rank, place: usize) -> $T {
                $T::from(rank) << (8 * PLACE) | place as $T
            }
            #[inline(always)]
            fn rank(self) -> $Rank {
                (self >> (8 * PLACE)) as $Rank
            }
            #[inline(always)]
            fn place(self) -> usize {
                self as u32 as usize
            }
            #[inline(always)]
            fn digit(self, which: usize) -> usize {
                (self >> (8 * which)) as u8 as usize
            }
            #[inline(always)]
            fn leading(rank: $Rank) -> usize {
                (rank >> ($Rank::BITS - LEADING)) as usize
            }
            #[inline(always)]
            fn reversed(rank: $Rank) -> $Rank {
                !rank
            }
        }
    };
}

entry!(u64, u32);
entry!(u128, u64);

/// Keys that are unsigned.
pub(in crate::ffi) struct Unsigned<T>(T);
/// Keys that are signed.
pub(in crate::ffi) struct Signed<T>(T);
/// Keys that are floats, the bits of whose infinity are these.
pub(in crate::ffi) struct Float<T, const INFINITY: u64>(T);

macro_rules! keys {
    ($Raw:ident, $Rank:ident, $Entry:ident) => {
        impl Key for Unsigned<$Raw> {
            type Raw = $Raw;
            type Entry = $Entry;

            #[inline(always)]
            fn rank(raw: $Raw) -> $Rank {
                $Rank::from(raw) << ($Rank::BITS - $Raw::BITS)
            }
        }

        impl Key for Signed<$Raw> {
            type Raw = $Raw;
            type Entry = $Entry;

            #[inline(always)]
            fn rank(raw: $Raw) -> $Rank {
                Unsigned::<$Raw>::rank(raw ^ (1 << ($Raw::BITS - 1)))
            }
        }

        impl<const INFINITY: u64> Key for Float<$Raw, INFINITY> {
            type Raw = $Raw;
            type Entry = $Entry;

            #[inline(always)]
            fn rank(raw: $Raw) -> $Rank {
                let sign = 1 << ($Raw::BITS - 1);
                let size = raw & !sign;
                let turned = if raw == size { raw | sign } else { !raw };
                // Zeros are equal whatever their sign, and so are all NaNs.
                let rank = if size == 0 { sign } else { turned };
                Unsigned::<$Raw>::rank(if u64::from(size) > INFINITY { $Raw::MAX } else { rank })
            }

            // No other rank is this, or follows it.
            #[inline(always)]
            fn rank_behind_nan(raw: $Raw) -> $Rank {
                Self::rank(raw).wrapping_add(1 << ($Rank::BITS - $Raw::BITS))
            }
        }
    };
}

keys!(u8, u32, u64);
keys!(u16, u32, u64);
keys!(u32, u32, u64);
keys!(u64, u64, u128);
