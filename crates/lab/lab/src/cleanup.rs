//! Named namespaces and temporary folders that a killed run left behind. (Anonymous namespaces and devices' processes go with
//! their process.)

use std::path::Path;

use linerate_sys::netns;

const PREFIX: &str = "linerate-";

/// The name of this process's namespace for `role`: `linerate-PID-ROLE`.
pub fn namespace_name(role: &str) -> String {
    format!("{PREFIX}{}-{role}", std::process::id())
}

/// The named namespaces whose process is gone.
pub fn left_behind() -> Vec<String> {
    let dead = |name: &String| owner(name).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists());
    netns::named().into_iter().filter(dead).collect()
}

/// Removes what [`left_behind`] finds, and temporary folders of killed runs; returns each name with the error that kept it, if
/// one did.
pub fn remove_left_behind() -> Vec<(String, Option<std::io::Error>)> {
    let remove = |name: String| {
        let error = netns::remove_named(&name).err();
        (name, error)
    };
    left_behind().into_iter().map(remove).chain(crate::dut::remove_left_behind()).collect()
}

/// The process that made a namespace of this name; `None` when the name is not one of ours.
fn owner(name: &str) -> Option<u32> {
    let (pid, role) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let ours = ["generator", "dut", "receiver"].contains(&role);
    pid.parse().ok().filter(|_| ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_form_are_ours() {
        assert_eq!(owner("linerate-123-dut"), Some(123));
        assert_eq!(owner("linerate-123-other"), None);
        assert_eq!(owner("linerate-x-dut"), None);
        assert_eq!(owner("linerate-123"), None);
        assert_eq!(owner("blue-123-dut"), None);
        assert_eq!(owner(&namespace_name("receiver")), Some(std::process::id()));
    }
}
