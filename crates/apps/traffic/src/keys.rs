//! The rate of `linerate send` while it runs, by keys of the terminal.

use linerate_sys::terminal::Keys;
use linerate_units::show::pps;
use linerate_worker::Control;

use linerate_console::note;

/// Slowest rate that keys lead to, in packets per second.
const RATE_PPS_MIN: f64 = 1.0;

/// What a user is told at the start.
pub const HELP: &str = "keys: + and - change the rate by a tenth, * and / double and halve it, q ends";

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum KeyAction {
    /// This many times the rate.
    Times(f64),
    End,
}

impl KeyAction {
    fn of(key: u8) -> Option<KeyAction> {
        Some(match key {
            b'+' | b'=' => KeyAction::Times(1.1),
            b'-' => KeyAction::Times(1.0 / 1.1),
            b'*' => KeyAction::Times(2.0),
            b'/' => KeyAction::Times(0.5),
            b'q' => KeyAction::End,
            _ => return None,
        })
    }
}

/// Rates of all senders.
pub struct RateKeys {
    keys: Keys,
    /// Intended rates; `None` = as fast as the port takes packets. Of those whose rate can change.
    rates: Vec<(usize, Option<f64>)>,
    start_ns: u64,
}

impl RateKeys {
    /// `None` where there is no terminal to type on, or no rate that can change. `rates` names senders by their number.
    pub fn new(rates: Vec<(usize, Option<f64>)>, start_ns: u64) -> Option<RateKeys> {
        let keys = if rates.is_empty() { None } else { Keys::of_stdin() }?;
        note(HELP);
        Some(RateKeys { keys, rates, start_ns })
    }

    /// Does what keys ask for.
    pub fn look(&mut self, now_ns: u64, controls: &[Control]) {
        while let Some(key) = self.keys.next() {
            match KeyAction::of(key) {
                Some(KeyAction::Times(factor)) => self.change(factor, now_ns, controls),
                Some(KeyAction::End) => controls.iter().for_each(Control::stop),
                None => note(HELP),
            }
        }
    }

    fn change(&mut self, factor: f64, now_ns: u64, controls: &[Control]) {
        let seconds = now_ns.saturating_sub(self.start_ns).max(1) as f64 / 1e9;
        for (sender, rate_pps) in &mut self.rates {
            let Some(control) = controls.get(*sender) else { continue };
            // A sender without a rate gets one, by what it has sent so far.
            let now_pps = rate_pps.unwrap_or_else(|| control.meter.read().packets as f64 / seconds);
            let wanted_pps = (now_pps * factor).max(RATE_PPS_MIN);
            *rate_pps = Some(wanted_pps);
            control.set_rate_pps(wanted_pps);
            note(&format!("the rate is {} from now on", pps(wanted_pps)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_what_they_ask_for() {
        assert_eq!((KeyAction::of(b'*'), KeyAction::of(b'q')), (Some(KeyAction::Times(2.0)), Some(KeyAction::End)));
        assert_eq!(KeyAction::of(b'x'), None);
        let (Some(KeyAction::Times(up)), Some(KeyAction::Times(down))) = (KeyAction::of(b'+'), KeyAction::of(b'-'))
        else {
            panic!("both change the rate");
        };
        assert!((up * down - 1.0).abs() < 1e-12);
    }
}
