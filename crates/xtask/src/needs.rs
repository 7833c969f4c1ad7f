//! What the machine must have, and the Debian package that has it.

use std::path::Path;
use std::process::Command;

/// Programs and packages.
const NEEDS: [(&str, &str); 9] = [
    ("cc", "gcc libc6-dev"),
    ("make", "make"),
    ("perl", "perl"),
    ("openssl", "openssl"),
    ("java", "default-jdk-headless"),
    ("jar", "default-jdk-headless"),
    ("mvn", "maven"),
    ("dpkg-deb", "dpkg"),
    ("python3", "python3 python3-venv"),
];

fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn missing() -> Vec<(&'static str, &'static str)> {
    NEEDS
        .into_iter()
        .filter(|(program, _)| !is_there(program))
        .collect()
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Installs what is missing where that is possible, and says what is still missing. False: the tests
/// cannot run.
pub fn check() -> bool {
    let wanted = missing();
    if wanted.is_empty() {
        return true;
    }
    if Path::new("/etc/debian_version").exists() && is_root() {
        install(&wanted);
    }
    let still = missing();
    for (program, package) in &still {
        println!("missing: {program}; on Debian: apt-get install -y {package}");
    }
    still.is_empty()
}

fn install(wanted: &[(&str, &str)]) {
    let mut packages: Vec<&str> = wanted.iter().flat_map(|(_, p)| p.split(' ')).collect();
    packages.sort_unstable();
    packages.dedup();
    println!("installing {}", packages.join(" "));
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command.status().is_ok_and(|status| status.success())
    };
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(&packages);
    if !apt(&arguments) {
        // Without lists of packages apt knows none.
        apt(&["update"]);
        apt(&arguments);
    }
}
