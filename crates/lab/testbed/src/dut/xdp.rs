//! An XDP program on each of two interfaces that redirects what arrives there to the other one.
//!
//! A veth takes redirected frames only if its other end has NAPI (GRO on, or an XDP program of its own), else they are gone
//! without a counter. So GRO is on at the tester's interfaces, where it may merge nothing.

use std::collections::BTreeMap;

use linerate_bpf::programs::forward::Forward;
use linerate_bpf::{AttachMode, BpfError, XdpLink};
use linerate_experiment::DutSettings;
use linerate_report::Dut;
use linerate_sys::netdev::Netdev;

use super::kind::Settings;
use super::links::{self, Links};
use super::{Built, Device, DutError, Path, kernel_release};
use crate::topology::{Forwarding, Interface, Remainder, Side, Topology, TopologySpec};

/// From this MTU on frames can be in several buffers.
const MTU_ONE_BUFFER: u32 = 3_000;

/// An XDP program that redirects what arrives on one link to the other.
#[derive(Debug, Default, PartialEq)]
pub struct XdpForwarder;

impl DutSettings for XdpForwarder {}

impl Settings for XdpForwarder {
    const WORD: &str = "xdp-forwarder";
    const ABOUT: &str = "an XDP program that redirects what arrives on one link to the other; root only";

    fn build(&self, spec: &TopologySpec) -> Result<Built, DutError> {
        if spec.dut_cores.len() > 1 {
            return Err(DutError::Unsupported(
                "the XDP forwarder works where its queue's thread does: on one core".into(),
            ));
        }
        let mut topology =
            Topology::switched(spec, Forwarding { remainder: Remainder::Stack, ..Forwarding::switched() })?;
        take_redirected_frames(&topology.generator)?;
        take_redirected_frames(&topology.receiver)?;
        let links = Links::of(&topology, spec)?;
        let [ingress, egress] = links.interfaces();
        let programs = [
            DirectionProgram::attach(&links, ingress, egress, spec)?,
            DirectionProgram::attach(&links, egress, ingress, spec)?,
        ];
        // The program brought NAPI of its own.
        topology.place_again(spec.placement)?;
        let mut configuration = links::configuration(spec);
        configuration
            .insert("program".into(), "bpf_redirect_map over a device map, native mode, one for each direction".into());
        configuration.insert("tester's interfaces".into(), "GRO on, so that they take redirected frames".into());
        let dut = Dut { name: "XDP redirect forwarder".into(), version: kernel_release(), configuration };
        let device = Forwarder { links, programs, dut };
        Ok(Built { path: Path::Namespaces(Box::new(topology)), device: Box::new(device) })
    }
}

fn take_redirected_frames(side: &Side) -> Result<(), DutError> {
    let name = side.interface.name;
    let opened = side.namespace.run(|| Netdev::open(name)).and_then(|opened| opened);
    let set = opened.and_then(|device| device.set_features(&[("rx-gro", true)]));
    set.map_err(DutError::system(format!("turn on GRO of {name}")))
}

/// The program that takes frames on one interface.
struct DirectionProgram {
    program: Forward,
    _link: XdpLink,
    name: &'static str,
}

impl DirectionProgram {
    fn attach(links: &Links, from: &Interface, to: &Interface, spec: &TopologySpec) -> Result<Self, DutError> {
        let attached = links.dut().namespace.run(|| -> Result<_, BpfError> {
            let program = Forward::load(to.index, spec.mtu > MTU_ONE_BUFFER)?;
            let link = XdpLink::attach(program.program(), from.index, AttachMode::Native)?;
            Ok((program, link))
        });
        let attached = attached.map_err(DutError::system("enter the forwarder's namespace"))?;
        let (program, link) = attached.map_err(refused)?;
        Ok(Self { program, _link: link, name: from.name })
    }
}

fn refused(error: BpfError) -> DutError {
    DutError::Unsupported(format!("the XDP forwarder: {error}"))
}

struct Forwarder {
    links: Links,
    programs: [DirectionProgram; 2],
    dut: Dut,
}

impl Device for Forwarder {
    fn describe(&self) -> Dut {
        self.dut.clone()
    }

    fn counters(&mut self) -> Result<BTreeMap<String, u64>, DutError> {
        let mut counters = self.links.counters()?;
        for DirectionProgram { program, name, .. } in &self.programs {
            let forwarded = program.forwarded().map_err(refused)?;
            counters.insert(format!("{name} redirected"), forwarded.redirected);
            counters.insert(format!("{name} refused"), forwarded.refused);
        }
        Ok(counters)
    }

    fn check(&mut self) -> Result<(), DutError> {
        self.links.check("the XDP forwarder")
    }

    /// The programs stay on their interfaces.
    fn reset(&mut self) -> Result<String, DutError> {
        let done = self.links.down_and_up()?;
        Ok(format!("{done}, their XDP programs attached"))
    }

    fn needs_warm_up(&self) -> bool {
        false
    }
}
