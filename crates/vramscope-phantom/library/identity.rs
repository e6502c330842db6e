//! The UUID and the PCI address by which programs identify a device. Both follow from its number in the machine.

/// 16 bytes, unique among the phantom GPUs of the machine.
pub(crate) fn uuid_bytes(device: usize) -> [u8; 16] {
    let mut bytes = *b"vramscopephantom";
    bytes[15] = device as u8;
    bytes
}

/// The UUID as text, with NVML's prefix.
pub(crate) fn uuid_of(device: usize) -> String {
    uuid_text("GPU", uuid_bytes(device))
}

fn uuid_text(kind: &str, bytes: [u8; 16]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{kind}-{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// The UUID of a MIG instance of the device, as text with NVML's prefix.
pub(crate) fn mig_uuid_of(device: usize, instance: usize) -> String {
    let mut bytes = uuid_bytes(device);
    bytes[14] = instance as u8;
    uuid_text("MIG", bytes)
}

/// The PCI address of the device, as `domain:bus:device.function`.
pub(crate) fn bus_id(device: usize) -> String {
    format!("0000:{:02X}:00.0", bus_number(device))
}

/// The PCI bus number of the device.
pub(crate) fn bus_number(device: usize) -> i32 {
    device as i32 + 1
}
