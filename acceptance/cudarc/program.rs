//! Copies numbers to a GPU and back, and times a copy on the GPU.

use cudarc::driver::{CudaContext, DriverError};

#[cfg(feature = "early")]
fn round_trip(context: &std::sync::Arc<CudaContext>, numbers: &[f32]) -> Result<Vec<f32>, DriverError> {
    let stream = context.new_stream()?;
    let there = stream.memcpy_stod(numbers)?;
    stream.memcpy_dtov(&there)
}

#[cfg(not(feature = "early"))]
fn round_trip(context: &std::sync::Arc<CudaContext>, numbers: &[f32]) -> Result<Vec<f32>, DriverError> {
    use cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
    let stream = context.new_stream()?;
    let there = stream.clone_htod(numbers)?;
    let start = stream.record_event(Some(CU_EVENT_DEFAULT))?;
    let copy = stream.clone_dtod(&there)?;
    let end = stream.record_event(Some(CU_EVENT_DEFAULT))?;
    assert!(start.elapsed_ms(&end)? >= 0.0);
    stream.clone_dtoh(&copy)
}

fn main() -> Result<(), DriverError> {
    let context = CudaContext::new(0)?;
    let numbers: Vec<f32> = (0..1 << 20).map(|n| n as f32).collect();
    if round_trip(&context, &numbers)? == numbers {
        println!("{}: all numbers are back", context.name()?);
    }
    Ok(())
}
