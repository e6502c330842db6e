//! Recurrent networks: the size of their weights, and the address of each matrix.

use std::ffi::c_int;

use super::descriptors::{TENSORS, Tensor};
use crate::handles::Objects;
use crate::machine::machine;
use crate::out::Out;
use crate::state::Noticed;
use crate::status::{Answer, Refusal};

/// The arguments of `cudnnSetRNNDescriptor_v8`.
#[derive(Debug, Clone, Copy)]
struct Rnn {
    /// Matrices per layer: 2 for a plain cell, 8 for an LSTM, 6 for a GRU; one more with a projection.
    matrices: usize,
    /// Each matrix has a bias.
    has_bias: bool,
    directions: usize,
    input_size: usize,
    hidden_size: usize,
    /// 0 without a projection.
    projection: usize,
    layers: usize,
    kind: c_int,
}

/// Sequence length and batch size.
type Data = (usize, usize);

static RNNS: Objects<Rnn> = Objects::new();
static DATA: Objects<Data> = Objects::new();

/// Bytes per element, by `cudnnDataType_t`.
fn element_size(kind: c_int) -> usize {
    match kind {
        // Half precision and bfloat16.
        2 | 9 => 2,
        // Double precision.
        1 => 8,
        _ => 4,
    }
}

impl Rnn {
    fn of(descriptor: usize) -> Result<Self, Refusal> {
        RNNS.with(descriptor, |rnn| *rnn)
    }

    /// Elements of a cell's output.
    fn output_size(&self) -> usize {
        if self.projection > 0 { self.projection } else { self.hidden_size }
    }

    /// Rows and columns of matrix `which` of a pseudo layer. The first half of the matrices takes the input, the second the
    /// hidden state.
    fn shape(&self, layer: usize, which: usize) -> (usize, usize) {
        let first = layer < self.directions;
        let gates = self.gate_matrices();
        if which >= gates {
            (self.projection, self.hidden_size)
        } else if which >= gates / 2 {
            (self.hidden_size, self.output_size())
        } else if first {
            (self.hidden_size, self.input_size)
        } else {
            (self.hidden_size, self.output_size() * self.directions)
        }
    }

    fn gate_matrices(&self) -> usize {
        self.matrices - usize::from(self.projection > 0)
    }

    fn matrix_elements(&self, layer: usize) -> usize {
        (0..self.matrices).map(|which| self.shape(layer, which)).map(|(rows, columns)| rows * columns).sum()
    }

    fn bias_elements(&self) -> usize {
        if self.has_bias { self.gate_matrices() * self.hidden_size } else { 0 }
    }

    fn pseudo_layers(&self) -> usize {
        self.layers * self.directions
    }

    fn bytes(&self) -> usize {
        let matrices: usize = (0..self.pseudo_layers()).map(|layer| self.matrix_elements(layer)).sum();
        (matrices + self.pseudo_layers() * self.bias_elements()) * element_size(self.kind)
    }
}

#[allow(clippy::too_many_arguments, reason = "the library's signature")]
pub(crate) fn set(
    descriptor: usize,
    _algorithm: c_int,
    cell: c_int,
    bias: c_int,
    direction: c_int,
    _input: c_int,
    kind: c_int,
    _precision: c_int,
    _math: c_int,
    input_size: c_int,
    hidden_size: c_int,
    projection: c_int,
    layers: c_int,
) -> Answer {
    let size = |n: c_int| usize::try_from(n).map_err(|_| Refusal::InvalidValue);
    let (hidden_size, projection) = (size(hidden_size)?, size(projection)?);
    // Without a projection, cuDNN passes the hidden size.
    let projection = if projection == hidden_size { 0 } else { projection };
    let gates = match cell {
        2 => 8,
        3 => 6,
        _ => 2,
    };
    let rnn = Rnn {
        matrices: gates + usize::from(projection > 0),
        has_bias: bias != 0,
        directions: if direction == 1 { 2 } else { 1 },
        input_size: size(input_size)?,
        hidden_size,
        projection,
        layers: size(layers)?,
        kind,
    };
    RNNS.put(descriptor, rnn);
    Ok(())
}

pub(crate) fn set_data(
    descriptor: usize,
    _kind: c_int,
    _layout: c_int,
    length: c_int,
    batch: c_int,
) -> Answer {
    let size = |n: c_int| usize::try_from(n).map_err(|_| Refusal::InvalidValue);
    DATA.put(descriptor, (size(length)?, size(batch)?));
    Ok(())
}

pub(crate) fn weight_size(_handle: usize, descriptor: usize, size: Out<usize>) -> Answer {
    size.set(Rnn::of(descriptor)?.bytes())
}

/// A model: training keeps the value of every gate at every step; the work space has the size of one layer.
pub(crate) fn temporary_sizes(
    _handle: usize,
    descriptor: usize,
    mode: c_int,
    data: usize,
    work: Out<usize>,
    reserve: Out<usize>,
) -> Answer {
    /// `CUDNN_FWD_MODE_TRAINING`.
    const TRAINING: c_int = 1;
    let rnn = Rnn::of(descriptor)?;
    machine().notice(Noticed::Modeled, "memory of recurrent networks");
    let (length, batch) = DATA.with(data, |data| *data)?;
    let layer = length * batch * rnn.hidden_size * (rnn.gate_matrices() / 2 + 1) * element_size(rnn.kind);
    work.set_if_wanted(layer * rnn.directions);
    reserve.set_if_wanted(if mode == TRAINING { layer * rnn.pseudo_layers() } else { 0 });
    Ok(())
}

/// Returns the addresses of a matrix and its bias in the weight space: the matrices of all layers first, then all biases.
#[allow(clippy::too_many_arguments, reason = "the library's signature")]
pub(crate) fn weights(
    _handle: usize,
    descriptor: usize,
    layer: c_int,
    _size: usize,
    space: u64,
    which: c_int,
    matrix: usize,
    matrix_at: Out<u64>,
    bias: usize,
    bias_at: Out<u64>,
) -> Answer {
    let rnn = Rnn::of(descriptor)?;
    let (layer, which) = (layer.max(0) as usize, which.max(0) as usize);
    let bytes = element_size(rnn.kind);
    if which >= rnn.matrices {
        matrix_at.set_if_wanted(0);
        bias_at.set_if_wanted(0);
        return Ok(());
    }
    let before = |layer: usize| (0..layer).map(|l| rnn.matrix_elements(l)).sum::<usize>();
    let elements = |which: usize| (0..which).map(|w| rnn.shape(layer, w)).map(|(r, c)| r * c).sum::<usize>();
    let (rows, columns) = rnn.shape(layer, which);
    let describe = |rows: usize, columns: usize| Tensor {
        kind: rnn.kind,
        sizes: vec![1, rows as c_int, columns as c_int],
        strides: vec![(rows * columns) as c_int, columns as c_int, 1],
        ..Tensor::default()
    };
    TENSORS.put(matrix, describe(rows, columns));
    matrix_at.set_if_wanted(space + ((before(layer) + elements(which)) * bytes) as u64);
    if rnn.has_bias && which < rnn.gate_matrices() {
        let biases = before(rnn.pseudo_layers()) + layer * rnn.bias_elements() + which * rnn.hidden_size;
        TENSORS.put(bias, describe(rnn.hidden_size, 1));
        bias_at.set_if_wanted(space + (biases * bytes) as u64);
    } else {
        bias_at.set_if_wanted(0);
    }
    Ok(())
}
