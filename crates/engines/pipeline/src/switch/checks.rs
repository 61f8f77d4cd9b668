//! What the state of the switch permits in requests. Whether a message is right in itself, the codec has checked.

use linerate_openflow::{Action, ErrorKind, Instruction, Match, OfError, PortNumber, TABLE_MAX};

use super::Switch;

impl Switch {
    /// Whether a table takes an entry with this match.
    pub(super) fn check_match(&self, table: u8, priority: u16, matching: &Match) -> Result<(), OfError> {
        self.check_match_features(table, priority, matching)
    }

    /// Whether a table takes an entry with these instructions; `is_miss`: of its table-miss entry.
    pub(super) fn check_instructions(
        &self,
        table: u8,
        is_miss: bool,
        instructions: &[Instruction],
    ) -> Result<(), OfError> {
        for instruction in instructions {
            match instruction {
                Instruction::GotoTable(next) if *next <= table || *next > TABLE_MAX => {
                    return Err(ErrorKind::BadInstructionBadTableId.into());
                }
                Instruction::Meter(meter) if !self.meters.contains_key(meter) => {
                    return Err(ErrorKind::MeterModFailedUnknownMeter.into());
                }
                Instruction::ApplyActions(actions) | Instruction::WriteActions(actions) => {
                    self.check_actions(actions, None)?;
                }
                _ => {}
            }
        }
        self.check_instruction_features(table, is_miss, instructions)
    }

    /// Whether actions name ports, queues and groups that there are. `own` is the group that the actions are of.
    pub(super) fn check_actions(&self, actions: &[Action], own: Option<u32>) -> Result<(), OfError> {
        for action in actions {
            match action {
                Action::Output { port, .. } if !is_output(*port) => {
                    return Err(ErrorKind::BadActionBadOutPort.into());
                }
                Action::Group(group) if own != Some(*group) && !self.groups.contains_key(group) => {
                    return Err(ErrorKind::BadActionBadOutGroup.into());
                }
                Action::SetQueue(u32::MAX) => return Err(ErrorKind::BadActionBadQueue.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// As [`Switch::check_actions`], for a packet-out, which may also go through the tables.
    pub(super) fn check_packet_out(&self, actions: &[Action]) -> Result<(), OfError> {
        let others: Vec<Action> = actions
            .iter()
            .filter(|action| !matches!(action, Action::Output { port: PortNumber::TABLE, .. }))
            .cloned()
            .collect();
        self.check_actions(&others, None)
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
