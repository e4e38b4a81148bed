//! A kernel's shared object in this process.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_void},
    fs::File,
    io::{self, Write},
    ops::Range,
    os::fd::{AsRawFd, FromRawFd},
    ptr::NonNull,
};

use super::memory::HostMemory;

/// `void phobos_entry(const uint64_t *args, const int64_t pid[3], uint8_t *scratch)`:
/// runs one program.
type Entry = unsafe extern "C" fn(*const u64, *const i64, *mut u8);

const ENTRY: &CStr = c"phobos_entry";

/// A loaded shared object; unloaded when dropped.
pub(super) struct Object {
    entry: Entry,
    handle: NonNull<c_void>,
    /// The file stays open while the object is loaded: the loader takes an object that
    /// it already has under the same path for the same object, and the path is the
    /// descriptor's number.
    _file: File,
}

// SAFETY: the handle is only passed to dlclose, by the last owner; the entry is code.
unsafe impl Send for Object {}
// SAFETY: as above.
unsafe impl Sync for Object {}

impl Object {
    /// Loads `image`, which must have passed [`super::elf::check`]. The error says why not.
    /// `name` is what profilers show.
    pub fn load(image: &[u8], name: &str) -> Result<Object, String> {
        let file =
            memory_file(image, name).map_err(|error| format!("cannot make a file in memory: {error}"))?;
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(|error| format!("the loader: {error}"))?;
        // SAFETY: the path is a C string. Loading runs the object's initialisers; an
        // artifact is trusted as code (see `Device::load`).
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| format!("the loader: {}", loader_error()))?;
        // SAFETY: an open handle and a C string.
        let symbol = unsafe { libc::dlsym(handle.as_ptr(), ENTRY.as_ptr()) };
        if symbol.is_null() {
            // SAFETY: opened above, closed once: no `Object` was made.
            unsafe { libc::dlclose(handle.as_ptr()) };
            return Err("the shared object exports no `phobos_entry`".to_owned());
        }
        // SAFETY: the host ABI gives the symbol this type.
        let entry = unsafe { std::mem::transmute::<*mut c_void, Entry>(symbol) };
        Ok(Object { entry, handle, _file: file })
    }

    /// Runs the programs whose linear indices (x fastest) are `range`.
    ///
    /// `slots` and `grid` are those of a checked launch of this object's kernel, under
    /// the device's lock; `scratch` holds the kernel's scratch from `scratch_offset` on,
    /// used by no other thread.
    pub fn run(
        &self,
        slots: &[u64],
        grid: [u64; 3],
        range: Range<u64>,
        scratch: &HostMemory,
        scratch_offset: usize,
    ) {
        let [width, height, _] = grid.map(|extent| extent.max(1));
        let scratch = scratch.pointer_at(scratch_offset);
        let row = range.start / width;
        // Extents are at most 2^62, so program ids fit i64.
        let mut pid = [(range.start % width) as i64, (row % height) as i64, (row / height) as i64];
        for _ in range {
            // SAFETY: a checked launch: every tensor slot points to as many bytes as the
            // kernel's metadata says it uses, written ones overlap nothing else, and the lock
            // keeps Rust code away from them; `scratch` is as large as the metadata asks.
            // That the code keeps to its metadata is the compiler's promise.
            unsafe { (self.entry)(slots.as_ptr(), pid.as_ptr(), scratch) };
            pid[0] += 1;
            if pid[0] as u64 == width {
                pid[0] = 0;
                pid[1] += 1;
                if pid[1] as u64 == height {
                    pid[1] = 0;
                    pid[2] += 1;
                }
            }
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: opened in `load`, closed once; no launch runs, since a launch borrows
        // the kernel that owns this object.
        unsafe { libc::dlclose(self.handle.as_ptr()) };
    }
}

/// An anonymous file with `image` in it. The name has no meaning to the kernel but shows up in
/// /proc/PID/maps, so that `perf report --sort dso` tells Phobos kernels apart.
fn memory_file(image: &[u8], name: &str) -> io::Result<File> {
    let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
    let name = CString::new(format!("phobos:{name}"))?;
    // SAFETY: the name is a C string.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor that nothing else owns.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(image)?;
    Ok(file)
}

/// The loader's last error on this thread.
fn loader_error() -> String {
    // SAFETY: dlerror has no preconditions.
    let message = unsafe { libc::dlerror() };
    if message.is_null() {
        return "unknown error".to_owned();
    }
    // SAFETY: a C string that lives until the next call of the loader on this thread.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}
