//! [`named`]: enums whose values have names.

/// Defines an enum, the list `ALL` of its values in this order, and the function `name`.
macro_rules! named {
    (
        $(#[$meta:meta])* pub enum $kind:ident {
            $($(#[$doc:meta])* $value:ident = $name:literal,)*
        }
        $(#[$all:meta])* ALL
        $(#[$of:meta])* name
    ) => {
        $(#[$meta])*
        pub enum $kind {
            $($(#[$doc])* $value,)*
        }

        impl $kind {
            $(#[$all])*
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$value),*];

            $(#[$of])*
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)*
                }
            }
        }
    };
}

pub(crate) use named;
