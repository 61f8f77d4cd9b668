//! Names of namespaces that say whose they are, so that those of killed runs are found.

use linerate_sys::owner::Owner;

const PREFIX: &str = "linerate-";

/// The name of this process's namespace for `role`: `linerate-OWNER-ROLE` (linerate_sys::owner).
pub fn namespace_name(role: &str) -> String {
    format!("{PREFIX}{}-{role}", Owner::this())
}

/// The process that made a namespace of this name; `None` when the name is not one of ours.
pub(crate) fn owner_of(name: &str) -> Option<Owner> {
    let (owner, role) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let ours = ["generator", "dut", "receiver"].contains(&role);
    owner.parse().ok().filter(|_| ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_form_are_ours() {
        assert_eq!(owner_of("linerate-123-dut"), "123".parse().ok());
        assert_eq!(owner_of("linerate-123-other"), None);
        assert_eq!(owner_of("linerate-x-dut"), None);
        assert_eq!(owner_of("linerate-123"), None);
        assert_eq!(owner_of("blue-123-dut"), None);
        assert_eq!(owner_of(&namespace_name("receiver")), Some(Owner::this()));
    }
}
