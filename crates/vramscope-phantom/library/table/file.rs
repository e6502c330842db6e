//! cuFile, which copies between files and device memory. There is no such path to a GPU that is not there.

calls! {
    Cufile;
    value {
        cuFileRead() -> isize = no_read;
        cuFileWrite() -> isize = no_write;
    }
    succeed {
        cuFileBufDeregister cuFileHandleDeregister
    }
    refuse {
        cuFileBufRegister cuFileHandleRegister
    }
}

fn no_read() -> isize {
    refuse("cuFileRead")
}

fn no_write() -> isize {
    refuse("cuFileWrite")
}

/// Bytes that were copied: a negative number is an error, which the header of cuFile numbers.
fn refuse(name: &'static str) -> isize {
    -(crate::calls::refused(LIBRARY, name) as isize)
}
