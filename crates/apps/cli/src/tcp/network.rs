//! Flags of all `linerate tcp` programs: the port, the addresses, the worker.

use std::net::IpAddr;
use std::path::PathBuf;

use linerate_endpoints::{NetworkConfig, Options, StackOptions};
use linerate_units::{count, duration_ns};

use linerate_console::cores::Cores;
use linerate_console::note;

/// Where the stack is, and how it runs.
#[derive(clap::Args)]
pub struct NetworkArgs {
    /// The port that the stack is on; see `linerate ports`
    #[arg(short, long, value_name = "SPEC")]
    port: String,
    /// An own address with the length of its prefix, or several: 198.18.5.1/24, 198.18.1.1-198.18.1.95/16, fd00::1/64. The host's kernel must not have it
    #[arg(short, long = "address", value_name = "ADDRESS/LEN")]
    addresses: Vec<String>,
    /// A gateway to other networks, one of each family
    #[arg(short, long = "gateway", value_name = "ADDRESS")]
    gateways: Vec<IpAddr>,
    /// VLAN ID of all frames, 1 to 4094
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// Own MAC address [default: 02:1c and the first address]
    #[arg(long, value_name = "MAC")]
    mac: Option<String>,
    /// Ask for an IPv4 address by DHCP
    #[arg(long)]
    dhcp: bool,
    /// Make IPv6 addresses of the prefixes that routers advertise
    #[arg(long)]
    slaac: bool,
    /// A name server, beside those that DHCP and routers tell; can be given several times
    #[arg(long = "dns", value_name = "ADDRESS")]
    name_servers: Vec<IpAddr>,
    /// Use addresses at once, without asking for five seconds whether somebody else has them
    #[arg(long)]
    no_dad: bool,
    /// Most connections at a time [default: 65536, or as many as a load needs]
    #[arg(long, value_name = "N")]
    connections_max: Option<String>,
    /// Connections whose memory is taken at the start, about 200 bytes each, so that setting them up waits for no page [default: 0]
    #[arg(long, value_name = "N")]
    preallocate: Option<String>,
    /// Name of this instance, for `linerate tcp ctl --name`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write all frames into a file: pcapng, or pcap by its name
    #[arg(short = 'w', long, value_name = "FILE")]
    capture: Option<PathBuf>,
    /// CPU cores, as 0,1 or 2-5: a stack for each, with a part of the connections, pinned to it [default: one, not pinned]
    #[arg(long, value_name = "LIST")]
    cores: Option<String>,
    /// Print a JSON document on stdout each second, and one at the end
    #[arg(long)]
    pub json: bool,
    /// No progress and no notes on stderr, no account at the end
    #[arg(short, long)]
    pub quiet: bool,
}

impl NetworkArgs {
    /// The cores of `--cores`, in order; none without it.
    fn pins(&self) -> Result<Vec<usize>, String> {
        let Some(list) = &self.cores else { return Ok(Vec::new()) };
        let named = Cores::choose(Some(list), 1)?;
        let pins: Vec<usize> = (0..).map_while(|thread| named.of(thread)).collect();
        // So that other Linerates know of all of them.
        Cores::choose(Some(list), pins.len())?;
        match pins.iter().enumerate().find(|(at, core)| pins[..*at].contains(core)) {
            Some((_, core)) => Err(format!("--cores {list}: core {core} is named twice")),
            None => Ok(pins),
        }
    }

    /// Stacks to run: one for each core of `--cores`.
    ///
    /// # Errors
    /// It is no list of cores.
    pub fn shards(&self) -> Result<usize, String> {
        Ok(self.pins()?.len().max(1))
    }

    /// Where the stack is.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn network(&self) -> Result<NetworkConfig, String> {
        let address = |text: &String| text.parse().map_err(|error| format!("--address: {error}"));
        let mac = self.mac.as_deref().map(str::parse).transpose();
        let network = NetworkConfig {
            port: self.port.clone(),
            addresses: self.addresses.iter().map(address).collect::<Result<_, String>>()?,
            gateways: self.gateways.clone(),
            vlan: self.vlan,
            mac: mac.map_err(|error| format!("--mac: {error}"))?,
            dhcp: self.dhcp,
            slaac: self.slaac,
            name_servers: self.name_servers.clone(),
            names: Vec::new(),
            no_duplicate_detection: self.no_dad,
        };
        if network.addresses.is_empty() && !self.dhcp && !self.slaac {
            return Err(
                "the stack has no address; give --address 198.18.5.1/24 (one that nobody has), --dhcp or --slaac"
                    .into(),
            );
        }
        Ok(network)
    }

    /// How it runs. `name` is the name of an instance that was given none, `connections` what it needs.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn options(&self, name: &str, connections: usize) -> Result<Options, String> {
        let number = |option: &str, text: Option<&str>| {
            text.map(count).transpose().map_err(|error| format!("{option}: {error}"))
        };
        let most = number("--connections-max", self.connections_max.as_deref())?;
        let connections_max = most.map_or(connections, |most| most as usize);
        let preallocated = number("--preallocate", self.preallocate.as_deref())?.unwrap_or(0);
        let preallocated_connections = usize::try_from(preallocated).unwrap_or(usize::MAX);
        if preallocated_connections > connections_max {
            return Err(format!(
                "--preallocate {preallocated}: this is more than the {connections_max} connections that there can be; raise --connections-max, or preallocate fewer"
            ));
        }
        let quiet = self.quiet;
        Ok(Options {
            name: self.name.clone().unwrap_or_else(|| name.to_owned()),
            folder: None,
            cores: self.pins()?,
            stack: StackOptions { connections_max, preallocated_connections },
            capture: self.capture.clone(),
            on_event: Box::new(move |line| {
                if !quiet {
                    note(line);
                }
            }),
        })
    }
}

/// Nanoseconds of `--duration`.
///
/// # Errors
/// It is not a duration.
pub fn duration(text: Option<&str>) -> Result<Option<u64>, String> {
    text.map(duration_ns).transpose().map_err(|error| format!("--duration: {error}"))
}
