//! A balancer over its ports.

use std::sync::Arc;

use linerate_console::open;
use linerate_mem::Pool;
use linerate_port::{Caps, Direction};
use linerate_worker::{Config, Control, End, Role, Worker};

use super::balance::Balancer;
use super::groups::groups;
use super::output::Output;

/// What is balanced, as the user says it.
pub struct Plan<'a> {
    /// The port that packets come from.
    pub input: &'a str,
    /// The first group.
    pub outputs: &'a [String],
    /// Further groups, `[NAME:]COUNT` each.
    pub pipes: &'a [String],
    /// Packets (frames) that may wait, over all outputs.
    pub extra: usize,
    /// Packets of a port call.
    pub batch: usize,
    /// No notes on stderr.
    pub quiet: bool,
}

/// A balancer with its ports open.
pub struct Lb {
    worker: Worker<Balancer>,
    /// Facts about its ports, the input first.
    pub caps: Vec<Caps>,
}

impl Lb {
    /// Opens the ports. `control` shows how many packets came in.
    ///
    /// # Errors
    /// A port cannot be opened, or memory cannot be had; in words.
    pub fn open(plan: &Plan<'_>, control: &Control) -> Result<Lb, String> {
        let groups = groups(plan.outputs, plan.pipes, plan.input)?;
        let input = open::specs(&[plan.input.to_owned()])?;
        let specs = [input, open::specs(&groups.concat())?].concat();
        let pools = open::pools(&specs, plan.extra)?;
        let mut ports = Vec::new();
        for (number, (spec, pool)) in specs.iter().zip(&pools).enumerate() {
            let usage = if number == 0 { Direction::Receive } else { Direction::Transmit };
            ports.push(open::open_noted(spec, usage, pool, plan.quiet)?);
        }
        let caps: Vec<Caps> = ports.iter().map(|port| port.caps().clone()).collect();
        let pool = &pools[0];
        // Room for the longest packet.
        let longest = caps[0].frame_len_max.div_ceil(pool.packet_len_max().max(1));
        let slots = longest.min(caps[0].frags_max).max(plan.batch);
        let output =
            |away: &Pool| Output::new(away, !Arc::ptr_eq(away.region(), pool.region()), plan.extra + 2 * slots);
        let balancer = Balancer {
            outputs: pools[1..].iter().map(output).collect(),
            groups: groups.iter().map(Vec::len).collect(),
            extra: plan.extra,
            received: 0,
            meter: Arc::clone(&control.meter),
        };
        let config = Config { batch: slots, timestamps: true, ..Config::default() };
        let worker = Worker::new(balancer, pool, config, Box::new(|_| ()));
        let (mut worker, _) = worker.map_err(|error| format!("a descriptor to wake the worker: {error}"))?;
        for (number, (port, pool)) in ports.into_iter().zip(&pools).enumerate() {
            worker.attach(port, pool, Role { receives: number == 0, ..Role::default() });
        }
        Ok(Lb { worker, caps })
    }

    /// Balances until a stop is asked for, the input is at its end, or a port breaks.
    pub fn run(&mut self, control: &Control) -> End {
        self.worker.run(control)
    }

    /// What it did.
    pub fn datapath(&self) -> &Balancer {
        &self.worker.datapath
    }
}
