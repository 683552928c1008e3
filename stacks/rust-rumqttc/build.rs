//! Versions of the crates from Cargo.lock, and of the compiler.

fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").expect("cargo has written Cargo.lock");
    for name in ["rumqttc", "serde_json"] {
        let package = format!("name = \"{name}\"\nversion = \"");
        let version = lock.split(&package).nth(1).and_then(|rest| rest.split('"').next());
        let key = name.to_uppercase();
        println!("cargo::rustc-env=VERSION_{key}={}", version.unwrap_or("unknown"));
    }
    let rustc = std::env::var_os("RUSTC").expect("cargo sets RUSTC");
    let said = std::process::Command::new(rustc).arg("--version").output();
    let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    let version: Vec<_> = said.iter().flat_map(|said| said.split(' ').take(2)).collect();
    println!("cargo::rustc-env=VERSION_RUSTC={}", version.join("-"));
    println!("cargo::rerun-if-changed=Cargo.lock");
}
