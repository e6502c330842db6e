//! CUPTI, with which PyTorch's profiler watches a GPU. Its own library asks the driver to prove itself, and one release of
//! PyTorch's profiler falls into an endless recursion where that fails. Here it says that it is not supported, and a profile
//! has all but what happens on the GPU.

use std::ffi::{c_char, c_int};

use crate::out::Out;
use crate::status::Answer;

calls! {
    Cupti;
    answer {
        cuptiGetResultString(result: c_int, text: Out<*const c_char>) = result_string;
    }
    zero {
        cuptiGetVersion[0: u32]
    }
    succeed {
        cuptiActivityDisable cuptiActivityFlushAll cuptiActivityPopExternalCorrelationId
        cuptiActivityPushExternalCorrelationId cuptiActivityRegisterCallbacks cuptiActivityRegisterTimestampCallback
        cuptiActivitySetAttribute cuptiFinalize cuptiUnsubscribe
    }
    refuse {
        cuptiActivityEnable cuptiActivityEnableCudaEventDeviceTimestamps cuptiActivityEnableDriverApi
        cuptiActivityEnableRuntimeApi cuptiActivityGetNextRecord cuptiActivityGetNumDroppedRecords cuptiEnableCallback
        cuptiEnableDomain cuptiEventGetAttribute cuptiEventGetIdFromName cuptiEventGroupGetAttribute
        cuptiEventGroupReadEvent cuptiEventGroupSetAttribute cuptiEventGroupSetDisable cuptiEventGroupSetEnable
        cuptiEventGroupSetsCreate cuptiEventGroupSetsDestroy cuptiGetCallbackName cuptiGetDeviceId
        cuptiMetricEnumEvents cuptiMetricGetAttribute cuptiMetricGetIdFromName cuptiMetricGetNumEvents
        cuptiMetricGetValue cuptiSetEventCollectionMode cuptiSubscribe
    }
}

fn result_string(result: c_int, text: Out<*const c_char>) -> Answer {
    text.set(if result == 0 { c"CUPTI_SUCCESS" } else { c"not supported on a phantom GPU" }.as_ptr())
}
