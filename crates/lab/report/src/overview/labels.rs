//! Short names of cells: only what differs between them is said each time, the rest once.

use crate::units::count;
use crate::{Cell, Results};

pub(crate) struct Labels {
    /// One for each cell.
    labels: Vec<String>,
    /// What all cells have in common.
    pub(crate) common: String,
}

impl Labels {
    pub(crate) fn new(results: &Results) -> Self {
        let names_ip = results.cells.iter().any(|cell| cell.ip.is_some());
        let parts: Vec<[String; 7]> = results.cells.iter().map(|cell| parts(cell, names_ip)).collect();
        let varies = |index: usize| {
            let mut values = parts.iter().filter_map(|parts| parts.get(index));
            let first = values.next();
            values.any(|value| Some(value) != first)
        };
        let varying: Vec<usize> = (0..7).filter(|index| varies(*index)).collect();
        let join = |parts: &[String; 7], keep: &dyn Fn(usize) -> bool| {
            let kept = parts.iter().enumerate().filter(|(index, part)| keep(*index) && !part.is_empty());
            kept.map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut labels: Vec<String> = match varying.is_empty() {
            true => parts.iter().map(|parts| join(parts, &|index| index == 0)).collect(),
            false => parts.iter().map(|parts| join(parts, &|index| varying.contains(&index))).collect(),
        };
        let mut sorted = labels.clone();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
            labels = results.cells.iter().map(|cell| cell.id.clone()).collect();
        }
        let is_common = |index: usize| !(varying.contains(&index) || varying.is_empty() && index == 0);
        let common = parts.first().map(|parts| join(parts, &is_common)).unwrap_or_default();
        Self { labels, common }
    }

    pub(crate) fn of(&self, cell: usize) -> &str {
        self.labels.get(cell).map_or("", String::as_str)
    }
}

fn parts(cell: &Cell, names_ip: bool) -> [String; 7] {
    let cores = cell.cores.as_ref().map_or(String::new(), |name| format!("cores {name}"));
    let ip = if names_ip { cell.ip.as_deref().unwrap_or("IPv4") } else { "" };
    let flows = if cell.size.is_empty() { connections_words(cell.flows) } else { flows_words(cell.flows) };
    let ports = cell.ports.clone().unwrap_or_default();
    [cell.dut_name.clone(), size_words(cell), flows, ip.to_owned(), cell.direction.clone(), ports, cores]
}

/// `64 B`, or the label of a mix; nothing in tests of TCP.
pub(crate) fn size_words(cell: &Cell) -> String {
    if !cell.size.is_empty() && cell.size.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{} B", cell.size)
    } else {
        cell.size.clone()
    }
}

pub(crate) fn connections_words(connections: u64) -> String {
    if connections == 1 { "1 connection".to_owned() } else { format!("{} connections", count(connections)) }
}

pub(crate) fn flows_words(flows: u64) -> String {
    if flows == 1 { "1 flow".to_owned() } else { format!("{} flows", count(flows)) }
}

/// The device, and the placement on cores where that is a dimension: what a line of a picture stands for.
pub(crate) fn line_name(cell: &Cell) -> String {
    let cores = cell.cores.as_ref().map_or(String::new(), |name| format!(", cores {name}"));
    format!("{}{cores}", path_name(cell))
}

/// The device, and the version of IP and the tester's ports where they are a dimension.
pub(crate) fn path_name(cell: &Cell) -> String {
    let more = [&cell.ip, &cell.ports].into_iter().flatten().map(|name| format!(", {name}"));
    format!("{}{}", cell.dut_name, more.collect::<String>())
}
