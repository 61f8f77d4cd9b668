//! The impairments of a port, from the options of its name.

use linerate_mem::Pool;
use linerate_port::{OpenError, Port, PortSpec, SpecError};

use crate::port::{Impaired, SLOTS};
use crate::settings::Settings;

/// What is done to the packets of a port.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Impairments {
    /// To those that arrive.
    pub rx: Option<Settings>,
    /// To those that leave.
    pub tx: Option<Settings>,
}

impl Impairments {
    /// Takes the options `impair` (both directions), `impair-rx` and `impair-tx` out of a port's name; what is left names the port behind.
    ///
    /// # Errors
    /// The words of an option mean nothing, or a direction has two options.
    pub fn take(spec: &mut PortSpec) -> Result<Impairments, SpecError> {
        let mut option = |key: &str| {
            let read = |text: String| text.parse::<Settings>().map_err(|problem| format!("{key}: {problem}"));
            spec.cut(key).map(read).transpose().map_err(|problem| spec.error(problem))
        };
        let (both, rx, tx) = (option("impair")?, option("impair-rx")?, option("impair-tx")?);
        if both.is_some() && (rx.is_some() || tx.is_some()) {
            return Err(spec.error("impair is for both directions; write impair-rx and impair-tx instead"));
        }
        Ok(Impairments { rx: rx.or_else(|| both.clone()), tx: tx.or(both) })
    }

    /// The port with these impairments; the port itself, where they do nothing.
    ///
    /// # Errors
    /// The port has none of the directions that are to be impaired.
    pub fn wrap(&self, port: Box<dyn Port>, pool: &Pool) -> Result<Box<dyn Port>, OpenError> {
        let caps = port.caps();
        let impairs = self.rx.is_some() && caps.receives || self.tx.is_some() && caps.transmits;
        if !impairs && (self.rx.is_some() || self.tx.is_some()) {
            let cause = if caps.receives { "this port only receives" } else { "this port only sends" };
            return Err(OpenError::new(&caps.name, cause, "impair the other direction: impair-rx=, impair-tx="));
        }
        let rx = self.rx.as_ref().filter(|settings| caps.receives && !settings.do_nothing());
        let tx = self.tx.as_ref().filter(|settings| caps.transmits && !settings.do_nothing());
        if rx.is_none() && tx.is_none() {
            return Ok(port);
        }
        Ok(Box::new(Impaired::new(port, rx, tx, pool)))
    }

    /// Frames of the pool that packets may wait in.
    pub fn frames(&self) -> usize {
        let waiting = |settings: &Settings| if settings.do_nothing() { 0 } else { settings.limit + SLOTS };
        self.rx.iter().chain(&self.tx).map(waiting).sum()
    }
}
