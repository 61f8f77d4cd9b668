//! Roles of controllers and the asynchronous messages that each wants (sections 6.3.4, 6.3.5, 7.3.9, 7.3.10).

use crate::{AsyncConfig, ControllerRole, ErrorKind, RoleMessage};

/// A controller: a main connection, and auxiliary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId(u64);

/// What the sessions of a switch share.
#[derive(Debug, Default)]
pub struct Controllers {
    members: Vec<Member>,
    joined: u64,
    generation_id: Option<u64>,
}

#[derive(Debug)]
struct Member {
    id: ControllerId,
    role: ControllerRole,
    wanted: AsyncConfig,
}

/// The generation ID of a reply before any election.
const NO_GENERATION: u64 = u64::MAX;

impl Controllers {
    /// A switch without controllers.
    pub fn new() -> Controllers {
        Controllers::default()
    }

    /// Adds a controller, with the role equal. Call it for each new main connection; an auxiliary connection gets the ID of its main one.
    pub fn join(&mut self) -> ControllerId {
        self.joined += 1;
        let id = ControllerId(self.joined);
        self.members.push(Member { id, role: ControllerRole::Equal, wanted: AsyncConfig::default() });
        id
    }

    /// Removes a controller whose main connection ended.
    pub fn leave(&mut self, id: ControllerId) {
        self.members.retain(|member| member.id != id);
    }

    /// The role of a controller; slave if it has left.
    pub fn role(&self, id: ControllerId) -> ControllerRole {
        self.member(id).map_or(ControllerRole::Slave, |member| member.role)
    }

    /// The asynchronous messages that a controller wants.
    pub fn async_config(&self, id: ControllerId) -> AsyncConfig {
        self.member(id).map_or(AsyncConfig::default(), |member| member.wanted)
    }

    /// The bits that decide in a controller's present role.
    pub(super) fn wanted(&self, id: ControllerId, bits: impl Fn(&AsyncConfig) -> [u32; 2]) -> u32 {
        self.member(id).map_or(0, |member| bits(&member.wanted)[usize::from(member.role == ControllerRole::Slave)])
    }

    pub(super) fn set_async_config(&mut self, id: ControllerId, wanted: AsyncConfig) {
        if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            member.wanted = wanted;
        }
    }

    /// A controller asks for a role. A new master makes slaves of the others; an election that is over is refused.
    pub(super) fn request_role(&mut self, id: ControllerId, wanted: RoleMessage) -> Result<RoleMessage, ErrorKind> {
        if matches!(wanted.role, ControllerRole::Master | ControllerRole::Slave) {
            self.check_generation(wanted.generation_id)?;
            self.generation_id = Some(wanted.generation_id);
        }
        for member in &mut self.members {
            if member.id == id {
                if wanted.role != ControllerRole::NoChange {
                    member.role = wanted.role;
                }
            } else if wanted.role == ControllerRole::Master && member.role == ControllerRole::Master {
                member.role = ControllerRole::Slave;
            }
        }
        Ok(RoleMessage { role: self.role(id), generation_id: self.generation_id.unwrap_or(NO_GENERATION) })
    }

    /// Generation IDs count in a circle: a smaller one is less than half of the circle behind.
    fn check_generation(&self, wanted: u64) -> Result<(), ErrorKind> {
        match self.generation_id {
            Some(current) if (wanted.wrapping_sub(current) as i64) < 0 => Err(ErrorKind::RoleRequestFailedStale),
            _ => Ok(()),
        }
    }

    fn member(&self, id: ControllerId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(role: ControllerRole, generation_id: u64) -> RoleMessage {
        RoleMessage { role, generation_id }
    }

    #[test]
    fn one_master_at_a_time_by_generation() {
        let mut controllers = Controllers::new();
        let (a, b) = (controllers.join(), controllers.join());
        let nothing = controllers.request_role(a, ask(ControllerRole::NoChange, 7));
        assert_eq!(nothing, Ok(ask(ControllerRole::Equal, NO_GENERATION)));
        assert_eq!(controllers.request_role(a, ask(ControllerRole::Master, 5)), Ok(ask(ControllerRole::Master, 5)));
        assert_eq!(controllers.request_role(b, ask(ControllerRole::Master, 4)), Err(ErrorKind::RoleRequestFailedStale));
        assert_eq!(controllers.request_role(b, ask(ControllerRole::Master, 6)), Ok(ask(ControllerRole::Master, 6)));
        assert_eq!(controllers.role(a), ControllerRole::Slave);
        assert_eq!(controllers.request_role(a, ask(ControllerRole::Slave, 5)), Err(ErrorKind::RoleRequestFailedStale));
        assert_eq!(controllers.request_role(a, ask(ControllerRole::Equal, 0)), Ok(ask(ControllerRole::Equal, 6)));
        controllers.leave(b);
        assert_eq!(controllers.role(b), ControllerRole::Slave);
    }

    #[test]
    fn generations_count_in_a_circle() {
        let mut controllers = Controllers::new();
        let a = controllers.join();
        assert!(controllers.request_role(a, ask(ControllerRole::Slave, u64::MAX)).is_ok());
        assert!(controllers.request_role(a, ask(ControllerRole::Slave, 2)).is_ok());
        assert!(controllers.request_role(a, ask(ControllerRole::Slave, u64::MAX)).is_err());
    }
}
