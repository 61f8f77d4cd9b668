//! Rules of whole messages that need no state of the switch.

use super::actions::{check_actions, check_packet_out, check_unplaced, refuse_experimenters};
use crate::{
    BandKind, ErrorKind, FlowCommand, FlowFilter, FlowFlags, FlowMod, GroupCommand, GroupKind, GroupMod, Instruction,
    METER_ALL, METER_CONTROLLER, METER_SLOWPATH, MeterCommand, MeterFlags, MeterMod, PacketOut, PortNumber, TABLE_ALL,
    TABLE_MAX, TableFeatures,
};

impl FlowMod {
    /// Checks table, flags, match, and, unless entries are deleted, instructions. Instructions that occur twice and parts of
    /// experimenters are refused in any case.
    pub fn check(&self) -> Result<(), ErrorKind> {
        let deletes = matches!(self.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if self.table == TABLE_ALL && !deletes {
            return Err(ErrorKind::FlowModFailedBadTableId);
        }
        if self.flags.0 & !FlowFlags::ALL != 0 {
            return Err(ErrorKind::FlowModFailedBadFlags);
        }
        self.matching.check_in_order()?;
        check_each_instruction(&self.instructions)?;
        if deletes { Ok(()) } else { self.check_instructions() }
    }

    fn check_instructions(&self) -> Result<(), ErrorKind> {
        for instruction in &self.instructions {
            match instruction {
                Instruction::GotoTable(table) if *table <= self.table || *table > TABLE_MAX => {
                    return Err(ErrorKind::BadInstructionBadTableId);
                }
                Instruction::ApplyActions(actions) => check_actions(&self.matching, actions)?,
                // Tables before this one may have changed the packet, and have put pushes and pops into the set.
                Instruction::WriteActions(actions) => check_unplaced(actions)?,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether each type of instruction occurs once, and none is an experimenter's, nor an action in it.
fn check_each_instruction(instructions: &[Instruction]) -> Result<(), ErrorKind> {
    let mut seen = 0_u8;
    for instruction in instructions {
        match instruction {
            Instruction::Experimenter(_) => return Err(ErrorKind::BadInstructionBadExperimenter),
            Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => refuse_experimenters(actions)?,
            _ => {}
        }
        let bit = 1 << instruction.number();
        if seen & bit != 0 {
            return Err(ErrorKind::BadInstructionDupInst);
        }
        seen |= bit;
    }
    Ok(())
}

impl FlowFilter {
    /// Checks the match.
    pub fn check(&self) -> Result<(), ErrorKind> {
        self.matching.check_in_order()
    }
}

impl GroupMod {
    /// Highest number of a group (`OFPG_MAX`).
    const GROUP_MAX: u32 = 0xffff_ff00;

    /// Checks number, buckets of an indirect group, and actions.
    pub fn check(&self) -> Result<(), ErrorKind> {
        let all = self.command == GroupCommand::Delete && self.group == crate::GROUP_ALL;
        if self.group > Self::GROUP_MAX && !all {
            return Err(ErrorKind::GroupModFailedInvalidGroup);
        }
        self.buckets.iter().try_for_each(|bucket| refuse_experimenters(&bucket.actions))?;
        if self.command == GroupCommand::Delete {
            return Ok(());
        }
        if self.kind == GroupKind::Indirect && self.buckets.len() != 1 {
            return Err(ErrorKind::GroupModFailedInvalidGroup);
        }
        self.buckets.iter().try_for_each(|bucket| check_unplaced(&bucket.actions))
    }
}

impl MeterMod {
    /// Highest number of a meter (`OFPM_MAX`).
    const METER_MAX: u32 = 0xffff_0000;

    /// Checks number and flags, and that no band is an experimenter's.
    pub fn check(&self) -> Result<(), ErrorKind> {
        if self.bands.iter().any(|band| matches!(band.kind, BandKind::Experimenter(_))) {
            return Err(ErrorKind::MeterModFailedBadBand);
        }
        let virtual_meter = matches!(self.meter, METER_SLOWPATH | METER_CONTROLLER)
            || (self.meter == METER_ALL && self.command == MeterCommand::Delete);
        if !virtual_meter && (self.meter == 0 || self.meter > Self::METER_MAX) {
            return Err(ErrorKind::MeterModFailedInvalidMeter);
        }
        let both = MeterFlags::KBPS | MeterFlags::PKTPS;
        if self.command != MeterCommand::Delete && (self.flags.0 & !MeterFlags::ALL != 0 || self.flags.has(both)) {
            return Err(ErrorKind::MeterModFailedBadFlags);
        }
        Ok(())
    }
}

impl TableFeatures {
    /// Checks that no property is an experimenter's.
    pub fn check(&self) -> Result<(), ErrorKind> {
        let [matched, missed] = &self.properties.experimenters;
        if matched.is_empty() && missed.is_empty() { Ok(()) } else { Err(ErrorKind::TableFeaturesFailedBadType) }
    }
}

impl PacketOut {
    /// Checks the ingress port and the actions.
    ///
    /// [`PortNumber::ANY`] is taken for the controller, because Open vSwitch's tools name it where a packet came by no port.
    pub fn check(&self) -> Result<(), ErrorKind> {
        refuse_experimenters(&self.actions)?;
        let known = matches!(self.in_port, PortNumber::CONTROLLER | PortNumber::LOCAL | PortNumber::ANY);
        if !known && (self.in_port.0 == 0 || self.in_port > PortNumber::MAX) {
            return Err(ErrorKind::BadRequestBadPort);
        }
        check_packet_out(&self.actions)
    }
}
