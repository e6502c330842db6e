//! CUPTI, through which PyTorch's profiler observes a GPU. NVIDIA's own library verifies the driver, and one release of
//! PyTorch's profiler recurses endlessly if that fails. The phantom returns "not supported", so a profile only lacks the GPU's
//! activity.

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
