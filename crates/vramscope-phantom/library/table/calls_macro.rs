//! The macro that creates the functions of a table, and its rows.

/// The module `table` documents the sections. They come in this order, and each is optional.
macro_rules! calls {
    ($library:ident;
     $(answer { $($answer:ident($($a:ident: $at:ty),* $(,)?) = $do:path;)* })?
     $(value { $($value:ident($($v:ident: $vt:ty),* $(,)?) -> $result:ty = $get:path;)* })?
     $(create { $($create:ident)* })?
     $(zero { $($zero:ident[$place:tt: $zt:ty])* })?
     $(zeros { $($zeros:ident[$pair:tt])* })?
     $(launch { $($arguments:tt $($launch:ident)*;)* })?
     $(succeed { $($succeed:ident)* })?
     $(refuse { $($refuse:ident)* })?
    ) => {
        const LIBRARY: $crate::status::Library = $crate::status::Library::$library;

        $($(call!($answer($($a: $at),*) -> std::ffi::c_int { $crate::calls::finish(LIBRARY, $do($($a),*)) });)*)?
        $($(call!($value($($v: $vt),*) -> $result { $get($($v),*) });)*)?
        $($(call!($create(handle: $crate::out::Out<usize>) -> std::ffi::c_int {
            $crate::calls::finish(LIBRARY, handle.set($crate::handles::new_handle()))
        });)*)?
        $($(zero_call!($zero[$place: $zt]);)*)?
        $($(zero_call!($zeros[$pair]);)*)?
        $($($(launch_call!($launch $arguments [] []);)*)*)?
        $($(call!($succeed() -> std::ffi::c_int { 0 });)*)?
        $($(call!($refuse() -> std::ffi::c_int { $crate::calls::refused(LIBRARY, stringify!($refuse)) });)*)?

        pub(super) static ROWS: &[super::Row] = &[
            $($(row!($answer),)*)? $($(row!($value),)*)? $($(row!($create),)*)? $($(row!($zero),)*)? $($(row!($zeros),)*)?
            $($($(row!($launch),)*)*)? $($(row!($succeed),)*)? $($(row!($refuse, true),)*)?
        ];
    };
}

/// One exported function.
macro_rules! call {
    ($name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the library's own name")]
        pub(crate) extern "C" fn $name($($argument: $type),*) -> $result $body
    };
}

/// The entry of a function in its table.
macro_rules! row {
    ($name:ident) => {
        row!($name, false)
    };
    ($name:ident, $is_refused:expr) => {
        super::Row {
            name: stringify!($name),
            library: LIBRARY,
            is_refused: $is_refused,
            function: $name as *const (),
        }
    };
}

/// A function that launches device work. Arguments are `p` if they may refer to device memory: an address, or a descriptor. The others
/// are `_`.
macro_rules! launch_call {
    ($name:ident [p $($rest:tt)*] [$($all:ident)*] [$($pointer:ident)*]) => {
        launch_call!($name [$($rest)*] [$($all)* argument] [$($pointer)* argument]);
    };
    ($name:ident [_ $($rest:tt)*] [$($all:ident)*] [$($pointer:ident)*]) => {
        launch_call!($name [$($rest)*] [$($all)* _other] [$($pointer)*]);
    };
    ($name:ident [] [$($all:ident)*] [$($pointer:ident)*]) => {
        call!($name($($all: usize),*) -> std::ffi::c_int {
            $crate::memory::accesses::launch_by_library(&[$($pointer),*])
        });
    };
}

/// A function that writes 0 through one of its pointer arguments, or through a pair of them. The arguments before it are
/// numbers or pointers.
macro_rules! zero_call {
    ($name:ident[0: $type:ty]) => { zero_call!($name($type; )); };
    ($name:ident[1: $type:ty]) => { zero_call!($name($type; a0)); };
    ($name:ident[2: $type:ty]) => { zero_call!($name($type; a0 a1)); };
    ($name:ident[3: $type:ty]) => { zero_call!($name($type; a0 a1 a2)); };
    ($name:ident[4: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3)); };
    ($name:ident[5: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4)); };
    ($name:ident[6: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5)); };
    ($name:ident[7: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6)); };
    ($name:ident[8: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7)); };
    ($name:ident[9: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8)); };
    ($name:ident[10: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8 a9)); };
    ($name:ident[11: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10)); };
    ($name:ident[12: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11)); };
    ($name:ident[13: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12)); };
    ($name:ident[16: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15)); };
    ($name:ident[19: $type:ty]) => { zero_call!($name($type; a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16 a17 a18)); };
    ($name:ident[8]) => { zero_call!($name(a0 a1 a2 a3 a4 a5 a6 a7)); };
    ($name:ident[10]) => { zero_call!($name(a0 a1 a2 a3 a4 a5 a6 a7 a8 a9)); };
    ($name:ident[11]) => { zero_call!($name(a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10)); };
    ($name:ident[17]) => { zero_call!($name(a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 a16)); };
    ($name:ident($type:ty; $($before:ident)*)) => {
        call!($name($($before: usize,)* out: $crate::out::Out<$type>) -> std::ffi::c_int {
            let _ = ($($before,)*);
            $crate::calls::zero(LIBRARY, stringify!($name), out.set(0))
        });
    };
    ($name:ident($($before:ident)*)) => {
        call!($name($($before: usize,)* first: $crate::out::Out<usize>, second: $crate::out::Out<usize>)
            -> std::ffi::c_int {
            let _ = ($($before,)*);
            $crate::calls::zero(LIBRARY, stringify!($name), first.set(0).and_then(|()| second.set(0)))
        });
    };
}
