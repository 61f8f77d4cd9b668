//! Compiles the shim with the flags of the libdpdk that is installed, because DPDK's receive and transmit functions are inline.

fn main() {
    println!("cargo:rerun-if-changed=shim");
    #[cfg(feature = "libdpdk")]
    if let Err(why) = shim::build() {
        println!("cargo::error={why}");
    }
}

#[cfg(feature = "libdpdk")]
mod shim {
    use std::process::Command;

    /// The oldest release whose headers the shim compiles with.
    const OLDEST: &str = "22.11";
    /// Libraries that the shim calls. The drivers are plug-ins, which the EAL loads from the folder that it was built for.
    const LIBRARIES: [&str; 5] = ["rte_eal", "rte_ethdev", "rte_mempool", "rte_mbuf", "rte_ring"];

    pub fn build() -> Result<(), String> {
        println!("cargo:rerun-if-env-changed=PKG_CONFIG_PATH");
        println!("cargo:rerun-if-env-changed=PKG_CONFIG_LIBDIR");
        pkg_config(&["--exists"]).map_err(|_| {
            "libdpdk is not installed, or pkg-config does not find it: `apt-get install dpdk-dev pkg-config` adds it on Debian \
             and Ubuntu; PKG_CONFIG_PATH names the folder of a libdpdk.pc elsewhere"
        })?;
        let at_least = format!("--atleast-version={OLDEST}");
        let version = pkg_config(&["--modversion"])?;
        pkg_config(&[&at_least])
            .map_err(|_| format!("libdpdk {} is too old: {OLDEST} or later is needed", version.trim()))?;
        let mut build = cc::Build::new();
        build.file("shim/control.c").file("shim/memory.c").file("shim/queue.c").file("shim/offload.c").opt_level(3);
        // rte_dev_dma_map, stable since 23.11, is experimental in 22.11.
        build.define("ALLOW_EXPERIMENTAL_API", None).flag("-Wno-unused-parameter");
        for flag in pkg_config(&["--cflags"])?.split_whitespace() {
            build.flag(flag);
        }
        build
            .try_compile("linerate_dpdk")
            .map_err(|error| format!("the shim over libdpdk does not compile: {error}"))?;
        for flag in pkg_config(&["--libs-only-L"])?.split_whitespace() {
            println!("cargo:rustc-link-search=native={}", flag.trim_start_matches("-L"));
        }
        for library in LIBRARIES {
            println!("cargo:rustc-link-lib=dylib={library}");
        }
        Ok(())
    }

    fn pkg_config(arguments: &[&str]) -> Result<String, String> {
        let output = Command::new("pkg-config").args(arguments).arg("libdpdk").output();
        let output = output.map_err(|error| format!("pkg-config cannot be run: {error}"))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', " "));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
