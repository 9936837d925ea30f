//! What the packages call the machine that they are for.

/// A machine, as each kind of package names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// In Rust.
    pub(super) triple: &'static str,
    /// In the tags of a wheel.
    pub(super) wheel: &'static str,
    /// In `cpu` of an npm package.
    pub(super) npm: &'static str,
    /// In Debian.
    pub(super) debian: &'static str,
}

const TARGETS: [(&str, Target); 2] = [
    ("x86_64", Target { triple: "x86_64-unknown-linux-gnu", wheel: "x86_64", npm: "x64", debian: "amd64" }),
    (
        "aarch64",
        Target { triple: "aarch64-unknown-linux-gnu", wheel: "aarch64", npm: "arm64", debian: "arm64" },
    ),
];

impl Target {
    /// Returns the target of an architecture, as `std::env::consts::ARCH` calls it.
    pub(super) fn of(arch: &str) -> Result<Target, String> {
        let found = TARGETS.iter().find(|(name, _)| *name == arch).map(|(_, target)| *target);
        found.ok_or_else(|| {
            format!("packages are made on x86_64 and aarch64 only, and this machine is {arch}")
        })
    }

    /// Returns the platforms of a wheel with a program that needs no library: it runs beside the
    /// oldest glibc that pip knows, and beside musl.
    pub(super) fn platforms(self) -> [String; 3] {
        ["manylinux_2_17", "manylinux2014", "musllinux_1_1"].map(|of| format!("{of}_{}", self.wheel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_its_names() {
        let target = Target::of("x86_64").unwrap();
        assert_eq!((target.npm, target.debian), ("x64", "amd64"));
        assert_eq!(target.platforms()[1], "manylinux2014_x86_64");
        assert!(Target::of("mips").unwrap_err().ends_with("this machine is mips"));
    }
}
