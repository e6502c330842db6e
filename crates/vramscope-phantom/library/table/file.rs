//! cuFile, which copies between files and device memory. The phantom refuses it.

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

/// The negative error code of cuFile's header, in place of the number of copied bytes.
fn refuse(name: &'static str) -> isize {
    -(crate::calls::refused(LIBRARY, name) as isize)
}
