//! cuDNN 9.

use std::ffi::{c_char, c_int};

use crate::dnn::algorithms::{self, Algorithm, Operands};
use crate::dnn::{self, backend, descriptors, rnn};
use crate::launches;
use crate::machine::machine;
use crate::memory::accesses;
use crate::out::Out;
use crate::state::Noticed;
use crate::status::Answer;
use crate::texts;
use crate::version;

calls! {
    Cudnn;
    answer {
        cudnnSetStream(handle: usize, stream: usize) = launches::set_library_stream;
        cudnnGetProperty(which: c_int, value: Out<c_int>) = dnn::property;
        cudnnGetStream(handle: usize, stream: Out<usize>) = dnn::stream;
        cudnnBackendExecute(handle: usize, plan: usize, variant: usize) = execute;
        cudnnSetTensorNdDescriptor(descriptor: usize, kind: c_int, dimensions: c_int, sizes: *const c_int,
            strides: *const c_int) = descriptors::set_tensor;
        cudnnGetTensorNdDescriptor(descriptor: usize, wanted: c_int, kind: Out<c_int>, dimensions: Out<c_int>,
            sizes: *mut c_int, strides: *mut c_int) = descriptors::get_tensor;
        cudnnSetFilterNdDescriptor(descriptor: usize, kind: c_int, format: c_int, dimensions: c_int,
            sizes: *const c_int) = descriptors::set_filter;
        cudnnGetFilterNdDescriptor(descriptor: usize, wanted: c_int, kind: Out<c_int>, format: Out<c_int>,
            dimensions: Out<c_int>, sizes: *mut c_int) = descriptors::get_filter;
        cudnnSetRNNDescriptor_v8(descriptor: usize, algorithm: c_int, cell: c_int, bias: c_int, direction: c_int,
            input: c_int, kind: c_int, precision: c_int, math: c_int, input_size: c_int, hidden_size: c_int,
            projection: c_int, layers: c_int, dropout: usize) = set_rnn;
        cudnnSetRNNDataDescriptor(descriptor: usize, kind: c_int, layout: c_int, length: c_int, batch: c_int)
            = rnn::set_data;
        cudnnGetRNNWeightSpaceSize(handle: usize, descriptor: usize, size: Out<usize>) = rnn::weight_size;
        cudnnGetRNNTempSpaceSizes(handle: usize, descriptor: usize, mode: c_int, data: usize, work: Out<usize>,
            reserve: Out<usize>) = rnn::temporary_sizes;
        cudnnGetRNNWeightParams(handle: usize, descriptor: usize, layer: c_int, size: usize, space: u64,
            which: c_int, matrix: usize, matrix_at: Out<u64>, bias: usize, bias_at: Out<u64>) = rnn::weights;
        cudnnSetDropoutDescriptor(descriptor: usize, handle: usize, states: u64) = set_dropout;
        cudnnRestoreDropoutDescriptor(descriptor: usize, handle: usize, states: u64) = restore_dropout;
        cudnnDestroyDropoutDescriptor(descriptor: usize) = destroy;
        cudnnDestroyRNNDescriptor(descriptor: usize) = destroy;
        cudnnDropoutGetStatesSize(handle: usize, size: Out<usize>) = dnn::dropout_states;
        cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(handle: usize, mode: c_int, operations: c_int, x: usize,
            z: usize, y: usize, scale: usize, activation: usize, size: Out<usize>) = batch_norm_forward;
        cudnnGetBatchNormalizationBackwardExWorkspaceSize(handle: usize, mode: c_int, operations: c_int, x: usize,
            y: usize, dy: usize, dz: usize, dx: usize, scale: usize, activation: usize, size: Out<usize>)
            = batch_norm_backward;
        cudnnGetBatchNormalizationTrainingExReserveSpaceSize(handle: usize, mode: c_int, operations: c_int,
            activation: usize, x: usize, size: Out<usize>) = batch_norm_reserve;
        cudnnGetConvolutionForwardAlgorithm_v7(handle: usize, a: usize, b: usize, c: usize, d: usize, wanted: c_int,
            found: Out<c_int>, results: Out<Algorithm>) = forward;
        cudnnGetConvolutionBackwardDataAlgorithm_v7(handle: usize, a: usize, b: usize, c: usize, d: usize, wanted: c_int,
            found: Out<c_int>, results: Out<Algorithm>) = backward_data;
        cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle: usize, a: usize, b: usize, c: usize, d: usize, wanted: c_int,
            found: Out<c_int>, results: Out<Algorithm>) = backward_filter;
        cudnnFindConvolutionForwardAlgorithmEx(handle: usize, a: usize, at_a: u64, b: usize, at_b: u64, c: usize, d: usize,
            at_d: u64, wanted: c_int, found: Out<c_int>, results: Out<Algorithm>) = found_forward;
        cudnnFindConvolutionBackwardDataAlgorithmEx(handle: usize, a: usize, at_a: u64, b: usize, at_b: u64, c: usize, d: usize,
            at_d: u64, wanted: c_int, found: Out<c_int>, results: Out<Algorithm>) = found_backward_data;
        cudnnFindConvolutionBackwardFilterAlgorithmEx(handle: usize, a: usize, at_a: u64, b: usize, at_b: u64, c: usize, d: usize,
            at_d: u64, wanted: c_int, found: Out<c_int>, results: Out<Algorithm>) = found_backward_filter;
        cudnnGetConvolutionForwardWorkspaceSize(handle: usize, a: usize, b: usize, c: usize, d: usize, algorithm: c_int,
            size: Out<usize>) = forward_size;
        cudnnGetConvolutionBackwardDataWorkspaceSize(handle: usize, a: usize, b: usize, c: usize, d: usize, algorithm: c_int,
            size: Out<usize>) = backward_data_size;
        cudnnGetConvolutionBackwardFilterWorkspaceSize(handle: usize, a: usize, b: usize, c: usize, d: usize, algorithm: c_int,
            size: Out<usize>) = backward_filter_size;
        cudnnSetConvolutionMathType(descriptor: usize, math: c_int) = algorithms::set_math;
        cudnnSetConvolutionNdDescriptor(descriptor: usize, dimensions: c_int, padding: *const c_int, stride: *const c_int,
            dilation: *const c_int, mode: c_int, kind: c_int) = algorithms::set;
    }
    value {
        cudnnBackendCreateDescriptor(kind: c_int, descriptor: Out<usize>) -> c_int = backend::create;
        cudnnBackendDestroyDescriptor(descriptor: usize) -> c_int = backend::destroy;
        cudnnBackendSetAttribute(descriptor: usize, name: c_int, kind: c_int, count: i64, elements: *const u8) -> c_int
            = backend::set;
        cudnnBackendGetAttribute(descriptor: usize, name: c_int, kind: c_int, wanted: i64, count: Out<i64>,
            elements: *mut u8) -> c_int = backend::get;
        cudnnBackendFinalize(descriptor: usize) -> c_int = backend::finalize;
        cudnnGetVersion() -> usize = version::cudnn;
        cudnnGetCudartVersion() -> usize = version::cudnn_runtime;
        cudnnGetErrorString(status: c_int) -> *const c_char = texts::status_string;
        cudnnGetLastErrorString(message: Out<u8>, length: usize) -> () = dnn::last_error;
    }
    create {
        cudnnCreate cudnnCreateActivationDescriptor cudnnCreateCTCLossDescriptor cudnnCreateConvolutionDescriptor
        cudnnCreateDropoutDescriptor cudnnCreateFilterDescriptor cudnnCreatePoolingDescriptor
        cudnnCreateRNNDataDescriptor cudnnCreateRNNDescriptor cudnnCreateSpatialTransformerDescriptor
        cudnnCreateTensorDescriptor
    }
    zero {
        cudnnGetCTCLossWorkspaceSize[8: usize] cudnnGetCTCLossWorkspaceSize_v8[5: usize]
    }
    launch {
        [_ _ p p] cudnnSpatialTfGridGeneratorBackward cudnnSpatialTfGridGeneratorForward;
        [_ _ p _ p p _ p] cudnnPoolingForward;
        [_ _ p _ p p p _ p] cudnnSpatialTfSamplerForward;
        [_ _ p p p p p _ p _ _ p] cudnnCTCLoss;
        [_ _ _ _ p p p p p _ p _ p] cudnnCTCLoss_v8;
        [_ _ p p _ p _ p _ p p p p] cudnnBatchNormalizationForwardInference;
        [_ p _ p _ p _ _ p _ p _ p] cudnnConvolutionBackwardData cudnnConvolutionBackwardFilter
            cudnnConvolutionForward;
        [_ _ p _ p p _ p p _ p p p p] cudnnSpatialTfSamplerBackward;
        [_ p _ p _ p _ p _ p _ p _ p _ p] cudnnRNNBackwardWeights_v8;
        [_ p _ p _ p _ _ p _ p _ p _ p _ _ p] cudnnConvolutionBiasActivationForward;
        [_ p _ p _ p _ p _ p p _ p p _ p _ p _ p] cudnnRNNForward;
        [_ _ _ p p _ p _ p _ p _ p p p p p p _ p _ p] cudnnBatchNormalizationForwardTrainingEx;
        [_ p p _ p p _ p _ p p p _ p p p _ p _ p _ p] cudnnRNNBackwardData_v8;
        [_ _ _ p p p p _ p _ p _ p _ p _ p _ p p p p p p _ p _ p] cudnnBatchNormalizationBackwardEx;
    }
    succeed {
        cudnnBackendInitialize cudnnDestroy cudnnDestroyActivationDescriptor
        cudnnDestroyCTCLossDescriptor cudnnDestroyConvolutionDescriptor
        cudnnDestroyFilterDescriptor cudnnDestroyPoolingDescriptor cudnnDestroyRNNDataDescriptor
        cudnnDestroySpatialTransformerDescriptor cudnnDestroyTensorDescriptor
        cudnnSetActivationDescriptor cudnnSetCTCLossDescriptor
        cudnnSetCTCLossDescriptorEx cudnnSetCTCLossDescriptor_v9 cudnnSetConvolutionGroupCount
        cudnnSetPooling2dDescriptor cudnnSetSpatialTransformerNdDescriptor
    }
}

/// The functions that choose an algorithm in a direction. Their descriptors are in the order of the library's arguments.
macro_rules! direction {
    ($direction:expr, $operands:expr, $choose:ident $found:ident $size:ident) => {
        #[allow(clippy::too_many_arguments, reason = "the library's signature")]
        fn $choose(
            _handle: usize,
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            wanted: c_int,
            found: Out<c_int>,
            results: Out<Algorithm>,
        ) -> Answer {
            algorithms::choose($direction, $operands(a, b, c, d), wanted, found, results)
        }

        /// Measures nothing.
        #[allow(clippy::too_many_arguments, reason = "the library's signature")]
        fn $found(
            handle: usize,
            a: usize,
            _at_a: u64,
            b: usize,
            _at_b: u64,
            c: usize,
            d: usize,
            _at_d: u64,
            wanted: c_int,
            found: Out<c_int>,
            results: Out<Algorithm>,
        ) -> Answer {
            $choose(handle, a, b, c, d, wanted, found, results)
        }

        fn $size(
            _handle: usize,
            a: usize,
            b: usize,
            c: usize,
            d: usize,
            _algorithm: c_int,
            size: Out<usize>,
        ) -> Answer {
            size.set(algorithms::workspace($direction, $operands(a, b, c, d)))
        }
    };
}

direction!(
    algorithms::FORWARD,
    |x, w, convolution, y| Operands { x, w, convolution, y },
    forward found_forward forward_size
);
direction!(
    algorithms::BACKWARD_DATA,
    |w, y, convolution, x| Operands { x, w, convolution, y },
    backward_data found_backward_data backward_data_size
);
direction!(
    algorithms::BACKWARD_FILTER,
    |x, y, convolution, w| Operands { x, w, convolution, y },
    backward_filter found_backward_filter backward_filter_size
);

/// A model: only the kernels for channels-last tensors have a workspace, which is small; the others are those of the functions without
/// `Ex`, which have none.
fn batch_norm(mode: c_int, size: &Out<usize>) -> Answer {
    const PERSISTENT: c_int = 2;
    if mode == PERSISTENT {
        machine().notice(Noticed::Modeled, "workspaces of batch normalization, channels last");
    }
    size.set(0)
}

#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn batch_norm_forward(
    _handle: usize,
    mode: c_int,
    _operations: c_int,
    _x: usize,
    _z: usize,
    _y: usize,
    _scale: usize,
    _activation: usize,
    size: Out<usize>,
) -> Answer {
    batch_norm(mode, &size)
}

#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn batch_norm_backward(
    _handle: usize,
    mode: c_int,
    _operations: c_int,
    _x: usize,
    _y: usize,
    _dy: usize,
    _dz: usize,
    _dx: usize,
    _scale: usize,
    _activation: usize,
    size: Out<usize>,
) -> Answer {
    batch_norm(mode, &size)
}

fn batch_norm_reserve(
    _handle: usize,
    mode: c_int,
    _operations: c_int,
    _activation: usize,
    _x: usize,
    size: Out<usize>,
) -> Answer {
    batch_norm(mode, &size)
}

/// `cudnnBackendExecute`: a variant has the addresses of all tensors and of the workspace.
fn execute(_handle: usize, plan: usize, variant: usize) -> Answer {
    backend::executed(plan);
    accesses::record(launches::library_stream(), |found| {
        backend::each_value(variant, |value| found.bytes(value));
    });
    launches::launched_by_library();
    Ok(())
}

/// Initializes the states of random numbers.
fn set_dropout(descriptor: usize, handle: usize, states: u64) -> Answer {
    if states != 0 {
        accesses::record_words(launches::library_stream(), &[states]);
    }
    restore_dropout(descriptor, handle, states)
}

fn restore_dropout(descriptor: usize, _handle: usize, states: u64) -> Answer {
    accesses::attach(descriptor, 0, &[states]);
    Ok(())
}

fn destroy(descriptor: usize) -> Answer {
    accesses::detach(descriptor);
    Ok(())
}

/// A recurrent network uses the random numbers of its dropout.
#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn set_rnn(
    descriptor: usize,
    algorithm: c_int,
    cell: c_int,
    bias: c_int,
    direction: c_int,
    input: c_int,
    kind: c_int,
    precision: c_int,
    math: c_int,
    input_size: c_int,
    hidden_size: c_int,
    projection: c_int,
    layers: c_int,
    dropout: usize,
) -> Answer {
    accesses::attach(descriptor, 0, &accesses::attached(dropout));
    rnn::set(
        descriptor,
        algorithm,
        cell,
        bias,
        direction,
        input,
        kind,
        precision,
        math,
        input_size,
        hidden_size,
        projection,
        layers,
    )
}
