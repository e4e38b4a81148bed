//! What the build needs from the system, and how it gets there.
//!
//! On Debian 12 the packages that are missing are installed, and named first. On any other system nothing
//! is installed: what is missing is printed and the task stops. There a need counts as met when its file is
//! where Debian puts it, so that another distribution with LLVM 22 under /usr/lib/llvm-22 builds too.

use crate::error::{Error, Result};
use crate::process;
use crate::progress::{note, step};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// One Debian package and how to see that what it brings is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The name of the package in Debian 12.
    pub package: &'static str,
    /// What shows that it is not needed any more.
    pub probe: Probe,
}

/// A quick test for what a package brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A file of that package, one that the build uses.
    File(&'static str),
    /// A command that succeeds.
    Command(&'static [&'static str]),
}

/// What building and testing Phobos takes.
pub const COMPILER: &[Need] = &[
    Need { package: "libmlir-22-dev", probe: Probe::File("/usr/lib/llvm-22/lib/libMLIRCAPIIR.a") },
    Need { package: "mlir-22-tools", probe: Probe::File("/usr/lib/llvm-22/bin/mlir-tblgen") },
    Need { package: "llvm-22-dev", probe: Probe::File("/usr/lib/llvm-22/include/llvm-c") },
    Need { package: "llvm-22-tools", probe: Probe::File("/usr/lib/llvm-22/bin/FileCheck") },
    Need { package: "clang-22", probe: Probe::File("/usr/lib/llvm-22/bin/clang++") },
    Need { package: "libclang-22-dev", probe: Probe::File("/usr/lib/llvm-22/lib/libclang.so") },
    Need { package: "lld-22", probe: Probe::File("/usr/lib/llvm-22/bin/ld.lld") },
];

/// What running the compiler's programs takes; the others run without.
pub const RUN_COMPILER: &[Need] = &[
    Need { package: "libmlir-22", probe: Probe::File("/usr/lib/llvm-22/lib/libMLIR.so.22.1") },
    Need { package: "libllvm22", probe: Probe::File("/usr/lib/x86_64-linux-gnu/libLLVM.so.22.1") },
    Need { package: "lld-22", probe: Probe::File("/usr/lib/llvm-22/bin/ld.lld") },
];

/// What packing a release takes, beside what building takes.
pub const RELEASE: &[Need] = &[
    Need { package: "binutils", probe: Probe::Command(&["strip", "--version"]) },
    Need { package: "python3", probe: Probe::Command(&["python3", "--version"]) },
];

/// What fetching from PyPI takes.
pub const PIP: &[Need] =
    &[Need { package: "python3-pip", probe: Probe::Command(&["python3", "-m", "pip", "--version"]) }];

/// What building llama.cpp, the peer of the benchmarks, takes.
pub const PEER: &[Need] = &[
    Need { package: "cmake", probe: Probe::Command(&["cmake", "--version"]) },
    Need { package: "g++", probe: Probe::Command(&["c++", "--version"]) },
    Need { package: "make", probe: Probe::Command(&["make", "--version"]) },
];

impl Need {
    fn is_met(&self) -> bool {
        match self.probe {
            Probe::File(path) => Path::new(path).exists(),
            Probe::Command(words) => words
                .split_first()
                .is_some_and(|(program, arguments)| process::succeeds(Command::new(program).args(arguments))),
        }
    }
}

/// Who may install packages here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    Root,
    Sudo,
    None,
}

/// What is to be done about missing packages.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// These command lines, in order.
    Install(Vec<Vec<String>>),
    /// Stop with this text.
    Stop(String),
}

/// Installs what `needs` lists and the machine lacks, or says what to install and stops.
pub fn ensure(needs: &[&[Need]]) -> Result<()> {
    let missing: Vec<&str> = missing(needs);
    match plan(&missing, &system_name(), rights()) {
        Plan::Nothing => Ok(()),
        Plan::Stop(text) => Err(Error::Setup(text)),
        Plan::Install(commands) => {
            note(&format!("missing packages: {}", missing.join(" ")));
            step("install packages", || commands.iter().try_for_each(|words| install(words)))?;
            match self::missing(needs).as_slice() {
                [] => Ok(()),
                still => Err(Error::Setup(format!(
                    "after apt-get install these are still not usable: {}",
                    still.join(" ")
                ))),
            }
        }
    }
}

fn missing(needs: &[&[Need]]) -> Vec<&'static str> {
    needs.iter().flat_map(|list| list.iter()).filter(|need| !need.is_met()).map(|need| need.package).collect()
}

fn install(words: &[String]) -> Result<()> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = Command::new(program);
    command.args(arguments);
    note(&process::show(&command));
    process::run_aside(&mut command)
}

fn plan(missing: &[&str], system: &str, rights: Rights) -> Plan {
    if missing.is_empty() {
        return Plan::Nothing;
    }
    let by_hand = format!("apt-get install {}", missing.join(" "));
    if system != "debian 12" {
        return Plan::Stop(format!(
            "these packages of Debian 12 are missing: {}\n\
             This system is {system}; only Debian 12 is supported and set up from here. Elsewhere install what \
             they hold (LLVM and MLIR 22.1 under /usr/lib/llvm-22) and run this again. On Debian 12:\n    {by_hand}",
            missing.join(" ")
        ));
    }
    let prefix: &[&str] = match rights {
        // `env` because sudo drops the environment.
        Rights::Root => &["env"],
        Rights::Sudo => &["sudo", "env"],
        Rights::None => {
            return Plan::Stop(format!(
                "these packages are missing, and this is neither root nor is there sudo: run as root\n    {by_hand}"
            ));
        }
    };
    let line = |rest: &[&str]| -> Vec<String> {
        let words = prefix.iter().chain(&["DEBIAN_FRONTEND=noninteractive", "apt-get"]).chain(rest);
        words.map(|word| (*word).to_owned()).collect()
    };
    let mut install = line(&["install", "--yes", "--quiet", "--no-install-recommends"]);
    install.extend(missing.iter().map(|package| (*package).to_owned()));
    Plan::Install(vec![line(&["update", "--quiet"]), install])
}

fn system_name() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    parse_os_release(&text)
}

/// `debian 12` from the text of /etc/os-release.
fn parse_os_release(text: &str) -> String {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
            .map(|value| value.trim_matches(['"', '\'']).to_owned())
    };
    match (field("ID"), field("VERSION_ID")) {
        (Some(id), Some(version)) => format!("{id} {version}"),
        (Some(id), None) => id,
        (None, _) => "unknown".to_owned(),
    }
}

fn rights() -> Rights {
    // /proc/self belongs to the effective user.
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        Rights::Root
    } else if process::succeeds(Command::new("sudo").arg("--version")) {
        Rights::Sudo
    } else {
        Rights::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_of_some_systems() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
        assert_eq!(parse_os_release(debian), "debian 12");
        assert_eq!(parse_os_release("ID='ubuntu'\nVERSION_ID=\"24.04\"\nID_LIKE=debian"), "ubuntu 24.04");
        assert_eq!(parse_os_release("ID=arch\n"), "arch");
        assert_eq!(parse_os_release(""), "unknown");
    }

    #[test]
    fn nothing_missing_does_nothing_anywhere() {
        assert_eq!(plan(&[], "arch", Rights::None), Plan::Nothing);
    }

    #[test]
    fn debian_12_installs_exactly_what_is_missing() {
        let Plan::Install(commands) = plan(&["lld-22", "clang-22"], "debian 12", Rights::Root) else {
            panic!("no installation planned")
        };
        let lines: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "env DEBIAN_FRONTEND=noninteractive apt-get update --quiet",
                "env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends lld-22 clang-22",
            ]
        );
    }

    #[test]
    fn sudo_only_when_not_root() {
        let Plan::Install(commands) = plan(&["lld-22"], "debian 12", Rights::Sudo) else {
            panic!("no installation planned")
        };
        assert!(commands.iter().all(|words| words[0] == "sudo"));
        assert!(matches!(plan(&["lld-22"], "debian 12", Rights::None), Plan::Stop(_)));
    }

    #[test]
    fn another_system_is_told_the_packages() {
        let Plan::Stop(text) = plan(&["lld-22", "clang-22"], "ubuntu 24.04", Rights::Root) else {
            panic!("would install on an untested system")
        };
        assert!(text.contains("ubuntu 24.04") && text.contains("apt-get install lld-22 clang-22"), "{text}");
        assert_eq!(Error::Setup(text).exit_code(), 2);
    }

    /// A probe of a file that another package brings would hide a missing package.
    #[test]
    fn every_probed_file_is_of_its_package() {
        for need in COMPILER.iter().chain(RUN_COMPILER) {
            let Probe::File(path) = need.probe else { continue };
            if !Path::new(path).exists() || !process::succeeds(Command::new("dpkg-query").arg("--version")) {
                let test = format!("setup::every_probed_file_is_of_its_package[{path}]");
                crate::summary::skip(&test, "not installed by dpkg here");
                continue;
            }
            let owner = process::capture(Command::new("dpkg-query").args(["-S", path])).unwrap();
            let packages = owner.split_once(": ").unwrap().0;
            assert!(packages.split(", ").any(|p| p.split(':').next() == Some(need.package)), "{owner}");
        }
    }
}
