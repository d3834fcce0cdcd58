//! Results of which some extents are data: the counts are read back, and the padding is cut off.

use crate::cells::{Held, Origin};
use crate::core::{Core, Made};
use crate::error::{Error, Result};
use crate::plan::New;
use std::sync::Arc;

impl Core {
    /// Results with the counts that `asked` holds, read back. New storages do not outlive a failure.
    pub(crate) fn with_counts(
        &self,
        made: Vec<Option<Made>>,
        asked: Option<(Arc<Held>, usize)>,
        origin: Origin,
        device: usize,
    ) -> Result<(Vec<Option<Made>>, Vec<i64>)> {
        let Some((held, count)) = asked else { return Ok((made, vec![])) };
        self.count_sizes_read(origin);
        let counts = self.read_counts(&held, count, origin, device);
        let counts = counts.inspect_err(|_| made.iter().flatten().for_each(|m| self.cell_drop(m.cell)))?;
        Ok((made, counts))
    }

    fn read_counts(&self, held: &Held, count: usize, origin: Origin, device: usize) -> Result<Vec<i64>> {
        let mut bytes = vec![0; count * size_of::<i64>()];
        self.read(held, &mut bytes, origin, device)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|&word| i64::from_le_bytes(word)).collect())
    }

    /// The results, each cut along the dimensions that `cuts` names.
    pub(crate) fn cut(
        &self,
        mut made: Vec<Option<Made>>,
        cuts: &[(usize, usize)],
        counts: &[i64],
        device: usize,
    ) -> Result<Vec<Option<Made>>> {
        for (index, result) in made.iter_mut().enumerate() {
            let Some(result) = result else { continue };
            let Some(new) = result.described() else { continue };
            let mut sizes = new.sizes.clone();
            for ((_, dim), count) in cuts.iter().zip(counts).filter(|((r, _), _)| *r == index) {
                sizes[*dim] = sizes[*dim].min(*count);
            }
            if sizes != new.sizes {
                self.cut_one(result, &sizes, device)?;
            }
        }
        Ok(made)
    }

    /// Cuts a new tensor down to `sizes`, in a value of its own.
    fn cut_one(&self, made: &mut Made, sizes: &[i64], device: usize) -> Result<()> {
        let (ty, value) = {
            let state = self.lock();
            let cell = state.cells.get(made.cell)?;
            (state.cells.ty(cell.ty).cloned(), cell.value.clone())
        };
        let (Some(ty), Some(value)) = (ty, value) else { return Err(Error::internal("a result without a value")) };
        let sizes: ir::Shape = sizes.iter().map(|&n| n as usize).collect();
        let (held, next) = self.cut_down(&value, &ty, sizes, device)?;
        let mut state = self.lock();
        let new = New::of(&next, state.cells.intern(next.clone()));
        made.address = state.cells.resize(made.cell, new.nbytes)?;
        let cell = state.cells.get_mut(made.cell)?;
        cell.ty = new.ty;
        let _padded = cell.value.replace(held);
        made.cut = Some(new);
        Ok(())
    }
}
