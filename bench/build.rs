//! Tells the library which compiler builds it: a report of figures names it.
use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC").expect("cargo names the compiler");
    let version = Command::new(compiler).arg("--version").output().expect("the compiler can be run");
    println!("cargo::rustc-env=ENACT_COMPILER={}", String::from_utf8_lossy(&version.stdout).trim());
    println!("cargo::rerun-if-changed=build.rs");
}
