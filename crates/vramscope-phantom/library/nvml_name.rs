//! An empty library named `libnvidia-ml.so.1`. Programs that open it find the functions of the phantom library, which it links.
#![no_std]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
