//! The functions with a handle that choose the algorithm of a convolution, as PyTorch calls them with `TORCH_CUDNN_V8_API_DISABLED=1`. A
//! model: the workspace is that of the first engine for the same convolution as a graph.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex};

use super::descriptors::{TENSORS, Tensor, numbers};
use super::own::{Own, cudnn};
use crate::handles::Objects;
use crate::machine::{lock, machine};
use crate::out::Out;
use crate::state::Noticed;
use crate::status::Answer;
use crate::threads::current_device;

/// The contents of a convolution's descriptor.
#[derive(Debug, Clone, Default)]
struct Convolution {
    padding: Vec<c_int>,
    stride: Vec<c_int>,
    dilation: Vec<c_int>,
    mode: c_int,
    /// The type in which it computes.
    kind: c_int,
}

static CONVOLUTIONS: Objects<Convolution> = Objects::new();

/// The mathematics that each convolution may use (`cudnnMathType_t`).
static MATHEMATICS: Objects<c_int> = Objects::new();

/// No tensor cores: `CUDNN_FMA_MATH`.
const FMA: c_int = 3;

/// `cudnnSetConvolutionMathType`.
pub(crate) fn set_math(descriptor: usize, math: c_int) -> Answer {
    MATHEMATICS.put(descriptor, math);
    Ok(())
}

fn math_of(descriptor: usize) -> c_int {
    MATHEMATICS.with(descriptor, |math| *math).unwrap_or(0)
}

/// `cudnnSetConvolutionNdDescriptor`. The number of groups follows from the sizes of the filter.
pub(crate) fn set(
    descriptor: usize,
    dimensions: c_int,
    padding: *const c_int,
    stride: *const c_int,
    dilation: *const c_int,
    mode: c_int,
    kind: c_int,
) -> Answer {
    let numbers = |at| numbers(at, dimensions);
    let (padding, stride, dilation) = (numbers(padding)?, numbers(stride)?, numbers(dilation)?);
    CONVOLUTIONS.put(descriptor, Convolution { padding, stride, dilation, mode, kind });
    Ok(())
}

/// What a convolution computes: the kind of its operation, and the first of its six attributes (cudnn_graph.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Direction {
    operation: c_int,
    first: c_int,
}

pub(crate) const FORWARD: Direction = Direction { operation: 10, first: 700 };
pub(crate) const BACKWARD_FILTER: Direction = Direction { operation: 11, first: 712 };
pub(crate) const BACKWARD_DATA: Direction = Direction { operation: 12, first: 706 };

/// The descriptors of the input or its gradient, the filter or its gradient, the convolution, and the output or its gradient.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operands {
    pub(crate) x: usize,
    pub(crate) w: usize,
    pub(crate) convolution: usize,
    pub(crate) y: usize,
}

/// `cudnnConvolutionFwdAlgoPerf_t` and its siblings.
#[repr(C)]
pub(crate) struct Algorithm {
    algorithm: c_int,
    status: c_int,
    milliseconds: f32,
    workspace: usize,
    is_deterministic: c_int,
    math: c_int,
    reserved: [c_int; 3],
}

/// Returns algorithm 1, which every convolution supports.
pub(crate) fn choose(
    direction: Direction,
    operands: Operands,
    wanted: c_int,
    found: Out<c_int>,
    results: Out<Algorithm>,
) -> Answer {
    if wanted > 0 {
        let workspace = workspace(direction, operands);
        results.set(Algorithm {
            algorithm: 1,
            status: 0,
            milliseconds: 1.0,
            workspace,
            is_deterministic: 1,
            math: math_of(operands.convolution),
            reserved: [0; 3],
        })?;
    }
    found.set(wanted.min(1))
}

/// Bytes of the workspace, and notes that they are a model, or left out.
pub(crate) fn workspace(direction: Direction, operands: Operands) -> usize {
    let bytes = cudnn().map_err(str::to_owned).and_then(|own| {
        first_workspace(own, direction, operands)
            .ok_or_else(|| "workspaces of convolutions that cuDNN refuses".to_owned())
    });
    match bytes {
        Ok(bytes) => {
            machine().notice(Noticed::Modeled, "algorithms of convolutions");
            bytes
        }
        Err(left_out) => {
            machine().notice(Noticed::LeftOut, &left_out);
            0
        }
    }
}

fn first_workspace(own: &'static Own, direction: Direction, operands: Operands) -> Option<usize> {
    static KNOWN: LazyLock<Mutex<HashMap<Vec<i64>, Option<usize>>>> = LazyLock::new(Mutex::default);
    let tensor = |descriptor| TENSORS.with(descriptor, |tensor| tensor.clone()).ok();
    let convolution = CONVOLUTIONS.with(operands.convolution, |convolution| convolution.clone()).ok()?;
    let tensors = [tensor(operands.w)?, tensor(operands.x)?, tensor(operands.y)?];
    let Convolution { padding, stride, dilation, mode, kind } = &convolution;
    let math = math_of(operands.convolution);
    let mut key = vec![direction.operation.into(), (*mode).into(), (*kind).into(), math.into()];
    key.push(current_device().ok()? as i64);
    let lists = [padding, stride, dilation];
    let of_tensors = tensors.iter().flat_map(|tensor| [&tensor.sizes, &tensor.strides]);
    for list in lists.into_iter().chain(of_tensors) {
        key.push(list.len() as i64);
        key.extend(list.iter().map(|&number| i64::from(number)));
    }
    key.extend(tensors.iter().flat_map(|tensor| [i64::from(tensor.kind), i64::from(tensor.format)]));
    if let Some(&known) = lock(&KNOWN).get(&key) {
        return known;
    }
    let bytes = Graph { own, made: Vec::new() }.first_workspace(direction, &convolution, math, &tensors);
    lock(&KNOWN).insert(key, bytes);
    bytes
}

// Kinds and attributes of descriptors, and types of attributes: cudnn_graph.h.
const DATA_TYPE: c_int = 1;
const INTEGER: c_int = 3;
const FLOAT: c_int = 4;
const DOUBLE: c_int = 5;
const CONVOLUTION_MODE: c_int = 7;
const HEURISTIC_MODE: c_int = 8;
const DESCRIPTOR: c_int = 15;

/// A value of an attribute.
enum Value<'a> {
    Enumeration(c_int, c_int),
    Integers(&'a [i64]),
    Float(f32),
    Double(f64),
    Descriptors(&'a [usize]),
}

/// The descriptors of a graph, which are destroyed with it.
struct Graph {
    own: &'static Own,
    made: Vec<usize>,
}

impl Drop for Graph {
    fn drop(&mut self) {
        for &descriptor in self.made.iter().rev() {
            self.own.destroy(descriptor);
        }
    }
}

impl Graph {
    fn create(&mut self, kind: c_int) -> Option<usize> {
        let mut descriptor = 0;
        (self.own.create(kind, &mut descriptor) == 0).then(|| self.made.push(descriptor))?;
        Some(descriptor)
    }

    fn make(&mut self, kind: c_int, attributes: &[(c_int, Value<'_>)]) -> Option<usize> {
        let descriptor = self.create(kind)?;
        for (name, value) in attributes {
            let (kind, count, at) = match value {
                Value::Enumeration(kind, value) => (*kind, 1, std::ptr::from_ref(value).cast()),
                Value::Integers(values) => (INTEGER, values.len(), values.as_ptr().cast()),
                Value::Float(value) => (FLOAT, 1, std::ptr::from_ref(value).cast()),
                Value::Double(value) => (DOUBLE, 1, std::ptr::from_ref(value).cast()),
                Value::Descriptors(values) => (DESCRIPTOR, values.len(), values.as_ptr().cast()),
            };
            (self.own.set(descriptor, *name, kind, count as i64, at) == 0).then_some(())?;
        }
        (self.own.finalize(descriptor) == 0).then_some(descriptor)
    }

    fn tensor(&mut self, id: i64, tensor: &Tensor) -> Option<usize> {
        let wide = |numbers: &[c_int]| numbers.iter().map(|&n| i64::from(n)).collect::<Vec<_>>();
        let sizes = wide(&tensor.sizes);
        let strides = if tensor.strides.is_empty() { filter_strides(tensor) } else { wide(&tensor.strides) };
        self.make(
            17,
            &[
                (901, Value::Enumeration(DATA_TYPE, tensor.kind)),
                (902, Value::Integers(&sizes)),
                (903, Value::Integers(&strides)),
                (906, Value::Integers(&[id])),
                (900, Value::Integers(&[32])),
            ],
        )
    }

    fn first_workspace(
        &mut self,
        direction: Direction,
        convolution: &Convolution,
        math: c_int,
        tensors: &[Tensor; 3],
    ) -> Option<usize> {
        const DOUBLES: c_int = 1;
        /// Configurations to ask for.
        const MOST: usize = 8;
        let wide = |numbers: &[c_int]| numbers.iter().map(|&n| i64::from(n)).collect::<Vec<_>>();
        let (padding, stride) = (wide(&convolution.padding), wide(&convolution.stride));
        let dilation = wide(&convolution.dilation);
        let [w, x, y] =
            [self.tensor(0, &tensors[0])?, self.tensor(1, &tensors[1])?, self.tensor(2, &tensors[2])?];
        let settings = self.make(
            1,
            &[
                (100, Value::Enumeration(DATA_TYPE, convolution.kind)),
                (101, Value::Enumeration(CONVOLUTION_MODE, convolution.mode)),
                (102, Value::Integers(&dilation)),
                (103, Value::Integers(&stride)),
                (104, Value::Integers(&padding)),
                (105, Value::Integers(&padding)),
                (106, Value::Integers(&[padding.len() as i64])),
            ],
        )?;
        let number = |value: f32| {
            if tensors[1].kind == DOUBLES { Value::Double(value.into()) } else { Value::Float(value) }
        };
        let first = direction.first;
        let operation = self.make(
            direction.operation,
            &[
                (first, number(1.0)),
                (first + 1, number(0.0)),
                (first + 2, Value::Descriptors(&[settings])),
                (first + 3, Value::Descriptors(&[w])),
                (first + 4, Value::Descriptors(&[x])),
                (first + 5, Value::Descriptors(&[y])),
            ],
        )?;
        let graph = self.make(15, &[(801, Value::Descriptors(&[operation]))])?;
        let device = self.own.device();
        let heuristics = self.make(
            4,
            &[
                (201, Value::Descriptors(&[graph])),
                (200, Value::Enumeration(HEURISTIC_MODE, 0)),
                (204, Value::Descriptors(&[device])),
            ],
        )?;
        let mut configurations = [0usize; MOST];
        for configuration in &mut configurations {
            *configuration = self.create(3)?;
        }
        let mut found = 0;
        let at = configurations.as_mut_ptr().cast();
        let status = self.own.get(heuristics, 202, DESCRIPTOR, MOST as i64, &raw mut found, at);
        let found = if status == 0 { usize::try_from(found).ok()?.min(MOST) } else { 0 };
        configurations[..found].iter().find_map(|&configuration| {
            let bytes = usize::try_from(self.own.number(configuration, 303)?).ok()?;
            (math != FMA || !self.uses_tensor_cores(configuration)).then_some(bytes)
        })
    }

    /// Whether an engine has the numerical note `CUDNN_NUMERICAL_NOTE_TENSOR_CORE`, which is 0.
    fn uses_tensor_cores(&mut self, configuration: usize) -> bool {
        const NOTE: c_int = 11;
        let Some(mut engine) = self.create(2) else { return false };
        let (mut found, mut notes) = (0, [-1 as c_int; 16]);
        let at = (&raw mut engine).cast();
        let is_known = self.own.get(configuration, 300, DESCRIPTOR, 1, &raw mut found, at) == 0;
        let at = notes.as_mut_ptr().cast();
        is_known && self.own.get(engine, 1303, NOTE, 16, &raw mut found, at) == 0 && notes.contains(&0)
    }
}

/// The strides of a filter, in elements: its format is 1 if the channels are last.
fn filter_strides(filter: &Tensor) -> Vec<i64> {
    let count = filter.sizes.len();
    let axes: Vec<usize> = if filter.format == 1 {
        std::iter::once(0).chain(2..count).chain((count > 1).then_some(1)).collect()
    } else {
        (0..count).collect()
    };
    let mut strides = vec![0; count];
    let mut step = 1;
    for &axis in axes.iter().rev() {
        strides[axis] = step;
        step *= i64::from(filter.sizes[axis]);
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_of_a_filter_follow_its_format() {
        let of = |format| filter_strides(&Tensor { format, sizes: vec![8, 4, 3, 5], ..Tensor::default() });
        assert_eq!(of(0), [60, 15, 5, 1]);
        assert_eq!(of(1), [60, 1, 20, 4]);
    }
}
