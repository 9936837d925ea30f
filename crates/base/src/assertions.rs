//! Assertions in two strengths. They catch bugs of Millpond itself. Bad bytes from disk and bad
//! arguments of callers give errors instead.

/// An assertion that is always on and takes constant time. If it fails, Millpond has a bug.
#[macro_export]
macro_rules! check {
    ($cond:expr $(,)?) => { assert!($cond) };
    ($cond:expr, $($arg:tt)+) => { assert!($cond, $($arg)+) };
}

/// Whether [`verify!`](crate::verify) is on: in debug builds, which includes tests and fuzzing, and
/// in the simulator. In a release program it is off.
pub const VERIFY: bool = cfg!(any(debug_assertions, feature = "sim"));

/// An assertion that takes time, because it walks a page, a list or a tree, or because it is on a
/// hot path. On where [`VERIFY`] says so.
#[macro_export]
macro_rules! verify {
    ($($arg:tt)+) => {
        if $crate::assertions::VERIFY {
            assert!($($arg)+);
        }
    };
}
