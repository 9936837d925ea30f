//! Assertions in two strengths. They catch our own bugs; bytes from disk and arguments from callers give errors.

/// Always on, constant time. Our own bug if it fails.
#[macro_export]
macro_rules! check {
    ($cond:expr $(,)?) => { assert!($cond) };
    ($cond:expr, $($arg:tt)+) => { assert!($cond, $($arg)+) };
}

/// Whether [`verify!`](crate::verify) looks: in debug builds, which tests and fuzzing are, and in the simulator; not in a program.
pub const VERIFY: bool = cfg!(any(debug_assertions, feature = "sim"));

/// Walks a page, a list or a tree, or stands where each instruction counts. On where [`VERIFY`] says so.
#[macro_export]
macro_rules! verify {
    ($($arg:tt)+) => {
        if $crate::check::VERIFY {
            assert!($($arg)+);
        }
    };
}
