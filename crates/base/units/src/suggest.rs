//! Which of a list of words a misspelt one was meant to be.

/// The known word that a misspelt one is close to; a number is not misspelt.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let normal = |text: &str| -> Vec<char> { text.to_lowercase().replace(['_', ' '], "-").chars().take(40).collect() };
    if word.chars().all(|letter| letter.is_ascii_digit()) {
        return None;
    }
    let word = normal(word);
    let distance = |known: &&str| edits(&word, &normal(known));
    let near = known.iter().copied().min_by_key(distance)?;
    (edits(&word, &normal(near)) <= 1 + near.len() / 4).then_some(near)
}

/// Number of letters inserted, removed, changed or swapped with their neighbour that turn one word into the other.
fn edits(a: &[char], b: &[char]) -> usize {
    let (mut older, mut above): (Vec<usize>, Vec<usize>) = (Vec::new(), (0..=b.len()).collect());
    for (row, letter) in a.iter().enumerate() {
        let mut line = vec![row + 1];
        for (column, other) in b.iter().enumerate() {
            let mut least = (above[column] + usize::from(letter != other)).min(above[column + 1] + 1);
            least = least.min(line[column] + 1);
            if row > 0 && column > 0 && *letter == b[column - 1] && a[row - 1] == *other {
                least = least.min(older[column - 1] + 1);
            }
            line.push(least);
        }
        (older, above) = (above, line);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_words_are_recognised() {
        let known = ["throughput", "latency", "frame-loss", "back-to-back", "soak"];
        for (word, meant) in [
            ("troughput", Some("throughput")),
            ("Frame_Loss", Some("frame-loss")),
            ("baack-to-bak", Some("back-to-back")),
            ("saok", Some("soak")),
            ("pineapple", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
    }
}
