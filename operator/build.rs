//! Keeps the program small: the linker keeps one copy of functions that came out alike, for much of a controller is the same for each kind, and
//! no symbols, since `strip` of a profile does not count for packages with settings of their own. Addresses to adjust at the start, one for
//! each entry of each table of functions, are written as bits (RELR, glibc 2.36) and not as 24 bytes each: that is 4% of the program.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |variable: &str, value: &str| std::env::var(variable).is_ok_and(|found| found == value);
    // The linker that the toolchain brings for this target understands the option; those of other targets may not.
    let linked_by_lld = is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu");
    if linked_by_lld && is("PROFILE", "release") {
        println!("cargo::rustc-link-arg-bins=-Wl,--icf=all,--strip-all,-z,pack-relative-relocs");
    }
}
