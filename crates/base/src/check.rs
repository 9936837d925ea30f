//! Assertions in three strengths. They catch our own bugs; bytes from disk and arguments from callers give errors.

/// Always on, constant time. Our own bug if it fails.
#[macro_export]
macro_rules! check {
    ($cond:expr $(,)?) => { assert!($cond) };
    ($cond:expr, $($arg:tt)+) => { assert!($cond, $($arg)+) };
}

/// On in every debug build: walks a page, a list or a tree.
#[macro_export]
macro_rules! verify {
    ($($arg:tt)+) => { debug_assert!($($arg)+) };
}
