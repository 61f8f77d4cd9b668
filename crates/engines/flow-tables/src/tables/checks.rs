//! What the state permits in requests. Whether a message is right in itself, the codec has checked.

use linerate_openflow::{Action, ErrorKind, Instruction, OfError, PortNumber, TABLE_MAX};

use super::FlowTables;
use crate::shared::State;

impl FlowTables {
    /// Whether a table takes an entry with these instructions; `is_miss`: of its table-miss entry.
    pub(super) fn check_instructions(
        &self,
        table: u8,
        is_miss: bool,
        instructions: &[Instruction],
    ) -> Result<(), OfError> {
        let state = self.state();
        for instruction in instructions {
            match instruction {
                Instruction::GotoTable(next) if *next <= table || *next > TABLE_MAX => {
                    return Err(ErrorKind::BadInstructionBadTableId.into());
                }
                Instruction::Meter(meter) if !state.meters.contains(*meter) => {
                    return Err(ErrorKind::MeterModFailedUnknownMeter.into());
                }
                Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                    state.check_actions(actions, None)?;
                }
                _ => {}
            }
        }
        self.permits[usize::from(table)].check_instructions(is_miss, instructions)
    }
}

impl State {
    /// Whether actions name ports, queues and groups that there are. `own` is the group that the actions are of.
    ///
    /// # Errors
    /// What the specification says of such an action.
    pub fn check_actions(&self, actions: &[Action], own: Option<u32>) -> Result<(), OfError> {
        actions.iter().try_for_each(|action| self.check_action(action, own))
    }

    /// As [`State::check_actions`], for a packet-out, which may also go through the tables.
    pub(super) fn check_packet_out(&self, actions: &[Action]) -> Result<(), OfError> {
        for action in actions {
            if !matches!(action, Action::Output { port: PortNumber::TABLE, .. }) {
                self.check_action(action, None)?;
            }
        }
        Ok(())
    }

    fn check_action(&self, action: &Action, own: Option<u32>) -> Result<(), OfError> {
        match action {
            Action::Output { port, .. } if !is_output(*port) => Err(ErrorKind::BadActionBadOutPort.into()),
            Action::Group(group) if own != Some(*group) && !self.groups.contains(*group) => {
                Err(ErrorKind::BadActionBadOutGroup.into())
            }
            Action::SetQueue(u32::MAX) => Err(ErrorKind::BadActionBadQueue.into()),
            _ => Ok(()),
        }
    }
}

/// True if an entry may send packets there. A port that does not exist now may come.
fn is_output(port: PortNumber) -> bool {
    match port {
        PortNumber::IN_PORT
        | PortNumber::NORMAL
        | PortNumber::FLOOD
        | PortNumber::ALL
        | PortNumber::CONTROLLER
        | PortNumber::LOCAL => true,
        PortNumber(number) => (1..=PortNumber::MAX.0).contains(&number),
    }
}
