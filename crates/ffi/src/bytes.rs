//! Bytes, buffers and handles that cross the boundary, and the helpers that look at them.

use crate::rc::{Done, Failure, Rc, misuse};
use std::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn realloc(memory: *mut c_void, bytes: usize) -> *mut c_void;
    fn free(memory: *mut c_void);
}

/// Bytes that are read. With `len` 0 the pointer is not looked at; where the bytes are optional, a
/// null pointer means that they are left out.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Bytes {
    /// The first byte.
    pub ptr: *const u8,
    /// How many there are.
    pub len: usize,
}

/// Memory of the caller for a result, made by `malloc` or empty (all zero). A call makes it longer
/// where needed and sets `len`. The caller frees it with `millpond_buffer_free`.
#[derive(Debug)]
#[repr(C)]
pub struct Buffer {
    /// The first byte; null if there is no memory yet.
    pub ptr: *mut u8,
    /// How many bytes the last call has put into it.
    pub len: usize,
    /// How many bytes it has room for.
    pub capacity: usize,
}

impl Bytes {
    /// Bytes that are left out.
    pub const NONE: Bytes = Bytes { ptr: std::ptr::null(), len: 0 };

    /// Returns bytes that live as long as `bytes`, for a caller in C.
    pub fn of(bytes: &[u8]) -> Bytes {
        Bytes { ptr: bytes.as_ptr(), len: bytes.len() }
    }

    /// Returns the bytes. REQUIRES: they live for `'a`, which is the call.
    #[inline]
    pub(crate) unsafe fn get<'a>(self) -> &'a [u8] {
        if self.len == 0 || self.ptr.is_null() {
            return &[];
        }
        // SAFETY: the caller passes bytes that are valid during the call.
        unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
    }

    /// Returns the bytes, or `None` if they were left out. REQUIRES: as [`Bytes::get`].
    pub(crate) unsafe fn optional<'a>(self) -> Option<&'a [u8]> {
        // SAFETY: as above.
        (!self.ptr.is_null()).then(|| unsafe { self.get() })
    }

    /// Returns the bytes as text. REQUIRES: as [`Bytes::get`].
    pub(crate) unsafe fn text<'a>(self) -> Done<&'a str> {
        // SAFETY: as above.
        std::str::from_utf8(unsafe { self.get() }).map_err(|_| misuse("a name is not UTF-8"))
    }
}

impl Buffer {
    /// Puts bytes into the buffer in place of what it has.
    pub(crate) fn set(&mut self, bytes: &[u8]) -> Done {
        if bytes.len() > self.capacity {
            let capacity = bytes.len().next_power_of_two().max(256);
            // SAFETY: the memory is null or was made by `malloc` or `realloc`.
            let longer = unsafe { realloc(self.ptr.cast(), capacity) };
            if longer.is_null() {
                let text = format!("no memory for a result of {} bytes", bytes.len());
                return Err(Failure { rc: Rc::NoMemory, text });
            }
            (self.ptr, self.capacity) = (longer.cast(), capacity);
        }
        if !bytes.is_empty() {
            // SAFETY: there is room for the bytes, and the memory belongs to the buffer alone.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.ptr, bytes.len()) };
        }
        self.len = bytes.len();
        Ok(())
    }
}

/// Frees the memory of a buffer and makes it empty.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn millpond_buffer_free(buffer: *mut Buffer) {
    // SAFETY: the buffer is valid, and its memory is null or was made by `malloc`.
    if let Some(buffer) = unsafe { buffer.as_mut() } {
        // SAFETY: as above.
        unsafe { free(buffer.ptr.cast()) };
        *buffer = Buffer { ptr: std::ptr::null_mut(), len: 0, capacity: 0 };
    }
}

/// Returns what a handle or a required argument points to. REQUIRES: it is null or valid for `'a`,
/// and nothing changes it meanwhile.
#[inline]
pub(crate) unsafe fn shared<'a, T>(pointer: *const T) -> Done<&'a T> {
    // SAFETY: the caller guarantees it.
    unsafe { pointer.as_ref() }.ok_or_else(null)
}

/// Returns what a handle or a result points to. REQUIRES: it is null or valid for `'a`, and nothing
/// else uses it meanwhile.
#[inline]
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T) -> Done<&'a mut T> {
    // SAFETY: the caller guarantees it.
    unsafe { pointer.as_mut() }.ok_or_else(null)
}

/// Returns an array of `count` items. REQUIRES: as [`shared`].
#[inline]
pub(crate) unsafe fn array<'a, T>(pointer: *const T, count: usize) -> Done<&'a [T]> {
    match (pointer.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null()),
        // SAFETY: the caller guarantees it.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(pointer, count) }),
    }
}

/// Returns a C string, or `None` for null. REQUIRES: it is valid for `'a`.
pub(crate) unsafe fn c_text<'a>(pointer: *const c_char) -> Done<Option<&'a str>> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| misuse("a path is not UTF-8"))
}

/// Gives a new handle to the caller. REQUIRES: `out` is null or valid.
pub(crate) unsafe fn give<T>(out: *mut *mut T, value: T) -> Done {
    // SAFETY: the caller guarantees it.
    let out = unsafe { exclusive(out) }?;
    *out = Box::into_raw(Box::new(value));
    Ok(())
}

/// Takes a handle back and drops it. REQUIRES: it is null or came from [`give`], and is not used
/// any more.
pub(crate) unsafe fn take_back<T>(handle: *mut T) {
    if !handle.is_null() {
        // SAFETY: `give` made it from a box.
        drop(unsafe { Box::from_raw(handle) });
    }
}

#[cold]
fn null() -> Failure {
    misuse("a null pointer where a handle or a result is expected")
}
